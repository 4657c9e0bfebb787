//! What the end-to-end tests and `make check-rights` are made of: guides as scripts, sessions of pages, and recorded rights.

pub mod guide;
pub mod rights;
pub mod session;
