//! Children that are being deleted.

use super::{Diagnosis, Reason, Subject};
use crate::diagnose::diagnosis;
use crate::{ChildId, Observed, Valid, command};

/// The finalizers of the garbage collector, which do not block a deletion.
const GARBAGE_COLLECTOR: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Returns the diagnosis if a desired child, or a third-party object with its name, is being deleted. The child can be
/// created only after that. `observed` must contain third-party objects, too.
pub(super) fn diagnose_deletion(subject: Subject<'_>, valid: &Valid<'_>, observed: &Observed) -> Option<Diagnosis> {
    let is_wanted = |id: &ChildId| {
        let rendered = (id.kind.render)(valid);
        rendered.iter().any(|object| object["metadata"]["name"] == *id.name)
    };
    let deleting = observed.kinds.iter().flat_map(|kind| observed.of(kind));
    let (ChildId { kind, name }, child) = deleting
        .filter(|(_, child)| child.deleting)
        .find(|(id, _)| is_wanted(id))?;
    let blocking = child.finalizers.iter().map(String::as_str);
    let blocking: Vec<&str> = blocking
        .filter(|finalizer| !GARBAGE_COLLECTOR.contains(finalizer))
        .collect();
    let then = "it is created again after that";
    if blocking.is_empty() {
        let message = format!("{kind} {name} is being deleted; {then}");
        return Some(diagnosis(Reason::Progressing, &message, None));
    }
    let what = if blocking.len() == 1 { "finalizer" } else { "finalizers" };
    let message = format!(
        "{kind} {name} is being deleted and waits for the {what} {}; {then}",
        blocking.join(", ")
    );
    let resource = kind.as_str().to_lowercase();
    let next = command!("kubectl edit {} {} -n {}", resource, name, subject.namespace);
    Some(diagnosis(Reason::ChildDeleting, &message, Some(next)))
}
