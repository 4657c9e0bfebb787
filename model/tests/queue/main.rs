//! Checks the steps of an AppQueue in all reachable states of a small world: an API server, a queue service, and operators
//! that lead one after the other.
//!
//! Two assumptions about time are part of the model:
//! - A call ends before another operator leads. The lease lasts longer than the deadline of a call.
//! - A reconcile ends before the service accepts the name of a deleted queue again, which takes 60 s.

#![expect(clippy::print_stdout, reason = "clippy does not recognize helpers of tests")]

mod check;
#[path = "../support/explore.rs"]
mod explore;
mod rest;
mod scenarios;
mod service;
mod world;

/// Whether larger worlds are checked, too (`make test-long`).
fn is_long() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_some()
}
