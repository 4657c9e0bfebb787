//! One wrong step does not delete every app: definitions are protected from deletion and from an older schema.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::plugin::Plugin;

const INSTALL: &str = "install --wait=false --webhooks=false";
const KINDS: [&str; 2] = ["appdeploys", "podsets"];
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../config");
const POLICIES: &str = "validatingadmissionpolicy,validatingadmissionpolicybinding";
const REFUSED: &str = "ValidatingAdmissionPolicy 'appdeploy-definitions'";

/// Waits until the API server enforces the policies, which takes it a second or two.
fn await_policy(cluster: &ControlPlane) {
    let started = Instant::now();
    let delete = ["delete", "crd", "podsets.appdeploy.dev", "--dry-run=server"];
    while cluster.kubectl(&delete).is_ok() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the policy is not enforced"
        );
    }
}

#[track_caller]
fn refused(cluster: &ControlPlane, arguments: &[&str], why: &str) {
    let error = cluster.kubectl(arguments).unwrap_err().to_string();
    assert!(
        error.contains(REFUSED) && error.contains(why),
        "kubectl {arguments:?}: {error}"
    );
}

/// Returns all apps and pod sets as they are stored.
fn stored(cluster: &ControlPlane) -> Vec<String> {
    KINDS
        .map(|kind| format!("/apis/appdeploy.dev/v1alpha1/{kind}"))
        .map(|path| cluster.kubectl(&["get", "--raw", &path]).unwrap())
        .map(|list| serde_json::from_str::<Value>(&list).unwrap()["items"].to_string())
        .into()
}

fn names(cluster: &ControlPlane, kinds: &str) -> String {
    let ours = "-l=app.kubernetes.io/part-of=appdeploy";
    cluster.kubectl(&["get", kinds, ours, "-o", "name"]).unwrap()
}

/// Returns the definition of pod sets, as a file of an older version has it: without a field that objects use.
fn older(cluster: &ControlPlane, revision: Option<&str>) -> String {
    let file = std::fs::read_to_string(format!("{CONFIG}/crd/podsets.yaml")).unwrap();
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    let mut definition: Value = serde_json::from_str(&admin.read(&file).unwrap()).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let fields = definition.pointer_mut(spec).unwrap().as_object_mut().unwrap();
    fields.remove("minReadySeconds").expect("the field that is used");
    let annotations = definition["metadata"]["annotations"].as_object_mut().unwrap();
    annotations
        .remove(crd::annotation::SCHEMA_REVISION)
        .expect("a revision");
    annotations.extend(revision.map(|revision| (crd::annotation::SCHEMA_REVISION.to_owned(), json!(revision))));
    definition.to_string()
}

#[test]
fn crds_are_neither_deleted_nor_replaced_by_older_ones() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run(INSTALL).ok();
    await_policy(&cluster);
    plugin.run("create shop --image=nginx:1.27 --port=80").ok();
    let set = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {"replicas": 2, "minReadySeconds": 7, "template": {"image": "busybox:1.37"}}});
    cluster.apply(&set.to_string()).unwrap();
    let before = stored(&cluster);

    let advice = "set the annotation appdeploy.dev/allow-deletion=true";
    refused(&cluster, &["delete", "crd", "appdeploys.appdeploy.dev"], advice);
    refused(&cluster, &["delete", "crd", "--all"], "deletes every PodSet");
    refused(&cluster, &["delete", "-k", &format!("{CONFIG}/crd")], advice);

    // As `helm rollback`, an older folder of Git, or an older plugin would.
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    for revision in [None, Some("0"), Some("none")] {
        let older = older(&cluster, revision);
        for arguments in [
            &["apply", "--server-side", "--force-conflicts", "-f", "-"][..],
            &["replace", "-f", "-"],
        ] {
            let error = admin.run_with_input(arguments, &older).unwrap_err().to_string();
            assert!(
                error.contains(REFUSED) && error.contains("is not newer than the stored one"),
                "{error}"
            );
        }
    }
    let marker = format!("{}-", crd::annotation::SCHEMA_REVISION);
    refused(
        &cluster,
        &["annotate", "crd", "podsets.appdeploy.dev", &marker],
        "is not newer",
    );
    assert_eq!(stored(&cluster), before);

    // An apply without a difference, and changes outside the schema, are allowed.
    let again = plugin.run(INSTALL).ok();
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    cluster
        .kubectl(&["annotate", "crd", "podsets.appdeploy.dev", "a=b"])
        .unwrap();

    // The policy stays with the definitions.
    let gone = plugin.run("uninstall").ok();
    assert!(
        gone.contains("validatingadmissionpolicy.admissionregistration.k8s.io/appdeploy-operator deleted"),
        "{gone}"
    );
    assert_eq!(
        names(&cluster, POLICIES),
        "validatingadmissionpolicy.admissionregistration.k8s.io/appdeploy-definitions\n\
         validatingadmissionpolicybinding.admissionregistration.k8s.io/appdeploy-definitions\n"
    );
    refused(&cluster, &["delete", "crd", "appdeploys.appdeploy.dev"], advice);
    assert_eq!(stored(&cluster), before);

    // Deleting all of an installation deletes its policies, but the definitions were asked for before.
    plugin.run(INSTALL).ok();
    let whole = format!("{CONFIG}/default");
    let error = cluster
        .kubectl(&["delete", "-k", &whole, "--wait=false", "--ignore-not-found"])
        .unwrap_err()
        .to_string();
    assert!(error.matches(REFUSED).count() >= 2, "{error}");
    assert_eq!(stored(&cluster), before);
}

#[test]
fn uninstall_permits_the_deletion_of_the_crds_first() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run(INSTALL).ok();
    await_policy(&cluster);
    plugin.run("create shop --image=nginx:1.27 --port=80").ok();

    let tried = plugin.run("uninstall --delete-crds --yes --dry-run=server").ok();
    let line = "customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev deleted (server dry run)";
    assert!(tried.contains(line), "{tried}");
    refused(
        &cluster,
        &["delete", "crd", "podsets.appdeploy.dev"],
        "deletes every PodSet",
    );

    // One that was interrupted after it had said so: an installation protects them again.
    let allowed = format!("{}=true", crd::annotation::ALLOW_DELETION);
    cluster
        .kubectl(&["annotate", "crd", "podsets.appdeploy.dev", &allowed])
        .unwrap();
    plugin.run(INSTALL).ok();
    refused(
        &cluster,
        &["delete", "crd", "podsets.appdeploy.dev"],
        "deletes every PodSet",
    );

    plugin.run("uninstall --delete-crds --yes --timeout=60s").ok();
    let left = format!("crd,{POLICIES}");
    assert_eq!(names(&cluster, &left), "");
    plugin.run(INSTALL).ok();
}

/// If no stored field would be lost, an older plugin may replace a newer definition.
#[test]
fn older_plugin_may_replace_a_newer_crd_if_no_field_is_lost() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    plugin.run(INSTALL).ok();
    await_policy(&cluster);
    let newer = format!("{}=4000", crd::annotation::SCHEMA_REVISION);
    let annotate = ["annotate", "--overwrite", "crd", "podsets.appdeploy.dev", &newer];
    cluster.kubectl(&annotate).unwrap();
    plugin.run(&format!("{INSTALL} --force-conflicts")).ok();
    let path = "jsonpath={.metadata.annotations.appdeploy\\.dev/schema-revision}";
    let now = || {
        cluster
            .kubectl(&["get", "crd", "podsets.appdeploy.dev", "-o", path])
            .unwrap()
    };
    assert_ne!(now(), "4000");
    // That was for this once.
    cluster.kubectl(&annotate).unwrap();
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    let error = admin
        .run_with_input(&apply, &older(&cluster, Some("1")))
        .unwrap_err()
        .to_string();
    assert!(error.contains(REFUSED), "{error}");
    assert_eq!(now(), "4000");
}

/// An administrator may have applied the policies for a person without the right, and Flux may do so at any time.
#[test]
fn policies_applied_by_another_manager_cause_no_conflict() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    let policies = format!("{CONFIG}/policy");
    let apply = ["apply", "--server-side", "-k", policies.as_str()];
    cluster.kubectl(&apply).unwrap();
    plugin.run(INSTALL).ok();
    cluster.kubectl(&apply).unwrap();
}

/// A role with all that an installation takes but policies.
fn person_without_policies(cluster: &ControlPlane) -> Plugin {
    let all = json!(["*"]);
    let groups = [
        "",
        "apps",
        "apiextensions.k8s.io",
        "appdeploy.dev",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "authorization.k8s.io",
    ];
    let webhooks = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "person"},
        "rules": [{"apiGroups": groups, "resources": all, "verbs": all},
            {"apiGroups": ["admissionregistration.k8s.io"], "resources": webhooks, "verbs": all}]});
    cluster.apply(&role.to_string()).unwrap();
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "person",
            "--clusterrole=person",
            "--user=person",
        ])
        .unwrap();
    let started = Instant::now();
    while cluster
        .kubectl(&["auth", "can-i", "create", "crd", "--as=person"])
        .is_err()
    {
        assert!(started.elapsed() < Duration::from_secs(60), "the role does not count");
    }
    Plugin::of(&cluster.kubeconfig_for("person", &[]).unwrap())
}

#[test]
fn namespaced_installation_includes_policies_if_allowed() {
    let cluster = ControlPlane::builder().controller_manager(&["*"]).start().unwrap();
    let person = person_without_policies(&cluster);
    let whole = person.run("install --wait=false").fails(1);
    assert!(whole.contains("validatingadmissionpolicies"), "{whole}");
    let some = person.run("install --wait=false --watch-namespace=default");
    let warning = "Warning: you may not create admission policies: nothing but RBAC confines the operator";
    assert!(some.err.contains(warning), "{some:?}");
    let said = some.ok();
    assert!(
        said.contains("deployment.apps/appdeploy-operator created") && !said.contains("validatingadmission"),
        "{said}"
    );
    assert_eq!(names(&cluster, POLICIES), "");
    let uninstalled = person.run("uninstall");
    assert!(
        uninstalled
            .err
            .contains("(whether it has other objects is unknown: listing horizontalpodautoscalers is forbidden)"),
        "{uninstalled:?}"
    );
    uninstalled.ok();
    // A person who may create policies gets them in namespaced mode as well.
    let admin = Plugin::admin(&cluster);
    admin.run("install --wait=false --watch-namespace=default").ok();
    assert_eq!(names(&cluster, POLICIES).lines().count(), 4);
}

#[test]
fn cluster_without_admission_policies_gets_a_warning() {
    let group = "admissionregistration.k8s.io/v1";
    let off = format!(
        "--runtime-config={group}/validatingadmissionpolicies=false,{group}/validatingadmissionpolicybindings=false"
    );
    let builder = ControlPlane::builder()
        .apiserver_flag(off)
        .apiserver_flag("--disable-admission-plugins=ServiceAccount,ValidatingAdmissionPolicy")
        .controller_manager(&["*"]);
    let cluster = builder.start().unwrap();
    let plugin = Plugin::admin(&cluster);
    for line in [INSTALL, "install --wait=false --watch-namespace=default"] {
        let installed = plugin.run(line);
        let warning = "Warning: this cluster has no admission policies (Kubernetes 1.30 has)";
        assert!(installed.err.contains(warning), "{installed:?}");
        let said = installed.ok();
        assert!(
            said.contains("deployment.apps/appdeploy-operator ") && !said.contains("validatingadmission"),
            "{said}"
        );
    }
    plugin.run("create shop --image=nginx:1.27").ok();
    plugin.run("uninstall --delete-crds --yes").ok();
    assert_eq!(names(&cluster, "crd"), "");
}

/// A user who prepares the namespace could otherwise get the rights that the operator has in it.
#[test]
fn namespace_with_third_party_bindings_or_pods_is_rejected() {
    let cluster = ControlPlane::pooled().unwrap();
    let plugin = Plugin::admin(&cluster);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "appdeploy-system",
        "labels": {"app.kubernetes.io/part-of": "appdeploy"}}});
    cluster.apply(&namespace.to_string()).unwrap();
    let system = |arguments: &[&str]| {
        cluster
            .kubectl(&[&["-n", "appdeploy-system"], arguments].concat())
            .unwrap()
    };
    system(&[
        "create",
        "rolebinding",
        "appdeploy-webhook",
        "--clusterrole=admin",
        "--user=mallory",
    ]);
    system(&[
        "label",
        "rolebinding",
        "appdeploy-webhook",
        "app.kubernetes.io/part-of=appdeploy",
    ]);
    system(&[
        "run",
        "spy",
        "--image=busybox",
        "--labels=app.kubernetes.io/part-of=appdeploy",
    ]);
    for mode in ["", " --dry-run=server"] {
        let refused = plugin.run(&format!("{INSTALL}{mode}")).fails(1);
        let why = "error: namespace/appdeploy-system is not empty, and no operator is installed in it: nothing was changed\n  \
                   why:  rolebinding/appdeploy-webhook, pod/spy: ";
        assert!(refused.starts_with(why), "{refused}");
    }
    assert_eq!(names(&cluster, "crd"), "");
    system(&["delete", "rolebinding", "appdeploy-webhook"]);
    system(&["delete", "pod", "spy", "--force"]);
    plugin.run(INSTALL).ok();
    // What is added to an installation is not looked at.
    system(&["create", "rolebinding", "team", "--clusterrole=view", "--user=jane"]);
    plugin.run(INSTALL).ok();
}
