//! What keeps a pod from working.

use std::borrow::Cow;

use crd::PodFields;

use super::output::{Output, Readable};
use super::probe::FailedCheck;
use crate::desired::CONTAINER;
use crate::reason::Reason;

/// How many crashes in a row make a problem stalled. With the kubelet's backoff the fourth crash comes after about 35 s.
const STALLED_AFTER_CRASHES: i32 = 4;

/// What keeps a pod from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProblem {
    /// The reason, as in the Ready condition.
    pub reason: Reason,
    /// The name of its container, if it is not that of the application.
    pub container: Option<Box<str>>,
    /// The part of the kubelet's or the scheduler's message that names the image, the key or the amount.
    pub detail: String,
    /// The health check that failed, if the reason is `NotHealthy`.
    pub failed_check: Option<FailedCheck>,
    /// The last line that the container wrote. It is not part of `detail`.
    pub output: Option<Output>,
    /// How often in a row its container has ended.
    pub crashes: i32,
}

impl PodProblem {
    /// Returns a problem without output, failed check and crashes.
    #[must_use]
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            container: None,
            detail: detail.into(),
            failed_check: None,
            output: None,
            crashes: 0,
        }
    }

    pub(super) fn unhealthy(failed: FailedCheck) -> Self {
        Self {
            failed_check: Some(failed.clone()),
            ..Self::new(Reason::NotHealthy, failed.without_output().to_string())
        }
        .of_container(failed.readable.container())
    }

    /// Returns the problem as one of this container.
    #[must_use]
    pub fn of_container(self, name: &str) -> Self {
        Self {
            container: (!name.is_empty() && name != CONTAINER).then(|| name.into()),
            ..self
        }
    }

    /// Returns the detail for users who may read this spec. It includes what the container wrote only if the container can
    /// read nothing but what the spec gives it.
    #[must_use]
    pub fn detail_for(&self, pod: Option<&PodFields>) -> Cow<'_, str> {
        self.detail_if(|readable| readable.is_given_by(pod))
    }

    /// Adds what the container wrote to the detail. Only for users who may read the pod itself.
    #[must_use]
    pub fn with_output(self) -> Self {
        Self {
            detail: self.detail_if(|_| true).into_owned(),
            output: None,
            ..self
        }
    }

    fn detail_if(&self, may_show: impl Fn(&Readable) -> bool) -> Cow<'_, str> {
        if let Some(output) = self.output.as_ref().filter(|output| may_show(&output.readable)) {
            return Cow::Owned(format!("{}; its last words: \"{}\"", self.detail, output.text));
        }
        match self.failed_check.as_ref().filter(|failed| may_show(&failed.readable)) {
            Some(failed) => Cow::Owned(failed.to_string()),
            None => Cow::Borrowed(&self.detail),
        }
    }

    /// Whether waiting does not help: because of the reason, or because a container has crashed several times in a row.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        let is_crash = matches!(self.reason, Reason::CrashLoop | Reason::OutOfMemory);
        self.reason.is_stalled() || is_crash && self.crashes >= STALLED_AFTER_CRASHES
    }
}
