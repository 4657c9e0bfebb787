//! Pods and sets for tests.

use super::{Controller, Phase, SetPod, ValidPodSet};

/// The current time in these tests.
pub const NOW: i64 = 1000;

/// Returns a set with this number of replicas.
pub fn web(replicas: usize) -> ValidPodSet {
    ValidPodSet {
        name: "web".into(),
        uid: "u1".into(),
        replicas,
        max_unavailable: 1,
        template: "t1".into(),
        shape: "s1".into(),
        image: "v1".into(),
        ..ValidPodSet::default()
    }
}

/// Returns a pod of that set that is as desired. Its UID is `p` and the slot.
pub fn pod(slot: u16) -> SetPod {
    SetPod {
        name: format!("web-{slot}"),
        uid: format!("p{slot}"),
        controller: Some(controller("u1")),
        label: Some("web".into()),
        phase: Phase::Running,
        node: Some("node".into()),
        ready_since: Some(0),
        template: Some("t1".into()),
        shape: Some("s1".into()),
        image: Some("v1".into()),
        container: Some("c1".into()),
        is_running: true,
        ..SetPod::default()
    }
}

/// Returns the controller of the pods of a set.
pub fn controller(uid: &str) -> Controller {
    Controller {
        name: "PodSet web".into(),
        uid: uid.into(),
    }
}

/// Returns a pod with an older image.
pub fn with_old_image(slot: u16) -> SetPod {
    SetPod {
        template: Some("t0".into()),
        image: Some("v0".into()),
        ..pod(slot)
    }
}

/// Returns a pod that can't be updated in place.
pub fn outdated(slot: u16) -> SetPod {
    SetPod {
        shape: Some("s0".into()),
        ..with_old_image(slot)
    }
}

/// Returns a pod that is not ready.
pub fn not_ready(pod: SetPod) -> SetPod {
    SetPod {
        ready_since: None,
        ..pod
    }
}

/// Returns a pod that has finished.
pub fn finished(slot: u16) -> SetPod {
    SetPod {
        phase: Phase::Finished,
        ..not_ready(pod(slot))
    }
}

/// Returns a pod that is being deleted.
pub fn terminating(slot: u16) -> SetPod {
    SetPod {
        deleting: true,
        ..pod(slot)
    }
}

/// Returns a pod that replaces another one.
pub fn successor(slot: u16, of: u16) -> SetPod {
    SetPod {
        replaces: Some(format!("p{of}")),
        ..pod(slot)
    }
}

/// Returns a pod that the set has released.
pub fn released(slot: u16) -> SetPod {
    SetPod {
        controller: None,
        label: None,
        released_from: Some("u1".into()),
        ..pod(slot)
    }
}
