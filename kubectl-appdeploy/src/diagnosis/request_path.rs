//! Finds the broken component in the request path to the pods. This covers what the operator does not check, because it may not
//! read Secrets, or because only the user may read all objects.

use std::collections::BTreeMap;

use crd::AppDeploy;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use model::reason::Reason;
use model::{ChildKind, NextCommand, Valid, command, desired, validate};

use crate::diagnosis::queue::used::UsedQueue;
use crate::output::age::span;
use crate::resource::certificate::{Certificate, Tls};
use crate::resource::children::Children;
use crate::resource::pod;
use crate::resource::workload::Workload;

/// How long before its expiry a certificate is reported: less than when cert-manager renews one of Let's Encrypt.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// A component of the request path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// A child, such as the Ingress.
    Child(&'static ChildKind),
    /// The Secret with the certificate.
    Secret,
    /// The ReplicaSet of a revision.
    ReplicaSet,
    /// The pods.
    Pod,
}

/// The problem of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub component: Component,
    /// Whether requests fail because of it. Else it is only about to happen.
    pub is_broken: bool,
    /// A sentence.
    pub why: String,
    /// The command to run next.
    pub next: NextCommand,
}

impl Fault {
    fn hint(&self) -> Hint {
        (self.why.clone(), Some(self.next.clone()))
    }
}

/// The diagnosis of an app or a pod set, with the broken component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Why it is not as its author wants it, and the command to run next.
    pub why: Option<Hint>,
    /// Additional hints, each with a command.
    pub notes: Vec<Hint>,
    /// The stop at which requests fail.
    pub broken: Option<Component>,
}

/// A sentence, and a command if there is one.
pub type Hint = (String, Option<NextCommand>);

/// Additional facts, next to the status and the children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathContext {
    /// Why no operator manages it, and the command to run next.
    pub absence: Option<(String, NextCommand)>,
    /// The last line that a container wrote before it crashed.
    pub last_words: Option<String>,
    /// The queues that the spec names.
    pub queues: Vec<UsedQueue>,
}

/// Diagnoses an app: first a missing operator, then the cause in the status, then what only the
/// person may see.
pub fn diagnose(workload: &Workload, children: &Children, asked: &PathContext, now: Timestamp) -> Diagnosis {
    let fault = fault(workload, children, now);
    let broken = broken(workload, children, fault.as_ref());
    let mut notes: Vec<Hint> = Vec::new();
    let cause = workload.explanation().map(|(why, next)| match &asked.last_words {
        Some(words) => (format!("{why}; its last words: \"{words}\""), next),
        None => (why, next),
    });
    let is_settled = workload.is_observed() && workload.state().cause.is_none() && !workload.is_deleted();
    let why = match (&asked.absence, &fault) {
        (Some((why, next)), fault) => {
            notes.extend(fault.as_ref().map(Fault::hint));
            Some((why.clone(), Some(next.clone())))
        }
        // Other causes may resolve themselves; this one does not.
        (None, Some(fault)) if fault.is_broken && is_settled => Some(fault.hint()),
        (None, Some(fault)) => {
            notes.push(fault.hint());
            cause
        }
        (None, None) => cause,
    };
    notes.extend(closed(workload));
    Diagnosis { why, notes, broken }
}

/// Returns why a ready one is not reachable from outside the cluster. It is printed although nothing is broken.
fn closed(workload: &Workload) -> Option<Hint> {
    workload.hidden().map(|why| (why.to_owned(), None))
}

/// Returns what to warn of when one has become ready: Ready is about what the operator sees, and it may not read Secrets.
/// These are the sentences that [`story`] has for the same state. Endpoints are left out: they follow a moment later.
pub fn warnings(workload: &Workload, tls: Option<&(String, Tls)>, now: Timestamp) -> Vec<Hint> {
    let certificate = match workload {
        Workload::App(app) => of_certificate(app, tls, now),
        Workload::PodSet(_) => None,
    };
    let certificate = certificate.map(|fault| fault.hint());
    certificate.into_iter().chain(closed(workload)).collect()
}

/// Returns problems in the request path that the operator may not report. Failures come before warnings, and the outermost
/// component comes first.
pub fn fault(workload: &Workload, children: &Children, now: Timestamp) -> Option<Fault> {
    let Workload::App(app) = workload else { return None };
    let faults = [
        of_certificate(app, children.tls.as_ref(), now),
        of_service(workload, children),
    ];
    faults.into_iter().flatten().min_by_key(|fault| !fault.is_broken)
}

/// Returns the broken component: the one with the cause, not the one with the symptom. Crashing pods, for example, leave a Service
/// without endpoints.
pub fn broken(workload: &Workload, children: &Children, fault: Option<&Fault>) -> Option<Component> {
    if let Some(cause) = workload.state().cause.filter(|_| workload.is_observed()) {
        return of_reason(&cause.reason).or_else(|| Some(Component::Child(missing(workload, children).first()?)));
    }
    let is_closed = workload
        .hidden()
        .is_some_and(|_| workload.condition_reason("Exposed") == Some("NoIngressClass"));
    is_closed
        .then_some(Component::Child(&INGRESS))
        .or_else(|| fault.filter(|fault| fault.is_broken).map(|fault| fault.component))
}

/// Returns where a reason of the status is at home; `None` for those about the app itself.
fn of_reason(reason: &str) -> Option<Component> {
    // Most reasons are about pods, including unknown reasons of a newer operator.
    let Some(reason) = Reason::read(reason) else {
        return Some(Component::Pod);
    };
    match reason {
        Reason::NoIngressClass | Reason::HostConflict | Reason::AddressPending => Some(Component::Child(&INGRESS)),
        Reason::Paused | Reason::ProgressDeadlineExceeded => Some(Component::Child(&DEPLOYMENT)),
        Reason::QuotaExceeded
        | Reason::OutsideLimitRange
        | Reason::PodSecurity
        | Reason::PodsRefused
        | Reason::MissingServiceAccount => {
            Some(Component::ReplicaSet)
        }
        Reason::ImageNotFound
        | Reason::InvalidImageName
        | Reason::ImagePullDenied
        | Reason::ImagePullFailed
        | Reason::Unschedulable
        | Reason::MissingSecret
        | Reason::MissingConfigMap
        | Reason::MissingKey
        | Reason::QueueNotReady
        | Reason::RunsAsRoot
        | Reason::CrashLoop
        | Reason::OutOfMemory
        | Reason::MemoryLimitTooSmall
        | Reason::ImageVolumeUnsupported
        | Reason::ContainerFailed
        | Reason::Evicted
        | Reason::NotHealthy
        | Reason::PodNotTerminating
        | Reason::CommandNotFound => Some(Component::Pod),
        Reason::Available
        | Reason::ScaledToZero
        | Reason::Progressing
        | Reason::Deleting
        | Reason::InvalidSpec
        | Reason::Unreadable
        | Reason::NameConflict
        | Reason::ChildDeleting
        | Reason::Rejected
        | Reason::Forbidden
        | Reason::WatchFailed
        | Reason::ApiUnavailable
        | Reason::ReconcileTimeout
        | Reason::InternalError
        | Reason::NamespaceTerminating
        // Of AppQueues.
        | Reason::QueueConflict
        | Reason::QueueDeletedRecently
        | Reason::QueueRefused
        | Reason::QueueThrottled
        | Reason::EndpointUnavailable
        | Reason::CredentialsMissing
        | Reason::CredentialsForbidden
        | Reason::CredentialsRefused
        | Reason::DeadLetterMissing
        | Reason::DeadLetterNotReady => None,
    }
}

/// Returns the kinds of children that an app wants and does not have, from the outside in.
pub fn missing(workload: &Workload, children: &Children) -> Vec<&'static ChildKind> {
    let Workload::App(app) = workload else {
        return Vec::new();
    };
    let Ok(valid) = validate(app) else { return Vec::new() };
    let wanted = desired(&Valid {
        served: children.owned.iter().map(|(kind, _)| *kind).collect(),
        ..valid
    });
    let owned = children.owned.iter().rev();
    owned
        .filter(|(kind, section)| section.as_ref().is_ok_and(Vec::is_empty) && wanted.first(kind).is_some())
        .map(|(kind, _)| *kind)
        .collect()
}

/// Whether another object has the name that an app needs for a child. The operator does not change it.
pub fn is_taken(workload: &Workload, kind: &ChildKind) -> bool {
    let cause = workload.state().cause.filter(|_| workload.is_observed());
    cause.is_some_and(|cause| {
        cause.reason == Reason::NameConflict.as_str()
            && cause
                .message
                .starts_with(&format!("{kind} {} exists ", workload.name()))
    })
}

fn of_certificate(app: &AppDeploy, tls: Option<&(String, Tls)>, now: Timestamp) -> Option<Fault> {
    let (name, tls) = tls?;
    let namespace = app.namespace().unwrap_or_default();
    let make = command!(
        "kubectl create secret tls {} -n {} --cert=tls.crt --key=tls.key",
        name,
        namespace
    );
    let render = command!("kubectl describe secret {} -n {}", name, namespace);
    let fault = |is_broken, why, next| {
        Some(Fault {
            component: Component::Secret,
            is_broken,
            why,
            next,
        })
    };
    let certificate = match tls {
        Tls::Unknown(_) => return None,
        Tls::Missing => {
            let why = format!("the TLS Secret {name} does not exist, so browsers get another certificate");
            return fault(true, why, make);
        }
        Tls::Empty => return fault(true, format!("the TLS Secret {name} has no tls.crt"), render),
        Tls::Unreadable => {
            return fault(
                true,
                format!("tls.crt of the Secret {name} is not a PEM certificate"),
                render,
            );
        }
        Tls::Certificate(certificate) => certificate,
    };
    let renew = certificate.issued_by.as_ref().map_or_else(
        || make.clone().and("--dry-run=client -o yaml | kubectl apply -f -"),
        |issuer| command!("kubectl describe certificate {} -n {}", issuer, namespace),
    );
    let host = validate(app)
        .ok()
        .and_then(|valid| Some(valid.route?.ingress?.host))
        .filter(|host| !certificate.is_for(host));
    if let Some(host) = host {
        let why = match &certificate.hosts[..] {
            [] => format!("the certificate in the Secret {name} names no host, and so not {host}"),
            hosts => format!(
                "the certificate in the Secret {name} is for {}, not for {host}",
                crate::output::formats::some(hosts)
            ),
        };
        return fault(true, why, renew);
    }
    let left = certificate.until.duration_since(now);
    if !left.is_positive() {
        let why = format!(
            "the certificate in the Secret {name} expired {} ago",
            span(-left.as_secs())
        );
        return fault(true, why, renew);
    }
    if certificate.from > now {
        let why = format!(
            "the certificate in the Secret {name} does not count before {}",
            certificate.from
        );
        return fault(true, why, renew);
    }
    if left < SOON {
        let why = format!(
            "the certificate in the Secret {name} expires in {}",
            span(left.as_secs())
        );
        return fault(false, why, renew);
    }
    None
}

/// Returns the word for a TLS Secret, and whether it will do.
pub fn certificate(tls: &Tls, now: Timestamp) -> (String, bool) {
    match tls {
        Tls::Missing => ("missing".to_owned(), false),
        Tls::Empty => ("no tls.crt".to_owned(), false),
        Tls::Unreadable => ("no certificate in tls.crt".to_owned(), false),
        Tls::Unknown(why) => (format!("TLS {why}"), true),
        Tls::Certificate(Certificate { from, until, .. }) => {
            let left = until.duration_since(now).as_secs();
            match () {
                () if left <= 0 => (format!("expired {} ago", span(-left)), false),
                () if *from > now => (format!("not before {}", from.strftime("%F")), false),
                () => (format!("TLS until {} ({})", until.strftime("%F"), span(left)), true),
            }
        }
    }
}

fn of_service(workload: &Workload, children: &Children) -> Option<Fault> {
    let services: Vec<Service> = children.of(&SERVICE).ok()?;
    let service = services.iter().find(|one| one.name_any() == workload.name())?;
    let (name, namespace) = (workload.name(), workload.namespace());
    let deployment: Option<Deployment> = children.first(&DEPLOYMENT);
    if let Some(port) = deployment.and_then(|deployment| unknown_port(service, &deployment)) {
        return Some(Fault {
            component: Component::Child(&SERVICE),
            is_broken: true,
            why: format!("the Service sends requests to the port {port}, which no container of the pods has"),
            next: command!("kubectl get service {} -n {} -o yaml", name, namespace),
        });
    }
    let (ready, _) = endpoints(children.slices.as_ref().ok()?);
    let pods: Vec<&Pod> = children
        .pods
        .iter()
        .flatten()
        .filter(|one| one.metadata.deletion_timestamp.is_none() && pod::is_ready(one))
        .collect();
    if ready > 0 || pods.is_empty() {
        return None;
    }
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let is_selected = |one: &&Pod| {
        selector
            .into_iter()
            .flatten()
            .all(|(key, value)| one.labels().get(key) == Some(value))
    };
    let count = match pods.len() {
        1 => "1 pod is ready".to_owned(),
        many => format!("{many} pods are ready"),
    };
    let (reason, next) = if pods.iter().any(is_selected) {
        (
            "kube-controller-manager has not added them yet".to_owned(),
            command!(
                "kubectl get endpointslices -n {} -l {}={}",
                namespace,
                crate::resource::children::SLICE_OF,
                name
            ),
        )
    } else {
        let selector: Vec<String> = selector
            .into_iter()
            .flatten()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        (
            format!("it selects {}, which they do not have", selector.join(",")),
            command!("kubectl get service {} -n {} -o yaml", name, namespace),
        )
    };
    Some(Fault {
        component: Component::Child(&SERVICE),
        is_broken: true,
        why: format!("{count}, but the Service has no endpoints: {reason}"),
        next,
    })
}

/// Returns the port that a Service sends to by a name that the pods do not know.
fn unknown_port(service: &Service, deployment: &Deployment) -> Option<String> {
    let template = &deployment.spec.as_ref()?.template;
    let containers = &template.spec.as_ref()?.containers;
    let known: Vec<&str> = containers
        .iter()
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| port.name.as_deref())
        .collect();
    let ports = service.spec.as_ref()?.ports.iter().flatten();
    ports.into_iter().find_map(|port| match &port.target_port {
        // A number is reached whether or not the pod names it.
        Some(IntOrString::String(name)) if !known.contains(&name.as_str()) => Some(name.clone()),
        _ => None,
    })
}

/// Returns the numbers of ready endpoints and of all endpoints. Each pod counts once, and terminating ones do not count.
pub fn endpoints(slices: &[EndpointSlice]) -> (usize, usize) {
    let mut all: BTreeMap<String, bool> = BTreeMap::new();
    for endpoint in slices.iter().flat_map(|slice| &slice.endpoints) {
        let conditions = endpoint.conditions.as_ref();
        if conditions.and_then(|c| c.terminating) == Some(true) {
            continue;
        }
        let target = endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
        let key = target
            .or_else(|| endpoint.addresses.first().cloned())
            .unwrap_or_default();
        let is_ready = conditions.and_then(|c| c.ready) != Some(false);
        *all.entry(key).or_default() |= is_ready;
    }
    (all.values().filter(|ready| **ready).count(), all.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn words(workload: &Workload, tls: Tls, secret: &str) -> Vec<String> {
        let mut children = Children::of_pods(Ok(vec![]));
        children.tls = Some((secret.to_owned(), tls));
        let next = fault(workload, &children, Timestamp::UNIX_EPOCH).unwrap().next;
        assert!(!next.as_str().contains(char::is_control), "{next:?}");
        let text = next.as_str();
        shlex::split(text.strip_suffix(" | kubectl apply -f -").unwrap_or(text)).unwrap()
    }

    proptest! {
        /// The author of an app chooses the name of its Secret; the author of that Secret chooses its annotations.
        #[test]
        fn names_in_secrets_and_annotations_are_one_word_of_a_command(secret in "[^-].{0,9}", issuer in "[^-].{0,9}") {
            let app = json!({"metadata": {"name": "shop", "namespace": "blue"}, "spec": {"image": "x", "port": 80,
                "host": "shop.example.com", "tls": {"secretName": secret}}});
            let workload = Workload::App(serde_json::from_value(app).unwrap());
            let shown = |text: &str| model::printable::printable(text).into_owned();
            let create = |name: &str| {
                let flags = ["-n", "blue", "--cert=tls.crt", "--key=tls.key"];
                let words = ["kubectl", "create", "secret", "tls", name].into_iter().chain(flags);
                words.map(str::to_owned).collect::<Vec<_>>()
            };
            prop_assert_eq!(words(&workload, Tls::Missing, &secret), create(&shown(&secret)));
            let expired = Certificate {
                hosts: vec!["shop.example.com".to_owned()],
                from: Timestamp::UNIX_EPOCH,
                until: Timestamp::UNIX_EPOCH,
                issued_by: Some(issuer.clone()),
            };
            let intended = ["kubectl", "describe", "certificate", &shown(&issuer), "-n", "blue"].map(str::to_owned);
            prop_assert_eq!(words(&workload, Tls::Certificate(expired), &secret), intended);
        }
    }
}
