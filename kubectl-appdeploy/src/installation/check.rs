//! Checks whether AppDeploy can be installed, or whether an installation works.
//!
//! [`facts`] reads everything; each finding is a function of these facts. Each check has a [`Code`] that is never reused.

mod api;
mod apps;
mod authority;
mod before;
mod cluster;
pub mod code;
mod facts;
pub mod finding;
pub mod page;
mod running;
#[cfg(test)]
mod sample;
mod webhooks;

use crate::cluster::connection::Cluster;
use crate::error::Error;
use crate::installation::settings::Scope;

use code::Code;
use facts::Facts;
use finding::Finding;

/// What it is that is to work.
#[derive(Clone, Copy, Debug)]
pub enum CheckMode<'a> {
    /// Installing AppDeploy like this.
    Install(&'a Scope),
    /// An installation.
    Run,
}

/// Reads all facts and returns the findings.
pub async fn run_checks(cluster: &Cluster, aim: CheckMode<'_>) -> Vec<Finding> {
    match Box::pin(facts::gather(cluster, aim)).await {
        Ok(facts) => judge(&facts),
        Err(error) => vec![unreachable(&error)],
    }
}

fn unreachable(error: &Error) -> Finding {
    Finding {
        why: error.whys().to_vec(),
        next: error.nexts().to_vec(),
        ..Finding::error(Code::Reachable, error.sentence())
    }
}

/// Returns what all checks find, in their order.
fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = cluster::findings(facts);
    if let Some(before) = &facts.before {
        findings.extend(before::findings(facts, before));
    }
    if let Some(installed) = &facts.installed {
        findings.extend(api::findings(facts));
        findings.extend(running::findings(facts, installed));
        findings.extend(webhooks::findings(facts, installed));
        findings.extend(apps::findings(facts, installed));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_check_runs_in_order() {
        let (before, after) = (judge(&sample::empty()), judge(&sample::well()));
        let mut made = BTreeSet::new();
        for findings in [&before, &after] {
            let codes: Vec<Code> = findings.iter().map(|finding| finding.code).collect();
            assert!(codes.is_sorted(), "{codes:?}");
            assert!(findings.iter().all(|finding| !finding.is_trouble()), "{findings:?}");
            made.extend(codes);
        }
        // Without an app none can be stalled.
        made.insert(Code::Stalled);
        assert_eq!(made.into_iter().collect::<Vec<_>>(), Code::ALL);
    }

    #[test]
    fn unreachable_cluster_is_one_finding() {
        let error = Error::failed("cannot reach the cluster at https://127.0.0.1:1")
            .why("connection refused: nothing listens there, is the cluster running?")
            .next("kubectl cluster-info");
        insta::assert_snapshot!(page::line(&unreachable(&error)), @"error AD0101: cannot reach the cluster at https://127.0.0.1:1 (connection refused: nothing listens there, is the cluster running?); next: kubectl cluster-info");
    }
}
