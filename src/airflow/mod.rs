//! (airflow)

pub mod connections;
