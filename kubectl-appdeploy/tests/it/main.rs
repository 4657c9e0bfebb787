//! The plugin as a person runs it, against a real API server.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test needs and does not get is its failure"
)]

mod access;
mod adopting;
mod apps;
mod broken;
mod changing;
mod check;
mod completion;
mod conventions;
mod definitions;
mod editing;
mod gitops;
mod guards;
mod history;
mod interrupted;
mod lifecycle;
mod manifests;
mod many;
mod namespaced;
mod outages;
mod plugin;
mod podsets;
mod queue_views;
mod queues;
mod reaching;
mod replacing;
mod report;
mod signals;
mod terminals;
mod uninstalling;
mod upgrade;
mod waiting;
mod watching;
mod way;
