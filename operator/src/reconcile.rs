//! The controllers, one file for each primary kind. How a reconcile begins and ends, and how its status is written, is the same
//! for all of them ([`status_writer`]).

pub mod app;
pub mod config_maps;
pub mod podset;
mod probe_event_fetcher;
pub mod queue;
pub mod status_writer;
pub mod stored;
