//! What a container wrote is in the status only if it could read nothing but what the spec gives it.

use serde_json::{Value, json};

use super::namespace;
use crate::harness::{APP, DEPLOYMENT, Namespace, POD, PODSET, ready, text};

/// Makes a pod that ended with a line in its log, and reports it as a kubelet would.
fn crashed(space: &Namespace, name: &str, labels: &Value, container: &Value) {
    let volumes = json!([{"name": "keys", "emptyDir": {}}]);
    space.create(
        POD,
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container], "volumes": volumes}}),
    );
    report(space, name);
}

fn report(space: &Namespace, pod: &str) {
    let died = json!({"exitCode": 3, "reason": "Error", "message": "the key is 1234\n"});
    let own = json!({"name": "app", "image": "nginx", "imageID": "", "ready": false, "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": died}});
    space.patch_status(POD, pod, json!({"phase": "Running", "containerStatuses": [own]}));
}

#[test]
fn output_of_a_container_with_added_fields_is_not_in_the_status() {
    let space = namespace("output");
    let env = json!([{"name": "A", "value": "1"}]);
    let containers = [
        ("plain", json!({"name": "app", "image": "nginx", "env": env})),
        (
            "mounts",
            json!({"name": "app", "image": "nginx", "env": env, "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}),
        ),
        (
            "variable",
            json!({"name": "app", "image": "nginx", "env": [{"name": "A", "value": "1"}, {"name": "KEY", "value": "1234"}]}),
        ),
    ];
    for (app, container) in containers {
        space.settled_app(app, json!({"image": "nginx", "env": env}));
        let seen = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1});
        space.patch_status(DEPLOYMENT, app, seen);
        crashed(
            &space,
            &format!("{app}-1"),
            &json!({"appdeploy.dev/app": app}),
            &container,
        );
        let object = space.until(APP, app, "the crash is its cause", |app| {
            ready(app) == ("False", "CrashLoop")
        });
        let message = text(&object, "/status/cause/message");
        assert!(message.contains("exit code 3"), "{message}");
        let whole = object["status"].to_string();
        assert_eq!(whole.contains("the key is 1234"), app == "plain", "{app}: {whole}");
    }
}

/// A webhook adds fields to the pods of a PodSet when they are created; here the pod was made by hand and adopted.
#[test]
fn output_of_an_adopted_pod_with_a_mount_is_not_in_the_status_of_its_set() {
    let space = namespace("output-podset");
    let mount = json!({"name": "app", "image": "nginx", "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]});
    crashed(&space, "set-0", &json!({"appdeploy.dev/podset": "set"}), &mount);
    space.create(
        PODSET,
        json!({"metadata": {"name": "set"}, "spec": {"replicas": 1, "template": {"image": "nginx"}}}),
    );
    let object = space.until(PODSET, "set", "the crash is its cause", |set| {
        ready(set) == ("False", "CrashLoop")
    });
    let whole = object["status"].to_string();
    assert!(
        whole.contains("exit code 3") && !whole.contains("the key is 1234"),
        "{whole}"
    );
}
