//! What a person could do who stole the token of the operator's ServiceAccount: config/policy confines it. Here the account
//! is even bound to `cluster-admin`, so that each refusal is one of the policy.

use std::sync::Arc;

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::kubeconfig::{Credential, Kubeconfig, TEST_CLUSTER};
use testcluster::{ControlPlane, Kubectl};

use crate::harness::{
    Cluster, DEPLOYMENT, Namespace, POD, PODSET, QUEUE, SERVICE, Shared, await_policy, eventually, text, uid, web,
};

const SYSTEM: &str = crd::OPERATOR_NAMESPACE;

/// Starts a cluster whose operator has the policy, and rights to everything.
fn cluster() -> Arc<Cluster> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(|| {
        let cluster = Cluster::start(ControlPlane::builder());
        await_policy(&cluster.control_plane);
        let account = format!("--serviceaccount={SYSTEM}:appdeploy-operator");
        let bind = [
            "create",
            "clusterrolebinding",
            "all",
            "--clusterrole=cluster-admin",
            &account,
        ];
        cluster.control_plane.kubectl(&bind).unwrap();
        cluster.with_operator(&[])
    })
}

/// Returns a kubectl with a token of the operator's ServiceAccount.
fn stolen(cluster: &Cluster) -> Kubectl {
    let control_plane = &cluster.control_plane;
    let ask = ["-n", SYSTEM, "create", "token", "appdeploy-operator"];
    let file = control_plane.fresh_path("stolen", "token");
    std::fs::write(&file, control_plane.kubectl(&ask).unwrap().trim()).unwrap();
    let path = control_plane.fresh_path("stolen", "kubeconfig");
    let config = Kubeconfig {
        cluster: TEST_CLUSTER,
        server: &control_plane.url(),
        authority: control_plane.ca().certificate(),
        user: "thief",
        credential: Credential::TokenFile(&file),
    };
    config.write(&path).unwrap();
    let thief = control_plane.kubectl_as(&path);
    eventually("the account has all rights", || {
        thief.run(&["auth", "can-i", "*", "*", "-A"]).is_ok()
    });
    thief
}

/// Returns an owner reference as the operator writes it; no AppDeploy and no PodSet has this UID.
fn owner(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": kind, "name": name,
        "uid": "11111111-2222-3333-4444-555555555555", "controller": true, "blockOwnerDeletion": true})
}

fn labels(kind: &str, name: &str) -> Value {
    let own = if kind == "PodSet" {
        crd::label::PODSET
    } else {
        crd::label::APP
    };
    json!({own: name, crd::label::MANAGED_BY: crd::label::MANAGED_BY_VALUE})
}

fn pod_spec() -> Value {
    json!({"automountServiceAccountToken": false, "containers": [{"name": "app", "image": "busybox"}]})
}

/// Returns a pod as the operator creates it, with changes of its spec.
fn pod(namespace: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = pod_spec();
    change(&mut spec);
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {"name": "set-0", "namespace": namespace,
        "labels": labels("PodSet", "set"), "ownerReferences": [owner("PodSet", "set")]}})
}

/// Returns a Deployment as the operator creates it, with changes.
fn deployment(namespace: &str, change: impl FnOnce(&mut Value)) -> Value {
    let selector = json!({crd::label::APP: "web"});
    let template = json!({"metadata": {"labels": labels("AppDeploy", "web")}, "spec": pod_spec()});
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace, "labels": labels("AppDeploy", "web"),
            "ownerReferences": [owner("AppDeploy", "web")]},
        "spec": {"selector": {"matchLabels": selector}, "template": template}});
    change(&mut object);
    object
}

fn object(api: &str, kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

/// A child of the app `web`, with a change.
fn child(api: &str, kind: &str, namespace: &str, rest: &Value, change: &dyn Fn(&mut Value)) -> Value {
    let mut object = object(api, kind, namespace, "web", rest);
    object["metadata"]["labels"] = labels("AppDeploy", "web");
    object["metadata"]["ownerReferences"] = json!([owner("AppDeploy", "web")]);
    change(&mut object);
    object
}

/// Tries something, which the policy has to refuse in these words.
#[track_caller]
fn denied(thief: &Kubectl, arguments: &[&str], input: &str, why: &str) {
    let refused = thief.run_with_input(arguments, input).unwrap_err().to_string();
    assert!(
        refused.contains("ValidatingAdmissionPolicy 'appdeploy-operator'") && refused.contains(why),
        "kubectl {arguments:?} {input}: {refused}"
    );
}

#[track_caller]
fn create_denied(thief: &Kubectl, object: &Value, why: &str) {
    denied(
        thief,
        &["create", "--validate=false", "-f", "-"],
        &object.to_string(),
        why,
    );
}

/// Before Kubernetes 1.33, the API server replaces the value with the default before it calls policies.
#[track_caller]
fn proc_mount_is_not_stored(thief: &Kubectl, space: &Namespace, list: &str) {
    let container = json!({"name": "other", "image": "busybox", "securityContext": {"procMount": "Unmasked"}});
    let object = pod(&space.name, |spec| spec[list] = json!([container]));
    let create = ["create", "--validate=false", "-f", "-"];
    thief.run_with_input(&create, &object.to_string()).unwrap();
    let stored = space.get(POD, "set-0")["spec"].take();
    assert_eq!(stored[list][0]["name"], "other", "{stored}");
    assert_eq!(stored[list][0]["securityContext"], json!({"procMount": "Default"}));
    space.delete(POD, "set-0");
    space.until_gone(POD, "set-0");
}

#[test]
fn pods_with_access_to_the_host_are_denied() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("reach");
    let in_space = |change: &dyn Fn(&mut Value)| pod(&space.name, change);

    create_denied(&thief, &pod("kube-system", |_| {}), "kube-*");
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        create_denied(
            &thief,
            &in_space(&|spec| spec[field] = json!(true)),
            "namespace of its host",
        );
    }
    for volume in [
        json!({"hostPath": {"path": "/"}}),
        json!({"nfs": {"server": "10.0.0.1", "path": "/"}}),
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}),
    ] {
        let mut volume = volume.clone();
        volume["name"] = json!("root");
        let mount = |spec: &mut Value| {
            spec["volumes"] = json!([volume]);
            spec["serviceAccountName"] = json!("default");
        };
        create_denied(&thief, &in_space(&mount), "hostPath");
    }
    let with = |list: &str, context: Value, why: &str| {
        let container = json!({"name": "other", "image": "busybox", "securityContext": context});
        let change = |spec: &mut Value| {
            spec[list] = json!([container]);
            spec["hostUsers"] = json!(false);
        };
        create_denied(&thief, &in_space(&change), why);
    };
    let port = |spec: &mut Value| {
        spec["initContainers"] =
            json!([{"name": "other", "image": "busybox", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
    };
    create_denied(&thief, &in_space(&port), "port of its host");
    let sidecar = |spec: &mut Value| {
        spec["initContainers"] = json!([{"name": "other", "image": "busybox", "restartPolicy": "Always",
            "securityContext": {"privileged": true}}]);
    };
    create_denied(&thief, &in_space(&sidecar), "privileges of its host");
    for list in ["containers", "initContainers"] {
        with(list, json!({"privileged": true}), "privileges of its host");
        if cluster.minor_version() >= 33 {
            with(list, json!({"procMount": "Unmasked"}), "privileges of its host");
        } else {
            proc_mount_is_not_stored(&thief, &space, list);
        }
        with(list, json!({"capabilities": {"add": ["NET_ADMIN"]}}), "no capabilities");
    }
    let port = |spec: &mut Value| {
        spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    };
    create_denied(&thief, &in_space(&port), "port of its host");
    let unsaid = |spec: &mut Value| drop(spec.as_object_mut().unwrap().remove("automountServiceAccountToken"));
    create_denied(&thief, &in_space(&unsaid), "token");
    create_denied(
        &thief,
        &in_space(&|spec| spec["nodeName"] = json!("control-plane")),
        "no node",
    );

    // The same in the pods of a Deployment.
    for (field, value, why) in [
        ("hostNetwork", json!(true), "namespace of its host"),
        ("automountServiceAccountToken", json!(true), "token"),
        ("automountServiceAccountToken", Value::Null, "token"),
        (
            "volumes",
            json!([{"name": "root", "hostPath": {"path": "/"}}]),
            "hostPath",
        ),
        (
            "initContainers",
            json!([{"name": "other", "image": "busybox", "securityContext": {"privileged": true}}]),
            "privileges of its host",
        ),
    ] {
        let change = |object: &mut Value| object["spec"]["template"]["spec"][field] = value;
        create_denied(&thief, &deployment(&space.name, change), why);
    }
}

#[test]
fn objects_without_an_app_or_set_as_owner_are_denied() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("owners");
    let changed = |change: &dyn Fn(&mut Value)| deployment(&space.name, change);

    create_denied(&thief, &deployment("kube-public", |_| {}), "kube-*");
    let no_owner = |object: &mut Value| object["metadata"]["ownerReferences"] = json!([]);
    create_denied(&thief, &changed(&no_owner), "whose controller is");
    let no_controller = |object: &mut Value| object["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    create_denied(&thief, &changed(&no_controller), "whose controller is");
    let other_group = |object: &mut Value| {
        object["metadata"]["ownerReferences"][0]["apiVersion"] = json!("appdeploy.dev.example.com/v1alpha1");
    };
    create_denied(&thief, &changed(&other_group), "whose controller is");
    let other_kind = |object: &mut Value| object["metadata"]["ownerReferences"] = json!([owner("PodSet", "web")]);
    create_denied(&thief, &changed(&other_kind), "whose controller is");
    let other_name = |object: &mut Value| object["metadata"]["ownerReferences"] = json!([owner("AppDeploy", "shop")]);
    create_denied(&thief, &changed(&other_name), "the name of its AppDeploy");
    let no_labels = |object: &mut Value| object["metadata"]["labels"] = json!({});
    create_denied(&thief, &changed(&no_labels), "labels of its owner");
    let other_label = |object: &mut Value| object["metadata"]["labels"][crd::label::APP] = json!("shop");
    create_denied(&thief, &changed(&other_label), "labels of its owner");
    let mut named_otherwise = pod(&space.name, |_| {});
    named_otherwise["metadata"]["name"] = json!("shop-0");
    create_denied(&thief, &named_otherwise, "a name that begins with");

    // As the operator makes them, both are admitted: nothing here is refused for another reason.
    for object in [pod(&space.name, |_| {}), changed(&|_| {})] {
        let input = object.to_string();
        thief
            .run_with_input(&["create", "--dry-run=server", "-f", "-"], &input)
            .unwrap();
    }
}

#[test]
fn third_party_objects_are_neither_changed_nor_deleted() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("foreign");
    let plain = json!({"app": "legacy"});
    let template = json!({"metadata": {"labels": plain}, "spec": pod_spec()});
    let spec = json!({"selector": {"matchLabels": plain}, "template": template});
    space.create(DEPLOYMENT, json!({"metadata": {"name": "web"}, "spec": spec}));
    space.create(
        SERVICE,
        json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}),
    );
    space.create(POD, json!({"metadata": {"name": "legacy"}, "spec": pod_spec()}));
    let before = [(DEPLOYMENT, "web"), (SERVICE, "web"), (POD, "legacy")].map(|(kind, name)| space.bytes(kind, name));

    let merge = |kind: &str, name: &str, patch: &Value, why: &str| {
        let arguments = [
            "-n",
            &space.name,
            "patch",
            kind,
            name,
            "--type=merge",
            "-p",
            &patch.to_string(),
        ];
        denied(&thief, &arguments, "", why);
    };
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "evil"}]}}}});
    merge("deployment", "web", &image, "changes and deletes only");
    // Nor by taking it over in the same request.
    let taken = json!({"labels": labels("AppDeploy", "web"), "ownerReferences": [owner("AppDeploy", "web")]});
    merge(
        "deployment",
        "web",
        &json!({"metadata": taken}),
        "changes and deletes only",
    );
    merge(
        "service",
        "web",
        &json!({"metadata": taken, "spec": {"selector": {"a": "b"}}}),
        "changes and deletes only",
    );
    let adopted = json!({"metadata": {"ownerReferences": [owner("PodSet", "set")]}});
    merge("pod", "legacy", &adopted, "changes and deletes only");
    for (kind, name) in [("service", "web"), ("pod", "legacy")] {
        denied(
            &thief,
            &["-n", &space.name, "delete", kind, name],
            "",
            "changes and deletes only",
        );
        denied(
            &thief,
            &["-n", &space.name, "delete", kind, "--all"],
            "",
            "changes and deletes only",
        );
    }
    denied(
        &thief,
        &["-n", &space.name, "delete", "deployment", "web"],
        "",
        "never sends DELETE",
    );
    let after = [(DEPLOYMENT, "web"), (SERVICE, "web"), (POD, "legacy")].map(|(kind, name)| space.bytes(kind, name));
    assert_eq!(before, after);
}

#[test]
fn of_queues_only_the_finalizer_and_the_output_are_written() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("queues");
    space.create(
        QUEUE,
        json!({"metadata": {"name": "orders", "finalizers": ["example.com/other"]}, "spec": {"sqs": {"region": "us-east-1"}}}),
    );
    let patch = |patch: Value| {
        let patch = patch.to_string();
        let arguments = [
            "-n",
            &space.name,
            "patch",
            "appqueue",
            "orders",
            "--type=merge",
            "--dry-run=server",
            "-p",
            &patch,
        ];
        thief.run(&arguments).map_err(|error| error.to_string())
    };
    for change in [
        json!({"spec": {"sqs": {"delaySeconds": 1}}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["example.com/other", "example.com/more"]}}),
        json!({"metadata": {"finalizers": ["appdeploy.dev/queue"]}}),
        json!({"metadata": {"ownerReferences": [owner("AppDeploy", "web")]}}),
    ] {
        let refused = patch(change.clone()).unwrap_err();
        assert!(
            refused.contains("nothing of an AppQueue but its finalizer"),
            "{change}: {refused}"
        );
    }
    patch(json!({"metadata": {"finalizers": ["example.com/other", "appdeploy.dev/queue"]}})).unwrap();

    let output = |owner: Value, name: &str| {
        object("v1", "ConfigMap", &space.name, name, &json!({}))
            .as_object()
            .cloned()
            .map(|mut map| {
                map["metadata"]["labels"] =
                    json!({crd::label::MANAGED_BY: crd::label::MANAGED_BY_VALUE, crd::label::NAME: "orders"});
                map["metadata"]["ownerReferences"] = json!([owner]);
                Value::Object(map)
            })
            .unwrap()
    };
    create_denied(
        &thief,
        &output(owner("AppDeploy", "orders"), "orders-queue"),
        "whose controller is",
    );
    create_denied(
        &thief,
        &output(owner("AppQueue", "orders"), "other"),
        "ends with -queue",
    );
    create_denied(
        &thief,
        &object("v1", "ConfigMap", &space.name, "plain", &json!({})),
        "whose controller is",
    );
    let ours = output(owner("AppQueue", "orders"), "orders-queue").to_string();
    thief
        .run_with_input(&["create", "--dry-run=server", "-f", "-"], &ours)
        .unwrap();
}

#[test]
fn all_other_kinds_are_denied() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("kinds");
    let name = &*space.name;
    let opaque = json!({"type": "Opaque"});
    let certificate = "appdeploy-webhook-certificate";
    let of_account = json!({"type": "kubernetes.io/service-account-token"});
    let annotated = |mut secret: Value| {
        secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "appdeploy-operator"});
        secret
    };
    for secret in [
        object("v1", "Secret", SYSTEM, "other", &opaque),
        object("v1", "Secret", name, certificate, &opaque),
        annotated(object("v1", "Secret", SYSTEM, certificate, &of_account)),
    ] {
        create_denied(&thief, &secret, "only the Secret appdeploy-webhook-certificate");
    }
    let lease = "coordination.k8s.io/v1";
    for (namespace, lease_name) in [(SYSTEM, "other"), (name, "appdeploy-operator")] {
        let lease = object(lease, "Lease", namespace, lease_name, &json!({"spec": {}}));
        create_denied(&thief, &lease, "only the Lease appdeploy-operator");
    }
    let about_others = json!({"involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "x", "namespace": name}});
    create_denied(
        &thief,
        &object("v1", "Event", name, "x", &about_others),
        "only Events about",
    );

    let never = "the operator never sends";
    let rbac = "rbac.authorization.k8s.io/v1";
    let mut job = json!({"spec": {"template": {"spec": pod_spec()}}});
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    for object in [
        object("v1", "LimitRange", name, "thief", &json!({"spec": {"limits": []}})),
        object("v1", "Namespace", "", "thief", &json!({})),
        object(rbac, "ClusterRole", "", "thief", &json!({"rules": []})),
        object("batch/v1", "Job", name, "thief", &job),
        object(
            "appdeploy.dev/v1alpha1",
            "AppDeploy",
            name,
            "thief",
            &json!({"spec": web()}),
        ),
    ] {
        create_denied(&thief, &object, never);
    }
    space.kubectl(&["create", "serviceaccount", "builder"]);
    space.create(POD, json!({"metadata": {"name": "legacy"}, "spec": pod_spec()}));
    for arguments in [
        &["create", "token", "builder"][..],
        &["exec", "legacy", "--", "id"],
        &["debug", "legacy", "--image=busybox"],
        &["delete", "crd", "appdeploys.appdeploy.dev"],
        &["delete", "namespace", name],
        &["annotate", "namespace", name, "a=b"],
    ] {
        let all = [&["-n", name][..], arguments].concat();
        denied(&thief, &all, "", never);
    }
}

/// Adoption and release change nothing but whose a pod is.
#[test]
fn pods_are_adopted_and_released_as_they_are() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("adoption");
    let patch = |pod: &str, patch: &Value, why: &str| {
        let arguments = [
            "-n",
            &space.name,
            "patch",
            "pod",
            pod,
            "--type=strategic",
            "-p",
            &patch.to_string(),
        ];
        denied(&thief, &arguments, "", why);
    };
    let set = space.podset_of("set", json!({"replicas": 1}), &["set-0"]);
    let mut ours = owner("PodSet", "set");
    ours["uid"] = json!(uid(&set));
    let none = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid(&set)}]}});
    patch("set-0", &none, "whose controller is");
    let other = json!({"metadata": {"ownerReferences": [{"$patch": "replace"}, owner("PodSet", "set")]}});
    patch("set-0", &other, "another owner");

    // A pod that no controller adopts: no PodSet has this name.
    let labels = json!({crd::label::PODSET: "none"});
    space.create(
        POD,
        json!({"metadata": {"name": "orphan", "labels": labels}, "spec": pod_spec()}),
    );
    patch(
        "orphan",
        &json!({"metadata": {"ownerReferences": [ours]}}),
        "only pods that carry its label",
    );
    let of_none = owner("PodSet", "none");
    let image = json!({"containers": [{"name": "app", "image": "evil"}]});
    let taken = json!({"metadata": {"ownerReferences": [of_none]}, "spec": image});
    patch("orphan", &taken, "changes its owner reference");
    let labelled = json!({"metadata": {"ownerReferences": [of_none], "labels": {"app": "victim"}}});
    patch("orphan", &labelled, "changes its owner reference");
    let noted = json!({"metadata": {"ownerReferences": [of_none], "annotations": {"a": "b"}}});
    patch("orphan", &noted, "changes its owner reference");
    patch("orphan", &json!({"spec": image}), "whose controller is");
    denied(
        &thief,
        &["-n", &space.name, "delete", "pod", "orphan"],
        "",
        "changes and deletes only",
    );

    // The operator does both.
    space.label_pod("set-0", crd::label::PODSET, json!(null));
    space.until_pods("set", &["set-1"]);
    space.until(POD, "set-0", "it is released", |pod| {
        pod["metadata"].get("ownerReferences").is_none()
    });
    space.set_podset("set", json!({"replicas": 2}));
    space.label_pod("set-0", crd::label::PODSET, json!("set"));
    space.until(POD, "set-0", "it is adopted", |pod| {
        text(pod, "/metadata/ownerReferences/0/uid") == uid(&set)
    });
}

/// Whatever others have put into a child is not what the operator asks for.
#[test]
fn fields_of_other_managers_block_no_later_write() {
    let cluster = cluster();
    let space: Namespace = cluster.namespace("additions");
    let env: Vec<Value> = (0..200)
        .map(|number| json!({"name": format!("V{number}"), "value": "x".repeat(500)}))
        .collect();
    space.settled_app("shop", json!({"image": "nginx:1.27", "port": 80, "env": env}));
    let root = json!({"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}});
    let sidecars: Vec<Value> = (0..20)
        .map(|number| {
            json!({"name": format!("mesh-{number}"), "image": "mesh", "securityContext": root,
                "ports": [{"containerPort": 9000 + number, "hostPort": 9000 + number}],
                "volumeMounts": [{"name": "root", "mountPath": "/host"}]})
        })
        .chain([json!({"name": "app", "securityContext": root})])
        .collect();
    let token = json!({"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    let added = json!({"hostNetwork": true, "serviceAccountName": "mesh", "nodeName": "n1", "containers": sidecars,
        "initContainers": [{"name": "init", "image": "mesh", "securityContext": {"privileged": true}}],
        "volumes": [{"name": "root", "hostPath": {"path": "/"}}, token]});
    // `allowPrivilegeEscalation: false` of ours does not go with a privileged container.
    let mut patch = json!({"spec": {"template": {"spec": added}}});
    let containers = patch["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
    containers.last_mut().unwrap()["securityContext"] = json!({"capabilities": {"add": ["NET_BIND_SERVICE"]}});
    space.patch(DEPLOYMENT, "shop", Patch::Strategic(patch));

    space.set("shop", json!({"image": "nginx:1.28", "securityProfile": "Restricted"}));
    let deployment = space.until(DEPLOYMENT, "shop", "it has the new image", |deployment| {
        let containers = deployment
            .pointer("/spec/template/spec/containers")
            .and_then(Value::as_array);
        let mut containers = containers.into_iter().flatten();
        containers.any(|container| container["name"] == "app" && container["image"] == "nginx:1.28")
    });
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(pod["containers"].as_array().unwrap().len(), 21);
}

/// What specs can ask for, after a review of their author.
#[test]
fn pods_with_fields_that_specs_have_are_admitted() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("fields");
    space.kubectl(&["create", "serviceaccount", "shop"]);
    let volumes = json!([
        {"name": "a", "configMap": {"name": "a"}}, {"name": "b", "secret": {"secretName": "b"}},
        {"name": "c", "emptyDir": {"medium": "Memory"}}, {"name": "d", "image": {"reference": "assets:1"}}]);
    let change = |spec: &mut Value| {
        spec["serviceAccountName"] = json!("shop");
        spec["automountServiceAccountToken"] = json!(true);
        spec["volumes"] = volumes.clone();
        spec["initContainers"] = json!([
            {"name": "proxy", "image": "proxy", "restartPolicy": "Always", "volumeMounts": [{"name": "c", "mountPath": "/c"}],
             "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}},
            {"name": "migrate", "image": "shop"}]);
    };
    let in_template = |object: &mut Value| change(&mut object["spec"]["template"]["spec"]);
    // Kubernetes 1.30 has no volumes of images.
    let validate = if cluster.minor_version() >= 31 {
        "--validate=strict"
    } else {
        "--validate=ignore"
    };
    for object in [pod(&space.name, change), deployment(&space.name, in_template)] {
        thief
            .run_with_input(
                &["create", "--dry-run=server", validate, "-f", "-"],
                &object.to_string(),
            )
            .unwrap();
    }
}

/// A ServiceAccount of an app has its name and no Secrets, and no token of it is requested.
#[test]
fn service_accounts_are_only_those_of_apps() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("accounts");
    let account = |change: &dyn Fn(&mut Value)| child("v1", "ServiceAccount", &space.name, &json!({}), change);
    create_denied(
        &thief,
        &account(&|object| object["metadata"]["ownerReferences"] = json!([])),
        "whose controller is",
    );
    create_denied(
        &thief,
        &account(&|object| object["metadata"]["name"] = json!("builder")),
        "the name of its AppDeploy",
    );
    create_denied(
        &thief,
        &account(&|object| object["metadata"]["labels"] = json!({})),
        "labels of its owner",
    );
    for field in ["secrets", "imagePullSecrets"] {
        create_denied(
            &thief,
            &account(&|object| object[field] = json!([{"name": "keys"}])),
            "no Secrets",
        );
    }
    create_denied(
        &thief,
        &account(&|object| object["metadata"]["namespace"] = json!("kube-system")),
        "kube-*",
    );
    thief
        .run_with_input(
            &["create", "--dry-run=server", "-f", "-"],
            &account(&|_| {}).to_string(),
        )
        .unwrap();
    space.kubectl(&["create", "serviceaccount", "builder"]);
    let in_space = ["-n", &space.name];
    for words in [
        &["create", "token", "builder"][..],
        &["annotate", "serviceaccount", "builder", "a=b"],
        &["delete", "serviceaccount", "builder"],
    ] {
        let arguments: Vec<&str> = in_space.iter().chain(words).copied().collect();
        let why = if words[1] == "token" {
            "never sends CREATE for serviceaccounts/token"
        } else {
            "changes and deletes only"
        };
        denied(&thief, &arguments, "", why);
    }
}

/// A PodMonitor could otherwise name a Secret that Prometheus sends to a pod.
#[test]
fn pod_monitors_select_only_the_pods_of_their_app() {
    let cluster = cluster();
    cluster.install_pod_monitors();
    let thief = stolen(&cluster);
    let space = cluster.namespace("monitors");
    let spec = json!({"selector": {"matchLabels": {"appdeploy.dev/app": "web"}},
        "podMetricsEndpoints": [{"port": "http", "path": "/metrics"}]});
    let monitor = |change: &dyn Fn(&mut Value)| {
        child(
            "monitoring.coreos.com/v1",
            "PodMonitor",
            &space.name,
            &json!({"spec": spec}),
            change,
        )
    };
    create_denied(
        &thief,
        &monitor(&|object| object["metadata"]["ownerReferences"] = json!([])),
        "whose controller is",
    );
    let only = "only the pods of its AppDeploy";
    let secret = json!({"name": "keys", "key": "token"});
    for (pointer, value) in [
        ("/spec/selector", json!({})),
        ("/spec/selector", json!({"matchLabels": {"app": "other"}})),
        (
            "/spec/podMetricsEndpoints/0",
            json!({"port": "http", "path": "/metrics", "bearerTokenSecret": secret}),
        ),
    ] {
        create_denied(
            &thief,
            &monitor(&|object| *object.pointer_mut(pointer).unwrap() = value.clone()),
            only,
        );
    }
    create_denied(
        &thief,
        &monitor(&|object| object["spec"]["namespaceSelector"] = json!({"any": true})),
        only,
    );
    thief
        .run_with_input(
            &["create", "--dry-run=server", "-f", "-"],
            &monitor(&|_| {}).to_string(),
        )
        .unwrap();
}

/// What a policy can't see: whether an owner exists. That nothing else is to be gained by it is what the other tests show.
#[test]
fn owner_that_does_not_exist_is_not_detected() {
    let cluster = cluster();
    let thief = stolen(&cluster);
    let space = cluster.namespace("made-up");
    assert_eq!(space.list(PODSET), [Value::Null; 0]);
    let input = pod(&space.name, |_| {}).to_string();
    thief.run_with_input(&["create", "-f", "-"], &input).unwrap();
    assert!(!space.get(POD, "set-0").is_null());
}
