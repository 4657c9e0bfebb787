//! Apps, pod sets and queues, their children, and the manifests that describe them.

pub mod autoscaler;
pub mod certificate;
pub mod children;
pub mod custom_resource;
pub mod deletion;
pub mod env_source;
pub mod fields;
pub mod files;
pub mod live_children;
pub mod manifest;
pub mod manifest_file;
pub mod object_diff;
pub mod parts;
pub mod pod;
pub mod queue;
pub mod revision;
pub mod schema;
pub mod selection;
pub mod strip_defaults;
pub mod summary;
pub mod validation;
pub mod workload;
