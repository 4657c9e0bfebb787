//! Webhooks, served by pieces of the operator in this process: their certificates on a real API server, and what the
//! server does with clients that mean no good.

mod abuse;
mod certificates;
pub mod client;
mod clients;
mod rotation;
mod server;
mod serving;
mod stage;
