//! What an uninstallation removes, in which order, and what it leaves: a function of what was found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::survey::Found;
use crate::manifests::{Kind, place};
use crate::output::some;
use crate::{words, workload};

/// What the person said about what holds data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// Delete apps and pod sets.
    pub apps: bool,
    /// Delete the definition of the API.
    pub crds: bool,
}

/// What is going to happen.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Apps and pod sets to delete first, while the operator is alive.
    pub workloads: Vec<(crd::Kind, DynamicObject)>,
    /// The rest, in order.
    pub steps: Vec<(Kind, DynamicObject)>,
    /// What stays, and why.
    pub stays: Vec<(String, String)>,
}

/// Returns the plan.
///
/// The order: apps and pod sets while their operator lives, what makes API servers ask it, the operator, what it has around
/// it, the definition of the API, and at last the namespace, when nobody else has anything in it.
pub fn plan(found: &Found, choice: Choice) -> Plan {
    let mut plan = Plan::default();
    // Without its definition no object can exist: deleting one deletes the others.
    let all_go = choice.apps || choice.crds;
    if all_go {
        plan.workloads.clone_from(&found.workloads);
    } else {
        for (kind, objects) in by_kind(&found.workloads) {
            let so = match kind {
                crd::Kind::AppDeploy => "they serve on",
                crd::Kind::PodSet => "their pods run on, but nobody replaces one that ends",
            };
            plan.stays
                .push((places(kind, &objects), format!("{so}; --delete-apps deletes them")));
        }
    }
    // Without it nobody would answer.
    plan.steps.extend(found.webhooks.iter().cloned());
    plan.steps.extend(found.operator.iter().cloned());
    let mut rights = found.rights.clone();
    // What refers to another before the other.
    rights.sort_by_key(|(kind, _)| {
        let first = [
            Kind::cluster_role_binding(),
            Kind::role_binding(),
            Kind::cluster_role(),
            Kind::role(),
            Kind::service_account(),
        ];
        first.iter().position(|first| first == kind).unwrap_or(first.len())
    });
    plan.steps.extend(rights);
    if choice.crds {
        plan.steps.extend(found.definitions.iter().cloned());
    } else {
        let kept = found
            .definitions
            .iter()
            .map(|(kind, object)| (kind.title(&object.name_any()), "--delete-crds deletes it".to_owned()));
        plan.stays.extend(kept);
    }
    if let Some(namespace) = &found.namespace {
        let kind = Kind::namespace();
        let name = namespace.name_any();
        let mut reasons = found.foreign.clone();
        if !all_go {
            let inside = found
                .workloads
                .iter()
                .filter(|(_, object)| object.namespace().as_deref() == Some(crd::OPERATOR_NAMESPACE));
            reasons.extend(inside.map(|(kind, object)| workload::title(*kind, &object.name_any())));
        }
        match (&found.unseen, reasons.is_empty()) {
            _ if !crate::manifests::is_ours(namespace) => plan
                .stays
                .push((kind.title(&name), "it is not part of AppDeploy".to_owned())),
            (Some(unseen), true) => plan.stays.push((
                kind.title(&name),
                format!("whether somebody else uses it cannot be seen: {unseen}"),
            )),
            (_, false) => plan
                .stays
                .push((kind.title(&name), format!("it also holds {}", some(&reasons)))),
            (None, true) => plan.steps.push((kind, namespace.clone())),
        }
    }
    plan
}

impl Plan {
    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.workloads.is_empty() && self.steps.is_empty()
    }

    /// Returns the plan as a person reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if !self.is_empty() {
            text.push_str("To be removed, in this order:\n");
        }
        for (kind, objects) in by_kind(&self.workloads) {
            let _ = writeln!(
                text,
                "  {}, with everything that belongs to them",
                places(kind, &objects)
            );
        }
        for (kind, object) in &self.steps {
            let _ = writeln!(text, "  {}{}", kind.title(&object.name_any()), place("in", object));
        }
        if !self.stays.is_empty() {
            text.push_str("To stay:\n");
        }
        for (what, why) in &self.stays {
            let _ = writeln!(text, "  {what}  ({why})");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Returns how many there are of each kind, in words.
pub fn count(workloads: &[(crd::Kind, DynamicObject)]) -> String {
    let counts = by_kind(workloads)
        .into_iter()
        .map(|(kind, objects)| words::of(kind).count(objects.len()));
    counts.collect::<Vec<_>>().join(" and ")
}

fn by_kind(workloads: &[(crd::Kind, DynamicObject)]) -> BTreeMap<crd::Kind, Vec<&DynamicObject>> {
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (kind, object) in workloads {
        kinds.entry(*kind).or_default().push(object);
    }
    kinds
}

fn places(kind: crd::Kind, objects: &[&DynamicObject]) -> String {
    let namespaces: BTreeSet<String> = objects.iter().filter_map(|object| object.namespace()).collect();
    let names: Vec<String> = objects
        .iter()
        .map(|object| format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any()))
        .collect();
    let scope = if namespaces.len() == 1 {
        "1 namespace".to_owned()
    } else {
        format!("{} namespaces", namespaces.len())
    };
    format!("{} in {scope}: {}", words::of(kind).count(objects.len()), some(&names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{self, Options};
    use serde_json::json;

    fn installed() -> Found {
        let mut found = Found::default();
        for object in manifests::objects(&Options::default()).unwrap() {
            let kind = Kind::of(&object);
            match kind.resource.kind.as_str() {
                "Namespace" => found.namespace = Some(object),
                "Deployment" => found.operator.push((kind, object)),
                "CustomResourceDefinition" => found.definitions.push((kind, object)),
                _ if Kind::webhooks().contains(&kind) => found.webhooks.push((kind, object)),
                _ => found.rights.push((kind, object)),
            }
        }
        found
    }

    fn of(kind: crd::Kind, namespace: &str, name: &str) -> (crd::Kind, DynamicObject) {
        let object = json!({"metadata": {"namespace": namespace, "name": name}});
        (kind, serde_json::from_value(object).unwrap())
    }

    fn app(namespace: &str, name: &str) -> (crd::Kind, DynamicObject) {
        of(crd::Kind::AppDeploy, namespace, name)
    }

    fn set(namespace: &str, name: &str) -> (crd::Kind, DynamicObject) {
        of(crd::Kind::PodSet, namespace, name)
    }

    #[test]
    fn apps_and_their_definition_stay_unless_told() {
        let found = Found {
            workloads: vec![app("a", "shop"), app("b", "blog"), set("a", "workers")],
            ..installed()
        };
        insta::assert_snapshot!(plan(&found, Choice::default()).text(), @r"
        To be removed, in this order:
          mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy
          validatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy
          deployment.apps/appdeploy-operator
          clusterrolebinding.rbac.authorization.k8s.io/appdeploy-operator
          clusterrolebinding.rbac.authorization.k8s.io/appdeploy-webhook
          rolebinding.rbac.authorization.k8s.io/appdeploy-leader-election
          rolebinding.rbac.authorization.k8s.io/appdeploy-webhook
          clusterrole.rbac.authorization.k8s.io/appdeploy-operator
          clusterrole.rbac.authorization.k8s.io/appdeploy-webhook
          clusterrole.rbac.authorization.k8s.io/appdeploy-editor
          clusterrole.rbac.authorization.k8s.io/appdeploy-viewer
          role.rbac.authorization.k8s.io/appdeploy-leader-election
          role.rbac.authorization.k8s.io/appdeploy-webhook
          serviceaccount/appdeploy-operator
          networkpolicy.networking.k8s.io/default-deny
          networkpolicy.networking.k8s.io/appdeploy-operator
          service/appdeploy-webhook
          poddisruptionbudget.policy/appdeploy-operator
          namespace/appdeploy-system
        To stay:
          2 apps in 2 namespaces: a/shop, b/blog  (they serve on; --delete-apps deletes them)
          1 pod set in 1 namespace: a/workers  (their pods run on, but nobody replaces one that ends; --delete-apps deletes them)
          customresourcedefinition.apiextensions.k8s.io/appdeploys.appdeploy.dev  (--delete-crds deletes it)
          customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev  (--delete-crds deletes it)
        ");
    }

    #[test]
    fn apps_go_first_and_the_namespace_last() {
        let found = Found {
            workloads: vec![app("a", "shop"), set("a", "workers")],
            ..installed()
        };
        insta::assert_snapshot!(plan(&found, Choice { apps: true, crds: true }).text(), @r"
        To be removed, in this order:
          1 app in 1 namespace: a/shop, with everything that belongs to them
          1 pod set in 1 namespace: a/workers, with everything that belongs to them
          mutatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy
          validatingwebhookconfiguration.admissionregistration.k8s.io/appdeploy
          deployment.apps/appdeploy-operator
          clusterrolebinding.rbac.authorization.k8s.io/appdeploy-operator
          clusterrolebinding.rbac.authorization.k8s.io/appdeploy-webhook
          rolebinding.rbac.authorization.k8s.io/appdeploy-leader-election
          rolebinding.rbac.authorization.k8s.io/appdeploy-webhook
          clusterrole.rbac.authorization.k8s.io/appdeploy-operator
          clusterrole.rbac.authorization.k8s.io/appdeploy-webhook
          clusterrole.rbac.authorization.k8s.io/appdeploy-editor
          clusterrole.rbac.authorization.k8s.io/appdeploy-viewer
          role.rbac.authorization.k8s.io/appdeploy-leader-election
          role.rbac.authorization.k8s.io/appdeploy-webhook
          serviceaccount/appdeploy-operator
          networkpolicy.networking.k8s.io/default-deny
          networkpolicy.networking.k8s.io/appdeploy-operator
          service/appdeploy-webhook
          poddisruptionbudget.policy/appdeploy-operator
          customresourcedefinition.apiextensions.k8s.io/appdeploys.appdeploy.dev
          customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev
          namespace/appdeploy-system
        ");
    }

    #[test]
    fn a_definition_takes_its_apps_along() {
        let found = Found {
            workloads: vec![app("a", "shop"), set("a", "workers")],
            ..installed()
        };
        assert_eq!(
            plan(
                &found,
                Choice {
                    apps: false,
                    crds: true
                }
            )
            .workloads
            .len(),
            2
        );
    }

    #[test]
    fn a_namespace_that_others_use_stays() {
        let mut found = Found {
            foreign: vec!["configmap/notes".to_owned()],
            ..installed()
        };
        let stays = |found: &Found| {
            plan(found, Choice::default())
                .stays
                .iter()
                .find(|(what, _)| what.starts_with("namespace/"))
                .cloned()
        };
        assert_eq!(stays(&found).unwrap().1, "it also holds configmap/notes");
        found.foreign.clear();
        assert_eq!(stays(&found), None);
        found.workloads = vec![app(crd::OPERATOR_NAMESPACE, "inside")];
        assert_eq!(stays(&found).unwrap().1, "it also holds appdeploy.appdeploy.dev/inside");
        found.workloads.clear();
        found.unseen = Some("secrets is forbidden".to_owned());
        assert!(stays(&found).is_some());
        found.unseen = None;
        found.namespace.as_mut().unwrap().metadata.labels = None;
        assert_eq!(stays(&found).unwrap().1, "it is not part of AppDeploy");
    }
}
