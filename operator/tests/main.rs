//! The operator as a process, against a real API server: one program, so that it is linked once and its tests run side
//! by side. Tests that need the same control plane share it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "what a test needs and does not get is its failure"
)]

mod admission;
mod children;
mod config_maps;
mod connections;
mod controllers;
mod counts;
mod differential;
mod faults;
mod foreign;
mod fuzz;
#[path = "harness/harness.rs"]
mod harness;
mod hosts;
mod injections;
mod lease;
mod lies;
mod life;
mod memory;
mod oldest;
mod panic;
mod podset;
mod queue;
mod random_apps;
mod rights;
mod schema;
mod seeded;
mod seen;
mod status;
mod upgrade;
mod webhook;
