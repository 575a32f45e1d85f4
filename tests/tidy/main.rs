//! The rules that no compiler holds: layers, words, file shape, docs, dependencies.
//!
//! Each rule is a function from texts to breaches, one line each, naming file and line. Each has a test over the
//! repository, and one over a small sample that breaks it, so that a rule which cannot fail is noticed. Checks that compare a
//! module's tables with its code live with that module's tests.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod decisions;
mod dependencies;
mod docs;
mod layers;
mod repository;
mod shape;
mod words;

/// Fails with every breach, a line each.
#[track_caller]
fn none(breaches: &[String]) {
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}
