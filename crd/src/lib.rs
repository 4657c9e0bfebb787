//! The contract between people, the operator and the plugin: the kinds of `appdeploy.dev/v1alpha1`,
//! their schema, and every name that appears in a cluster.
//!
//! The doc comments of the types are what `kubectl explain` prints. A label, an annotation or a field
//! manager is spelled out here and nowhere else. Nothing in this crate knows a client, a clock or a runtime.

pub mod app;
pub mod kind;
pub mod pod;
pub mod podset;
pub mod quantity;
pub mod status;

pub use app::{AppDeploy, AppDeploySpec, Expose, Tls};
pub use kind::Kind;
pub use pod::{
    ContainerFields, EnvVar, EnvVarSource, HealthCheck, ImagePullPolicy, KeyRef, LocalObjectReference, PodFields,
    Resources, SecurityProfile,
};
pub use podset::{PodReference, PodSet, PodSetSpec, PodSetStatus};
pub use quantity::Quantity;
pub use status::{Address, AddressType, AppDeployStatus, Cause, RevisionStatus};

/// The API group of all kinds.
pub const GROUP: &str = "appdeploy.dev";
/// The only version that is served. From the first release on it grows by optional fields and never loses or renames one.
pub const VERSION: &str = "v1alpha1";

/// The field manager of everything the operator writes.
pub const FIELD_MANAGER: &str = "appdeploy";
/// The namespace that the operator is installed into.
pub const OPERATOR_NAMESPACE: &str = "appdeploy-system";
/// The Secret in which the operator keeps the certificate of its webhooks.
pub const CERTIFICATE_SECRET: &str = "appdeploy-webhook-certificate";

/// The most bytes of a spec, as the JSON that the API server sends.
pub const MAX_SPEC_BYTES: usize = 256 * 1024;

/// Well-known and own labels.
pub mod label {
    /// Names the tool that manages an object; its value on every child is [`MANAGED_BY_VALUE`].
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// The value of [`MANAGED_BY`] on every child.
    pub const MANAGED_BY_VALUE: &str = "appdeploy";
    /// The name of the application.
    pub const NAME: &str = "app.kubernetes.io/name";
    /// The product an object of the installation belongs to; its value is [`PART_OF_VALUE`].
    pub const PART_OF: &str = "app.kubernetes.io/part-of";
    /// The value of [`PART_OF`] on everything that `install` makes.
    pub const PART_OF_VALUE: &str = "appdeploy";
    /// Marks an object of an installation that the next one removes if it has it no more; its value is
    /// [`INVENTORY_VALUE`]. What people add beside it has [`PART_OF`] at most.
    pub const INVENTORY: &str = "appdeploy.dev/inventory";
    /// The value of [`INVENTORY`].
    pub const INVENTORY_VALUE: &str = "installation";
    /// The name of the AppDeploy that a pod belongs to. The one label in the selector of its Deployment and
    /// its Service, for ever: a selector can't be changed.
    pub const APP: &str = "appdeploy.dev/app";
    /// Marks a ReplicaSet whose Deployment an AppDeploy has taken the place of: the name of that AppDeploy. It goes when
    /// the pods of the AppDeploy serve.
    pub const REPLACED_BY: &str = "appdeploy.dev/replaced-by";
    /// The name of the PodSet that a pod belongs to. A label of its own, so that the two kinds never select
    /// each other's pods.
    pub const PODSET: &str = "appdeploy.dev/podset";
}

/// Annotations that the operator and the plugin write.
pub mod annotation {
    /// A hash of what was wanted of a child when it was last written. A different hash means that the wish
    /// has changed, and with it perhaps lost a field, which comparing values alone could not tell.
    pub const DESIRED_HASH: &str = "appdeploy.dev/desired-hash";
    /// The part of the AppDeploy's spec that the pods of a Deployment are made from, as JSON. Kubernetes
    /// copies it to each ReplicaSet, where it is the record of a revision.
    pub const REVISION_SPEC: &str = "appdeploy.dev/revision-spec";
    /// The plugin writes the time of a restart here, on the AppDeploy; the operator puts it into the pods.
    pub const RESTARTED_AT: &str = "appdeploy.dev/restarted-at";
    /// The plugin writes the time here, on the AppDeploy, when what was there before it has been handed over or has left its
    /// name: no watch tells that of objects that are not ours, and the operator would look again a minute later.
    pub const ADOPTED_AT: &str = "appdeploy.dev/adopted-at";
    /// On a definition of ours: the number of its schema, which grows with each change. `make manifests` counts it.
    pub const SCHEMA_REVISION: &str = "appdeploy.dev/schema-revision";
    /// On a definition of ours: `true` lets it be deleted, and all objects of its kind with it.
    pub const ALLOW_DELETION: &str = "appdeploy.dev/allow-deletion";
    /// On a definition of ours: the [`SCHEMA_REVISION`] that may be replaced by an older one.
    pub const ALLOW_OLDER_SCHEMA: &str = "appdeploy.dev/allow-older-schema";
    /// On a pod of a PodSet: a hash of the template that it runs.
    pub const TEMPLATE_HASH: &str = "appdeploy.dev/template-hash";
    /// On a pod of a PodSet: a hash of what of the template can't be changed while the pod lives, which is all
    /// but the image.
    pub const SHAPE_HASH: &str = "appdeploy.dev/shape-hash";
    /// On a pod of a PodSet whose image was changed in place: the id of the container that ran before, or nothing if
    /// none was known to run. While it still runs, the update has not arrived.
    pub const UPDATED_FROM: &str = "appdeploy.dev/updated-from";
    /// On a pod of a PodSet whose image was changed in place: the image, as written in the spec, that the container in
    /// [`UPDATED_FROM`] was started for.
    pub const UPDATED_FROM_IMAGE: &str = "appdeploy.dev/updated-from-image";
    /// On a pod of a PodSet whose image was changed in place: when, as in RFC 3339.
    pub const UPDATED_AT: &str = "appdeploy.dev/updated-at";
    /// On a pod of a PodSet that was started to take the place of another: the UID of that pod.
    pub const REPLACES: &str = "appdeploy.dev/replaces";
    /// On a pod that a PodSet has let go, because it lost its label: the UID of that PodSet. Its name is taken
    /// for as long as it lives.
    pub const RELEASED_FROM: &str = "appdeploy.dev/released-from";
}
