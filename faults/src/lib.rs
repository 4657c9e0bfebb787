//! Fault injection and fuzzing of the operator and the plugin.
//!
//! A [`campaign`] runs a scenario once for each fault at each API call. The proxy of the crate `fault-proxy` injects the fault,
//! and the result must be that of a run without faults. [`fuzz`] mutates inputs of parsers.

pub mod campaign;
pub mod fuzz;
