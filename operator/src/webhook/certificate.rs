//! The certificates by which API servers know this operator, made and renewed by itself.
//!
//! They are kept in one Secret that all operators share. What to do next is a function of what it holds and of the time
//! ([`life`]); what is in it is read and made in [`material`]; who does it is the [`keeper`](super::keeper).

pub mod life;
pub mod material;

use std::time::Duration;

/// The name of the Service, and so of the server.
pub const SERVICE: &str = "appdeploy-webhook";

/// The name of the Secret.
pub const SECRET: &str = crd::CERTIFICATE_SECRET;

/// The keys of the Secret.
pub mod key {
    /// The authorities that are to be trusted, the newest first, as PEM.
    pub const AUTHORITIES: &str = "ca.crt";
    /// The private key of the newest authority.
    pub const AUTHORITY_KEY: &str = "ca.key";
    /// The server's certificate.
    pub const CERTIFICATE: &str = "tls.crt";
    /// The server's private key.
    pub const CERTIFICATE_KEY: &str = "tls.key";
}

/// How long certificates live.
///
/// Each is replaced when two thirds of its life have passed. A certificate lives by seconds, so these are whole seconds;
/// `overlap` is shorter than a third of `certificate` and a quarter of a third of `authority`, and `skew` is at least one
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The life of an authority. A year: its key lies beside the server's, in the same Secret, so a long life would
    /// protect nothing, and a replacement that happens every eight months is one that is known to work.
    pub authority: Duration,
    /// The life of the server's certificate.
    pub certificate: Duration,
    /// How long an authority is trusted by all before it is used, and after it was used last: the time in which each API
    /// server, and each operator, has heard of a change.
    pub overlap: Duration,
    /// How long before it was made a certificate begins to be valid, for machines whose clocks are behind.
    pub skew: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        const DAY: u64 = 24 * 60 * 60;
        Self {
            authority: Duration::from_secs(365 * DAY),
            certificate: Duration::from_secs(90 * DAY),
            overlap: Duration::from_secs(300),
            skew: Duration::from_secs(300),
        }
    }
}

/// Returns the names under which API servers, and people who look for the cause of a failure, reach the server. The first
/// is the one that API servers use.
#[must_use]
pub fn names(namespace: &str) -> [String; 4] {
    [
        format!("{SERVICE}.{namespace}.svc"),
        format!("{SERVICE}.{namespace}.svc.cluster.local"),
        format!("{SERVICE}.{namespace}"),
        SERVICE.to_owned(),
    ]
}

#[cfg(test)]
mod tests;
