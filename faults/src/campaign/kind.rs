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

/// Queues outside the cluster.
pub const QUEUE: Kind = Kind::new(crd::GROUP, crd::VERSION, "AppQueue", "appqueues");
/// Configuration, such as the addresses of queues.
pub const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps");
/// Credentials.
pub const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets");
/// Rights in a namespace.
pub const ROLE: Kind = Kind::new("rbac.authorization.k8s.io", "v1", "Role", "roles");
/// The users with these rights.
pub const ROLE_BINDING: Kind = Kind::new("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");

/// The kinds that are compared: those that users write, their children, and the objects that Kubernetes creates for
/// these.
pub const OBSERVED: [Kind; 9] = [
    APP,
    PODSET,
    QUEUE,
    DEPLOYMENT,
    REPLICA_SET,
    SERVICE,
    INGRESS,
    POD,
    CONFIG_MAP,
];

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
