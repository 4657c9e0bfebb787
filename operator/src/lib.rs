//! The operator: it brings what people want (`AppDeploy`, `PodSet`) and what is there together, again and again.
//!
//! ```text
//! watch -> cache -> queue -> reconcile: observe -> validate -> desired -> plan -> perform -> status
//! ```
//!
//! What to do is decided in the crate `model`; here is everything that touches the world. Each effect has one
//! place: [`watch`] reads, [`perform`] writes children, [`reconcile`] writes the status, [`event`] writes
//! Events, [`server`] answers probes and scrapes. Each kind that people create ([`primary`]) has a queue and
//! a [`controller`] of its own.

pub mod attempt;
pub mod cache;
pub mod call;
pub mod client;
pub mod controller;
pub mod dispatch;
pub mod event;
pub mod guard;
pub mod http_server;
pub mod key;
pub mod lease;
pub mod liveness;
pub mod metrics;
pub mod pages;
pub mod perform;
pub mod primary;
pub mod queue;
pub mod reconcile;
pub mod reduced;
pub mod run;
pub mod seeded;
pub mod server;
pub mod settings;
pub mod telemetry;
pub mod watch;
pub mod watches;
pub mod webhook;
pub mod world;
