//! The plugin as a person runs it, against a real API server.

mod access;
mod apps;
mod lifecycle;
mod manifests;
mod plugin;
mod waiting;
