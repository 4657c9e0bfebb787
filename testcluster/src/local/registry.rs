//! The cluster's own registry: it listens in the node, and containerd pulls from it instead of the public ones.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::{Context, Result};
use testcluster::registry::{Credentials, Store, serve};

use super::layout::Layout;

/// Its port, in the node.
pub(crate) const PORT: u16 = 17500;
/// Its address in the node.
pub(crate) const ADDRESS: &str = "127.0.0.1:17500";

/// Returns the store of the cluster's images.
pub(crate) fn store(layout: &Layout) -> Store {
    Store::new(layout.at("registry"))
}

/// Serves a store, until it fails.
pub(crate) fn run(folder: &Path, port: u16, credentials: Option<&Credentials>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("failed to listen on port {port} of 127.0.0.1"))?;
    serve(&Store::new(folder), &listener, credentials).context("failed to accept connections")
}

/// Returns the name and the tag of `image` in the registry, so that containerd finds it under the image's own name:
/// `nginx` is `library/nginx:latest`, `ghcr.io/a/b:c` is `a/b:c`.
#[must_use]
pub(crate) fn place(image: &str) -> String {
    let (host, path) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("docker.io", image),
    };
    let library = if host == "docker.io" && !path.contains('/') {
        "library/"
    } else {
        ""
    };
    let tag = if path.contains([':', '@']) { "" } else { ":latest" };
    format!("{library}{path}{tag}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_that_of_the_address() {
        assert!(ADDRESS.ends_with(&format!(":{PORT}")));
    }

    #[test]
    fn image_has_the_name_that_containerd_pulls() {
        for (image, expected) in [
            ("nginx", "library/nginx:latest"),
            ("docker.io/library/nginx:1.29", "library/nginx:1.29"),
            ("someone/app", "someone/app:latest"),
            ("ghcr.io/appdeploy/operator:v1", "appdeploy/operator:v1"),
            ("localhost:5000/app", "app:latest"),
        ] {
            assert_eq!(place(image), expected);
        }
    }
}
