//! Requests from the audit log, filtered and counted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

/// One request, as the API server received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Kubernetes' verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The plural name of the resource; empty for paths without objects, such as `/version`.
    pub resource: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects and lists of all namespaces.
    pub namespace: String,
    /// The name of the object; empty for lists, and for creations with a generated name.
    pub name: String,
    /// The user.
    pub user: String,
    /// The user agent.
    pub user_agent: String,
    /// The path and the query.
    pub uri: String,
    /// The HTTP status; 0 for a watch that is still open.
    pub code: u16,
    /// Why it failed, as the Status in the response says; empty without one.
    pub message: String,
    /// The stage: `ResponseStarted` for an open watch, otherwise `ResponseComplete`.
    pub stage: String,
    /// The time at which it was received.
    pub time: Timestamp,
}

impl Request {
    /// Returns whether it is a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Returns the verb and the resource, such as `patch deployments/status`.
    #[must_use]
    pub fn what(&self) -> String {
        let Self {
            verb,
            resource,
            subresource,
            uri,
            ..
        } = self;
        match (resource.as_str(), subresource.as_str()) {
            ("", _) => format!("{verb} {}", uri.split('?').next().unwrap_or(uri)),
            (resource, "") => format!("{verb} {resource}"),
            (resource, subresource) => format!("{verb} {resource}/{subresource}"),
        }
    }
}

/// Requests in the order of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests(Vec<Request>);

impl Requests {
    /// Keeps the requests of programs whose user agent starts with `prefix`.
    #[must_use]
    pub fn by_user_agent_prefix(self, prefix: &str) -> Self {
        self.that(|request| request.user_agent.starts_with(prefix))
    }

    /// Keeps the requests of one user.
    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.that(|request| request.user == user)
    }

    /// Keeps the requests for one resource, with its subresources.
    #[must_use]
    pub fn on(self, resource: &str) -> Self {
        self.that(|request| request.resource == resource)
    }

    /// Removes the requests for one resource, such as the `leases` of leader election.
    #[must_use]
    pub fn without(self, resource: &str) -> Self {
        self.that(|request| request.resource != resource)
    }

    /// Keeps the requests in one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.that(|request| request.namespace == namespace)
    }

    /// Keeps the writes, successful or not.
    #[must_use]
    pub fn writes(self) -> Self {
        self.that(Request::is_write)
    }

    /// Keeps the gets and lists of objects, including relists of watches.
    #[must_use]
    pub fn reads(self) -> Self {
        self.that(|request| !request.resource.is_empty() && matches!(request.verb.as_str(), "get" | "list"))
    }

    /// Keeps the watches.
    #[must_use]
    pub fn watches(self) -> Self {
        self.that(|request| request.verb == "watch")
    }

    /// Keeps the requests that were rejected or failed.
    #[must_use]
    pub fn failed(self) -> Self {
        self.that(|request| request.code >= 400)
    }

    /// Keeps the requests that satisfy `wanted`.
    #[must_use]
    pub fn that(mut self, wanted: impl Fn(&Request) -> bool) -> Self {
        self.0.retain(wanted);
        self
    }

    /// Returns how many requests there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Counts the requests by verb and resource, such as `patch deployments/status`.
    #[must_use]
    pub fn tally(&self) -> BTreeMap<String, usize> {
        let mut tally = BTreeMap::new();
        for request in &self.0 {
            *tally.entry(request.what()).or_default() += 1;
        }
        tally
    }

    /// Returns an iterator over the requests.
    pub fn iter(&self) -> std::slice::Iter<'_, Request> {
        self.0.iter()
    }
}

impl From<Vec<Request>> for Requests {
    fn from(requests: Vec<Request>) -> Self {
        Self(requests)
    }
}

impl<'a> IntoIterator for &'a Requests {
    type Item = &'a Request;
    type IntoIter = std::slice::Iter<'a, Request>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A line of the log, of `audit.k8s.io/v1`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    #[serde(rename = "auditID")]
    pub(super) audit_id: String,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    verb: String,
    stage: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
}

#[derive(Debug, Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
    message: String,
}

impl From<Event> for Request {
    fn from(event: Event) -> Self {
        let ObjectRef {
            resource,
            subresource,
            namespace,
            name,
        } = event.object_ref;
        let done = event.stage != "ResponseStarted";
        let ResponseStatus { code, message } = event.response_status.filter(|_| done).unwrap_or_default();
        Self {
            code,
            message,
            verb: event.verb,
            resource,
            subresource,
            namespace,
            name,
            user: event.user.username,
            user_agent: event.user_agent,
            uri: event.request_uri,
            stage: event.stage,
            time: event.request_received_timestamp,
        }
    }
}
