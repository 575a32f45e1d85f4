//! (app)
