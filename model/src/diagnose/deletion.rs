//! A child that is being deleted.

use super::{Diagnosis, Reason, Subject, said};
use crate::valid::Valid;
use crate::{ChildId, Observed, command};

/// The garbage collector's own finalizers: how a deletion works, not what holds it up.
const OF_THE_COLLECTOR: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Says that a wanted child, or a third-party object that has its name, is being deleted: nothing is written to it, and none
/// of that name can be created until it is gone. `observed` has the third-party objects, too.
pub(crate) fn of_deletion(subject: Subject<'_>, valid: &Valid<'_>, observed: &Observed) -> Option<Diagnosis> {
    let is_wanted = |id: &ChildId| {
        let rendered = (id.kind.render)(valid);
        rendered.iter().any(|object| object["metadata"]["name"] == *id.name)
    };
    let deleting = observed.kinds.iter().flat_map(|kind| observed.of(kind));
    let (ChildId { kind, name }, child) = deleting
        .filter(|(_, child)| child.deleting)
        .find(|(id, _)| is_wanted(id))?;
    let guards = child.finalizers.iter().map(String::as_str);
    let guards: Vec<&str> = guards.filter(|guard| !OF_THE_COLLECTOR.contains(guard)).collect();
    let then = "it is created again when it is gone";
    if guards.is_empty() {
        let message = format!("{kind} {name} is being deleted; {then}");
        return Some(said(Reason::Progressing, &message, None));
    }
    let what = if guards.len() == 1 { "finalizer" } else { "finalizers" };
    let message = format!(
        "{kind} {name} is being deleted and waits for the {what} {}; {then}",
        guards.join(", ")
    );
    let resource = kind.as_str().to_lowercase();
    let next = command!("kubectl edit {} {} -n {}", resource, name, subject.namespace);
    Some(said(Reason::ChildDeleting, &message, Some(next)))
}
