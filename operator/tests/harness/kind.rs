//! The kinds of object that tests look at.

use kube::discovery::ApiResource;

/// A kind, as the API server spells it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
}

pub const APP: Kind = Kind::new(crd::GROUP, crd::VERSION, "AppDeploy", "appdeploys");
pub const PODSET: Kind = Kind::new(crd::GROUP, crd::VERSION, "PodSet", "podsets");
pub const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment", "deployments");
pub const REPLICA_SET: Kind = Kind::new("apps", "v1", "ReplicaSet", "replicasets");
pub const SERVICE: Kind = Kind::new("", "v1", "Service", "services");
pub const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps");
pub const SERVICE_ACCOUNT: Kind = Kind::new("", "v1", "ServiceAccount", "serviceaccounts");
pub const POD: Kind = Kind::new("", "v1", "Pod", "pods");
pub const LEASE: Kind = Kind::new("coordination.k8s.io", "v1", "Lease", "leases");
pub const EVENT: Kind = Kind::new("", "v1", "Event", "events");
pub const QUOTA: Kind = Kind::new("", "v1", "ResourceQuota", "resourcequotas");
pub const INGRESS: Kind = Kind::new("networking.k8s.io", "v1", "Ingress", "ingresses");
pub const CLASS: Kind = Kind::new("networking.k8s.io", "v1", "IngressClass", "ingressclasses");
pub const VALIDATING_WEBHOOK: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
pub const HPA: Kind = Kind::new(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
);

impl Kind {
    const fn new(group: &'static str, version: &'static str, name: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            version,
            name,
            plural,
        }
    }

    pub fn api_version(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    pub fn name(self) -> &'static str {
        self.name
    }

    pub fn plural(self) -> &'static str {
        self.plural
    }

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
