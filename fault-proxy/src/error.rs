//! The errors that close a connection without an answer.

use std::io;

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;

/// The reason to close a connection without an answer.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer, which may end in an error.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Returns the error of an injected fault. Only a debugger shows it.
pub(crate) fn injected(what: &str) -> BoxError {
    BoxError::from(io::Error::other(what.to_owned()))
}
