//! The kinds of objects that a campaign observes.

use kube::discovery::ApiResource;

/// A kind, as the API server spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
}

/// Applications.
pub const APP: Kind = Kind::new(crd::GROUP, crd::VERSION, "AppDeploy", "appdeploys");
/// Pod sets.
pub const PODSET: Kind = Kind::new(crd::GROUP, crd::VERSION, "PodSet", "podsets");
/// Deployments.
pub const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment", "deployments");
/// Services.
pub const SERVICE: Kind = Kind::new("", "v1", "Service", "services");
/// Ingresses.
pub const INGRESS: Kind = Kind::new("networking.k8s.io", "v1", "Ingress", "ingresses");
/// Pods.
pub const POD: Kind = Kind::new("", "v1", "Pod", "pods");
/// Leases: the holder is the leader.
pub const LEASE: Kind = Kind::new("coordination.k8s.io", "v1", "Lease", "leases");

/// Replica sets.
pub const REPLICA_SET: Kind = Kind::new("apps", "v1", "ReplicaSet", "replicasets");

/// The kinds that are compared: those that users write, their children, and the objects that Kubernetes creates for
/// these.
pub const OBSERVED: [Kind; 7] = [APP, PODSET, DEPLOYMENT, REPLICA_SET, SERVICE, INGRESS, POD];

impl Kind {
    /// Returns a kind; the core group is empty.
    #[must_use]
    pub const fn new(group: &'static str, version: &'static str, name: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            version,
            name,
            plural,
        }
    }

    /// Returns the kind's name, such as `Service`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the resource, such as `services`.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.plural
    }

    /// Returns the value of `apiVersion`.
    #[must_use]
    pub fn api_version(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Returns the kind for kube's client.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}
