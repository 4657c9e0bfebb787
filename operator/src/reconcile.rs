//! One look at one object of a primary kind, as a sentence. What differs between the kinds is in a file for each;
//! how a look begins and ends, and what is told of it, is the [`status_writer`]'s.

pub mod app;
mod memory;
pub mod owned_objects;
pub mod podset;
mod probe_event_fetcher;
pub mod status_writer;
