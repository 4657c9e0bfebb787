//! The node's network: an address that is not loopback, routes for pods, and one nft table of our own.

mod forward;

use std::path::Path;

use anyhow::{Context, Result};

use super::layout::Layout;
use super::registry;
use super::tool::Tool;

/// The node's address: the kubelet refuses loopback, and a machine's own address may change.
pub(crate) const NODE_IP: &str = "10.213.0.1";
/// The pods' addresses; all of them on this one node.
pub(crate) const POD_CIDR: &str = "10.214.0.0/16";
/// The Services' addresses.
pub(crate) const SERVICE_CIDR: &str = "10.215.0.0/16";
/// The first address of [`SERVICE_CIDR`], which Kubernetes gives to its own API.
pub(crate) const KUBERNETES_IP: &str = "10.215.0.1";
/// The port of the API server on every address of the machine (the nft table keeps strangers out).
pub(crate) const API_PORT: u16 = 17443;

/// A bridge without members serves as the device of the node's address: not every kernel has dummy devices.
const LINK: &str = "appdeploy";
const TABLE: &str = "appdeploy";
/// How the names of the pods' links start: the ptp plugin chooses them.
const POD_LINK: &str = "veth";
/// kube-proxy's tables in its nftables mode.
const PROXY_TABLES: [&str; 2] = ["ip kube-proxy", "ip6 kube-proxy"];

/// Settings of the kernel that the cluster's programs change, each for the whole machine; `down` puts them back.
const SYSCTLS: [&str; 5] = [
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
];

/// Creates the node's link, lets the kernel forward for pods, and puts the nft table in place.
pub(crate) fn up(layout: &Layout) -> Result<()> {
    remember_sysctls(layout)?;
    if !Path::new("/sys/class/net").join(LINK).exists() {
        Tool::new("ip").args(["link", "add", LINK, "type", "bridge"]).run()?;
    }
    Tool::new("ip")
        .args(["addr", "replace", &format!("{NODE_IP}/32"), "dev", LINK])
        .run()?;
    Tool::new("ip").args(["link", "set", LINK, "up"]).run()?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("failed to let the kernel forward between pods")?;
    Tool::new("nft").args(["-f", "-"]).stdin(table()).run()?;
    forward::accept()
}

/// Removes the link, the nft tables and the pods' links, and puts the kernel's settings back.
pub(crate) fn down(layout: &Layout) -> Result<()> {
    for link in pod_links(
        &Tool::new("ip")
            .args(["-4", "route", "show", "root", POD_CIDR])
            .run()
            .unwrap_or_default(),
    ) {
        // The link is gone as soon as its other end's namespace is: losing that race is what is wanted.
        let _ = Tool::new("ip").args(["link", "del", &link]).run();
    }
    if Path::new("/sys/class/net").join(LINK).exists() {
        Tool::new("ip").args(["link", "del", LINK]).run()?;
    }
    for table in [format!("inet {TABLE}")]
        .into_iter()
        .chain(PROXY_TABLES.map(String::from))
    {
        // `add` first: deleting what is not there is an error, and this nft has no `destroy` yet.
        Tool::new("nft")
            .args(["-f", "-"])
            .stdin(format!("add table {table}\ndelete table {table}\n"))
            .run()?;
    }
    forward::forget()?;
    restore_sysctls(layout)
}

/// Tells whether another Kubernetes node runs on this machine, whose rules ours would destroy.
pub(crate) fn foreign_proxy() -> bool {
    Tool::new("nft").args(["list", "tables"]).run().is_ok_and(|tables| {
        tables
            .lines()
            .any(|line| PROXY_TABLES.contains(&line.trim_start_matches("table ").trim()))
    })
}

/// Returns the rules: pods reach other networks under the machine's address. Other machines reach neither the API server
/// nor a pod, although this one forwards packets; only pods and this machine open connections to pods. Only root reaches
/// the registry, which takes pushes without a password. The first two lines make the text replace that of an earlier run.
fn table() -> String {
    let registry = registry::PORT;
    format!(
        "add table inet {TABLE}
delete table inet {TABLE}
table inet {TABLE} {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {POD_CIDR} ip daddr != {{ {POD_CIDR}, {SERVICE_CIDR}, {NODE_IP} }} masquerade
  }}
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname \"lo\" accept
    tcp dport {API_PORT} ip saddr != {{ {POD_CIDR}, {NODE_IP} }} drop
    tcp dport {API_PORT} meta nfproto ipv6 drop
  }}
  chain forward {{
    type filter hook forward priority filter; policy accept;
    ip daddr {POD_CIDR} ct state established,related accept
    ip daddr {POD_CIDR} iifname != \"{POD_LINK}*\" drop
  }}
  chain output {{
    type filter hook output priority filter; policy accept;
    oifname \"lo\" tcp dport {registry} meta skuid != 0 reject with tcp reset
  }}
}}
"
    )
}

/// Reads the pods' links from routes as the ptp plugin leaves them: `10.214.0.7 dev veth1a2b scope host`.
fn pod_links(routes: &str) -> Vec<String> {
    let mut links: Vec<_> = routes
        .lines()
        .filter_map(|line| line.split_whitespace().skip_while(|word| *word != "dev").nth(1))
        .filter(|link| link.starts_with(POD_LINK))
        .map(String::from)
        .collect();
    links.sort();
    links.dedup();
    links
}

fn remember_sysctls(layout: &Layout) -> Result<()> {
    if layout.at("sysctl").exists() {
        return Ok(()); // an earlier run's: the true values from before
    }
    let values: Vec<_> = SYSCTLS
        .iter()
        .filter_map(|name| {
            Some(format!(
                "{name} {}",
                std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim()
            ))
        })
        .collect();
    layout.write("sysctl", &values.join("\n")).map(drop)
}

fn restore_sysctls(layout: &Layout) -> Result<()> {
    let file = layout.at("sysctl");
    for (name, value) in std::fs::read_to_string(&file)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_once(' '))
    {
        std::fs::write(format!("/proc/sys/{name}"), value)
            .with_context(|| format!("failed to set the kernel's {name} back to {value}"))?;
    }
    let _ = std::fs::remove_file(file);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_veth_links_of_pod_routes_are_ours() {
        let routes =
            "10.214.0.2 dev veth1 scope host \n10.214.0.3 dev veth2 scope host\n10.214.0.9 via 10.0.0.1 dev eth0";
        assert_eq!(pod_links(routes), ["veth1", "veth2"]);
    }
}
