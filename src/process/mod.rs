//! (process)
