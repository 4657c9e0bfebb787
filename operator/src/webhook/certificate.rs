//! The certificates of the webhook server, created and renewed by the operator.
//!
//! They are in one Secret that all replicas share. The next action is a function of its content and of the time ([`life`]); [`material`]
//! reads and creates the content; [`certificate_manager`](super::certificate_manager) carries out the actions.

pub mod life;
pub mod material;

use std::time::Duration;

/// The name of the Service, and of the server.
pub const SERVICE: &str = "appdeploy-webhook";

/// The name of the Secret.
pub const SECRET: &str = crd::CERTIFICATE_SECRET;

/// The keys of the Secret.
pub mod key {
    /// The trusted authorities, the newest first, as PEM.
    pub const AUTHORITIES: &str = "ca.crt";
    /// The private key of the newest authority.
    pub const AUTHORITY_KEY: &str = "ca.key";
    /// The server's certificate.
    pub const CERTIFICATE: &str = "tls.crt";
    /// The server's private key.
    pub const CERTIFICATE_KEY: &str = "tls.key";
}

/// The lifetimes of certificates.
///
/// Each is replaced after two thirds of its lifetime. The times in certificates are seconds, so these are whole seconds;
/// `overlap` is shorter than a third of `certificate` and a quarter of a third of `authority`, and `skew` is at least one
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// The lifetime of an authority. One year: its key is in the same Secret as the server's, so that a longer one would protect nothing,
    /// and a replacement every eight months is known to work.
    pub authority: Duration,
    /// The lifetime of the server's certificate.
    pub certificate: Duration,
    /// How long an authority is trusted before its first and after its last use: the time in which a change reaches all API servers and
    /// replicas.
    pub overlap: Duration,
    /// How long before its creation a certificate begins to be valid, for machines whose clocks are behind.
    pub skew: Duration,
}

impl Default for Lifetimes {
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

/// Returns the names of the server in the cluster. API servers use the first one.
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
