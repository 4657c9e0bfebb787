//! What the operator and its users may do, and what they may not.
//!
//! That the operator is granted no more than it uses is shown by all of its tests together: `make test` compares what
//! they wrote down (`harness/rights.rs`) with `config/rbac`.

mod accounts;
mod confined;
mod deeds;
mod escalation;
mod lacking;
mod missing;
mod monitors;
mod namespaced;
mod open;
mod people;
mod queues;
mod scopes;
