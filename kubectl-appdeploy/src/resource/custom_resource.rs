//! An object of any kind that users create.

use crd::AppQueue;

use crate::cluster::kind_info::KindInfo;
use crate::resource::parts::Parts;
use crate::resource::queue;
use crate::resource::summary::Summary;
use crate::resource::workload::Workload;

/// An app, a pod set or a queue.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a list has objects of one kind only")]
pub enum CustomResource {
    /// An app or a pod set.
    Workload(Workload),
    /// A queue.
    Queue(AppQueue),
}

impl From<Workload> for CustomResource {
    fn from(workload: Workload) -> Self {
        Self::Workload(workload)
    }
}

impl CustomResource {
    /// Returns the resource in an object. Unreadable fields count as unset.
    pub fn read(kind: &KindInfo, object: &impl Parts) -> Self {
        match kind.workload {
            Some(kind) => Self::Workload(Workload::read(kind, object)),
            None => Self::Queue(queue::read(object)),
        }
    }

    /// Returns what its status says.
    pub fn summary(&self) -> Summary<'_> {
        match self {
            Self::Workload(workload) => workload.summary(),
            Self::Queue(queue) => queue::summary(queue),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.summary().name()
    }

    /// Returns its namespace.
    pub fn namespace(&self) -> &str {
        self.summary().namespace()
    }

    /// Returns its URL.
    pub fn address(&self) -> Option<&str> {
        match self {
            Self::Workload(workload) => workload.address(),
            Self::Queue(queue) => queue::url(queue),
        }
    }
}
