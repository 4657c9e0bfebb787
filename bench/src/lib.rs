//! What an operator costs, measured: how long many apps take, what is asked of the API server, and what the process
//! itself uses.
//!
//! [`run`] is one run of one contender on a control plane of its own, and all that has an effect is there and in what
//! it calls. What is made of the runs, [`page`] and [`plot`], are functions of values.

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
pub mod request;
pub mod result;
pub mod run;
pub mod seen;
pub mod statistics;
pub mod target;
pub mod usage;
