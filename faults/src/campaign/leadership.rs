//! Who was the leader, and which writes were sent without being the leader.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::Value;

use super::history::text;
use fault_proxy::Record;

/// The time in which one operator was observed to hold the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    /// The operator's identity in the leader election.
    pub holder: String,
    /// When it was observed, which is after it began.
    pub seen: Instant,
}

/// Adds the holder of a version of the Lease, if it is a new one.
pub(super) fn record_holder(leaderships: &mut Vec<Leadership>, lease: &Value) {
    let holder = text(lease, "/spec/holderIdentity");
    // The Leases of Kubernetes' own programs are in other namespaces and are ignored.
    let is_ours = text(lease, "/metadata/labels/app.kubernetes.io~1part-of") == crd::label::PART_OF_VALUE;
    let is_new = leaderships.last().is_none_or(|last| last.holder != holder);
    if is_ours && is_new {
        leaderships.push(Leadership {
            holder: holder.to_owned(),
            seen: Instant::now(),
        });
    }
}

/// Returns whether the holder is the operator of this name: an identity is the name with a suffix for each start.
#[must_use]
pub fn is_of(leadership: &Leadership, name: &str) -> bool {
    leadership.holder.rsplit_once('_').is_some_and(|(host, _)| host == name)
}

/// Returns the writes of an operator that was not, or no longer, the leader.
///
/// `records` are its requests, and `starts` are the times of its starts. Before a write, it must have written the Lease
/// since its last start; and between that and the write, no other holder may have been observed. The time of a write is
/// when it was sent: the operator is not responsible for delays in the network.
#[must_use]
pub fn writes_without_lease(
    name: &str,
    records: &[Record],
    starts: &[Instant],
    leaderships: &[Leadership],
) -> BTreeSet<String> {
    let is_kept = |record: &&Record| record.request.verb.is_write() && !record.request.resource.ends_with("reviews");
    let (leases, writes): (Vec<&Record>, Vec<&Record>) = records
        .iter()
        .filter(is_kept)
        .partition(|record| record.request.resource == LEASES);
    let renewals: Vec<Instant> = leases
        .iter()
        .filter(|record| record.status.is_some_and(|status| status < 300))
        .map(|record| record.at)
        .collect();
    let says = |record: &Record, why: &str| {
        let request = &record.request;
        format!(
            "{name} sent {} {} {}, and {why}",
            request.verb, request.resource, request.name
        )
    };
    let found = writes.into_iter().filter_map(|record| {
        let began = starts.iter().rev().find(|start| **start <= record.at);
        let renewed = renewals
            .iter()
            .rev()
            .find(|at| **at <= record.at && began.is_some_and(|began| began <= *at));
        let Some(renewed) = renewed else {
            return Some(says(record, "did not hold the Lease"));
        };
        let other = leaderships
            .iter()
            .find(|leadership| !is_of(leadership, name) && *renewed < leadership.seen && leadership.seen <= record.at);
        other.map(|other| says(record, &format!("{} led", other.holder)))
    });
    found.collect()
}

const LEASES: &str = "leases";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;
    use serde_json::json;

    use super::*;
    use fault_proxy::Request;

    fn record(method: &Method, resource: &str, status: u16, at: Instant) -> Record {
        let uri = format!("/apis/g/v1/namespaces/a/{resource}/web");
        Record {
            request: Request::read(method, &uri.parse().unwrap(), b""),
            at,
            done: None,
            status: Some(status),
            told: Some(status),
            events: 0,
        }
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn writes_of_other_operators_than_the_leader_are_reported() {
        let zero = Instant::now();
        let renewal = |at, status| record(&Method::PUT, "leases", status, zero + seconds(at));
        let write = |at| record(&Method::PATCH, "deployments", 200, zero + seconds(at));
        let leadership = |holder: &str, at| Leadership {
            holder: holder.to_owned(),
            seen: zero + seconds(at),
        };
        let found = |records: &[Record], starts: &[u64], leaderships: &[Leadership]| {
            let starts: Vec<Instant> = starts.iter().map(|at| zero + seconds(*at)).collect();
            let found = writes_without_lease("first", records, &starts, leaderships);
            found.into_iter().collect::<Vec<_>>().join("; ")
        };
        let leaderships = [leadership("first_1", 2), leadership("second_2", 10)];
        let not_held = "first sent patch deployments web, and did not hold the Lease";
        assert_eq!(found(&[renewal(1, 200), write(3)], &[0], &leaderships), "");
        assert_eq!(found(&[write(3)], &[0], &leaderships), not_held);
        assert_eq!(
            found(&[renewal(1, 409), write(3)], &[0], &leaderships),
            not_held,
            "it was refused"
        );
        assert_eq!(
            found(&[renewal(1, 200), write(5)], &[0, 4], &leaderships),
            not_held,
            "that was another one of its name"
        );
        assert_eq!(
            found(&[renewal(1, 200), write(11)], &[0], &leaderships),
            "first sent patch deployments web, and second_2 led"
        );
        let back = [
            leaderships[0].clone(),
            leaderships[1].clone(),
            leadership("first_1", 15),
        ];
        assert_eq!(found(&[renewal(1, 200), renewal(14, 200), write(16)], &[0], &back), "");
        let read = record(&Method::GET, "deployments", 200, zero + seconds(3));
        assert_eq!(found(&[read], &[0], &leaderships), "");
    }

    #[test]
    fn renewal_of_a_lease_is_not_a_new_leadership() {
        let lease = |holder| {
            json!({
                "metadata": {"labels": {crd::label::PART_OF: crd::label::PART_OF_VALUE}},
                "spec": {"holderIdentity": holder},
            })
        };
        let mut leaderships = Vec::new();
        for holder in ["first_1", "first_1", "second_1", "second_1", "first_2"] {
            record_holder(&mut leaderships, &lease(holder));
        }
        record_holder(&mut leaderships, &json!({"spec": {"holderIdentity": "a-node"}}));
        let holders: Vec<&str> = leaderships
            .iter()
            .map(|leadership| leadership.holder.as_str())
            .collect();
        assert_eq!(holders, ["first_1", "second_1", "first_2"]);
        assert!(is_of(&leaderships[0], "first") && !is_of(&leaderships[0], "fir"));
    }
}
