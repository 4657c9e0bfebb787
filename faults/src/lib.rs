//! What fails around a program that keeps a cluster in order, made to happen.
//!
//! A [`Proxy`] stands between the program and a real API server. It loses requests before or after they are
//! done, answers what the API server did not, freezes watches, serves what is old, and stops at the very request at
//! which a test wants the program to die. A [`campaign`] does all of that to the operator, at every call of a
//! scenario, and compares how it ends. Bytes that fail come from [`fuzz`].

pub mod campaign;
pub mod fuzz;
pub mod proxy;

pub use proxy::Proxy;
