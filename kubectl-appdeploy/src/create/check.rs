//! Checks an object with the rules of its schema, before anything is sent: the same sentences as the server's.

use crd::Kind;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::ObjectMeta;
use kube::core::cel::{ErrorKind, ValidationErrors};

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
        // A rule with a function that this build does not know is the server's to check.
        let known = errors
            .as_slice()
            .iter()
            .filter(|error| error.kind != ErrorKind::UnsupportedReference);
        problems.extend(known.map(|error| match error.field_path.as_str() {
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

/// Checks how many pods may be unavailable; the rule for it is one that only the server can check.
pub fn unavailable(most: Option<&IntOrString>) -> Option<String> {
    let is_valid = match most? {
        IntOrString::Int(number) => *number >= 1,
        IntOrString::String(text) => text
            .strip_suffix('%')
            .is_some_and(|share| !share.starts_with(['0', '+']) && share.parse().is_ok_and(|n: u8| n <= 100)),
    };
    (!is_valid).then(|| {
        "spec.maxUnavailable: take a number from 1, or a percentage from 1% to 100%; write it like 2 or 25%".to_owned()
    })
}

/// Checks a number that may be 0.
pub fn range(field: &str, number: i32, most: i32) -> Option<String> {
    (!(0..=most).contains(&number)).then(|| format!("spec.{field}: take a number from 0 to {most}"))
}
