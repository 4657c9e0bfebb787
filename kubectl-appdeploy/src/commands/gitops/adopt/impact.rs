//! The impact of an adoption: what is lost, and notes.

use std::collections::BTreeMap;

use crd::label;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use model::desired::PORT;
use model::inverse::{App, UnmappedField};
use model::merge::service_with;
use model::{CHILDREN, ChildKind, Desired, command, inverse};
use serde_json::Value;

use super::endpoints::renamed;
use super::pods::Pods;
use super::snapshot::Snapshot;

/// The impact of an adoption, one sentence each.
#[derive(Clone, Debug, Default)]
pub struct Impact {
    /// What is lost.
    pub lost: Vec<String>,
    /// Notes.
    pub notes: Vec<String>,
}

/// Returns the impact. `read` is the spec of the objects; `beside` are additional ports that the Service keeps.
pub fn of(found: &Snapshot, read: &App, wanted: &Desired, beside: &[Value], pods: Pods) -> Impact {
    let nothing = Value::Null;
    let old = found.old().unwrap_or(&nothing);
    // Of a former Deployment, or of the app's own.
    let template = &found.old().or_else(|| found.own()).unwrap_or(&nothing)["spec"]["template"];
    let uid = found.uid().unwrap_or_default();
    let mut costs = Impact::default();
    costs.of_fields(found, &read.unmapped, pods);
    costs.lost.extend(owners(found, uid));
    if let Some(service) = found.foreign(&SERVICE, uid) {
        costs.lost.extend(ways(found, service, template, wanted));
        costs.lost.extend(nowhere(found, beside));
        costs.of_ingresses(found, wanted.first(&INGRESS).is_some(), beside);
        costs.of_names(found, service, wanted, beside);
    }
    if pods.are_replaced() {
        costs.of_a_pause(old, read);
        costs.of_labels(found, template, wanted);
        costs.of_the_deployment(old);
        costs.of_what_is_ours(template, wanted);
    }
    costs.of_the_app(found, old, wanted, pods);
    if pods != Pods::Own {
        let deployment = old["metadata"]["name"].as_str().unwrap_or_default();
        costs.lost.extend(found.dependents.scale(deployment));
    }
    costs.notes.extend(holders(found));
    let unseen = found.dependents.unseen();
    if !unseen.is_empty() {
        let unseen = unseen.join(", ");
        costs
            .notes
            .push(format!("whether {unseen} depend on these objects is n/a (forbidden)"));
    }
    costs
}

impl Impact {
    /// Where an app that exists already has another host or another number of pods. One that leaves its host to the default was
    /// not meant to take the host of the live Ingress away.
    fn of_the_app(&mut self, found: &Snapshot, old: &Value, wanted: &Desired, pods: Pods) {
        let Some(app) = &found.app else { return };
        let Snapshot { name, namespace, .. } = found;
        let host = |ingress: &Value| ingress["spec"]["rules"][0]["host"].as_str().map(str::to_owned);
        let live = found.foreign(&INGRESS, found.uid().unwrap_or_default());
        let hosts = live.and_then(host).zip(wanted.first(&INGRESS).and_then(host));
        if let Some((before, after)) = hosts.filter(|(before, after)| before != after) {
            let told = format!("ingress/{name} answers at {before}, and the app at {after}");
            if app.spec.host.is_none() {
                let keep = command!("kubectl appdeploy set host {}={} -n {}", name, before, namespace);
                self.lost.push(format!("{told}; keep the host with: {keep}"));
            } else {
                self.notes
                    .push(format!("{told}: requests to {before} are not answered any more"));
            }
        }
        let before = old["spec"]["replicas"].as_i64().unwrap_or(1);
        let after = i64::from(app.spec.replicas);
        if pods != Pods::Own && !old.is_null() && before != after {
            let old = old["metadata"]["name"].as_str().unwrap_or(name);
            let pods = |number: i64| format!("{number} pod{}", if number == 1 { "" } else { "s" });
            self.notes.push(format!(
                "deployment/{old} has {}, and the app wants {}",
                pods(before),
                pods(after)
            ));
        }
    }

    /// Fields that an app can't have.
    fn of_fields(&mut self, found: &Snapshot, left: &[(&'static ChildKind, UnmappedField)], pods: Pods) {
        for (kind, rest) in left {
            // Other fields of the app's own Deployment are not changed.
            if **kind == DEPLOYMENT && found.old().is_none() {
                continue;
            }
            let stays = !rest.differs && (**kind != DEPLOYMENT || pods == Pods::Kept);
            let told = tell(found, kind, rest);
            match (rest.matters(), stays) {
                (true, false) => self.lost.push(format!("{told} can't be set in an app")),
                (_, true) => self.notes.push(format!("{told} stays, and is not part of the app")),
                // They are reported together.
                (false, false) if rest.path.contains(".metadata.labels.") => {}
                (false, false) => self.notes.push(format!("{told} is removed")),
            }
        }
    }

    /// What selects the pods by labels that they lose.
    fn of_labels(&mut self, found: &Snapshot, template: &Value, wanted: &Desired) {
        let Some(deployment) = wanted.first(&DEPLOYMENT) else {
            return;
        };
        let (before, after) = (labels(template), labels(&deployment["spec"]["template"]));
        self.lost.extend(found.dependents.lose(&found.name, &before, &after));
        if found.other.is_none() && before.get(label::APP) == Some(&found.name) {
            self.lost.push(format!(
                "the pods have the label {}={} already, so the app's Deployment adopts them and deletes them before the new pods get requests",
                label::APP,
                found.name
            ));
        }
        let gone: Vec<String> = before
            .iter()
            .filter(|(name, value)| *name != "pod-template-hash" && after.get(*name) != Some(*value))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !gone.is_empty() {
            self.notes.push(format!("the pods lose the labels {}", gone.join(", ")));
        }
    }

    /// Annotations of tools on a Deployment that is replaced.
    fn of_the_deployment(&mut self, old: &Value) {
        const KNOWN: [&str; 4] = [
            "deployment.kubernetes.io/",
            "kubectl.kubernetes.io/",
            "meta.helm.sh/",
            "argocd.argoproj.io/",
        ];
        if old["kind"] != DEPLOYMENT.kind {
            return;
        }
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let own = old["metadata"]["annotations"].as_object().into_iter().flatten();
        let own = own.filter(|(key, _)| !KNOWN.iter().any(|known| key.starts_with(known)));
        self.notes
            .extend(own.map(|(key, value)| format!("deployment/{name} metadata.annotations.{key}: {value} goes")));
    }

    /// Notes about fields of the app's pods that the old pods do not have and no spec sets.
    fn of_what_is_ours(&mut self, template: &Value, wanted: &Desired) {
        let is_true = |value: &Value| value.as_bool().unwrap_or(true);
        let Some(deployment) = wanted.first(&DEPLOYMENT) else {
            return;
        };
        let (before, after) = (&template["spec"], &deployment["spec"]["template"]["spec"]);
        let own = inverse::container(template).unwrap_or(&Value::Null);
        let (app, context) = (&after["containers"][0], &own["securityContext"]);
        let mut confined = Vec::new();
        if is_true(&before["automountServiceAccountToken"]) {
            confined.push("no ServiceAccount token");
        }
        if is_true(&context["allowPrivilegeEscalation"]) {
            confined.push("no privilege escalation");
        }
        if context["seccompProfile"].is_null() && before["securityContext"]["seccompProfile"].is_null() {
            confined.push("the runtime's seccomp profile");
        }
        if !confined.is_empty() {
            self.notes.push(format!("the new pods have {}", confined.join(", ")));
        }
        if own["livenessProbe"].is_null() && app["livenessProbe"].is_object() {
            let note = "the new pods are restarted if their health check keeps failing, unlike the old pods";
            self.notes.push(note.to_owned());
        }
    }

    /// New pods are those of the template as it is, also if its rollout is held.
    fn of_a_pause(&mut self, old: &Value, read: &App) {
        if !read.spec.paused {
            return;
        }
        let count = |field: &str| old["status"][field].as_i64().unwrap_or_default();
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        if count("updatedReplicas") < count("replicas") {
            self.lost.push(format!(
                "deployment/{name} is paused in the middle of a rollout, and all new pods would be those of its new template"
            ));
        } else {
            self.notes.push(format!(
                "deployment/{name} is paused; the app is not, since it needs new pods"
            ));
        }
    }

    /// Ports that get another name lead nowhere for a moment, unless there is a bridge.
    fn of_names(&mut self, found: &Snapshot, service: &Value, wanted: &Desired, beside: &[Value]) {
        let Some(wanted) = wanted.first(&SERVICE) else {
            return;
        };
        let renamed = renamed(service, &service_with(service, wanted, beside));
        for (before, after) in renamed.iter().filter(|(before, _)| !before.is_empty()) {
            self.notes.push(format!(
                "port {before} of service/{} gets the name {after}, which clients that use the name must know",
                found.name
            ));
        }
        if !found.may_bridge && !renamed.is_empty() {
            self.lost.push(format!(
                "requests to service/{} fail for a moment when its ports get other names; a user who may create and delete \
                 EndpointSlices can avoid it",
                found.name
            ));
        }
    }

    /// Other Ingresses of the Service.
    fn of_ingresses(&mut self, found: &Snapshot, has_one: bool, beside: &[Value]) {
        let names: Vec<String> = std::iter::once(PORT)
            .chain(beside.iter().filter_map(|port| port["name"].as_str()))
            .map(str::to_owned)
            .collect();
        let name = &found.name;
        for (ingress, breaks) in found.dependents.lead_to(name, has_one, &names) {
            if breaks {
                let told = format!("{ingress} leads to a port of service/{name} by a name that is removed");
                self.lost.push(told);
            } else {
                let told = format!("{ingress} leads to service/{name} too, and is not changed");
                self.notes.push(told);
            }
        }
    }
}

fn tell(found: &Snapshot, kind: &ChildKind, rest: &UnmappedField) -> String {
    const LONG: usize = 60;
    let value = rest.value.to_string();
    let value = if value.chars().count() > LONG {
        let start: String = value.chars().take(LONG).collect();
        format!("{start}…")
    } else {
        value
    };
    let old = found.old().filter(|_| *kind == DEPLOYMENT);
    let name = old.and_then(|old| old["metadata"]["name"].as_str());
    let name = name.unwrap_or(&found.name);
    format!("{}/{name} {}: {value}", kind.as_str().to_lowercase(), rest.path)
}

/// Reports objects whose owner would revert or delete them.
fn owners(found: &Snapshot, uid: &str) -> Vec<String> {
    let foreign = CHILDREN.iter().map(|kind| (*kind, found.foreign(kind, uid)));
    let other = (&DEPLOYMENT, found.other.as_ref());
    let mut owners = Vec::new();
    for (kind, object) in foreign.chain([other]) {
        let Some(metadata) = object.map(|object| &object["metadata"]) else {
            continue;
        };
        let references = metadata["ownerReferences"].as_array();
        for owner in references.into_iter().flatten() {
            let word = |field: &str| owner[field].as_str().unwrap_or_default();
            owners.push(format!(
                "{}/{} belongs to {} {}, which may change or delete it",
                kind.as_str().to_lowercase(),
                metadata["name"].as_str().unwrap_or_default(),
                word("kind"),
                word("name")
            ));
        }
    }
    owners
}

/// Returns the tools that may write these objects back.
fn holders(found: &Snapshot) -> Vec<String> {
    const HOLDERS: [(&str, &str, &str); 4] = [
        ("annotations", "meta.helm.sh/release-name", "Helm's release"),
        ("annotations", "argocd.argoproj.io/tracking-id", "Argo CD's"),
        ("labels", "argocd.argoproj.io/instance", "Argo CD's"),
        ("labels", "kustomize.toolkit.fluxcd.io/name", "Flux's Kustomization"),
    ];
    let objects = || {
        let live = found.live.iter().map(|(_, object)| object);
        live.chain(found.other.as_ref())
    };
    let mut notes: Vec<String> = HOLDERS
        .iter()
        .filter_map(|(part, key, holder)| {
            let name = objects().find_map(|object| object["metadata"][*part][*key].as_str())?;
            Some(format!(
                "{holder} {name} may write these objects back: take them out of it"
            ))
        })
        .collect();
    notes.dedup();
    notes
}

/// Reports a Service that does not lead to the pods.
fn ways(found: &Snapshot, service: &Value, template: &Value, wanted: &Desired) -> Vec<String> {
    let mut lost = Vec::new();
    let name = &found.name;
    if wanted.first(&SERVICE).is_none() {
        lost.push(format!("service/{name} has no target, since the app has no port"));
    }
    if !leads(service, template) {
        lost.push(if found.old().is_some() {
            format!("service/{name} leads to other pods than those of the Deployment")
        } else {
            format!(
                "service/{name} leads to other pods than those of the app; a Deployment that keeps them is named with \
                 --deployment"
            )
        });
    }
    lost
}

/// Whether a Service selects the pods of a template.
pub fn leads(service: &Value, template: &Value) -> bool {
    let pod = labels(template);
    let selector = service["spec"]["selector"].as_object();
    selector.is_some_and(|selector| {
        !selector.is_empty()
            && selector
                .iter()
                .all(|(key, value)| pod.get(key).map(String::as_str) == value.as_str())
    })
}

/// Reports additional ports whose target port does not exist in the app's pods.
fn nowhere(found: &Snapshot, beside: &[Value]) -> Vec<String> {
    let named = beside
        .iter()
        .filter_map(|port| Some((port, port["targetPort"].as_str()?)));
    let others = named.filter(|(_, target)| *target != PORT);
    others
        .map(|(port, target)| {
            format!(
                "port {} of service/{} leads to a port called {target}, which the pods of the app do not have",
                port["port"], found.name
            )
        })
        .collect()
}

fn labels(template: &Value) -> BTreeMap<String, String> {
    let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
    labels
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}
