//! Machines that forward nothing (Docker and ufw set that up with iptables): pods get an exception there.
//!
//! A table of our own cannot grant it: in nftables each table may drop, and none can overrule another.

use anyhow::Result;

use super::POD_CIDR;
use crate::local::tool::{self, Tool};

/// What pods send, and what they get.
const RULES: [[&str; 2]; 2] = [["-s", POD_CIDR], ["-d", POD_CIDR]];

/// Lets packets of pods pass where the rule is to drop.
pub(super) fn accept() -> Result<()> {
    if !in_use() || !iptables(&["-S", "FORWARD"]).run()?.contains("-P FORWARD DROP") {
        return Ok(());
    }
    for rule in RULES {
        if !iptables(&["-C", "FORWARD"])
            .args(rule)
            .args(["-j", "ACCEPT"])
            .succeeds()
        {
            iptables(&["-I", "FORWARD"]).args(rule).args(["-j", "ACCEPT"]).run()?;
        }
    }
    Ok(())
}

/// Takes the exception back.
pub(super) fn forget() -> Result<()> {
    for rule in RULES.iter().filter(|_| in_use()) {
        if iptables(&["-C", "FORWARD"])
            .args(rule)
            .args(["-j", "ACCEPT"])
            .succeeds()
        {
            iptables(&["-D", "FORWARD"]).args(rule).args(["-j", "ACCEPT"]).run()?;
        }
    }
    Ok(())
}

/// Tells whether somebody set iptables up; merely asking it would create its tables.
fn in_use() -> bool {
    let legacy = std::fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
    tool::find("iptables").is_some()
        && (legacy.contains("filter") || Tool::new("nft").args(["list", "table", "ip", "filter"]).succeeds())
}

fn iptables(args: &[&str]) -> Tool {
    Tool::new("iptables").arg("--wait").args(args)
}
