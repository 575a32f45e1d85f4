//! The harness is held to what it says, since every other test believes it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../support/mod.rs"]
mod support;

mod leftovers;
mod servers;
mod stand_in;
mod wire;
