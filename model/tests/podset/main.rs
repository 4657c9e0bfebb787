//! Checks `next_step`: in all reachable states of a small cluster, and from random states of a larger one.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy does not recognize helpers of tests"
)]

mod actions;
mod broken;
mod canonical;
mod check;
#[path = "../support/explore.rs"]
mod explore;
mod flaw;
mod operator;
mod pods;
mod rest;
mod rules;
mod scenario;
mod scenarios;
mod server;
mod settles;
mod spec;
mod world;

/// Whether larger clusters are checked, too (`make test-long`).
fn is_long() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_some()
}
