//! A namespace that was prepared before the operator is installed: a user who is bound to a role in it could read the operator's
//! token and the key of its webhooks.

use futures::join;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt as _};
use model::command;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::installation::manifests::{Kind, is_ours};
use crate::output::formats::some;

/// What `OpenShift` makes in each namespace.
const OF_OPENSHIFT: [&str; 3] = ["system:deployers", "system:image-builders", "system:image-pullers"];

/// Refuses a first installation into a namespace that has third-party role bindings or pods.
pub async fn refuse(cluster: &Cluster, wanted: &[DynamicObject], before: &[Option<DynamicObject>]) -> Result<()> {
    let is_there = |kind: &Kind| {
        let mut pairs = wanted.iter().zip(before);
        pairs.any(|(wanted, before)| Kind::of(wanted) == *kind && before.is_some())
    };
    if is_there(&Kind::deployment()) || !is_there(&Kind::namespace()) {
        return Ok(());
    }
    let bindings: Api<RoleBinding> = Api::namespaced(cluster.client.clone(), crd::OPERATOR_NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), crd::OPERATOR_NAMESPACE);
    let all = ListParams::default();
    let (bindings, pods) = join!(cluster.call(bindings.list(&all)), cluster.call(pods.list(&all)));
    let bindings = bindings?.items.into_iter();
    let mut foreign: Vec<String> = bindings
        .filter(|binding| is_foreign(binding, wanted))
        .map(|binding| format!("rolebinding/{}", binding.name_any()))
        .collect();
    match pods {
        // An object that is being deleted may be from an earlier installation.
        Ok(pods) => foreign.extend(
            pods.items
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                .map(|pod| format!("pod/{}", pod.name_any())),
        ),
        // An installation takes no right to see pods.
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(error),
    }
    if foreign.is_empty() {
        return Ok(());
    }
    let namespace = crd::OPERATOR_NAMESPACE;
    Err(Error::failed(format!(
        "namespace/{namespace} is not empty, and no operator is installed in it: nothing was changed"
    ))
    .why(format!(
        "{}: their author could get the rights of the operator",
        some(&foreign)
    ))
    .next(command!("kubectl -n {} get rolebindings,pods -o wide", namespace))
    .next(command!(
        "kubectl delete namespace {}  (if it is not needed; install creates it again)",
        namespace
    )))
}

/// Whether a role binding is neither part of this installation nor created by `OpenShift`.
fn is_foreign(binding: &RoleBinding, wanted: &[DynamicObject]) -> bool {
    let subjects = binding.subjects.clone().unwrap_or_default();
    let is_of_openshift = OF_OPENSHIFT.contains(&&*binding.name_any()) && subjects.iter().all(is_of_the_namespace);
    let is_wanted = |object: &&DynamicObject| {
        let role: Option<RoleRef> = serde_json::from_value(object.data["roleRef"].clone()).ok();
        let bound: Vec<Subject> = serde_json::from_value(object.data["subjects"].clone()).unwrap_or_default();
        is_ours(object)
            && Kind::of(object) == Kind::role_binding()
            && object.namespace() == binding.namespace()
            && object.name_any() == binding.name_any()
            && role.is_some_and(|role| role == binding.role_ref)
            && bound.len() == subjects.len()
            && bound.iter().zip(&subjects).all(|(one, other)| is_same(one, other))
    };
    !is_of_openshift && !wanted.iter().any(|object| is_wanted(&object))
}

fn is_same(one: &Subject, other: &Subject) -> bool {
    (&one.kind, &one.name, &one.namespace) == (&other.kind, &other.name, &other.namespace)
}

/// Whether a subject is a ServiceAccount of the operator's namespace, or all of these.
fn is_of_the_namespace(subject: &Subject) -> bool {
    let namespace = crd::OPERATOR_NAMESPACE;
    match &*subject.kind {
        "Group" => subject.name == format!("system:serviceaccounts:{namespace}"),
        "ServiceAccount" => {
            ["builder", "deployer"].contains(&&*subject.name) && subject.namespace.as_deref() == Some(namespace)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::manifests::{Options, objects};
    use serde_json::{Value, json};

    fn binding(name: &str, role: &str, subject: &Value) -> RoleBinding {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": crd::OPERATOR_NAMESPACE,
                "labels": {"app.kubernetes.io/part-of": "appdeploy", "app.kubernetes.io/name": "appdeploy-operator"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}, "subjects": [subject],
        }))
        .unwrap()
    }

    #[test]
    fn binding_is_not_recognized_by_label_or_name() {
        let wanted = objects(&Options::default()).unwrap();
        let account = json!({"kind": "ServiceAccount", "name": "appdeploy-operator", "namespace": "appdeploy-system"});
        let person = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"});
        let name = "appdeploy-webhook";
        assert!(!is_foreign(&binding(name, name, &account), &wanted));
        for foreign in [
            binding(name, name, &person),
            binding(name, "admin", &account),
            binding("helpers", name, &account),
            binding("system:deployers", "system:deployer", &person),
        ] {
            assert!(is_foreign(&foreign, &wanted), "{foreign:?}");
        }
        let deployer = json!({"kind": "ServiceAccount", "name": "deployer", "namespace": "appdeploy-system"});
        assert!(!is_foreign(
            &binding("system:deployers", "system:deployer", &deployer),
            &wanted
        ));
    }
}
