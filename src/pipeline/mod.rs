//! (pipeline)
