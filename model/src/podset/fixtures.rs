//! What the tests of decisions and of the status are made of.

use super::{Controller, Phase, SetPod, Wanted};

/// What time it is in these tests.
pub const NOW: i64 = 1000;

/// A set that wants some pods.
pub fn web(replicas: usize) -> Wanted {
    Wanted {
        name: "web".into(),
        uid: "u1".into(),
        replicas,
        max_unavailable: 1,
        template: "t1".into(),
        shape: "s1".into(),
        image: "v1".into(),
        ..Wanted::default()
    }
}

/// A pod of that set in a slot that is as wanted. Its UID is `p` and the slot.
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

/// A set by its UID, as it stands on its pods.
pub fn controller(uid: &str) -> Controller {
    Controller {
        name: "PodSet web".into(),
        uid: uid.into(),
    }
}

/// A pod that runs an older image.
pub fn with_old_image(slot: u16) -> SetPod {
    SetPod {
        template: Some("t0".into()),
        image: Some("v0".into()),
        ..pod(slot)
    }
}

/// A pod that no change of its image makes current.
pub fn outdated(slot: u16) -> SetPod {
    SetPod {
        shape: Some("s0".into()),
        ..with_old_image(slot)
    }
}

/// A pod that does not serve.
pub fn not_ready(pod: SetPod) -> SetPod {
    SetPod {
        ready_since: None,
        ..pod
    }
}

/// A pod that has ended for good.
pub fn finished(slot: u16) -> SetPod {
    SetPod {
        phase: Phase::Finished,
        ..not_ready(pod(slot))
    }
}

/// A pod that is being deleted.
pub fn ending(slot: u16) -> SetPod {
    SetPod {
        deleting: true,
        ..pod(slot)
    }
}

/// A pod that was started for another.
pub fn successor(slot: u16, of: u16) -> SetPod {
    SetPod {
        replaces: Some(format!("p{of}")),
        ..pod(slot)
    }
}

/// A pod that the set has let go.
pub fn released(slot: u16) -> SetPod {
    SetPod {
        controller: None,
        label: None,
        released_from: Some("u1".into()),
        ..pod(slot)
    }
}
