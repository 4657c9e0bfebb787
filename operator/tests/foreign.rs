//! What is not the operator's stays byte for byte as it is, and the application says who is in its way.
//!
//! All of this guards P6: a server-side apply would create, or silently take over, whatever has the name. The
//! remedies are the create by POST, the look at the controller's UID before every other write, and the UID in
//! each apply.

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{
    APP, Cluster, DEPLOYMENT, INGRESS, Kind, Namespace, QUIET, SERVICE, Shared, is_observed, ready, text, uid, web,
};

/// Each kind of child, with the name of the application whose child it would be.
const CHILDREN: [(Kind, &str); 3] = [(DEPLOYMENT, "deployment"), (SERVICE, "service"), (INGRESS, "ingress")];

fn namespace(name: &str) -> Namespace {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED
        .get(|| Cluster::start(ControlPlane::builder()).with_operator(&[]))
        .namespace(name)
}

/// Returns an object as another client would create it.
fn foreign(kind: Kind, name: &str) -> Value {
    let labels = json!({"app": "legacy"});
    let spec = match kind.name() {
        "Deployment" => json!({
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "legacy", "image": "legacy:1"}]}},
        }),
        "Service" => json!({"selector": labels, "ports": [{"port": 9000, "name": "legacy"}]}),
        _ => json!({"defaultBackend": {"service": {"name": "legacy", "port": {"number": 9000}}}}),
    };
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Returns what the operator itself would make of an application of this name, without the owner.
fn twin(namespace: &Namespace, kind: Kind, name: &str) -> Value {
    namespace.settled_app(name, web());
    let child = namespace.get(kind, name);
    let mut spec = child["spec"].clone();
    for given in ["clusterIP", "clusterIPs"] {
        spec.as_object_mut().unwrap().remove(given);
    }
    let meta = &child["metadata"];
    json!({"metadata": {"name": name, "labels": meta["labels"], "annotations": meta["annotations"]}, "spec": spec})
}

/// Creates the object that `make` returns with the name of a child, for each kind, and checks that it is not changed.
fn stays_as_it_is(namespace: &Namespace, owner: &str, make: impl Fn(Kind, &str) -> Value) {
    for (kind, name) in CHILDREN {
        namespace.create(kind, make(kind, name));
    }
    let before = CHILDREN.map(|(kind, name)| namespace.bytes(kind, name));
    for (_, name) in CHILDREN {
        namespace.app(name, web());
    }
    for (kind, name) in CHILDREN {
        let conflict = |app: &Value| ready(app) == ("False", "NameConflict");
        let app = namespace.until(APP, name, "its status reports the conflict", conflict);
        let cause = &app["status"]["cause"];
        assert_eq!(
            text(cause, "/message"),
            format!("{} {name} exists and {owner}", kind.name())
        );
        let next = format!("kubectl appdeploy adopt {name} -n {}", namespace.name);
        assert_eq!(text(cause, "/next"), next);
        // Other children are created all the same, except for an Ingress that would lead to a foreign Service.
        if kind.name() == "Service" {
            assert!(namespace.get(INGRESS, name).is_null());
        }
        let created =
            |other: &Kind| other.name() != kind.name() && (kind.name(), other.name()) != ("Service", "Ingress");
        for (other, _) in CHILDREN.iter().filter(|(other, _)| created(other)) {
            assert_eq!(
                controller(&namespace.until_there(*other, name)),
                uid(&app),
                "{other:?} {name}"
            );
        }
    }
    // Neither a change of the wish nor trying again makes a difference.
    for (_, name) in CHILDREN {
        namespace.set(
            name,
            json!({"image": "nginx:1.28", "port": 8080, "host": format!("{name}.{}.example.com", namespace.name)}),
        );
        namespace.until(APP, name, "the change is seen", |app| {
            is_observed(app) && app["metadata"]["generation"] == 2
        });
    }
    std::thread::sleep(QUIET);
    for ((kind, name), before) in CHILDREN.into_iter().zip(before) {
        assert_eq!(namespace.bytes(kind, name), before, "{kind:?}");
        let events = namespace.events_about(name);
        assert_eq!(events, ["NameConflict"], "reported once, for all attempts");
    }

    for (kind, name) in CHILDREN {
        namespace.delete(kind, name);
    }
    for (kind, name) in CHILDREN {
        let app = namespace.until(APP, name, "the conflict is over", |app| {
            ready(app) == ("False", "Progressing")
        });
        assert_eq!(controller(&namespace.get(kind, name)), uid(&app));
    }
}

fn controller(object: &Value) -> &str {
    text(object, "/metadata/ownerReferences/0/uid")
}

/// An object with a controller that is not `ours`.
fn owned_by(owner: Value) -> impl Fn(Kind, &str) -> Value {
    move |kind, name| {
        let mut object = foreign(kind, name);
        object["metadata"]["ownerReferences"] = json!([owner]);
        object
    }
}

#[test]
fn objects_without_an_owner_are_not_changed() {
    stays_as_it_is(&namespace("nobodys"), "is not managed by appdeploy", foreign);
}

#[test]
fn objects_of_another_controller_are_not_changed() {
    let owner =
        json!({"apiVersion": "example.com/v1", "kind": "Shop", "name": "legacy", "uid": "u-1", "controller": true});
    stays_as_it_is(&namespace("others"), "belongs to Shop legacy", owned_by(owner));
}

/// F3: by UID. The owner may well have the same name, such as an app that was deleted and recreated.
#[test]
fn objects_of_another_app_are_not_changed() {
    let owner = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "shop", "uid": "u-1",
        "controller": true});
    stays_as_it_is(
        &namespace("earlier"),
        "belongs to another AppDeploy shop",
        owned_by(owner),
    );
}

/// An apply without force would take over such an object without an error: no field conflicts.
#[test]
fn third_party_object_that_looks_like_a_child_is_not_changed() {
    let (original, copy) = (namespace("original"), namespace("copy"));
    stays_as_it_is(&copy, "is not managed by appdeploy", |kind, name| {
        twin(&original, kind, name)
    });
}

/// F6: to be mentioned among the owners is not to be the controller.
#[test]
fn child_without_a_controller_is_not_changed() {
    let shop = namespace("lost");
    shop.settled_app("shop", web());
    // The Ingress before the Service, without which it would be removed.
    for (kind, _) in CHILDREN.into_iter().rev() {
        let owner = json!([{"op": "replace", "path": "/metadata/ownerReferences/0/controller", "value": false}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(owner).unwrap());
        shop.patch(kind, "shop", patch);
    }
    shop.until(APP, "shop", "its status reports the conflict", |app| {
        ready(app) == ("False", "NameConflict")
    });
    let before = CHILDREN.map(|(kind, _)| shop.bytes(kind, "shop"));
    shop.set(
        "shop",
        json!({"image": "nginx:1.28", "port": 8080, "host": "shop.example.com"}),
    );
    shop.until(APP, "shop", "the change is seen", |app| {
        is_observed(app) && app["metadata"]["generation"] == 2
    });
    shop.settle();
    for ((kind, _), before) in CHILDREN.into_iter().zip(before) {
        assert_eq!(shop.bytes(kind, "shop"), before, "{kind:?}");
    }
}

/// What is not wanted is deleted only if it is ours.
#[test]
fn app_without_a_port_ignores_a_foreign_service_of_its_name() {
    let shop = namespace("worker");
    for kind in [SERVICE, INGRESS] {
        let mut object = foreign(kind, "shop");
        // So that the operator sees it.
        object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "appdeploy"});
        shop.create(kind, object);
    }
    let before = [SERVICE, INGRESS].map(|kind| shop.bytes(kind, "shop"));
    let app = shop.settled_app("shop", json!({"image": "busybox"}));
    assert_eq!(ready(&app), ("False", "Progressing"));
    shop.settle();
    assert_eq!([SERVICE, INGRESS].map(|kind| shop.bytes(kind, "shop")), before);
}

/// A third-party Service, which is not meant to be reached from outside, with a port of the name that an Ingress uses.
fn internal_service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": "internal"}, "ports": [{"port": 80, "name": "http"}]}})
}

#[test]
fn ingress_is_not_created_for_a_foreign_service() {
    let shop = namespace("publisher");
    shop.create(SERVICE, internal_service("shop"));
    let app = shop.settled_app("shop", web());
    assert_eq!(ready(&app), ("False", "NameConflict"));
    assert_eq!(app.pointer("/status/url"), None, "it has no Ingress");
    let exposed = crate::harness::condition(&app, "Exposed").unwrap();
    assert_eq!(
        (text(exposed, "/status"), text(exposed, "/reason")),
        ("False", "NameConflict")
    );
    // The pods are created: `adopt` needs them while the old Service serves.
    shop.until_there(DEPLOYMENT, "shop");
    shop.set("shop", json!({"host": "publisher.example.com"}));
    shop.until_reported("shop");
    std::thread::sleep(QUIET);
    assert!(shop.get(INGRESS, "shop").is_null());
    shop.delete(SERVICE, "shop");
    shop.until_there(INGRESS, "shop");
}

/// With the label of our children the watch shows it, without it only the answer to a create does.
#[test]
fn ingress_is_removed_when_its_service_becomes_foreign() {
    let shop = namespace("replaced");
    for (name, labels) in [
        ("seen", json!({"app.kubernetes.io/managed-by": "appdeploy"})),
        ("unseen", json!({})),
    ] {
        shop.settled_app(name, web());
        shop.until_there(INGRESS, name);
        let owner = json!({"metadata": {"ownerReferences": null, "labels": null}});
        shop.patch(SERVICE, name, Patch::Merge(owner));
        shop.patch(SERVICE, name, Patch::Merge(json!({"metadata": {"labels": labels}})));
        shop.until(APP, name, "its status reports the conflict", |app| {
            ready(app) == ("False", "NameConflict")
        });
        shop.until_gone(INGRESS, name);
        shop.delete(SERVICE, name);
        shop.until_there(INGRESS, name);
    }
}
