//! The state of one container of a pod.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::output::Readable;
use super::probe::Check;
use super::problem::PodProblem;
use super::{ContainerSpec, end, waiting};
use crate::desired::CONTAINER;

/// A container that runs and does not pass its health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// Since when it does not pass, in seconds since 1970: since it was started, or, if the kubelet has restarted it because
    /// of its health check, since its previous start.
    pub since: i64,
    /// The health check.
    pub check: Check,
    /// What the container can read.
    pub readable: Readable,
}

/// A container that was restarted after it had ended. It may count as ready and be about to end again, so the reason of its
/// end is reported until it has run for as long as the kubelet would have waited before the next restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentRestart {
    /// When it counts as steady, in seconds since 1970.
    pub until: i64,
    /// Why it ended.
    pub problem: PodProblem,
}

impl RecentRestart {
    /// Reads the status of a container. `replaced` is the container that had to end because its image was changed.
    pub(super) fn read(status: &ContainerStatus, spec: ContainerSpec<'_>, replaced: Option<&str>) -> Option<Self> {
        let since = running_since(status)?;
        let ended = status.last_state.as_ref()?.terminated.as_ref()?;
        if end::is_of(ended, replaced) {
            return None;
        }
        let crashes = end::in_a_row(ended, status.restart_count);
        Some(Self {
            until: since + restart_backoff(crashes),
            problem: PodProblem {
                crashes,
                ..end::problem(ended, spec)
            }
            .of_container(&status.name),
        })
    }
}

impl Unhealthy {
    /// Reads the status of a container. `replaced` is the container that had to end because its image was changed.
    pub(super) fn read(status: &ContainerStatus, spec: ContainerSpec<'_>, replaced: Option<&str>) -> Option<Self> {
        let (since, container) = (running_since(status)?, spec.container?);
        let probe = if status.started? {
            container.readiness_probe.as_ref()?
        } else {
            container.startup_probe.as_ref()?
        };
        let ended = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let killed =
            ended.filter(|ended| !end::is_of(ended, replaced) && end::failed_probe(ended, Some(container)).is_some());
        let before = killed.and_then(|killed| killed.started_at.as_ref());
        Some(Self {
            since: before.map_or(since, |time| time.0.as_second().min(since)),
            check: Check::of(probe),
            readable: spec.readable(),
        })
    }
}

/// Returns the kubelet's wait before it restarts a container, in seconds: ten seconds before the first restart, then twice as
/// long each time, up to five minutes.
fn restart_backoff(restarts: i32) -> i64 {
    10_i64
        .saturating_mul(1 << restarts.clamp(1, 6).saturating_sub(1))
        .min(300)
}

/// Returns what keeps a container from working. `replaced` is the container that had to end because its image was changed.
pub(super) fn problem(status: &ContainerStatus, spec: ContainerSpec<'_>, replaced: Option<&str>) -> Option<PodProblem> {
    let state = status.state.as_ref();
    let image = spec.container.and_then(|spec| spec.image.as_deref());
    let image = image.unwrap_or(&status.image);
    let waits = state.and_then(|state| waiting::problem(state.waiting.as_ref()?, image, spec));
    // A container that crashes is waiting, running and terminated in turn. While it waits, the reason of its end is in its
    // last state; while it runs, see `RecentRestart`.
    if waits.is_some() || state.is_some_and(|state| state.running.is_some()) {
        return waits;
    }
    let ended = state
        .and_then(|state| state.terminated.as_ref())
        .or_else(|| status.last_state.as_ref()?.terminated.as_ref())
        .filter(|ended| !end::is_of(ended, replaced))?;
    let crashes = end::in_a_row(ended, status.restart_count).saturating_add(1);
    Some(PodProblem {
        crashes,
        ..end::problem(ended, spec)
    })
}

/// Returns the statuses and specs of the containers next to that of the application: init containers and sidecars of the spec,
/// and what a webhook has added. Without them, the pod does not become ready. Init containers that have done their work are not
/// among them.
pub(super) fn others(pod: &Pod) -> impl Iterator<Item = (&ContainerStatus, ContainerSpec<'_>)> {
    let status = pod.status.iter();
    let all = status.flat_map(|status| {
        let inits = status.init_container_statuses.iter().flatten();
        let others = status.container_statuses.iter().flatten();
        inits.chain(others.filter(|one| one.name != CONTAINER))
    });
    let all = all.map(|one| {
        let specs = pod.spec.iter();
        let mut specs = specs.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        let spec = ContainerSpec {
            pod: pod.spec.as_ref(),
            container: specs.find(|c| c.name == one.name),
        };
        (one, spec)
    });
    all.filter(|(one, spec)| !has_done_its_work(pod, one, *spec))
}

/// Whether a container is an init container that has ended with success, even if it runs again because the sandbox of its pod
/// was replaced.
fn has_done_its_work(pod: &Pod, status: &ContainerStatus, spec: ContainerSpec<'_>) -> bool {
    let mut inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let is_sidecar = spec.container.is_some_and(|spec| spec.restart_policy.is_some());
    let both = [status.state.as_ref(), status.last_state.as_ref()];
    let ended = both.into_iter().flatten().find_map(|state| state.terminated.as_ref());
    !is_sidecar && ended.is_some_and(|ended| ended.exit_code == 0) && inits.any(|init| init.name == status.name)
}

fn running_since(status: &ContainerStatus) -> Option<i64> {
    let started = status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?;
    Some(started.0.as_second())
}
