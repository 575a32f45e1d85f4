//! (airflow)
