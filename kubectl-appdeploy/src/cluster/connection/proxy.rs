//! Which clusters are reached directly although the environment names a proxy.

use std::net::IpAddr;

use http::Uri;

/// Whether `NO_PROXY` covers the cluster, or it runs on this machine, which a remote proxy can't reach.
///
/// kube compares `NO_PROXY` with the proxy's address instead of the cluster's.
pub fn is_direct(cluster: &Uri) -> bool {
    let list = ["NO_PROXY", "no_proxy"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default();
    is_covered(cluster, &list)
}

fn is_covered(cluster: &Uri, list: &str) -> bool {
    let host = cluster
        .host()
        .unwrap_or_default()
        .trim_matches(['[', ']'])
        .to_lowercase();
    let ip = host.parse::<IpAddr>().ok();
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    list.split(',').map(|entry| entry.trim().to_lowercase()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let (Some(ip), Some((net, bits))) = (ip, entry.split_once('/')) {
            return net
                .trim_matches(['[', ']'])
                .parse()
                .is_ok_and(|net| bits.parse().is_ok_and(|bits| is_within(ip, net, bits)));
        }
        let (name, port) = split(&entry);
        let usual = || if cluster.scheme_str() == Some("http") { 80 } else { 443 };
        if port.is_some_and(|port| port != cluster.port_u16().unwrap_or_else(usual)) {
            return false;
        }
        if let Ok(other) = name.parse::<IpAddr>() {
            return ip == Some(other);
        }
        let name = name.trim_start_matches("*.").trim_start_matches('.');
        !name.is_empty() && (host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
    })
}

/// Splits an entry into name and port. An IPv6 address has colons of its own, and brackets if a port follows it.
fn split(entry: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (address, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    if entry.parse::<IpAddr>().is_ok() {
        return (entry, None);
    }
    match entry.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (entry, None),
    }
}

fn is_within(ip: IpAddr, net: IpAddr, bits: u32) -> bool {
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let ((ip, length), (net, net_length)) = (wide(ip), wide(net));
    length == net_length && bits <= length && (bits == 0 || ip >> (length - bits) == net >> (length - bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_compared_with_the_cluster() {
        let direct = |url: &str, list: &str| is_covered(&url.parse().unwrap(), list);
        assert!(direct("https://127.0.0.1:6443", ""));
        assert!(direct("https://localhost:6443", ""));
        assert!(direct("https://api.dev.example.com", "example.com"));
        assert!(direct("https://api.dev.example.com", "foo, .example.com"));
        assert!(direct("https://10.2.3.4:6443", "10.0.0.0/8"));
        assert!(direct("https://anything", "*"));
        assert!(!direct("https://badexample.com", "example.com"));
        assert!(!direct("https://11.2.3.4", "10.0.0.0/8"));
        assert!(!direct("https://api.example.com:6443", "api.example.com:443"));
        assert!(!direct("https://api.example.com", ""));
    }

    #[test]
    fn ipv6_entries_match_with_and_without_brackets_and_port() {
        let direct = |url: &str, list: &str| is_covered(&url.parse().unwrap(), list);
        assert!(direct("https://[fd00::1]:6443", "fd00::1"));
        assert!(direct("https://[fd00::1]:6443", "[fd00::1]"));
        assert!(direct("https://[fd00::1]:6443", "[fd00::1]:6443"));
        assert!(direct("https://[fd00::1]:6443", "FD00:0::1"));
        assert!(direct("https://[fd00::1]:6443", "fd00::/16"));
        assert!(direct("https://[fd00::1]:6443", "[fd00::]/16"));
        assert!(!direct("https://[fd00::1]:6443", "[fd00::1]:443"));
        assert!(!direct("https://[fd00::1]:6443", "fd00::2"));
        assert!(!direct("https://[fd00::1]:6443", "fd00:"));
        // An IPv4 address may be spelled in one way only.
        assert!(direct("https://10.2.3.4:6443", "10.2.3.4:6443"));
        // A default port counts, too.
        assert!(direct("https://api.example.com", "api.example.com:443"));
    }
}
