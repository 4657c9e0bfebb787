//! One call of a run, with an identity that it has in every run of the same scenario.

use std::collections::BTreeMap;
use std::fmt;

use fault_proxy::{Record, Request, Requests, Verb};

/// A call: the `nth` one of those with the same verb, resource, selector and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// Kubernetes' verb.
    pub verb: Verb,
    /// The resource with its subresource. Of a queue service: the action.
    pub resource: String,
    /// The label selector of a list or a watch; empty for none.
    pub selector: String,
    /// The object's name; empty for a list or a watch, and if the API server generates it.
    pub name: String,
    /// The number among equal calls, from 1.
    pub nth: usize,
}

impl Call {
    /// Returns whether the call changes an object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        // Reviews are created only to be answered; the API server does not store them.
        self.verb.is_write() && !self.resource.ends_with("reviews")
    }

    /// Returns whether it is a call of a queue service, outside the cluster.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.resource.starts_with(|first: char| first.is_ascii_uppercase())
    }

    /// Returns a matcher for all calls that are equal except for their number.
    #[must_use]
    pub fn requests(&self) -> Requests {
        let mut requests = Requests::with(&[self.verb]).on(&self.resource);
        if !self.name.is_empty() {
            requests = requests.named(&self.name);
        }
        if !self.selector.is_empty() {
            requests = requests.with_uri_containing(&format!("{SELECTOR}{}", self.selector));
        }
        requests
    }
}

const SELECTOR: &str = "labelSelector=";

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The actions of a queue service contain the verb.
        if !self.is_outside() {
            write!(out, "{} ", self.verb)?;
        }
        out.write_str(&self.resource)?;
        if !self.selector.is_empty() {
            let selector = self
                .selector
                .replace("%2F", "/")
                .replace("%3D", "=")
                .replace("%2C", ",");
            write!(out, " of {selector}")?;
        }
        if !self.name.is_empty() {
            write!(out, " {}", self.name)?;
        }
        if self.nth > 1 {
            write!(out, " #{}", self.nth)?;
        }
        Ok(())
    }
}

/// Returns the recorded calls in their order, each with the number of events that it received.
#[must_use]
pub fn calls(records: &[Record]) -> Vec<(Call, usize)> {
    let mut counts: BTreeMap<Call, usize> = BTreeMap::new();
    let of_objects = records.iter().filter(|record| !record.request.resource.is_empty());
    let calls = of_objects.map(|record| {
        let request = &record.request;
        let mut call = Call {
            verb: request.verb,
            resource: request.resource.clone(),
            selector: selector(request),
            name: request.name.clone(),
            nth: 0,
        };
        let count = counts.entry(call.clone()).or_default();
        *count += 1;
        call.nth = *count;
        (call, record.events)
    });
    calls.collect()
}

/// Returns the calls that occurred in each of several runs, in the order of the first run.
#[must_use]
pub fn common(runs: &[Vec<(Call, usize)>]) -> Vec<(Call, usize)> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let everywhere = |call: &Call| others.iter().all(|run| run.iter().any(|(other, _)| other == call));
    first.iter().filter(|(call, _)| everywhere(call)).cloned().collect()
}

fn selector(request: &Request) -> String {
    let mut pairs = request.query.split('&');
    let selector = pairs.find_map(|pair| pair.strip_prefix(SELECTOR));
    selector.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use http::Method;

    use super::*;

    fn record(method: &Method, uri: &str, body: &str) -> Record {
        Record {
            request: Request::read(method, &uri.parse().unwrap(), body.as_bytes()),
            at: Instant::now(),
            done: None,
            status: None,
            told: None,
            events: 0,
        }
    }

    #[test]
    fn call_has_the_same_name_in_every_run() {
        let web = r#"{"metadata": {"name": "web"}}"#;
        let records = [
            record(&Method::GET, "/version", ""),
            record(&Method::GET, "/api/v1/namespaces/a/pods?labelSelector=app&limit=5", ""),
            record(&Method::GET, "/api/v1/namespaces/a/pods?labelSelector=set&limit=5", ""),
            record(&Method::POST, "/apis/apps/v1/namespaces/a/deployments", web),
            record(&Method::PATCH, "/apis/g/v1/namespaces/a/apps/web/status", "{}"),
            record(&Method::PATCH, "/apis/g/v1/namespaces/a/apps/web/status", "{}"),
        ];
        let calls: Vec<Call> = calls(&records).into_iter().map(|(call, _)| call).collect();
        let names: Vec<String> = calls.iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [
                "list pods of app",
                "list pods of set",
                "create deployments web",
                "patch apps/status web",
                "patch apps/status web #2"
            ]
        );
        for (call, record) in calls.iter().zip(&records[1..]) {
            assert!(call.requests().contain(&record.request), "{call}");
        }
        assert!(!calls[0].requests().contain(&records[2].request));
        let runs = [4, 3].map(|count| calls[..count].iter().map(|call| (call.clone(), 0)).collect());
        assert_eq!(common(&runs), runs[1], "a call of one run may not occur again");
    }
}
