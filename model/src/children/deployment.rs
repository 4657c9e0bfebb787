//! The Deployment of an app: runs its pods.

use crd::{PodFields, RolloutStrategy, RolloutType, annotation};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, RollingUpdateDeployment,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::child::{Child, ChildState, Rollout};
use super::observed::Observed;
use super::{ChildKind, Health, SERVICE_ACCOUNT, replace_list};
use crate::defaults::{self, fill};
use crate::desired::probes::probes;
use crate::desired::{finish, meta, pod_template, selector};
use crate::diagnose::{
    Diagnosis, Subject, describe_pods, diagnose_pod, diagnosis, newest_template, refusal, reported_problem,
};
use crate::pod::PodState;
use crate::reason::Reason;
use crate::{Valid, command};

/// How long a pod without a readiness probe must have run to count as available, in seconds.
const MIN_READY: i32 = 3;

/// The annotation in which the Deployment controller numbers revisions.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The maximum size of the recorded spec, in bytes. All annotations of an object together may have 256 KiB. A larger spec is
/// not recorded.
const MAX_RECORD: usize = 200 * 1024;

/// The Deployment that each app has.
pub static DEPLOYMENT: ChildKind = ChildKind {
    read,
    health,
    defaults: fill_defaults,
    ports_patch,
    rendered_before,
    needs: Some(&SERVICE_ACCOUNT),
    // Never deleted: an app with no replicas has a Deployment without pods.
    verbs: &["create", "get", "list", "patch", "watch"],
    ..ChildKind::new(["apps", "v1", "Deployment", "deployments"], |app| vec![render(app)])
};

impl Observed {
    /// Returns the state of the Deployment.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        self.first(&DEPLOYMENT).and_then(Child::rollout)
    }
}

fn render(app: &Valid<'_>) -> Value {
    let mut meta = meta(app);
    if let Some(spec) = serde_json::to_string(app.pod)
        .ok()
        .filter(|spec| spec.len() < MAX_RECORD)
    {
        meta.annotations
            .get_or_insert_default()
            .insert(annotation::REVISION_SPEC.to_owned(), spec);
    }
    let deployment = Deployment {
        metadata: meta,
        spec: Some(DeploymentSpec {
            replicas: Some(app.replicas),
            paused: app.paused.then_some(true),
            selector: LabelSelector {
                match_labels: Some(selector(&app.name)),
                ..LabelSelector::default()
            },
            template: pod_template::render(app),
            ..settings(app.pod, app.rollout)
        }),
        status: None,
    };
    finish(&DEPLOYMENT, &deployment)
}

/// Returns a Deployment's settings of rollouts.
pub fn settings(pod: &PodFields, rollout: Option<&RolloutStrategy>) -> DeploymentSpec {
    let strategy = |rollout: &RolloutStrategy| {
        let has_limit = rollout.max_surge.is_some() || rollout.max_unavailable.is_some();
        let type_ = rollout
            .type_
            .or_else(|| has_limit.then_some(RolloutType::RollingUpdate))?;
        Some(DeploymentStrategy {
            type_: Some(type_.as_str().into()),
            rolling_update: has_limit.then(|| RollingUpdateDeployment {
                max_surge: rollout.max_surge.clone(),
                max_unavailable: rollout.max_unavailable.clone(),
            }),
        })
    };
    DeploymentSpec {
        min_ready_seconds: min_ready(pod),
        strategy: rollout.and_then(strategy),
        progress_deadline_seconds: rollout.and_then(|rollout| rollout.progress_deadline_seconds),
        ..DeploymentSpec::default()
    }
}

/// Returns how long a pod must have run to be available, in seconds. Set only for a pod without a readiness probe, of which
/// nothing else can be observed.
pub fn min_ready(pod: &PodFields) -> Option<i32> {
    probes(&pod.container).readiness.is_none().then_some(MIN_READY)
}

/// Renders the Deployment from the spec that is recorded in the live one.
fn rendered_before(app: &Valid<'_>, child: &Child) -> Option<Value> {
    let rollout = child.rollout()?;
    let pod: PodFields = serde_json::from_str(rollout.revision_spec.as_deref()?).ok()?;
    Some(render(&Valid {
        pod: &pod,
        replicas: rollout.wanted,
        config_hash: rollout.config_hash.as_deref().map(ToOwned::to_owned),
        ..app.clone()
    }))
}

fn ports_patch(object: &Value) -> Option<Value> {
    let container = object.pointer("/spec/template/spec/containers/0")?;
    let ours = json!({"name": container["name"], "ports": replace_list(&container["ports"])?});
    Some(json!({"template": {"spec": {"containers": [ours]}}}))
}

fn fill_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(
        spec,
        &json!({"replicas": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate"}}),
    );
    if spec["strategy"]["type"] == "RollingUpdate" {
        let strategy = &mut spec["strategy"];
        fill(strategy, &json!({"rollingUpdate": {}}));
        let most = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
        fill(&mut strategy["rollingUpdate"], &most);
    }
    defaults::pod_spec(&mut spec["template"]["spec"]);
}

fn read(meta: &ObjectMeta, data: &Value) -> ChildState {
    let status: DeploymentStatus = data
        .get("status")
        .and_then(|status| serde_json::from_value(status.clone()).ok())
        .unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().flatten().find(|c| c.type_ == type_);
    let annotation = |key: &str| meta.annotations.as_ref()?.get(key);
    ChildState::Rollout(Box::new(Rollout {
        observed: status.observed_generation >= meta.generation,
        wanted: data
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .and_then(|n| n.try_into().ok())
            .unwrap_or(1),
        replicas: status.replicas.unwrap_or(0),
        updated: status.updated_replicas.unwrap_or(0),
        ready: status.ready_replicas.unwrap_or(0),
        available: status.available_replicas.unwrap_or(0),
        refused: condition("ReplicaFailure")
            .filter(|c| c.status == "True")
            .and_then(|c| c.message.clone()),
        revision: annotation(REVISION).and_then(|revision| revision.parse().ok()),
        paused: data.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or(false),
        overdue: condition("Progressing").is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded")),
        config_hash: data
            .pointer("/spec/template/metadata/annotations")
            .and_then(|all| all.get(annotation::CONFIG_HASH)?.as_str())
            .map(Into::into),
        revision_spec: annotation(annotation::REVISION_SPEC).cloned(),
    }))
}

fn health(of: Health<'_>) -> Option<Diagnosis> {
    let Health {
        subject,
        valid,
        observed,
    } = of;
    let Some(rollout) = observed.rollout() else {
        return Some(diagnosis(Reason::Progressing, "the Deployment is being created", None));
    };
    if rollout.is_complete() {
        // A container that crashes counts as ready while it runs, and the Deployment counts a pod as ready for a moment
        // after the pod has failed.
        let (_, problem) = reported_problem(&observed.pods, subject.now)?;
        return Some(diagnose_pod(subject, &problem));
    }
    let found = of_rollout(subject, valid, &observed.pods, rollout);
    // New pods are about to replace the pods that serve, and a pause is intended.
    if found.reason.is_progress() || found.reason == Reason::Paused {
        return Some(found);
    }
    Some(with_earlier(subject, found, &observed.pods, rollout))
}

/// Returns how far an incomplete rollout is, or what prevents it from completing.
fn of_rollout(subject: Subject<'_>, valid: &Valid<'_>, pods: &[PodState], rollout: &Rollout) -> Diagnosis {
    let progress = progress(rollout);
    if !rollout.observed {
        // The status is about the previous spec, and its error may have been fixed.
        return diagnosis(Reason::Progressing, &progress, None);
    }
    if let Some(refusal) = &rollout.refused {
        return refusal::diagnose(subject, refusal);
    }
    if rollout.paused {
        // A Deployment that was paused directly must be resumed directly.
        let next = if valid.paused {
            subject.command("resume")
        } else {
            command!(
                "kubectl rollout resume deployment {} -n {}",
                subject.name,
                subject.namespace
            )
        };
        return diagnosis(
            Reason::Paused,
            &format!("the rollout is paused: {progress}"),
            Some(next),
        );
    }
    if let Some((_, problem)) = reported_problem(pods, subject.now) {
        return diagnose_pod(subject, &problem);
    }
    if rollout.overdue {
        return diagnosis(
            Reason::ProgressDeadlineExceeded,
            &format!("{progress}, and there was no progress for {}", deadline(valid)),
            Some(describe_pods(subject)),
        );
    }
    diagnosis(Reason::Progressing, &progress, None)
}

/// Returns after which time without progress a rollout is reported as failed.
fn deadline(valid: &Valid<'_>) -> String {
    let seconds = valid.rollout.and_then(|rollout| rollout.progress_deadline_seconds);
    seconds.map_or_else(|| "ten minutes".to_owned(), |seconds| format!("{seconds} s"))
}

/// Adds to the cause of a failed rollout how many pods of an earlier revision still serve, and how to go back to it.
fn with_earlier(subject: Subject<'_>, found: Diagnosis, pods: &[PodState], rollout: &Rollout) -> Diagnosis {
    let earlier = if rollout.updated == 0 {
        rollout.ready
    } else {
        let newest = newest_template(pods);
        let earlier = pods.iter().filter(|pod| pod.ready && !pod.deleting);
        let count = earlier.filter(|pod| Some(&pod.template) != newest).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    let serve = match earlier {
        ..=0 => return found,
        1 => "1 pod of an earlier revision still serves".to_owned(),
        many => format!("{many} pods of an earlier revision still serve"),
    };
    Diagnosis {
        message: format!("{}; {serve}, undo with: {}", found.message, subject.command("undo")),
        ..found
    }
}

/// Describes the progress of a rollout with the counts that matter in its phase: old pods stay ready while new ones start.
fn progress(rollout: &Rollout) -> String {
    let Rollout {
        updated,
        ready,
        wanted,
        replicas,
        available,
        ..
    } = *rollout;
    let counts = format!("{} of {wanted} pods are ready", ready.min(wanted));
    if !rollout.observed || ready < wanted || wanted == 0 {
        return counts;
    }
    let new = format!("{updated} of {wanted} pods run the new spec");
    match replicas - updated {
        _ if updated < wanted => new,
        1 => format!("{new}, and 1 old pod serves until they are ready"),
        old @ 2.. => format!("{new}, and {old} old pods serve until they are ready"),
        _ if available < wanted => format!("{counts}, {available} for long enough"),
        _ => counts,
    }
}
