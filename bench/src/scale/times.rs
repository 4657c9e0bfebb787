//! Times from the operator's metrics.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use testcluster::http;

use crate::program::Program;

/// The times that the operator's metrics have of AppDeploys.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// In the queue.
    pub queued: Buckets,
    /// In a reconcile.
    pub reconciled: Buckets,
}

impl Times {
    pub fn of(program: &Program) -> Result<Self> {
        let response = http::Request::get("/metrics").send(program.probes())?;
        ensure!(
            response.status == 200,
            "the metrics are answered with {}",
            response.status
        );
        let of = |name| Buckets::read(&response.body, name).with_context(|| format!("there is no metric {name}"));
        Ok(Self {
            queued: of("workqueue_queue_duration_seconds")?,
            reconciled: of("controller_runtime_reconcile_time_seconds")?,
        })
    }

    /// Returns what was added since then.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            queued: self.queued.since(&before.queued),
            reconciled: self.reconciled.since(&before.reconciled),
        }
    }
}

/// How many values are at most as large as each bound, by the text of the bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buckets(BTreeMap<String, u64>);

impl Buckets {
    /// Reads the buckets of AppDeploys from metrics.
    fn read(metrics: &str, name: &str) -> Option<Self> {
        let prefix = format!("{name}_bucket{{");
        let lines = metrics.lines().filter_map(|line| line.strip_prefix(&prefix));
        let all: BTreeMap<String, u64> = lines
            .filter(|line| line.contains("=\"appdeploy\""))
            .filter_map(|line| {
                let bound = line.split_once("le=\"")?.1.split_once('"')?.0;
                Some((bound.to_owned(), line.rsplit(' ').next()?.parse().ok()?))
            })
            .collect();
        (!all.is_empty()).then_some(Self(all))
    }

    fn since(&self, before: &Self) -> Self {
        let earlier = |bound: &str| before.0.get(bound).copied().unwrap_or_default();
        let later = self.0.iter();
        Self(
            later
                .map(|(bound, count)| (bound.clone(), count.saturating_sub(earlier(bound))))
                .collect(),
        )
    }

    /// Returns the smallest bound that 99 of 100 values do not exceed; `None` without values, or if they exceed all bounds.
    pub fn most(&self) -> Option<f64> {
        let total = *self.0.get("+Inf")?;
        let wanted = (total * 99).div_ceil(100);
        let bounds = self.0.iter().filter(|(_, count)| total > 0 && **count >= wanted);
        let bounds = bounds.filter_map(|(bound, _)| bound.parse().ok());
        bounds.filter(|bound: &f64| bound.is_finite()).min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_that_99_of_100_values_keep_is_read_from_metrics() {
        let metrics = "waited_bucket{le=\"0.01\",name=\"appdeploy\"} 98\nwaited_bucket{le=\"1.0\",name=\"appdeploy\"} 99\n\
                       waited_bucket{le=\"+Inf\",name=\"appdeploy\"} 100\nwaited_bucket{le=\"0.01\",name=\"podset\"} 7\n";
        let buckets = Buckets::read(metrics, "waited").unwrap();
        assert_eq!(buckets.most(), Some(1.0));
        assert_eq!(buckets.since(&buckets).most(), None);
        assert_eq!(Buckets::read(metrics, "worked"), None);
    }
}
