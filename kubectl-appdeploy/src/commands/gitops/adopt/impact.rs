//! The impact of an adoption: what is lost, and notes.

use std::collections::BTreeMap;

use crd::label;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use model::desired::PORT;
use model::merge::service_with;
use model::spec_reader::{ReadApp, UnmappedField};
use model::{CHILDREN, ChildKind, Desired, command, spec_reader};
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

/// Returns the impact. `read` is the spec of the objects; `extra_ports` are additional ports that the Service keeps.
pub fn of(found: &Snapshot, read: &ReadApp, wanted: &Desired, extra_ports: &[Value], pods: Pods) -> Impact {
    let nothing = Value::Null;
    let old = found.old().unwrap_or(&nothing);
    // The template of the Deployment to adopt, otherwise that of the app's own Deployment.
    let template = &found.old().or_else(|| found.own()).unwrap_or(&nothing)["spec"]["template"];
    let uid = found.uid().unwrap_or_default();
    let mut impact = Impact::default();
    impact.add_fields(found, &read.unmapped, pods);
    impact.lost.extend(owners(found, uid));
    if let Some(service) = found.foreign(&SERVICE, uid) {
        impact.lost.extend(mismatched_service(found, service, template, wanted));
        impact.lost.extend(missing_target_ports(found, extra_ports));
        impact.add_ingresses(found, wanted.first(&INGRESS).is_some(), extra_ports);
        impact.add_renamed_ports(found, service, wanted, extra_ports);
    }
    if pods.are_replaced() {
        impact.add_pause(old, read);
        impact.add_labels(found, template, wanted);
        impact.add_annotations(old);
        impact.add_pod_defaults(template, wanted);
    }
    impact.add_app(found, old, wanted, pods);
    if pods != Pods::Own {
        let deployment = old["metadata"]["name"].as_str().unwrap_or_default();
        impact.lost.extend(found.dependents.autoscalers(deployment));
    }
    impact.notes.extend(managing_tools(found));
    let unseen = found.dependents.unreadable();
    if !unseen.is_empty() {
        let unseen = unseen.join(", ");
        impact
            .notes
            .push(format!("whether {unseen} depend on these objects is n/a (forbidden)"));
    }
    impact
}

impl Impact {
    /// Reports changes of the host and of the number of pods by an app that already exists. Changing the host is a loss if the
    /// app has the default host, because then its author has not chosen to give up the host of the Ingress.
    fn add_app(&mut self, found: &Snapshot, old: &Value, wanted: &Desired, pods: Pods) {
        let Some(app) = &found.app else { return };
        let Snapshot { name, namespace, .. } = found;
        let host = |ingress: &Value| ingress["spec"]["rules"][0]["host"].as_str().map(str::to_owned);
        let live = found.foreign(&INGRESS, found.uid().unwrap_or_default());
        let hosts = live.and_then(host).zip(wanted.first(&INGRESS).and_then(host));
        if let Some((before, after)) = hosts.filter(|(before, after)| before != after) {
            let change = format!("the host of ingress/{name} changes from {before} to {after}");
            if app.spec.host.is_none() {
                let keep = command!("kubectl appdeploy set host {}={} -n {}", name, before, namespace);
                self.lost.push(format!("{change}; keep the host with: {keep}"));
            } else {
                self.notes.push(format!("{change}: requests to {before} will fail"));
            }
        }
        let before = old["spec"]["replicas"].as_i64().unwrap_or(1);
        let after = i64::from(app.spec.replicas);
        if pods != Pods::Own && !old.is_null() && before != after {
            let old = old["metadata"]["name"].as_str().unwrap_or(name);
            self.notes.push(format!(
                "the replicas of deployment/{old} change from {before} to {after}, as in the spec of the app"
            ));
        }
    }

    /// Reports fields that an app can't have.
    fn add_fields(&mut self, found: &Snapshot, left: &[(&'static ChildKind, UnmappedField)], pods: Pods) {
        for (kind, rest) in left {
            // Other fields of the app's own Deployment are not changed.
            if **kind == DEPLOYMENT && found.old().is_none() {
                continue;
            }
            let stays = !rest.differs && (**kind != DEPLOYMENT || pods == Pods::Kept);
            let field = describe(found, kind, rest);
            match (rest.matters(), stays) {
                (true, false) => self.lost.push(format!("{field} can't be set in an app")),
                (_, true) => self.notes.push(format!("{field} is kept, but is not part of the app")),
                // They are reported together.
                (false, false) if rest.path.contains(".metadata.labels.") => {}
                (false, false) => self.notes.push(format!("{field} is removed")),
            }
        }
    }

    /// Reports labels that the new pods do not have, and objects that select pods by these labels.
    fn add_labels(&mut self, found: &Snapshot, template: &Value, wanted: &Desired) {
        let Some(deployment) = wanted.first(&DEPLOYMENT) else {
            return;
        };
        let (before, after) = (labels(template), labels(&deployment["spec"]["template"]));
        self.lost
            .extend(found.dependents.lost_selectors(&found.name, &before, &after));
        if found.other.is_none() && before.get(label::APP) == Some(&found.name) {
            self.lost.push(format!(
                "the pods have the label {}={} already, so the app's Deployment adopts them and deletes them before the new pods get requests",
                label::APP,
                found.name
            ));
        }
        let removed: Vec<String> = before
            .iter()
            .filter(|(name, value)| *name != "pod-template-hash" && after.get(*name) != Some(*value))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !removed.is_empty() {
            self.notes
                .push(format!("the new pods do not have the labels {}", removed.join(", ")));
        }
    }

    /// Reports annotations of a Deployment that is replaced.
    fn add_annotations(&mut self, old: &Value) {
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
        self.notes.extend(
            own.map(|(key, value)| format!("deployment/{name} metadata.annotations.{key}: {value} is removed")),
        );
    }

    /// Reports fields that all pods of apps have and the old pods do not have.
    fn add_pod_defaults(&mut self, template: &Value, wanted: &Desired) {
        let is_true = |value: &Value| value.as_bool().unwrap_or(true);
        let Some(deployment) = wanted.first(&DEPLOYMENT) else {
            return;
        };
        let (before, after) = (&template["spec"], &deployment["spec"]["template"]["spec"]);
        let own = spec_reader::container(template).unwrap_or(&Value::Null);
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

    /// Reports a pause, which the app does not keep. The new pods have the current template, also if its rollout is paused.
    fn add_pause(&mut self, old: &Value, read: &ReadApp) {
        if !read.spec.paused {
            return;
        }
        let count = |field: &str| old["status"][field].as_i64().unwrap_or_default();
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        if count("updatedReplicas") < count("replicas") {
            self.lost.push(format!(
                "deployment/{name} is paused in the middle of a rollout, and all pods of the app would have the new template"
            ));
        } else {
            self.notes.push(format!(
                "deployment/{name} is paused; the app is not, because it must start new pods"
            ));
        }
    }

    /// Reports ports that are renamed. They have no endpoints for a moment, unless temporary EndpointSlices bridge the change.
    fn add_renamed_ports(&mut self, found: &Snapshot, service: &Value, wanted: &Desired, extra_ports: &[Value]) {
        let Some(wanted) = wanted.first(&SERVICE) else {
            return;
        };
        let renamed = renamed(service, &service_with(service, wanted, extra_ports));
        for (before, after) in renamed.iter().filter(|(before, _)| !before.is_empty()) {
            self.notes.push(format!(
                "port {before} of service/{} is renamed to {after}; update clients that use the name",
                found.name
            ));
        }
        if !found.may_bridge && !renamed.is_empty() {
            self.lost.push(format!(
                "requests to service/{} fail for a moment while its ports are renamed; with the right to create and delete \
                 EndpointSlices, adopt avoids this",
                found.name
            ));
        }
    }

    /// Reports other Ingresses that route to the Service.
    fn add_ingresses(&mut self, found: &Snapshot, has_one: bool, extra_ports: &[Value]) {
        let names: Vec<String> = std::iter::once(PORT)
            .chain(extra_ports.iter().filter_map(|port| port["name"].as_str()))
            .map(str::to_owned)
            .collect();
        let name = &found.name;
        for (ingress, breaks) in found.dependents.ingresses_of(name, has_one, &names) {
            if breaks {
                let sentence = format!("{ingress} routes to a port name of service/{name} that is removed");
                self.lost.push(sentence);
            } else {
                let sentence = format!("{ingress} also routes to service/{name}, and is not changed");
                self.notes.push(sentence);
            }
        }
    }
}

/// Returns an unmapped field with its object and its value, which is cut.
fn describe(found: &Snapshot, kind: &ChildKind, rest: &UnmappedField) -> String {
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
                "{}/{} is owned by {} {}, which may change or delete it",
                kind.as_str().to_lowercase(),
                metadata["name"].as_str().unwrap_or_default(),
                word("kind"),
                word("name")
            ));
        }
    }
    owners
}

/// Reports the tools that manage these objects and may revert the adoption.
fn managing_tools(found: &Snapshot) -> Vec<String> {
    const TOOLS: [(&str, &str, &str); 4] = [
        ("annotations", "meta.helm.sh/release-name", "Helm release"),
        ("annotations", "argocd.argoproj.io/tracking-id", "Argo CD application"),
        ("labels", "argocd.argoproj.io/instance", "Argo CD application"),
        ("labels", "kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"),
    ];
    let objects = || {
        let live = found.live.iter().map(|(_, object)| object);
        live.chain(found.other.as_ref())
    };
    let mut notes: Vec<String> = TOOLS
        .iter()
        .filter_map(|(part, key, tool)| {
            let name = objects().find_map(|object| object["metadata"][*part][*key].as_str())?;
            Some(format!(
                "{tool} {name} may revert the adoption: remove these objects from it"
            ))
        })
        .collect();
    notes.dedup();
    notes
}

/// Reports a Service that does not select the pods, or that the app does not have.
fn mismatched_service(found: &Snapshot, service: &Value, template: &Value, wanted: &Desired) -> Vec<String> {
    let mut lost = Vec::new();
    let name = &found.name;
    if wanted.first(&SERVICE).is_none() {
        lost.push(format!("service/{name} has no target, because the app has no port"));
    }
    if !selects(service, template) {
        lost.push(if found.old().is_some() {
            format!("service/{name} does not select the pods of the Deployment")
        } else {
            format!(
                "service/{name} does not select the pods of the app; if it selects those of another Deployment, name that one with \
                 --deployment"
            )
        });
    }
    lost
}

/// Whether a Service selects the pods of a template.
pub fn selects(service: &Value, template: &Value) -> bool {
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
fn missing_target_ports(found: &Snapshot, extra_ports: &[Value]) -> Vec<String> {
    let named = extra_ports
        .iter()
        .filter_map(|port| Some((port, port["targetPort"].as_str()?)));
    let others = named.filter(|(_, target)| *target != PORT);
    others
        .map(|(port, target)| {
            format!(
                "port {} of service/{} targets the port {target}, which the pods of the app do not have",
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
