//! (broker)
