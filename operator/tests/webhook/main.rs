//! Webhooks, served by pieces of the operator in this process: their certificates on a real API server, and what the
//! server does with clients that mean no good.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes what tests share for code"
)]

mod abuse;
mod certificates;
mod client;
mod clients;
mod rotation;
mod server;
mod serving;
mod stage;
