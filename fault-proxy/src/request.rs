//! The Kubernetes meaning of a request, parsed from its method and its path.

use std::fmt;

use http::Method;

/// Kubernetes' verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A method that Kubernetes has no verb for, such as `OPTIONS`.
    Other,
}

impl Verb {
    /// The verbs that change objects.
    pub const WRITES: [Self; 5] = [
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// Returns whether it changes objects.
    #[must_use]
    pub fn is_write(self) -> bool {
        Self::WRITES.contains(&self)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        })
    }
}

/// One request to the API server, or to a queue service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The verb. Requests to a queue service have the verb with the same meaning.
    pub verb: Verb,
    /// The HTTP method.
    pub method: Method,
    /// The path, without the query. Of a queue service: the action and the queue.
    pub path: String,
    /// The query, empty for none.
    pub query: String,
    /// The resource with its subresource, such as `deployments` or `appdeploys/status`; empty if the path is not one of
    /// an object. Of a queue service: the action, such as `CreateQueue`.
    pub resource: String,
    /// The namespace; empty for none or all. Of a queue service: what is before the first `_` in the name of the queue.
    pub namespace: String,
    /// The object's name; empty for a list. Of a create whose name the API server generates: the prefix, without the `-` at its end.
    /// Of a queue service: the rest of the name of the queue.
    pub name: String,
    /// How the client sent it.
    pub(crate) transport: Transport,
}

/// How a client sent a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Transport {
    /// On a connection without frames.
    #[default]
    Http1,
    /// On a stream.
    Http2,
    /// On a stream that has no window for the last byte of the body yet.
    Http2WithoutEnd,
}

impl Request {
    /// Returns whether it is one to a queue service: its actions begin with a capital letter, resources do not.
    #[must_use]
    pub fn is_of_queue_service(&self) -> bool {
        self.resource.starts_with(|first: char| first.is_ascii_uppercase())
    }

    /// Returns whether the API server may answer with an old state: only if the client has asked for any version.
    pub(crate) fn may_be_answered_from_a_cache(&self) -> bool {
        self.query.split('&').any(|pair| pair == "resourceVersion=0")
    }

    /// Parses a request. The name of a created object is in the body, if that is JSON.
    #[must_use]
    pub fn read(method: &Method, uri: &http::Uri, body: &[u8]) -> Self {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let Object {
            resource,
            namespace,
            mut name,
        } = Object::read(path);
        let watches = query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"));
        let one = !name.is_empty() || resource.is_empty();
        let verb = match method.as_str() {
            "GET" | "HEAD" if watches => Verb::Watch,
            "GET" | "HEAD" if one => Verb::Get,
            "GET" | "HEAD" => Verb::List,
            "POST" => Verb::Create,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" if one => Verb::Delete,
            "DELETE" => Verb::DeleteCollection,
            _ => Verb::Other,
        };
        if verb == Verb::Create && name.is_empty() {
            name = name_in(body).unwrap_or_default();
        }
        Self {
            verb,
            method: method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            resource,
            namespace,
            name,
            transport: Transport::default(),
        }
    }
}

fn name_in(body: &[u8]) -> Option<String> {
    let object: serde_json::Value = serde_json::from_slice(body).ok()?;
    let metadata = object.get("metadata")?;
    let prefix = || Some(metadata.get("generateName")?.as_str()?.trim_end_matches('-'));
    let name = metadata
        .get("name")
        .and_then(serde_json::Value::as_str)
        .or_else(prefix)?;
    Some(name.to_owned())
}

#[derive(Default)]
struct Object {
    resource: String,
    namespace: String,
    name: String,
}

impl Object {
    /// Parses `/api/<version>/…` and `/apis/<group>/<version>/…`.
    fn read(path: &str) -> Self {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let version = match parts.next() {
            Some("api") => parts.next(),
            Some("apis") => parts.next().and_then(|_| parts.next()),
            _ => None,
        };
        if version.is_none() {
            return Self::default();
        }
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            // A namespace is an object too, and so are its own two subresources.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest.as_slice()),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, name) = match rest {
            [] => (String::new(), ""),
            [resource] => ((*resource).to_owned(), ""),
            [resource, name] => ((*resource).to_owned(), *name),
            [resource, name, subresource, ..] => (format!("{resource}/{subresource}"), *name),
        };
        Self {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_by_the_api_server() {
        let cases = [
            ("GET", "/api/v1/namespaces/a/pods?limit=5", Verb::List, "pods", "a", ""),
            ("GET", "/api/v1/pods?watch=true", Verb::Watch, "pods", "", ""),
            ("GET", "/api/v1/pods?x=watch=true", Verb::List, "pods", "", ""),
            ("GET", "/api/v1/namespaces/a/pods/b", Verb::Get, "pods", "a", "b"),
            ("GET", "/api/v1/namespaces/a", Verb::Get, "namespaces", "", "a"),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                Verb::Update,
                "namespaces/finalize",
                "",
                "a",
            ),
            (
                "POST",
                "/apis/apps/v1/namespaces/a/deployments",
                Verb::Create,
                "deployments",
                "a",
                "",
            ),
            (
                "PATCH",
                "/apis/g/v1/namespaces/a/apps/b/status",
                Verb::Patch,
                "apps/status",
                "a",
                "b",
            ),
            ("DELETE", "/api/v1/namespaces/a/pods/b", Verb::Delete, "pods", "a", "b"),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods",
                Verb::DeleteCollection,
                "pods",
                "a",
                "",
            ),
            ("GET", "/version", Verb::Get, "", "", ""),
            ("GET", "/apis/apps/v1", Verb::Get, "", "", ""),
        ];
        for (method, uri, verb, resource, namespace, name) in cases {
            let request = Request::read(&method.parse().unwrap(), &uri.parse().unwrap(), b"");
            let read = (request.verb, &*request.resource, &*request.namespace, &*request.name);
            assert_eq!(read, (verb, resource, namespace, name), "{method} {uri}");
        }
    }

    #[test]
    fn name_of_a_created_object_is_in_the_body() {
        let name = |uri: &str, body: &[u8]| Request::read(&Method::POST, &uri.parse().unwrap(), body).name;
        let named = br#"{"metadata": {"name": "web"}}"#;
        assert_eq!(name("/api/v1/namespaces/a/pods", named), "web");
        assert_eq!(
            name(
                "/api/v1/namespaces/a/pods",
                br#"{"metadata": {"generateName": "web-"}}"#
            ),
            "web"
        );
        assert_eq!(name("/api/v1/namespaces/a/pods", b"k8s\0protobuf"), "");
        assert_eq!(name("/api/v1/namespaces/a/pods/b/eviction", named), "b");
    }
}
