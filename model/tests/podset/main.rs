//! `next_step`, proved: in every state that a small world can come to, and from any start of a larger one.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "clippy takes what tests share for code"
)]

mod actions;
mod broken;
mod canonical;
mod check;
mod flaw;
mod operator;
mod pods;
mod rest;
mod rules;
mod scenario;
mod scenarios;
mod server;
mod settles;
mod wish;
mod world;

/// Whether there is time for the larger worlds (`make test-long`).
fn is_long() -> bool {
    std::env::var_os("APPDEPLOY_TEST_LONG").is_some()
}
