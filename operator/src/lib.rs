//! The operator: keeps the children of AppDeploys and the pods of PodSets as their specs say.
//!
//! ```text
//! watch -> stores -> queue -> reconcile: observe -> validate -> desired -> plan -> apply -> status
//! ```
//!
//! The crate `model` decides; this one has the effects, each in one place: [`watch`] lists and watches, [`apply`] writes
//! children, [`reconcile`] writes statuses, [`event`] writes Events, [`server`] answers probes and scrapes. Each kind that users
//! create ([`primary`]) has a [`controller`], listed in [`run`].

pub mod apply;
pub mod attempt;
pub mod backoff;
pub mod cache;
pub mod call;
pub mod client;
pub mod controller;
pub mod deps;
pub mod dispatch;
pub mod event;
pub mod guard;
pub mod http_server;
pub mod informer;
pub mod key;
pub mod lease;
pub mod liveness;
pub mod metrics;
pub mod object_state;
pub mod open_namespaces;
pub mod pages;
pub mod primary;
pub mod protobuf;
pub mod queue;
pub mod reconcile;
pub mod reduced;
pub mod result;
pub mod run;
pub mod runner;
pub mod server;
pub mod settings;
pub mod stores;
pub mod telemetry;
pub mod watch;
pub mod webhook;
