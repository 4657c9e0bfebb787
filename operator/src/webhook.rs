//! Admission webhooks, served by the operator itself: the server, its certificates, and that API servers trust them.

pub mod certificate;
pub mod served;
pub mod server;
