//! The words for how an application is. They are part of the API: people and alerts match on them.

/// Makes the words what they are called here, so that none is written twice.
macro_rules! reasons {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// The reason of the Ready condition.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $doc] $name,)*
        }

        impl Reason {
            /// Returns the word in the condition.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Reads the word in a condition; `None` for one of a newer operator.
            #[must_use]
            pub fn read(word: &str) -> Option<Self> {
                Some(match word {
                    $(stringify!($name) => Self::$name,)*
                    _ => return None,
                })
            }
        }
    };
}

reasons! {
    /// Everything is as wanted.
    Available,
    /// Nothing runs, and nothing is meant to.
    ScaledToZero,
    /// Kubernetes is at work.
    Progressing,
    /// The pods are ready; the ingress controller has not published an address yet.
    AddressPending,
    /// The application is being deleted.
    Deleting,
    /// The spec can't be turned into children.
    InvalidSpec,
    /// The stored object does not fit the schema.
    Unreadable,
    /// A child's name is taken by somebody else's object.
    NameConflict,
    /// A child, or an object that has its name, is being deleted and waits for a finalizer.
    ChildDeleting,
    /// The host is another application's.
    HostConflict,
    /// The API server or a webhook does not take a child.
    Rejected,
    /// The operator lacks a right.
    Forbidden,
    /// A kind can't be watched.
    WatchFailed,
    /// The API server does not answer as it should.
    ApiUnavailable,
    /// The reconcile took too long.
    ReconcileTimeout,
    /// The operator panicked.
    InternalError,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The registry has no such image.
    ImageNotFound,
    /// What is written as image is none.
    InvalidImageName,
    /// The registry wants another password, or hides the image.
    ImagePullDenied,
    /// The registry could not be reached or failed.
    ImagePullFailed,
    /// No node has room, or none may be used.
    Unschedulable,
    /// A Secret that the spec refers to does not exist.
    MissingSecret,
    /// A ConfigMap that the spec refers to does not exist.
    MissingConfigMap,
    /// A Secret or ConfigMap lacks the key that the spec refers to.
    MissingKey,
    /// The profile forbids to run as root, and the image does.
    RunsAsRoot,
    /// The application ends by itself.
    CrashLoop,
    /// The application used more memory than its limit.
    OutOfMemory,
    /// The memory limit is too small to start a container.
    MemoryLimitTooSmall,
    /// The container could not be started.
    ContainerFailed,
    /// The node threw the pod out.
    Evicted,
    /// A ResourceQuota is in the way.
    QuotaExceeded,
    /// A LimitRange does not allow the resources of the pods.
    OutsideLimitRange,
    /// The namespace enforces a Pod Security Standard that the pods don't meet.
    PodSecurity,
    /// Pods are refused for another reason.
    PodsRefused,
    /// The pods run, but their health check fails.
    NotHealthy,
    /// Somebody has paused the Deployment.
    Paused,
    /// The image does not have what is to be run.
    CommandNotFound,
    /// The IngressClass that is named does not exist.
    NoIngressClass,
    /// A pod of a PodSet was deleted and still exists, long after its grace period.
    PodNotTerminating,
    /// There was no progress for ten minutes.
    ProgressDeadlineExceeded,
}

impl Reason {
    /// Whether the application is as wanted.
    #[must_use]
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Available | Self::ScaledToZero)
    }

    /// Whether the current state is not known: what is stored may be as wanted, and the operator could not see it.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(
            self,
            Self::WatchFailed | Self::ApiUnavailable | Self::ReconcileTimeout | Self::InternalError
        )
    }

    /// Whether it is normal to be here for a while.
    #[must_use]
    pub const fn is_progress(self) -> bool {
        matches!(self, Self::Progressing | Self::AddressPending | Self::Deleting)
    }

    /// Whether nothing changes until a person changes something. What may pass by itself (a registry that is
    /// down, a node that a cluster autoscaler adds, a database that an application waits for) is not stalled.
    #[must_use]
    pub const fn is_stalled(self) -> bool {
        matches!(
            self,
            Self::InvalidSpec
                | Self::Unreadable
                | Self::NameConflict
                | Self::HostConflict
                | Self::Rejected
                | Self::Forbidden
                | Self::ImageNotFound
                | Self::InvalidImageName
                | Self::ImagePullDenied
                | Self::MissingSecret
                | Self::MissingConfigMap
                | Self::MissingKey
                | Self::RunsAsRoot
                | Self::CommandNotFound
                | Self::MemoryLimitTooSmall
                | Self::NoIngressClass
                | Self::OutsideLimitRange
                | Self::PodSecurity
                | Self::ProgressDeadlineExceeded
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written() {
        assert_eq!(
            Reason::read(Reason::OutsideLimitRange.as_str()),
            Some(Reason::OutsideLimitRange)
        );
        assert_eq!(Reason::read("Unheard"), None);
    }
}
