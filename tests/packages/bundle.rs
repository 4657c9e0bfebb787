//! The bundle for OLM: it has the same installation, and passes the validators of catalogs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use packages::{olm, output};
use serde_json::{Value, json};
use tempfile::TempDir;
use testcluster::binaries::{Component, Program};

use crate::objects::{self, Objects};
use crate::tools::{config, kustomized, program, said};

/// Objects that OLM creates itself, or from the `ClusterServiceVersion`.
const MADE_BY_OLM: [&str; 9] = [
    "Namespace",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRoleBinding",
    "Deployment",
    "Service",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
/// Objects that OLM does not support. The network policies would also deny the traffic of other programs in the
/// namespace. The admission policies are a separate file.
const NOT_TAKEN: [&str; 3] = [
    "NetworkPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
/// The rights to the operator's own certificate and CA bundle. Here OLM manages them.
const OF_CERTIFICATES: &str = "appdeploy-webhook";
const DEPLOYMENT: &str = "Deployment appdeploy-system/appdeploy-operator";

fn bundle() -> TempDir {
    // The validators ignore a folder whose name begins with a dot, and report that it is empty.
    let folder = tempfile::Builder::new().prefix("bundle-").tempdir().unwrap();
    output::write(folder.path(), &olm::bundle(&config()).unwrap()).unwrap();
    folder
}

/// Returns the bundle's `ClusterServiceVersion`, and its other objects.
fn content(bundle: &Path) -> (Value, Objects) {
    let mut objects = Objects::new();
    for file in fs::read_dir(bundle.join("manifests")).unwrap() {
        let read = objects::read(&fs::read_to_string(file.unwrap().path()).unwrap());
        assert_eq!(read.len(), 1);
        objects.extend(read);
    }
    let name = format!("ClusterServiceVersion /appdeploy-operator.v{}", packages::VERSION);
    (objects.remove(&name).expect("a ClusterServiceVersion"), objects)
}

/// Returns each right of some rules: one verb on one resource, with its object names.
fn rights<'a>(rules: impl IntoIterator<Item = &'a Value>) -> BTreeSet<String> {
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    rights.insert(format!("{verb} {resource}.{group} {}", rule["resourceNames"]));
                }
            }
        }
    }
    rights
}

/// Returns whether an object belongs to the operator, and is not a role for people.
fn is_operators(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/name"] == "appdeploy-operator"
}

fn rules(role: &Value) -> impl Iterator<Item = &Value> {
    role["rules"].as_array().into_iter().flatten()
}

#[test]
fn bundle_has_the_objects_of_kustomize() {
    let folder = bundle();
    let (_, mut found) = content(folder.path());
    let mut wanted = Objects::new();
    for (name, object) in kustomized("default") {
        let kind = object["kind"].as_str().unwrap();
        let is_own_role = kind == "ClusterRole" && is_operators(&object);
        if !MADE_BY_OLM.contains(&kind) && !NOT_TAKEN.contains(&kind) && !is_own_role {
            wanted.insert(name, object);
        }
    }
    // OLM puts it into the namespace of the installation.
    let budget = found
        .remove("PodDisruptionBudget /appdeploy-operator")
        .map(|mut budget| {
            budget["metadata"]["namespace"] = "appdeploy-system".into();
            budget
        });
    found.extend(budget.map(|budget| (objects::name(&budget), budget)));
    objects::assert_same(&found, &wanted);
}

#[test]
fn olm_starts_the_same_operator() {
    let folder = bundle();
    let (version, _) = content(folder.path());
    let all = kustomized("default");
    let mut wanted = all[DEPLOYMENT].clone();
    let env = &mut wanted["spec"]["template"]["spec"]["containers"][0]["env"];
    env.as_array_mut().unwrap().extend([
        json!({"name": "APPDEPLOY_WATCH_NAMESPACE", "valueFrom":
            {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}}),
        json!({"name": "APPDEPLOY_WEBHOOK_CERT_DIR", "value": "/tmp/k8s-webhook-server/serving-certs"}),
    ]);
    let deployments = &version["spec"]["install"]["spec"]["deployments"];
    let found = json!([{"name": "appdeploy-operator", "label": wanted["metadata"]["labels"], "spec": wanted["spec"]}]);
    assert_eq!(deployments, &found);
}

#[test]
fn olm_grants_the_same_rights() {
    let folder = bundle();
    let (version, _) = content(folder.path());
    let granted = |part: &str| {
        let permissions = version["spec"]["install"]["spec"][part].as_array().unwrap().clone();
        assert_eq!(permissions.len(), 1);
        assert_eq!(permissions[0]["serviceAccountName"], "appdeploy-operator");
        rights(rules(&permissions[0]))
    };
    let (of_namespaces, of_the_cluster) = (granted("permissions"), granted("clusterPermissions"));
    let all = kustomized("default");
    let own = all.values().filter(|object| {
        let is_role = ["Role", "ClusterRole"].iter().any(|kind| object["kind"] == *kind);
        is_role && is_operators(object) && object["metadata"]["name"] != OF_CERTIFICATES
    });
    let wanted = rights(own.flat_map(rules));
    assert_eq!(
        of_namespaces.union(&of_the_cluster).cloned().collect::<BTreeSet<_>>(),
        wanted
    );
    assert_eq!(of_namespaces.intersection(&of_the_cluster).count(), 0);
    // All other resources are namespaced, so no other right is cluster-wide.
    let verbs = ["list", "watch"].into_iter();
    let expected = verbs.flat_map(|verb| {
        let one = r#"["podmonitors.monitoring.coreos.com"]"#;
        [
            format!("{verb} ingressclasses.networking.k8s.io null"),
            format!("{verb} customresourcedefinitions.apiextensions.k8s.io {one}"),
        ]
    });
    assert_eq!(of_the_cluster, expected.collect());
}

#[test]
fn olm_creates_the_same_webhooks() {
    let folder = bundle();
    let (version, _) = content(folder.path());
    let all = kustomized("default");
    let wanted = ["Mutating", "Validating"].map(|kind| {
        let mut webhook = all[&format!("{kind}WebhookConfiguration /appdeploy")]["webhooks"][0].clone();
        let fields = webhook.as_object_mut().unwrap();
        // The operator admits these requests itself.
        fields.remove("matchConditions").expect("conditions");
        let name = fields.remove("name").unwrap();
        let client = fields.remove("clientConfig").unwrap();
        fields.extend([
            ("type".to_owned(), format!("{kind}AdmissionWebhook").into()),
            ("generateName".to_owned(), name),
            ("deploymentName".to_owned(), "appdeploy-operator".into()),
            ("containerPort".to_owned(), 443.into()),
            ("targetPort".to_owned(), 9443.into()),
            ("webhookPath".to_owned(), client["service"]["path"].clone()),
        ]);
        webhook
    });
    let mut found = version["spec"]["webhookdefinitions"].as_array().unwrap().clone();
    found.sort_by_key(|definition| definition["type"].to_string());
    assert_eq!(found, wanted);
}

/// Returns the output of the catalogs' validators for a bundle.
fn verified(bundle: &Path) -> String {
    let mut verify = Command::new(program(Component::OperatorVerify, Program::OperatorVerify));
    verify.args(["manifests", "--operatorhub_validate", "--object_validate"]);
    said(&verify.arg(bundle).output().unwrap())
}

#[test]
fn catalogs_accept_the_bundle() {
    let said = verified(bundle().path());
    // The validator for operatorhub.io reports that there is a newer one, which this program does not have.
    let found: Vec<&str> = said
        .lines()
        .filter(|line| !line.contains("validator is deprecated"))
        .collect();
    assert_eq!(found, Vec::<&str>::new());
}

#[test]
fn catalogs_reject_an_invalid_bundle() {
    let folder = bundle();
    let path = folder
        .path()
        .join("manifests/appdeploy-operator.clusterserviceversion.yaml");
    let text = fs::read_to_string(&path).unwrap();
    for (right, wrong, told) in [
        (
            "kind: PodSet\n      name: podsets",
            "kind: Podset\n      name: podsets",
            "owned CRD",
        ),
        (
            "capabilities: Basic Install",
            "capabilities: Everything",
            "not a valid capabilities level",
        ),
        (
            "email: maintainers@appdeploy.dev",
            "email: nobody",
            "email nobody is invalid",
        ),
    ] {
        let changed = text.replace(right, wrong);
        assert_ne!(changed, text, "{right}");
        fs::write(&path, changed).unwrap();
        let said = verified(folder.path());
        assert!(said.contains(told), "{wrong}: {said}");
    }
}
