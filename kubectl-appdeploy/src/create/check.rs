//! Checks an object with the rules of its schema, before anything is sent: the same sentences as the server's.

use crd::Kind;
use kube::core::ObjectMeta;
use kube::core::cel::ValidationErrors;

use crate::error::{Error, Result};
use crate::workload;

/// Returns the problems of an object as an error. `ranges` are the schema's limits that are no rules: the server
/// checks them too, and says it less kindly.
pub fn valid(
    kind: Kind,
    metadata: &ObjectMeta,
    ranges: impl IntoIterator<Item = Option<String>>,
    rules: std::result::Result<(), ValidationErrors>,
) -> Result<()> {
    let mut problems: Vec<String> = ranges.into_iter().flatten().collect();
    if let Err(errors) = rules {
        problems.extend(errors.as_slice().iter().map(|error| match error.field_path.as_str() {
            "" if error.rule.contains("metadata.name") => format!("metadata.name: {}", error.message),
            "" => error.message.clone(),
            path => format!("{path}: {}", error.message),
        }));
    }
    if problems.is_empty() {
        return Ok(());
    }
    let title = workload::title(kind, metadata.name.as_deref().unwrap_or_default());
    let error = Error::usage(format!("{title} would not be valid; nothing was sent"));
    Err(problems.into_iter().fold(error, Error::why))
}

/// Checks a port.
pub fn port(port: Option<i32>) -> Option<String> {
    port.filter(|port| !(1..=65535).contains(port))
        .map(|_| "spec.port: a port is a number from 1 to 65535".to_owned())
}

/// Checks a number of pods.
pub fn replicas(replicas: i32) -> Option<String> {
    range("replicas", replicas, 1000)
}

/// Checks a number that may be 0.
pub fn range(field: &str, number: i32, most: i32) -> Option<String> {
    (!(0..=most).contains(&number)).then(|| format!("spec.{field}: take a number from 0 to {most}"))
}
