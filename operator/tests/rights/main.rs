//! What the operator and its users may do, and what they may not.
//!
//! That the operator is granted no more than it uses is shown by all of its tests together: `make test` compares what
//! they wrote down (`harness/rights.rs`) with `config/rbac`.

#![expect(clippy::unwrap_used, reason = "clippy takes what tests share for code")]

#[path = "../harness/harness.rs"]
mod harness;

mod confined;
mod deeds;
mod escalation;
mod lacking;
mod missing;
mod namespaced;
mod open;
mod people;
mod scopes;
