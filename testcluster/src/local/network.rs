//! The node's network: a namespace with loopback, an address that is not loopback, and the links of the pods.

use anyhow::{Context, Result};

use super::tool::Tool;

/// The node's name.
pub(crate) const NODE: &str = "local";
/// The node's address: the kubelet rejects loopback, and a machine's own address may change.
pub(crate) const NODE_IP: &str = "10.213.0.1";
/// The pods' addresses; all of them on this one node.
pub(crate) const POD_CIDR: &str = "10.214.0.0/16";
/// The Services' addresses.
pub(crate) const SERVICE_CIDR: &str = "10.215.0.0/16";
/// The first address of [`SERVICE_CIDR`], which Kubernetes assigns to its own API.
pub(crate) const KUBERNETES_IP: &str = "10.215.0.1";
/// The port of the API server in the node, and on 127.0.0.1 of the host if it is free there.
pub(crate) const API_PORT: u16 = 17443;

/// A bridge without members is the device of the node's address: not every kernel has dummy devices.
const LINK: &str = "node0";

#[cfg(target_os = "linux")]
/// Sets the node's address, and enables forwarding between pods. Runs in the node's own network namespace.
pub(crate) fn up() -> Result<()> {
    let ip = |args: &[&str]| Tool::new("ip").args(args).run().map(drop);
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "add", LINK, "type", "bridge"])?;
    ip(&["addr", "add", &format!("{NODE_IP}/32"), "dev", LINK])?;
    ip(&["link", "set", LINK, "up"])?;
    // The API server calls webhooks at Services' addresses, which need a route before kube-proxy translates them.
    ip(&["route", "add", SERVICE_CIDR, "dev", LINK, "src", NODE_IP])?;
    // A connection to an unknown address fails instead of hanging.
    ip(&["route", "add", "unreachable", "default"])?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("failed to let the kernel forward between pods")
}
