//! When a change of the image is complete.

use super::*;

/// When the image was changed, in seconds since 1970.
const CHANGED: i64 = 1000;

/// Returns a pod whose image was changed from v1 to v2 while `c1` was running, and whose kubelet has reported since then.
fn changed() -> SetPod {
    SetPod {
        node: Some("n1".into()),
        image: Some("v2".into()),
        container: Some("c1".into()),
        is_running: true,
        ready_since: Some(0),
        observed: Some(true),
        change: Some(ImageChange {
            container: "c1".into(),
            image: "v1".into(),
            at: CHANGED,
        }),
        ..SetPod::default()
    }
}

/// As [`changed`], with another container.
fn restarted() -> SetPod {
    SetPod {
        container: Some("c2".into()),
        started: Some(CHANGED + 1),
        ..changed()
    }
}

#[test]
fn update_is_complete_with_another_container_for_any_reported_image() {
    assert!(changed().is_updating(i64::MAX), "the old container runs");
    let same_content = SetPod {
        reported: Reported::New,
        ..changed()
    };
    assert!(same_content.is_updating(i64::MAX), "kubelets compare strings");
    for reported in [Reported::New, Reported::Unclear] {
        let pod = SetPod {
            reported,
            ..restarted()
        };
        assert!(!pod.is_updating(CHANGED + 1), "{reported:?}");
    }
}

#[test]
fn status_of_an_older_spec_is_ignored() {
    let unobserved = SetPod {
        observed: Some(false),
        ..restarted()
    };
    assert!(unobserved.is_updating(i64::MAX));
}

#[test]
fn restart_with_the_old_image_is_not_an_update() {
    let old = SetPod {
        reported: Reported::Old,
        ..restarted()
    };
    assert!(old.is_updating(CHANGED + GRACE));
    assert!(
        !old.is_updating(CHANGED + SETTLES_IN),
        "it is the same image by another name"
    );
    let restarted_before = SetPod {
        started: Some(CHANGED - 1),
        ..restarted()
    };
    assert!(restarted_before.is_updating(CHANGED + GRACE));
    assert!(
        !restarted_before.is_updating(CHANGED + SETTLES_IN),
        "the clock of its node is late"
    );
}

#[test]
fn only_the_previous_container_must_restart() {
    assert!(changed().must_restart());
    assert!(!restarted().must_restart());
    let reverted = SetPod {
        image: Some("v1".into()),
        observed: Some(false),
        ..changed()
    };
    assert!(!reverted.must_restart(), "its kubelet may not have received the change");
    let nothing_runs = SetPod {
        container: Some(String::new()),
        ..restarted()
    };
    assert!(nothing_runs.must_restart());
    let unchanged = SetPod {
        change: None,
        ..changed()
    };
    assert!(!unchanged.must_restart());
}

/// If the node was pulling the old image during the change, it starts the old image first.
#[test]
fn first_container_may_have_the_previous_image() {
    let of = |reported, observed| SetPod {
        reported,
        observed,
        change: Some(ImageChange {
            container: String::new(),
            ..changed().change.unwrap()
        }),
        ..restarted()
    };
    let now = CHANGED + GRACE;
    assert!(of(Reported::Old, Some(true)).is_updating(now));
    assert!(of(Reported::Unclear, Some(true)).is_updating(now));
    assert!(!of(Reported::New, Some(true)).is_updating(now));
    assert!(
        of(Reported::New, None).is_updating(now),
        "its node is older than Kubernetes 1.34"
    );
    assert!(!of(Reported::New, None).is_updating(CHANGED + SETTLES_IN));
    let nothing_runs = SetPod {
        container: Some(String::new()),
        ..of(Reported::New, Some(true))
    };
    assert!(nothing_runs.is_updating(i64::MAX));
}

#[test]
fn reverted_change_settles_without_a_restart() {
    let pod = changed();
    let reverted = |observed, change| SetPod {
        image: Some("v1".into()),
        reported: Reported::New,
        observed,
        change: Some(change),
        ..changed()
    };
    let change = pod.change_to("v1", CHANGED + 1);
    let expected = ImageChange {
        container: String::new(),
        image: "v2".into(),
        at: CHANGED + 1,
    };
    assert_eq!(change, expected);
    assert!(reverted(Some(false), change.clone()).is_updating(i64::MAX));
    assert!(!reverted(Some(true), change.clone()).is_updating(CHANGED + 1));
    assert!(!reverted(None, change).is_updating(CHANGED + 1 + SETTLES_IN));
    // A user has set the previous image on the pod.
    assert!(!reverted(Some(true), pod.change.unwrap()).is_updating(CHANGED + 1));
}

#[test]
fn change_records_the_running_container() {
    let record = |pod: &SetPod, image| {
        let change = pod.change_to(image, 2000);
        format!("{:?} of {}", change.container, change.image)
    };
    assert_eq!(
        record(
            &SetPod {
                change: None,
                ..changed()
            },
            "v3"
        ),
        r#""c1" of v2"#
    );
    assert_eq!(record(&changed(), "v3"), r#""c1" of v1"#, "the one of v1 still runs");
    assert_eq!(record(&restarted(), "v3"), r#""c2" of v2"#);
    let waiting = SetPod {
        is_running: false,
        ..restarted()
    };
    assert_eq!(record(&waiting, "v3"), r#""" of v2"#);
    let doubtful = SetPod {
        observed: Some(false),
        ..restarted()
    };
    assert_eq!(record(&doubtful, "v3"), r#""" of v2"#);
}

#[test]
fn pod_without_a_node_has_the_new_image_immediately() {
    let pod = SetPod {
        node: None,
        container: Some(String::new()),
        is_running: false,
        change: None,
        ..changed()
    };
    let change = pod.change_to("v3", CHANGED);
    let pod = SetPod {
        image: Some("v3".into()),
        change: Some(change),
        observed: None,
        ..pod
    };
    assert!(!pod.is_updating(CHANGED));
}

#[test]
fn containers_without_ids_count_as_updated() {
    let pod = SetPod {
        container: Some(String::new()),
        is_anonymous: true,
        ..changed()
    };
    assert!(!pod.is_updating(CHANGED));
}

#[test]
fn reported_image_is_matched_by_any_spelling() {
    let digest = "nginx@sha256:1";
    for (wanted, image, id, is_it) in [
        ("nginx", "docker.io/library/nginx:latest", "", true),
        ("nginx:1", "docker.io/library/nginx:1", "", true),
        ("nginx:1", "docker.io/library/nginx:2", "", false),
        ("shop/web:1", "docker.io/shop/web:1", "", true),
        ("localhost:5000/web", "localhost:5000/web:latest", "", true),
        ("ghcr.io/shop/web:1", "ghcr.io/shop/web:1", "", true),
        (digest, "sha256:7", "docker.io/library/nginx@sha256:1", true),
        (
            digest,
            "docker.io/library/nginx:1",
            "docker.io/library/nginx@sha256:2",
            false,
        ),
        ("nginx:1", "", "", false),
    ] {
        let running = ContainerStatus {
            image: image.into(),
            image_id: id.into(),
            ..ContainerStatus::default()
        };
        assert_eq!(is_run_by(wanted, &running), is_it, "{wanted} as {image}");
        let reported = Reported::read("other:1", wanted, &running);
        assert_eq!(reported == Reported::New, is_it);
    }
    let both = ContainerStatus {
        image: "docker.io/library/nginx:1".into(),
        image_id: "docker.io/library/nginx@sha256:1".into(),
        ..ContainerStatus::default()
    };
    assert_eq!(Reported::read("nginx:1", digest, &both), Reported::Unclear);
}
