//! The reasons of the Ready condition. They are part of the API: users and alerts match on them.

/// Defines the reasons, with their names as strings.
macro_rules! reasons {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// The reason of the Ready condition.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $doc] $name,)*
        }

        impl Reason {
            /// Returns the reason as in the condition.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Reads the reason of a condition; `None` if it is unknown, because a newer operator wrote it.
            #[must_use]
            pub fn read(reason: &str) -> Option<Self> {
                Some(match reason {
                    $(stringify!($name) => Self::$name,)*
                    _ => return None,
                })
            }
        }
    };
}

reasons! {
    /// All pods are available, and all children are as desired.
    Available,
    /// The number of replicas is 0.
    ScaledToZero,
    /// A rollout or a deletion is in progress.
    Progressing,
    /// The pods are ready; the ingress controller has not published an address yet.
    AddressPending,
    /// The object is being deleted.
    Deleting,
    /// The spec is invalid.
    InvalidSpec,
    /// The stored object does not match the schema.
    Unreadable,
    /// A third-party object has the name of a child.
    NameConflict,
    /// A child, or an object that has its name, is being deleted and waits for a finalizer.
    ChildDeleting,
    /// Another app has the host.
    HostConflict,
    /// The API server or a webhook rejects a child.
    Rejected,
    /// The operator lacks a right.
    Forbidden,
    /// A kind can't be listed or watched.
    WatchFailed,
    /// The API server does not answer, or with an error.
    ApiUnavailable,
    /// The reconcile timed out.
    ReconcileTimeout,
    /// The operator panicked.
    InternalError,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The image does not exist.
    ImageNotFound,
    /// The name of the image is invalid.
    InvalidImageName,
    /// The registry denies the pull.
    ImagePullDenied,
    /// The registry can't be reached, or fails.
    ImagePullFailed,
    /// No node can run the pods.
    Unschedulable,
    /// A Secret that the spec refers to does not exist.
    MissingSecret,
    /// A ConfigMap that the spec refers to does not exist.
    MissingConfigMap,
    /// The ServiceAccount that the spec names does not exist.
    MissingServiceAccount,
    /// A Secret or ConfigMap lacks the key that the spec refers to.
    MissingKey,
    /// The image runs as root, which the security profile forbids.
    RunsAsRoot,
    /// The container ends again and again.
    CrashLoop,
    /// The application used more memory than its limit.
    OutOfMemory,
    /// The memory limit is too small to start a container.
    MemoryLimitTooSmall,
    /// The container runtime of the node does not support volumes of images.
    ImageVolumeUnsupported,
    /// The container could not be started.
    ContainerFailed,
    /// The node evicted a pod.
    Evicted,
    /// A ResourceQuota prevents the creation of pods.
    QuotaExceeded,
    /// A LimitRange does not allow the resources of the pods.
    OutsideLimitRange,
    /// The namespace enforces a Pod Security Standard that the pods don't meet.
    PodSecurity,
    /// Pods are rejected for another reason.
    PodsRefused,
    /// The pods run, but their health check fails.
    NotHealthy,
    /// The rollout is paused.
    Paused,
    /// The image does not have the command.
    CommandNotFound,
    /// The IngressClass does not exist.
    NoIngressClass,
    /// A pod of a PodSet still exists long after its grace period.
    PodNotTerminating,
    /// The rollout made no progress for ten minutes.
    ProgressDeadlineExceeded,
    /// A queue that the app refers to does not exist yet.
    QueueNotReady,
    /// A queue with the name exists, and the AppQueue has not created or adopted it.
    QueueConflict,
    /// A queue with the name was deleted less than a minute ago, and the service refuses to create it.
    QueueDeletedRecently,
    /// The queue service rejects the settings of the queue.
    QueueRefused,
    /// The queue service throttles requests.
    QueueThrottled,
    /// The queue service does not answer.
    EndpointUnavailable,
    /// There are no credentials for the queue service.
    CredentialsMissing,
    /// The operator may not read the Secret with the credentials.
    CredentialsForbidden,
    /// The queue service rejects the credentials.
    CredentialsRefused,
    /// The dead letter queue does not exist or can't be used.
    DeadLetterMissing,
    /// The dead letter queue is not ready.
    DeadLetterNotReady,
}

impl Reason {
    /// Whether the object is ready.
    #[must_use]
    pub const fn is_ready(self) -> bool {
        matches!(self, Self::Available | Self::ScaledToZero)
    }

    /// Whether the operator does not know the current state.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(
            self,
            Self::WatchFailed
                | Self::ApiUnavailable
                | Self::ReconcileTimeout
                | Self::InternalError
                | Self::EndpointUnavailable
                | Self::QueueThrottled
        )
    }

    /// Whether it is part of normal operation.
    #[must_use]
    pub const fn is_progress(self) -> bool {
        matches!(self, Self::Progressing | Self::AddressPending | Self::Deleting)
    }

    /// Whether a user must change something. Reasons that may pass are not stalled: a registry that is down, a node that a
    /// cluster autoscaler adds, a database that an application waits for.
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
                | Self::MissingServiceAccount
                | Self::MissingKey
                | Self::RunsAsRoot
                | Self::CommandNotFound
                | Self::MemoryLimitTooSmall
                | Self::ImageVolumeUnsupported
                | Self::NoIngressClass
                | Self::OutsideLimitRange
                | Self::PodSecurity
                | Self::ProgressDeadlineExceeded
                | Self::QueueConflict
                | Self::QueueRefused
                | Self::CredentialsMissing
                | Self::CredentialsForbidden
                | Self::CredentialsRefused
                | Self::DeadLetterMissing
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_read_back() {
        assert_eq!(
            Reason::read(Reason::OutsideLimitRange.as_str()),
            Some(Reason::OutsideLimitRange)
        );
        assert_eq!(Reason::read("Unheard"), None);
    }
}
