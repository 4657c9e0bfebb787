//! A kubeconfig for one user of one cluster, with everything embedded, so that the file can be moved.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::pki::{self, Identity};

/// The name of a temporary control plane in its kubeconfigs.
pub const TEST_CLUSTER: &str = "testcluster";

/// The credentials of a user.
#[derive(Debug, Clone, Copy)]
pub enum Credential<'a> {
    /// By a client certificate.
    Certificate(&'a Identity),
    /// By a bearer token.
    Token(&'a str),
    /// By a bearer token in a file, which may be replaced.
    TokenFile(&'a Path),
}

/// The content of a kubeconfig.
#[derive(Debug, Clone, Copy)]
pub struct Kubeconfig<'a> {
    /// The name of the cluster and of the context.
    pub cluster: &'a str,
    /// The API server's URL.
    pub server: &'a str,
    /// The certificate of the cluster's authority, as PEM.
    pub authority: &'a str,
    /// The name of the user's entry.
    pub user: &'a str,
    /// The credentials of the user.
    pub credential: Credential<'a>,
}

impl Kubeconfig<'_> {
    /// Returns the file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let credential = match self.credential {
            Credential::Certificate(identity) => format!(
                "    client-certificate-data: {}\n    client-key-data: {}",
                STANDARD.encode(&identity.certificate),
                STANDARD.encode(&identity.key)
            ),
            Credential::Token(token) => format!("    token: {}", quoted(token)),
            Credential::TokenFile(path) => format!("    tokenFile: {}", quoted(&path.to_string_lossy())),
        };
        format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
{credential}
contexts:
- name: {cluster}
  context:
    cluster: {cluster}
    user: {user}
current-context: {cluster}
",
            cluster = quoted(self.cluster),
            server = quoted(self.server),
            authority = STANDARD.encode(self.authority),
            user = quoted(self.user),
        )
    }

    /// Writes the file, readable for this user only.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, path: &Path) -> Result<(), pki::Error> {
        pki::write(path, &self.text())
    }
}

/// Returns a YAML string with any content: JSON's strings are valid YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        let text = Kubeconfig {
            cluster: "test",
            server: "https://127.0.0.1:6443",
            authority: "PEM",
            user: "system:node:\"a\" # b",
            credential: Credential::Token("t: 1"),
        }
        .text();
        assert!(text.contains("- name: \"system:node:\\\"a\\\" # b\"\n"), "{text}");
        assert!(text.contains("    token: \"t: 1\"\n"), "{text}");
        assert!(text.contains("certificate-authority-data: UEVN\n"), "{text}");
    }
}
