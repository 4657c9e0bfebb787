//! The kinds of objects that tests use.

pub use faults::campaign::kind::{APP, DEPLOYMENT, INGRESS, Kind, LEASE, POD, PODSET, REPLICA_SET, SERVICE};

pub const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap", "configmaps");
pub const SERVICE_ACCOUNT: Kind = Kind::new("", "v1", "ServiceAccount", "serviceaccounts");
pub const POD_MONITOR: Kind = Kind::new("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors");
pub const EVENT: Kind = Kind::new("", "v1", "Event", "events");
pub const QUOTA: Kind = Kind::new("", "v1", "ResourceQuota", "resourcequotas");
pub const CLASS: Kind = Kind::new("networking.k8s.io", "v1", "IngressClass", "ingressclasses");
pub const VALIDATING_WEBHOOK: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
pub const QUEUE: Kind = Kind::new("appdeploy.dev", "v1alpha1", "AppQueue", "appqueues");
pub const HPA: Kind = Kind::new(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
);
