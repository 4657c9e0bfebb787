//! The host and the path under which an Ingress serves an app.

use crate::Valid;

/// A host, and the path below which an Ingress serves an app.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IngressPath {
    /// The host name.
    pub host: String,
    /// The path, without a trailing slash, which makes no difference to an Ingress.
    pub path: String,
}

impl IngressPath {
    /// Creates a path of a host. Trailing slashes of `path` are removed.
    #[must_use]
    pub fn new(host: &str, path: &str) -> Self {
        Self {
            host: host.to_owned(),
            path: match path.trim_end_matches('/') {
                "" => "/".to_owned(),
                path => path.to_owned(),
            },
        }
    }

    /// Returns the path that the spec of an app asks for, or `None` if the app has no Ingress.
    #[must_use]
    pub fn of(app: &Valid<'_>) -> Option<Self> {
        let ingress = app.route.as_ref()?.ingress.as_ref()?;
        Some(Self::new(&ingress.host, &ingress.path))
    }
}
