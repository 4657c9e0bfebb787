//! Measures the cost of an operator: how long many apps take, the requests to the API server, and the use of the process.
//!
//! [`run`] is one run of one contender on its own control plane; it and the functions that it calls have all effects.
//! [`scale`] goes further with one operator.
//! [`page`] and [`plot`] render the runs, and are functions of values.

pub mod cluster;
pub mod contender;
pub mod drift;
pub mod floor;
pub mod format;
pub mod journal;
pub mod loader;
pub mod machine;
pub mod memory;
pub mod observer;
pub mod page;
pub mod plot;
pub mod program;
pub mod queues;
pub mod request;
pub mod result;
pub mod run;
pub mod scale;
pub mod section;
pub mod seen;
pub mod statistics;
pub mod target;
pub mod usage;
