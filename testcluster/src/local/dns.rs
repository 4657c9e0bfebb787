//! The cluster's DNS: CoreDNS on the machine itself, at the node's address, which pods ask directly.

use std::path::PathBuf;

use anyhow::Result;

use super::layout::Layout;
use super::network::NODE_IP;

/// Where it listens.
pub(crate) const ADDRESS: &str = "10.213.0.1:53";

/// Writes the Corefile and returns its path.
pub(crate) fn configure(layout: &Layout) -> Result<PathBuf> {
    // CoreDNS does not start where it has nobody to ask, as on a machine without a network.
    let resolv = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let somebody = resolv.lines().any(|line| line.trim_start().starts_with("nameserver"));
    let forward = if somebody {
        "    forward . /etc/resolv.conf\n"
    } else {
        ""
    };
    let text = format!(
        ".:53 {{
    bind {NODE_IP}
    errors
    health {NODE_IP}:18080
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {}
        pods insecure
        ttl 5
        fallthrough in-addr.arpa ip6.arpa
    }}
{forward}    cache 30 {{
        # An app's Service is asked for before it is there, and a minute later it is.
        disable denial cluster.local
    }}
}}
",
        layout.at("coredns.kubeconfig").display()
    );
    layout.write("Corefile", &text)
}
