//! The API of users, the operator and the plugin: the kinds of `appdeploy.dev/v1alpha1`, their schema, and the names of
//! labels and annotations.
//!
//! `kubectl explain` prints the doc comments of the types. Labels, annotations and the field manager are defined only here.
//! This crate has no client, no clock and no runtime.

pub mod app;
pub mod kind;
pub mod pod;
pub mod podset;
pub mod quantity;
pub mod queue;
pub mod rollout;
pub mod status;

pub use app::{AppDeploy, AppDeploySpec, Expose, Tls};
pub use kind::{Kind, Names};
pub use pod::{
    ConfigMapStatus, ConfigMapVolume, ContainerFields, EmptyDirMedium, EmptyDirVolume, EnvFromReference, EnvFromSource,
    EnvVar, EnvVarSource, ExecAction, FieldPath, FieldRef, GrpcAction, HealthCheck, HttpGetAction, HttpHeader,
    HttpScheme, ImagePullPolicy, ImageVolume, KeyRef, KeyToPath, LocalObjectReference, Metrics, Mount, NamedPort,
    OnConfigChange, OtherContainer, Placement, PodFields, PortProtocol, Probe, Probes, Resources, SecretVolume,
    SecurityProfile, ServiceAccount, Sidecar, TaintEffect, TcpSocketAction, Toleration, TolerationOperator, Volume,
};
pub use podset::{PodReference, PodSet, PodSetSpec, PodSetStatus};
pub use quantity::Quantity;
pub use queue::{
    AdoptionPolicy, AppQueue, AppQueueSpec, AppQueueStatus, Credentials, DeadLetter, DeletionPolicy, QueueReference,
    QueueType, Sqs,
};
pub use rollout::{RolloutStrategy, RolloutType};
pub use status::{Address, AddressType, AppDeployStatus, Cause, RevisionStatus};

/// The API group of all kinds.
pub const GROUP: &str = "appdeploy.dev";
/// The only served version. After the first release, optional fields may be added; fields are never removed or renamed.
pub const VERSION: &str = "v1alpha1";

/// The field manager of the operator's writes.
pub const FIELD_MANAGER: &str = "appdeploy";
/// The namespace of the operator.
pub const OPERATOR_NAMESPACE: &str = "appdeploy-system";
/// The Secret with the certificate of the operator's webhooks.
pub const CERTIFICATE_SECRET: &str = "appdeploy-webhook-certificate";

/// The maximum size of a spec, in bytes of JSON as sent by the API server.
pub const MAX_SPEC_BYTES: usize = 256 * 1024;

/// Well-known and own labels.
pub mod label {
    /// Names the tool that manages an object; its value on every child is [`MANAGED_BY_VALUE`].
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// The value of [`MANAGED_BY`] on every child.
    pub const MANAGED_BY_VALUE: &str = "appdeploy";
    /// The name of the application.
    pub const NAME: &str = "app.kubernetes.io/name";
    /// The product that an object of the installation belongs to; its value is [`PART_OF_VALUE`].
    pub const PART_OF: &str = "app.kubernetes.io/part-of";
    /// The value of [`PART_OF`] on all objects of the installation.
    pub const PART_OF_VALUE: &str = "appdeploy";
    /// Marks an object of an installation, which `install` deletes if a later version does not have it; its value is
    /// [`INVENTORY_VALUE`]. Objects that users add must not have it.
    pub const INVENTORY: &str = "appdeploy.dev/inventory";
    /// The value of [`INVENTORY`].
    pub const INVENTORY_VALUE: &str = "installation";
    /// The name of the AppDeploy that a pod belongs to. The only label in the selectors of its Deployment and its Service.
    /// It must never change, because selectors are immutable.
    pub const APP: &str = "appdeploy.dev/app";
    /// On a ReplicaSet of a Deployment that was replaced by an AppDeploy: the name of that AppDeploy. The ReplicaSet is
    /// deleted when the pods of the AppDeploy serve.
    pub const REPLACED_BY: &str = "appdeploy.dev/replaced-by";
    /// The name of the PodSet that a pod belongs to. Another label than [`APP`], so that the two kinds never select the
    /// same pods.
    pub const PODSET: &str = "appdeploy.dev/podset";
}

/// Finalizers of the operator.
pub mod finalizer {
    /// On an AppQueue whose queue is deleted with it. It is removed when the queue was deleted.
    pub const QUEUE: &str = "appdeploy.dev/queue";
}

/// Tags that the operator sets on queues outside the cluster.
pub mod tag {
    /// The UID of the AppQueue that created the queue. Set in the request that creates the queue.
    pub const OWNER: &str = "appdeploy.dev/uid";
    /// The UID of the AppQueue that adopted the queue. Takes precedence over [`OWNER`].
    pub const ADOPTED_BY: &str = "appdeploy.dev/adopted-by";
}

/// Annotations that the operator and the plugin write.
pub mod annotation {
    /// What `kubectl apply` writes: the last applied object.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// The hash of the desired child when it was last written. A different hash means that the desired child has changed
    /// and may have lost a field, which a comparison of values does not show.
    pub const DESIRED_HASH: &str = "appdeploy.dev/desired-hash";
    /// On a Deployment: the part of the spec of the AppDeploy from which the pods are rendered, as JSON. Kubernetes copies
    /// it to each ReplicaSet, where it is the record of a revision.
    pub const REVISION_SPEC: &str = "appdeploy.dev/revision-spec";
    /// On an AppDeploy or a PodSet: the time of the last restart, written by the plugin. The operator copies it to the pods.
    pub const RESTARTED_AT: &str = "appdeploy.dev/restarted-at";
    /// On the pods of an AppDeploy: the hash of the ConfigMaps that they use, since one of them has changed. A new value
    /// replaces the pods.
    pub const CONFIG_HASH: &str = "appdeploy.dev/config-hash";
    /// On an AppDeploy: when third-party objects with the names of its children were adopted or deleted, written by the
    /// plugin. It causes a reconcile, because the operator does not watch third-party objects and would retry up to a
    /// minute later.
    pub const ADOPTED_AT: &str = "appdeploy.dev/adopted-at";
    /// On a CustomResourceDefinition: the revision of its schema, which `make manifests` increases with each change.
    pub const SCHEMA_REVISION: &str = "appdeploy.dev/schema-revision";
    /// On a CustomResourceDefinition: `true` allows its deletion, which deletes all objects of its kind.
    pub const ALLOW_DELETION: &str = "appdeploy.dev/allow-deletion";
    /// On a CustomResourceDefinition: the [`SCHEMA_REVISION`] that may be replaced by an older one.
    pub const ALLOW_OLDER_SCHEMA: &str = "appdeploy.dev/allow-older-schema";
    /// On a pod of a PodSet: the hash of its template.
    pub const TEMPLATE_HASH: &str = "appdeploy.dev/template-hash";
    /// On a pod of a PodSet: the hash of the part of its template that can't be changed in place, which is all but the image.
    pub const SHAPE_HASH: &str = "appdeploy.dev/shape-hash";
    /// On a pod of a PodSet whose image was changed in place: the id of the previous container; empty if none was known to
    /// run. While it runs, the update is not complete.
    pub const UPDATED_FROM: &str = "appdeploy.dev/updated-from";
    /// On a pod of a PodSet whose image was changed in place: the image in the spec with which the container in
    /// [`UPDATED_FROM`] was started.
    pub const UPDATED_FROM_IMAGE: &str = "appdeploy.dev/updated-from-image";
    /// On a pod of a PodSet whose image was changed in place: the time of the change (RFC 3339).
    pub const UPDATED_AT: &str = "appdeploy.dev/updated-at";
    /// On a pod of a PodSet that replaces another one: the UID of that pod.
    pub const REPLACES: &str = "appdeploy.dev/replaces";
    /// On a pod that a PodSet has released, because it lost its label: the UID of that PodSet. The name of the pod is taken
    /// while it exists.
    pub const RELEASED_FROM: &str = "appdeploy.dev/released-from";
}
