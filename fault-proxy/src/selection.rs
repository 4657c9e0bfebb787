//! Matchers for requests and events: plain values.

use crate::encoding::Head;
use crate::request::{Request, Verb};

/// A set of requests: those that match all conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    verbs: Vec<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uri_contains: Vec<String>,
}

impl Requests {
    /// Returns all requests.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the requests with one of `verbs`.
    #[must_use]
    pub fn with(verbs: &[Verb]) -> Self {
        Self {
            verbs: verbs.to_vec(),
            ..Self::default()
        }
    }

    /// Returns the requests that write.
    #[must_use]
    pub fn writes() -> Self {
        Self::with(&Verb::WRITES)
    }

    /// Keeps those for a resource, such as `deployments`, or a subresource, such as `appdeploys/status`.
    #[must_use]
    pub fn on(self, resource: &str) -> Self {
        Self {
            resource: Some(resource.to_owned()),
            ..self
        }
    }

    /// Keeps those in a namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..self
        }
    }

    /// Keeps those for the object of this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// Keeps those with `text` in their path or query.
    #[must_use]
    pub fn with_uri_containing(mut self, text: &str) -> Self {
        self.uri_contains.push(text.to_owned());
        self
    }

    /// Returns whether `request` is one of them.
    #[must_use]
    pub fn contain(&self, request: &Request) -> bool {
        let wanted = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let uri = format!("{}?{}", request.path, request.query);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && wanted(&self.resource, &request.resource)
            && wanted(&self.namespace, &request.namespace)
            && wanted(&self.name, &request.name)
            && self.uri_contains.iter().all(|text| uri.contains(text))
    }
}

/// A set of events of a watch: those that match all conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    kind: Option<String>,
    name: Option<String>,
}

impl Events {
    /// Returns all events.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns the events of one type: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, `ERROR`.
    #[must_use]
    pub fn of_type(kind: &str) -> Self {
        Self {
            kind: Some(kind.to_owned()),
            ..Self::default()
        }
    }

    /// Keeps the events for the object of this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..self
        }
    }

    /// Returns whether an event is one of them.
    pub(crate) fn contain(&self, event: &Head) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        is(&self.kind, &event.kind) && is(&self.name, &event.name)
    }
}
