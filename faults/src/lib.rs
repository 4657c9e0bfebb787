//! A campaign of faults against the operator, and fuzzing of what it parses.
//!
//! A [`campaign`] runs a scenario once for each fault at each call, through the proxy of the crate `fault-proxy`, and
//! compares the results. [`fuzz`] mutates bytes for parsers.

pub mod campaign;
pub mod fuzz;
