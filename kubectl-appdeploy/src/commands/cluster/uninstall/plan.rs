//! The plan of an uninstallation, as a function of the existing objects.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kube::ResourceExt as _;
use kube::api::DynamicObject;

use super::contents::{UNKNOWN, Unseen};
use super::survey::{DELETION_ORDER, Inventory};
use crate::cluster::kind_info::{self, KindInfo};
use crate::installation::manifests::{Kind, place};
use crate::output::formats::{enumerate, some};
use crate::resource::queue::{Outside, by_outside};

/// The flags about data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// Delete queues, apps and pod sets.
    pub apps: bool,
    /// Delete the definition of the API.
    pub crds: bool,
    /// Keep the children of deleted apps and pod sets, and the queues outside the cluster.
    pub orphans: bool,
}

/// How many names a plan has of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The first few of each namespace.
    Some,
    /// All of them.
    All,
}

/// The plan of an uninstallation.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Queues, apps and pod sets to delete first, while the operator is alive.
    pub workloads: Vec<(&'static KindInfo, DynamicObject)>,
    /// Whether their children are kept.
    pub keeps_children: bool,
    /// Those that stay, and no operator manages any more.
    pub kept: Vec<(&'static KindInfo, DynamicObject)>,
    /// The rest, in order.
    pub steps: Vec<(Kind, DynamicObject)>,
    /// What stays, and why.
    pub stays: Vec<(String, String)>,
    /// Why it could not be checked what else the namespace holds, if it stays for this reason only.
    pub unchecked: Option<String>,
}

/// Returns the plan.
///
/// The order: queues, apps and pod sets while their operator lives, what makes API servers ask it, the operator, what it has around
/// it, the CRDs, and last the namespace, if it has no third-party objects.
pub fn plan(found: &Inventory, choice: Choice) -> Plan {
    let mut plan = Plan {
        keeps_children: choice.orphans,
        ..Plan::default()
    };
    // Without its definition no object can exist: deleting one deletes the others.
    let all_go = choice.apps || choice.crds;
    let workloads = if all_go { &mut plan.workloads } else { &mut plan.kept };
    workloads.clone_from(&found.workloads);
    // Webhooks are not answered without the operator.
    plan.steps.extend(found.webhooks.iter().cloned());
    plan.steps.extend(found.operator.iter().cloned());
    plan.steps.extend(in_order(&found.rights));
    let guards = in_order(&found.guards);
    if choice.crds {
        plan.steps.extend(found.definitions.iter().cloned());
        plan.steps.extend(guards);
    } else {
        let kept = |(kind, object): &(Kind, DynamicObject), why: &str| (kind.title(&object.name_any()), why.to_owned());
        let definitions = found.definitions.iter();
        plan.stays
            .extend(definitions.map(|one| kept(one, "--delete-crds deletes it")));
        let why = "it keeps the definitions from being deleted; --delete-crds deletes it";
        plan.stays.extend(guards.iter().map(|one| kept(one, why)));
    }
    if let Some(namespace) = &found.namespace {
        let kind = Kind::namespace();
        let name = namespace.name_any();
        let mut reasons = found.contents.foreign.clone();
        if !all_go {
            let inside = found
                .workloads
                .iter()
                .filter(|(_, object)| object.namespace().as_deref() == Some(crd::OPERATOR_NAMESPACE));
            reasons.extend(inside.map(|(kind, object)| kind_info::title(*kind, &object.name_any())));
        }
        match (&found.contents.unseen, reasons.is_empty()) {
            _ if !crate::installation::manifests::is_ours(namespace) => plan
                .stays
                .push((kind.title(&name), "it is not part of AppDeploy".to_owned())),
            (Some(unseen), true) => {
                let (Unseen::Forbidden(why) | Unseen::Failed(why)) = unseen;
                plan.stays.push((kind.title(&name), format!("{UNKNOWN}: {why}")));
                if let Unseen::Failed(why) = unseen {
                    plan.unchecked = Some(why.clone());
                }
            }
            (_, false) => plan
                .stays
                .push((kind.title(&name), format!("it also holds {}", some(&reasons)))),
            (None, true) => plan.steps.push((kind, namespace.clone())),
        }
    }
    plan
}

/// Returns the operator's objects in the order of their deletion.
fn in_order(objects: &[(Kind, DynamicObject)]) -> Vec<(Kind, DynamicObject)> {
    let order = Kind::around();
    let mut objects = objects.to_vec();
    objects.sort_by_key(|(kind, _)| order.iter().position(|first| first == kind).unwrap_or(order.len()));
    objects
}

impl Plan {
    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.workloads.is_empty() && self.steps.is_empty()
    }

    /// Returns what is deleted and what happens to its children and queues, for a sentence that begins with it.
    pub fn loss(&self) -> String {
        let mut parts = Vec::new();
        for (kind, objects) in by_kind(&self.workloads) {
            if kind.workload.is_some() {
                parts.push(kind.count(objects.len()));
                continue;
            }
            for (effect, objects) in self.effects(kind, objects) {
                let effect = effect.trim_start_matches([',', ';']);
                parts.push(format!("{} ({})", kind.count(objects.len()), effect.trim_start()));
            }
        }
        let has_children = self.workloads.iter().any(|(kind, _)| kind.workload.is_some());
        let effect = match (has_children, self.keeps_children) {
            (false, _) => "",
            (true, true) => " and keeps their children, without an owner",
            (true, false) => " with all their children",
        };
        format!("{}{effect}", enumerate(&parts))
    }

    /// Splits objects of a kind by what their deletion does.
    fn effects<'a>(
        &self,
        kind: &KindInfo,
        objects: Vec<&'a DynamicObject>,
    ) -> Vec<(&'static str, Vec<&'a DynamicObject>)> {
        if kind.workload.is_some() {
            let family = if self.keeps_children {
                "; their children stay, without an owner"
            } else {
                ", with all their children"
            };
            return vec![(family, objects)];
        }
        let effect = |group| match group {
            Outside::Deleted => ", deleted outside the cluster with all messages",
            Outside::Kept => "; kept outside the cluster",
            Outside::Absent => "; not created outside the cluster",
        };
        let groups = by_outside(objects, self.keeps_children).into_iter();
        groups.map(|(group, objects)| (effect(group), objects)).collect()
    }

    /// Returns the plan as text: every object, and the apps and pod sets of each namespace.
    pub fn text(&self, names: Names) -> String {
        let mut text = String::new();
        if !self.is_empty() {
            text.push_str("To be removed, in this order:\n");
        }
        for (kind, objects) in by_kind(&self.workloads) {
            for (effect, objects) in self.effects(kind, objects) {
                let _ = writeln!(text, "  {}{effect}:", kind.count(objects.len()));
                text.push_str(&places(&objects, names));
            }
        }
        for (kind, object) in &self.steps {
            let _ = writeln!(text, "  {}{}", kind.title(&object.name_any()), place("in", object));
        }
        if !self.stays.is_empty() || !self.kept.is_empty() {
            text.push_str("To stay:\n");
        }
        for (kind, objects) in by_kind(&self.kept) {
            let so = match kind.workload {
                Some(crd::Kind::AppDeploy) => "they keep serving",
                Some(crd::Kind::PodSet) => "their pods keep running, but failed pods are not replaced",
                None => "they stay outside the cluster, but changes are not repaired, and a deletion needs --orphan",
            };
            let count = kind.count(objects.len());
            let _ = writeln!(text, "  {count}  ({so}; --delete-apps deletes them):");
            text.push_str(&places(&objects, names));
        }
        for (what, why) in &self.stays {
            let _ = writeln!(text, "  {what}  ({why})");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Returns the objects of each kind, in the order in which they are deleted.
fn by_kind<'a>(objects: &'a [(&'static KindInfo, DynamicObject)]) -> Vec<(&'static KindInfo, Vec<&'a DynamicObject>)> {
    let of = |kind: &'static KindInfo| {
        let all = objects.iter().filter(move |(one, _)| *one == kind);
        (kind, all.map(|(_, object)| object).collect::<Vec<_>>())
    };
    DELETION_ORDER
        .map(of)
        .into_iter()
        .filter(|(_, all)| !all.is_empty())
        .collect()
}

/// Returns a line for each namespace, with the names in it.
fn places(objects: &[&DynamicObject], names: Names) -> String {
    let mut namespaces: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in objects {
        let namespace = object.namespace().unwrap_or_default();
        namespaces.entry(namespace).or_default().push(object.name_any());
    }
    let mut text = String::new();
    for (namespace, all) in namespaces {
        let all = match names {
            Names::Some => some(&all),
            Names::All => all.join(", "),
        };
        let _ = writeln!(text, "    {namespace}: {all}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::kind_info::QUEUE;
    use crate::commands::cluster::uninstall::contents::Contents;
    use crate::installation::manifests::{self, Options, policy};
    use serde_json::json;

    fn installed() -> Inventory {
        let mut found = Inventory::default();
        for object in manifests::objects(&Options::default()).unwrap() {
            let kind = Kind::of(&object);
            match kind.resource.kind.as_str() {
                "Namespace" => found.namespace = Some(object),
                "Deployment" => found.operator.push((kind, object)),
                "CustomResourceDefinition" => found.definitions.push((kind, object)),
                _ if Kind::webhooks().contains(&kind) => found.webhooks.push((kind, object)),
                _ if policy::protects_definitions(&kind, &object) => found.guards.push((kind, object)),
                _ => found.rights.push((kind, object)),
            }
        }
        found
    }

    fn of(kind: crd::Kind, namespace: &str, name: &str) -> (&'static KindInfo, DynamicObject) {
        let object = json!({"metadata": {"namespace": namespace, "name": name}});
        (kind_info::of(kind), serde_json::from_value(object).unwrap())
    }

    fn app(namespace: &str, name: &str) -> (&'static KindInfo, DynamicObject) {
        of(crd::Kind::AppDeploy, namespace, name)
    }

    fn set(namespace: &str, name: &str) -> (&'static KindInfo, DynamicObject) {
        of(crd::Kind::PodSet, namespace, name)
    }

    fn queue(name: &str, finalizers: &[&str]) -> (&'static KindInfo, DynamicObject) {
        let object = json!({"metadata": {"namespace": "a", "name": name, "finalizers": finalizers}});
        (&QUEUE, serde_json::from_value(object).unwrap())
    }

    #[test]
    fn queues_are_deleted_first_or_kept_outside_the_cluster() {
        let found = Inventory {
            workloads: vec![
                app("a", "shop"),
                queue("orders", &[crd::finalizer::QUEUE]),
                queue("mails", &[]),
            ],
            ..Inventory::default()
        };
        let with = |apps: bool, orphans: bool| {
            let crds = false;
            let plan = plan(&found, Choice { apps, crds, orphans });
            format!("{}\n{}", plan.text(Names::Some), plan.loss())
        };
        insta::assert_snapshot!([with(false, false), with(true, false), with(true, true)].join("\n\n"), @r"
        To stay:
          2 queues  (they stay outside the cluster, but changes are not repaired, and a deletion needs --orphan; --delete-apps deletes them):
            a: orders, mails
          1 app  (they keep serving; --delete-apps deletes them):
            a: shop


        To be removed, in this order:
          1 queue, deleted outside the cluster with all messages:
            a: orders
          1 queue; not created outside the cluster:
            a: mails
          1 app, with all their children:
            a: shop
        1 queue (deleted outside the cluster with all messages), 1 queue (not created outside the cluster) and 1 app with all their children

        To be removed, in this order:
          1 queue; kept outside the cluster:
            a: orders
          1 queue; not created outside the cluster:
            a: mails
          1 app; their children stay, without an owner:
            a: shop
        1 queue (kept outside the cluster), 1 queue (not created outside the cluster) and 1 app and keeps their children, without an owner
        ");
    }

    #[test]
    fn apps_and_crds_are_kept_without_a_flag() {
        let found = Inventory {
            workloads: vec![app("a", "shop"), app("b", "blog"), set("a", "workers")],
            ..installed()
        };
        insta::assert_snapshot!(plan(&found, Choice::default()).text(Names::Some), @r"
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
          validatingadmissionpolicybinding.admissionregistration.k8s.io/appdeploy-operator
          validatingadmissionpolicy.admissionregistration.k8s.io/appdeploy-operator
          namespace/appdeploy-system
        To stay:
          2 apps  (they keep serving; --delete-apps deletes them):
            a: shop
            b: blog
          1 pod set  (their pods keep running, but failed pods are not replaced; --delete-apps deletes them):
            a: workers
          customresourcedefinition.apiextensions.k8s.io/appdeploys.appdeploy.dev  (--delete-crds deletes it)
          customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev  (--delete-crds deletes it)
          customresourcedefinition.apiextensions.k8s.io/appqueues.appdeploy.dev  (--delete-crds deletes it)
          validatingadmissionpolicybinding.admissionregistration.k8s.io/appdeploy-definitions  (it keeps the definitions from being deleted; --delete-crds deletes it)
          validatingadmissionpolicy.admissionregistration.k8s.io/appdeploy-definitions  (it keeps the definitions from being deleted; --delete-crds deletes it)
        ");
    }

    #[test]
    fn apps_go_first_and_the_namespace_last() {
        let found = Inventory {
            workloads: vec![app("a", "shop"), set("a", "workers")],
            ..installed()
        };
        insta::assert_snapshot!(plan(&found, Choice { apps: true, crds: true, orphans: false }).text(Names::Some), @r"
        To be removed, in this order:
          1 app, with all their children:
            a: shop
          1 pod set, with all their children:
            a: workers
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
          validatingadmissionpolicybinding.admissionregistration.k8s.io/appdeploy-operator
          validatingadmissionpolicy.admissionregistration.k8s.io/appdeploy-operator
          customresourcedefinition.apiextensions.k8s.io/appdeploys.appdeploy.dev
          customresourcedefinition.apiextensions.k8s.io/podsets.appdeploy.dev
          customresourcedefinition.apiextensions.k8s.io/appqueues.appdeploy.dev
          validatingadmissionpolicybinding.admissionregistration.k8s.io/appdeploy-definitions
          validatingadmissionpolicy.admissionregistration.k8s.io/appdeploy-definitions
          namespace/appdeploy-system
        ");
    }

    #[test]
    fn deleting_a_definition_deletes_its_apps() {
        let found = Inventory {
            workloads: vec![app("a", "shop"), set("a", "workers")],
            ..installed()
        };
        assert_eq!(
            plan(
                &found,
                Choice {
                    apps: false,
                    crds: true,
                    orphans: false
                }
            )
            .workloads
            .len(),
            2
        );
    }

    #[test]
    fn dry_run_lists_every_app_and_orphaned_children() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let found = Inventory {
            workloads: names
                .map(|name| app("shop", name))
                .into_iter()
                .chain([set("batch", "workers")])
                .collect(),
            ..Inventory::default()
        };
        let choice = Choice {
            apps: true,
            crds: false,
            orphans: true,
        };
        let plan = plan(&found, choice);
        insta::assert_snapshot!(plan.text(Names::All), @r"
        To be removed, in this order:
          7 apps; their children stay, without an owner:
            shop: a, b, c, d, e, f, g
          1 pod set; their children stay, without an owner:
            batch: workers
        ");
        insta::assert_snapshot!(plan.text(Names::Some), @r"
        To be removed, in this order:
          7 apps; their children stay, without an owner:
            shop: a, b, c, d, e and 2 more
          1 pod set; their children stay, without an owner:
            batch: workers
        ");
    }

    #[test]
    fn namespace_with_third_party_objects_is_kept() {
        let mut found = Inventory {
            contents: Contents {
                foreign: vec!["configmap/notes".to_owned()],
                unseen: None,
            },
            ..installed()
        };
        let stays = |found: &Inventory| {
            plan(found, Choice::default())
                .stays
                .iter()
                .find(|(what, _)| what.starts_with("namespace/"))
                .cloned()
        };
        assert_eq!(stays(&found).unwrap().1, "it also holds configmap/notes");
        found.contents.foreign.clear();
        assert_eq!(stays(&found), None);
        found.workloads = vec![app(crd::OPERATOR_NAMESPACE, "inside")];
        assert_eq!(stays(&found).unwrap().1, "it also holds appdeploy.appdeploy.dev/inside");
        found.workloads.clear();
        let unchecked = |found: &Inventory| plan(found, Choice::default()).unchecked;
        found.contents.unseen = Some(Unseen::Forbidden("no right".to_owned()));
        assert_eq!(
            (stays(&found).unwrap().1.as_str(), unchecked(&found)),
            ("whether it has other objects is unknown: no right", None)
        );
        found.contents.unseen = Some(Unseen::Failed("out of order".to_owned()));
        assert!(stays(&found).is_some());
        assert_eq!(unchecked(&found).as_deref(), Some("out of order"));
        found.contents.unseen = None;
        found.namespace.as_mut().unwrap().metadata.labels = None;
        assert_eq!(stays(&found).unwrap().1, "it is not part of AppDeploy");
    }
}
