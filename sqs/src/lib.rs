//! A client for the Amazon Simple Queue Service (SQS) and servers with the same protocol.
//!
//! It has the calls that managing a queue needs, and knows nothing of Kubernetes. [`Clients`] creates a [`Client`] for each
//! endpoint and credentials. Clients of the same endpoint share connections and [limits](LimitSettings): a number of
//! concurrent calls, a rate, and a circuit breaker.
//!
//! A call is sent at most once. An [`Error`] states whether the call may have been carried out. Calls are neither
//! redirected nor sent through a proxy, and only to addresses that the [`AddressPolicy`] allows.
//!
//! ADR 16 compares this client with AWS's own.

mod address;
mod client;
mod clients;
mod connect;
mod credentials;
mod endpoint;
mod error;
mod limits;
mod protocol;
mod sign;

pub use address::AddressPolicy;
pub use client::Client;
#[cfg(feature = "messages")]
pub use client::messages::Message;
pub use clients::Clients;
pub use credentials::Credentials;
pub use endpoint::{Endpoint, InvalidEndpoint};
pub use error::Error;
pub use limits::LimitSettings;
