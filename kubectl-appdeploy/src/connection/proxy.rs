//! Which clusters are reached directly although the environment names a proxy.

use std::net::IpAddr;

use http::Uri;

/// Whether `NO_PROXY` covers the cluster, or it runs on this machine: nobody else's proxy can reach that.
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
                .parse()
                .is_ok_and(|net| bits.parse().is_ok_and(|bits| is_within(ip, net, bits)));
        }
        let (name, port) = entry
            .rsplit_once(':')
            .map_or((entry.as_str(), None), |(name, port)| (name, port.parse::<u16>().ok()));
        if port.is_some() && port != cluster.port_u16() {
            return false;
        }
        let name = name.trim_start_matches("*.").trim_start_matches('.');
        !name.is_empty() && (host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
    })
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
    fn the_cluster_is_compared_and_not_the_proxy() {
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
}
