//! What is done to the objects of an app.

use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};

use crate::harness::{APP, DEPLOYMENT, INGRESS, Kind, Namespace, POD, QUOTA, SERVICE, eventually, ready, text, uid};
use crate::injections::stage::{CHILDREN, Stage, image, make_app, time, until_ready, until_right};

/// Replaces a field, and returns the time until it is as before.
fn restored(space: &Namespace, kind: Kind, path: &str, value: Value) -> Duration {
    let before = space.get(kind, "shop");
    let step = json!([{"op": "add", "path": path, "value": value}]);
    let change: Patch<()> = Patch::Json(serde_json::from_value(step).unwrap());
    space.patch(kind, "shop", change);
    time(|| {
        space.until(kind, "shop", "it is as before", |now| now["spec"] == before["spec"]);
        until_ready(space);
    })
}

pub fn port_drifts(stage: &Stage) -> Duration {
    restored(&stage.shop(), SERVICE, "/spec/ports/0/port", json!(81))
}

pub fn app_is_changed(stage: &Stage) -> Duration {
    let space = stage.shop();
    let port = |number: u16| {
        space.set("shop", json!({"port": number}));
        space.until(SERVICE, "shop", "it has the port", |it| {
            it["spec"]["ports"][0]["port"] == number
        });
    };
    port(81);
    time(|| {
        port(80);
        until_ready(&space);
    })
}

/// For an app with a command. Without one, another manager may set it.
pub fn command_is_replaced(stage: &Stage) -> Duration {
    let space = stage.shop();
    space.set("shop", json!({"command": ["/shop", "--serve"]}));
    let path = "/spec/template/spec/containers/0/command";
    until_right(&space, |it| it.pointer(path).is_some());
    restored(&space, DEPLOYMENT, path, json!(["sh", "-c", "exit 1"]))
}

pub fn scaled_to_nothing(stage: &Stage) -> Duration {
    restored(&stage.shop(), DEPLOYMENT, "/spec/replicas", json!(0))
}

pub fn image_is_replaced(stage: &Stage) -> Duration {
    let path = "/spec/template/spec/containers/0/image";
    restored(&stage.shop(), DEPLOYMENT, path, json!("registry.invalid/none:none"))
}

pub fn labels_are_overwritten(stage: &Stage) -> Duration {
    let space = stage.shop();
    let before = CHILDREN.map(|kind| space.get(kind, "shop")["metadata"]["labels"].clone());
    let stomped = json!([{"op": "replace", "path": "/metadata/labels", "value": {"app": "stomped"}}]);
    for kind in CHILDREN {
        let patch: Patch<()> = Patch::Json(serde_json::from_value(stomped.clone()).unwrap());
        space.patch(kind, "shop", patch);
    }
    time(|| {
        for (kind, before) in CHILDREN.into_iter().zip(before) {
            let before = before.as_object().unwrap();
            space.until(kind, "shop", "the labels are back", |it| {
                before
                    .iter()
                    .all(|(label, value)| it["metadata"]["labels"].get(label) == Some(value))
            });
        }
        until_ready(&space);
    })
}

pub fn finalizer_blocks(stage: &Stage) -> Duration {
    let space = stage.shop();
    let before = space.get(SERVICE, "shop");
    space.hold(SERVICE, "shop");
    space.delete(SERVICE, "shop");
    space.until(SERVICE, "shop", "it is held", |it| {
        it["metadata"].get("deletionTimestamp").is_some()
    });
    space.remove_finalizers(SERVICE, "shop");
    time(|| {
        space.until_back(SERVICE, &before);
        until_ready(&space);
    })
}

/// Without an owner it is nobody's, and the operator leaves it as it is: who took the owner away may have had a reason.
pub fn owner_is_lost(stage: &Stage) -> Duration {
    let space = stage.shop();
    let owners = space.get(DEPLOYMENT, "shop")["metadata"]["ownerReferences"].clone();
    let set = |owners: Value| {
        space.patch(
            DEPLOYMENT,
            "shop",
            Patch::Merge(json!({"metadata": {"ownerReferences": owners}})),
        )
    };
    set(Value::Null);
    space.until(APP, "shop", "its status reports the conflict", |app| {
        ready(app).1 == "NameConflict"
    });
    set(owners);
    time(|| until_ready(&space))
}

pub fn children_are_deleted(stage: &Stage) -> Duration {
    let space = stage.shop();
    let before = CHILDREN.map(|kind| space.get(kind, "shop"));
    for kind in CHILDREN {
        space.delete(kind, "shop");
    }
    time(|| {
        for before in CHILDREN.into_iter().zip(&before) {
            space.until_back(before.0, before.1);
        }
        until_ready(&space);
    })
}

pub fn quota_is_used_up(stage: &Stage) -> Duration {
    let space = stage.shop();
    let quota = |pods: &str| json!({"spec": {"hard": {"pods": pods}}});
    let mut small = quota("2");
    small["metadata"] = json!({"name": "small"});
    space.create(QUOTA, small);
    space.until(QUOTA, "small", "it has counted", |it| {
        text(it, "/status/used/pods") == "2"
    });
    space.set("shop", json!({"replicas": 4}));
    space.until(APP, "shop", "its status reports it", |app| {
        ready(app).1 == "QuotaExceeded"
    });
    space.patch(QUOTA, "small", Patch::Merge(quota("9")));
    time(|| until_ready(&space))
}

/// A budget limits evictions, and does not delay a rollout.
pub fn budget_blocks(stage: &Stage) -> Duration {
    let space = stage.shop();
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "none", "namespace": space.name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"appdeploy.dev/app": "shop"}}}});
    space.cluster.control_plane.apply(&budget.to_string()).unwrap();
    space.set("shop", json!({"image": "nginx:1.28"}));
    time(|| {
        until_right(&space, |it| image(it) == "nginx:1.28");
        eventually("no pod of before is left", || {
            let pods = space.list(POD);
            pods.iter()
                .all(|pod| text(pod, "/spec/containers/0/image") == "nginx:1.28")
        });
    })
}

pub fn namespace_is_deleted(stage: &Stage) -> Duration {
    let space = stage.shop();
    let before = space.get(APP, "shop");
    space.kubectl(&["delete", "namespace", &space.name, "--timeout=60s"]);
    space.kubectl(&["create", "namespace", &space.name]);
    time(|| {
        make_app(&space);
        until_ready(&space);
        let owner = space.get(INGRESS, "shop");
        assert_ne!(text(&owner, "/metadata/ownerReferences/0/uid"), uid(&before));
    })
}
