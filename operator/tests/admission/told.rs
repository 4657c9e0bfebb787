//! Answers of the webhooks to the author: denials, warnings, and the usual form.

use serde_json::{Value, json};

use crate::admission::asking;
use crate::harness::{APP, INGRESS, PODSET, text, web};

/// Returns the code, the reason and the sentence with which a create was refused.
fn refusal(result: Result<Value, kube::Error>) -> (u16, String, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason, status.message),
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn taken_or_disallowed_host_is_rejected_with_the_reason() {
    let asking = asking();
    let [here, there] = ["hosts-here", "hosts-there"].map(|name| asking.cluster.namespace(name));
    let on = |host: &str| {
        let mut spec = web();
        spec["host"] = json!(host);
        json!({"metadata": {"name": "shop"}, "spec": spec})
    };
    here.create(APP, on("taken.example.com"));
    here.until_reported("shop");
    let before = "admission webhook \"validate.appdeploy.dev\" denied the request: spec.host: ";
    let refused = refusal(there.try_create(APP, on("taken.example.com")));
    assert_eq!((refused.0, refused.1.as_str()), (422, "Invalid"));
    assert_eq!(
        refused.2,
        format!("{before}taken.example.com is used by an AppDeploy of another namespace, which came first")
    );
    assert!(there.get(APP, "shop").is_null());
    let refused = refusal(there.try_create(APP, on("shop.example.org")));
    assert_eq!(
        refused.2,
        format!("{before}shop.example.org is not allowed in this cluster; use a host that ends with example.com")
    );
    there.create(APP, on("free.example.com"));
    // Within a namespace it is a warning: GitOps makes the new name before it prunes the old one.
    let mut renamed = on("taken.example.com");
    renamed["metadata"]["name"] = json!("renamed");
    here.create(APP, renamed);
    here.delete(APP, "shop");
    here.until_there(INGRESS, "renamed");
}

#[test]
fn object_gets_its_label_and_an_invalid_spec_is_not_rewritten() {
    let asking = asking();
    let space = asking.cluster.namespace("usual");
    for host in ["Usual.example.com", "usual.example.com.", " usual.example.com"] {
        let mut spec = web();
        spec["host"] = json!(host);
        let refused = refusal(space.try_create(APP, json!({"metadata": {"name": "shop"}, "spec": spec})));
        assert!(
            refused.2.contains("write it like shop.example.com"),
            "{host}: {}",
            refused.2
        );
    }
    let app = space.app("shop", web());
    assert_eq!(text(&app, "/metadata/labels/app.kubernetes.io~1name"), "shop");
    let set = space.create(
        PODSET,
        json!({"metadata": {"name": "set", "labels": {"app.kubernetes.io/name": "mine"}},
            "spec": {"template": {"image": "busybox:1"}}}),
    );
    assert_eq!(text(&set, "/metadata/labels/app.kubernetes.io~1name"), "mine");
}

#[test]
fn warnings_are_returned_for_a_spec_and_not_for_scaling() {
    let asking = asking();
    let space = asking.cluster.namespace("warned");
    let admin = asking.cluster.control_plane.kubeconfig();
    let manifest = |replicas: u32| {
        json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "metadata": {"name": "shop", "namespace": space.name},
            "spec": {"image": "nginx", "port": 80, "replicas": replicas}})
        .to_string()
    };
    // kubectl prints warnings in addition to the answer, and here as errors.
    let apply = |replicas: u32| {
        let kubectl = asking.cluster.control_plane.kubectl_as(&admin);
        kubectl.run_with_input(&["apply", "--warnings-as-errors", "-f", "-"], &manifest(replicas))
    };
    let warned = apply(1).unwrap_err().to_string();
    let warning = "Warning: before production: pin the image version, set requests, run 2 replicas\n";
    assert!(warned.contains(warning), "{warned}");
    assert_eq!(warned.matches("Warning").count(), 1, "{warned}");
    assert_eq!(
        space.get(APP, "shop")["spec"]["image"],
        "nginx",
        "it was only a warning"
    );
    apply(3).unwrap();
}

/// The status of the app says the same of an operator that does not watch ConfigMaps any more.
#[test]
fn restart_after_changes_of_config_maps_is_refused_if_they_are_not_watched() {
    let asking = asking();
    let space = asking.cluster.namespace("unwatched");
    let restart = json!({"image": "nginx:1", "onConfigChange": "Restart"});
    let sentence = "onConfigChange: the operator does not watch ConfigMaps: remove the field, or run the operator with \
                    --watch-configmaps (kubectl appdeploy install --watch-configmaps)";
    for (kind, spec, at) in [
        (APP, restart.clone(), "spec"),
        (PODSET, json!({"template": restart}), "spec.template"),
    ] {
        let object = json!({"metadata": {"name": "shop"}, "spec": spec});
        let refused = refusal(space.try_create(kind, object));
        assert_eq!((refused.0, refused.1.as_str()), (422, "Invalid"));
        assert!(refused.2.contains(&format!("{at}.{sentence}")), "{}", refused.2);
    }
    let ignore = json!({"image": "nginx:1", "onConfigChange": "Ignore"});
    space.create(APP, json!({"metadata": {"name": "shop"}, "spec": ignore}));
}
