//! Tests the packages: each installs the same objects, and the tools that consume them accept them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what a test needs and does not get is its failure"
)]

mod bundle;
mod chart;
mod objects;
mod olm;
mod pinned;
mod release;
mod same;
mod score;
mod tools;
