//! The calls of a queue service at the end of a run.

use std::time::{Duration, Instant};

use fault_proxy::{Listener, Record};

use super::FOREIGN;
use super::snapshot::{is_deleting, queues};
use crate::campaign::history::ObjectVersion;
use crate::campaign::kind::QUEUE;

/// How long two resyncs may take.
const RESYNCS: Duration = Duration::from_secs(60);
/// How long there must be no call after all AppQueues were deleted.
const QUIET: Duration = Duration::from_millis(1200);
/// The most calls for an AppQueue while others are read twice.
const CALLS: usize = 8;

/// Returns the calls for other queues, and the writes to the third-party queue. A create changes no queue that exists.
pub(super) fn strange(records: &[Record], namespace: &str, history: &[ObjectVersion]) -> Vec<String> {
    let is_known = |name: &str| {
        history
            .iter()
            .any(|seen| seen.name() == name && seen.resource == QUEUE.plural())
    };
    let is_strange = |record: &&Record| {
        let request = &record.request;
        let is_write = request.verb.is_write() && request.resource != "CreateQueue";
        let is_ours = request.namespace == namespace && is_known(&request.name);
        !is_ours || request.name == FOREIGN && is_write
    };
    let strange = records.iter().filter(is_strange);
    strange
        .map(|record| {
            format!(
                "{} was called for queue {}",
                record.request.resource, record.request.name
            )
        })
        .collect()
}

/// Waits for two resyncs of the AppQueues in the history, and returns the calls other than their reads.
pub(super) fn while_steady(proxy: &Listener, history: &[ObjectVersion]) -> Vec<String> {
    let queues = queues(history);
    if queues.iter().any(|seen| is_deleting(seen)) {
        return Vec::new();
    }
    if queues.is_empty() {
        let is_called = !until_quiet(proxy);
        let problem = is_called.then(|| "the queue service is called without an AppQueue".to_owned());
        return problem.into_iter().collect();
    }
    let mark = proxy.records().len();
    let is_read = |record: &&Record| record.request.resource == "GetQueueAttributes";
    let is_over = |records: &[Record]| records[mark..].iter().filter(is_read).count() >= 2 * queues.len();
    let Ok(records) = proxy.wait_for(RESYNCS, is_over) else {
        return vec!["the queues are not read any more".to_owned()];
    };
    let since = &records[mark..];
    let writes = since.iter().filter(|record| record.request.verb.is_write());
    let mut problems: Vec<String> = writes
        .map(|record| format!("{} is still called", record.request.resource))
        .collect();
    if since.len() > CALLS * queues.len() {
        problems.push(format!("two resyncs cost {} calls", since.len()));
    }
    problems
}

/// Waits until there are no calls any more: the operator may receive a deletion late. Returns whether there are none.
fn until_quiet(proxy: &Listener) -> bool {
    let started = Instant::now();
    while started.elapsed() < RESYNCS {
        let mark = proxy.records().len();
        if proxy.wait_for(QUIET, |records| records.len() > mark).is_err() {
            return true;
        }
    }
    false
}
