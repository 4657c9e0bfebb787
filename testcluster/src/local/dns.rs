//! The cluster's DNS: CoreDNS at the node's address. It only resolves names of the cluster: the node has no external
//! network.

use std::path::PathBuf;

use anyhow::Result;

use super::layout::Layout;
use super::network::NODE_IP;

/// Its address.
pub(crate) const ADDRESS: &str = "10.213.0.1:53";

/// Writes the Corefile and returns its path.
pub(crate) fn configure(layout: &Layout) -> Result<PathBuf> {
    let text = format!(
        ".:53 {{
    bind {NODE_IP}
    errors
    health {NODE_IP}:18080
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig \"{}\"
        pods insecure
        ttl 5
        fallthrough in-addr.arpa ip6.arpa
    }}
    cache 30 {{
        # An app's Service is asked for before it is there, and a minute later it is.
        disable denial cluster.local
    }}
}}
",
        layout.at("coredns.kubeconfig").display()
    );
    layout.write("Corefile", &text)
}
