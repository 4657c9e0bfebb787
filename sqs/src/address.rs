//! Which addresses a client connects to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses a client connects to. Addresses are checked after a name was resolved, and the connection goes to the
/// address that was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Refuse addresses of the machine itself and of its link: loopback, link-local (which has the metadata services of
    /// clouds), unspecified, multicast and broadcast addresses.
    #[default]
    RefuseLocal,
    /// Allow all addresses.
    AllowLocal,
}

impl AddressPolicy {
    /// Returns whether a client may connect to `address`.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::AllowLocal => true,
            Self::RefuseLocal => match address {
                IpAddr::V4(address) => !is_local_v4(address),
                IpAddr::V6(address) => !is_local_v6(address),
            },
        }
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        // All of 0.0.0.0/8 is "this host on this network" (RFC 1122).
        || address.octets()[0] == 0
}

fn is_local_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unicast_link_local()
        // AWS's metadata service and DNS.
        || address.segments()[..2] == [0xfd00, 0x0ec2]
        || embedded_v4(address).is_some_and(is_local_v4)
}

/// Returns the IPv4 address in an address of IPv6 that leads to it: mapped (`::ffff:0:0/96`), compatible (`::/96`) or
/// translated (NAT64, `64:ff9b::/96`; 6to4, `2002::/16`).
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(of(high, low))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_refused_unless_allowed() {
        for address in [
            "127.0.0.1",
            "127.8.9.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:a9fe:a9fe::1",
        ] {
            let parsed = address.parse().unwrap();
            assert!(!AddressPolicy::RefuseLocal.allows(parsed), "{address}");
            assert!(AddressPolicy::AllowLocal.allows(parsed), "{address}");
        }
    }

    #[test]
    fn private_and_public_addresses_are_allowed() {
        for address in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "52.94.1.1",
            "fd00::1",
            "2600:1f18::1",
            "::ffff:10.0.0.1",
            "64:ff9b::345e:101",
        ] {
            assert!(AddressPolicy::RefuseLocal.allows(address.parse().unwrap()), "{address}");
        }
    }
}
