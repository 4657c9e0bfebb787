//! What is released: that each package installs the same, and that the tools which are to take it do.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what a test needs and does not get is its failure"
)]

mod badrobot;
mod bundle;
mod chart;
mod objects;
mod olm;
mod pinned;
mod release;
mod same;
mod score;
mod tools;
