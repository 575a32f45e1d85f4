//! (discovery)
