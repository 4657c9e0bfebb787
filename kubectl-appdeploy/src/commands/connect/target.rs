//! Selects the pod and the container to connect to.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use model::desired::CONTAINER;

use crate::cluster::connection::Cluster;
use crate::error::{Error, Result};
use crate::resource::children::is_pod_of;
use crate::resource::pod;
use crate::resource::workload::Workload;

/// The annotation with the default container.
const DEFAULT: &str = "kubectl.kubernetes.io/default-container";

/// Lists the pods of a workload, by name.
pub async fn pods(cluster: &Cluster, workload: &Workload) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), workload.namespace());
    let params = ListParams::default().labels(&workload.kind().pod_selector(workload.name()));
    let mut pods = cluster.call(api.list(&params)).await?.items;
    pods.retain(|pod| is_pod_of(pod, workload));
    pods.sort_by_key(kube::ResourceExt::name_any);
    Ok(pods)
}

/// Returns the pod to connect to: the named one; otherwise the youngest ready one; otherwise a running one.
pub fn choose<'a>(pods: &'a [Pod], named: Option<&str>) -> Option<&'a Pod> {
    if let Some(name) = named {
        return pods.iter().find(|pod| pod.name_any() == name);
    }
    let stays = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let runs = stays.filter(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"));
    runs.max_by_key(|pod| (pod::is_ready(pod), pod.creation_timestamp()))
}

/// Returns the error for an app without a pod to connect to, with the reason.
pub fn no_pod(cluster: &Cluster, workload: &Workload, pods: &[Pod], named: Option<&str>) -> Error {
    let words = cluster.kind_info();
    let (name, flag) = (workload.name(), cluster.flag());
    let status = words.verb("status", name).and(flag.clone());
    if let Some(pod) = named {
        let error = Error::failed(format!("{pod} is not a pod of {name}"));
        let all: Vec<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
        return if all.is_empty() {
            error.why("it has no pods").next(status)
        } else {
            error
                .why(format!("it has {}", crate::output::formats::some(&all)))
                .next(status)
        };
    }
    if workload.wanted() == 0 {
        return Error::failed(format!("{name} has no pods"))
            .why("it is scaled to zero")
            .next(words.verb("scale", name).and("--replicas=1").and(flag));
    }
    let error = Error::failed(format!("no pod of {name} runs"));
    let why = workload.explanation().map(|(text, _)| text);
    why.into_iter().fold(error, Error::why).next(status)
}

/// Returns the default container.
pub fn main_container(pod: &Pod) -> Option<&str> {
    let names = || {
        pod.spec
            .iter()
            .flat_map(|spec| &spec.containers)
            .map(|one| one.name.as_str())
    };
    let chosen = pod.annotations().get(DEFAULT).map_or(CONTAINER, String::as_str);
    names().find(|name| *name == chosen).or_else(|| names().next())
}

/// Returns the names of all containers of a pod, in the order in which they start.
pub fn containers(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let inits = spec.init_containers.iter().flatten();
    inits.chain(&spec.containers).map(|one| one.name.clone()).collect()
}

/// Returns the selected container of a pod. One that does not exist is an error.
pub fn container(pod: &Pod, named: Option<&str>) -> Result<String> {
    let all = containers(pod);
    match named {
        None => Ok(main_container(pod).unwrap_or(CONTAINER).to_owned()),
        Some(name) if all.iter().any(|one| one == name) => Ok(name.to_owned()),
        Some(name) => Err(Error::failed(format!("{} has no container {name}", pod.name_any()))
            .why(format!("it has {}", crate::output::formats::some(&all)))),
    }
}

/// Returns why a container does not run, in one word; `None` if it runs or its state is unknown.
pub fn not_running(pod: &Pod, container: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = status
        .container_statuses
        .iter()
        .chain(&status.init_container_statuses)
        .flatten();
    let state = all.into_iter().find(|one| one.name == container)?.state.as_ref()?;
    let waits = state.waiting.as_ref().map(|waiting| waiting.reason.clone());
    let ended = state.terminated.as_ref().map(|ended| ended.reason.clone());
    let word = waits.or(ended)?;
    Some(word.unwrap_or_else(|| "not started".to_owned()))
}

/// Returns the error for a container that does not run.
pub fn not_running_error(cluster: &Cluster, workload: &Workload, pod: &Pod, container: &str, state: &str) -> Error {
    let error = Error::failed(format!(
        "container {container} of {} does not run: {state}",
        pod.name_any()
    ));
    let why = workload.explanation().map(|(text, _)| text);
    let (words, name, flag) = (cluster.kind_info(), workload.name(), cluster.flag());
    why.into_iter()
        .fold(error, Error::why)
        .next(words.verb("status", name).and(flag.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::ui::RenderOptions;
    use serde_json::{Value, json};

    fn pod(name: &str, ready: bool, more: &Value) -> Pod {
        let mut pod = json!({"metadata": {"name": name, "creationTimestamp": "2026-06-01T00:00:00Z"},
            "spec": {"containers": [{"name": "proxy"}, {"name": "app"}], "initContainers": [{"name": "migrate"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}});
        for (key, value) in more.as_object().unwrap() {
            pod["metadata"][key] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn youngest_ready_pod_is_selected() {
        let none = json!({});
        let pods = [
            pod("old", true, &none),
            pod("young", true, &json!({"creationTimestamp": "2026-06-02T00:00:00Z"})),
            pod("starting", false, &json!({"creationTimestamp": "2026-06-03T00:00:00Z"})),
            pod(
                "going",
                true,
                &json!({"creationTimestamp": "2026-06-04T00:00:00Z", "deletionTimestamp": "2026-06-05T00:00:00Z"}),
            ),
        ];
        let name = |pods: &[Pod], named| choose(pods, named).map(kube::ResourceExt::name_any);
        assert_eq!(name(&pods, None).as_deref(), Some("young"));
        assert_eq!(name(&pods, Some("old")).as_deref(), Some("old"));
        assert_eq!(name(&pods, Some("nope")), None);
        assert_eq!(name(&pods[2..], None).as_deref(), Some("starting"));
        assert_eq!(name(&pods[3..], None), None);
    }

    #[test]
    fn waiting_or_terminated_container_is_not_running() {
        let with = |state: Value| {
            let mut pod = pod("a", false, &json!({}));
            let status =
                json!({"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 3, "state": state});
            let status = serde_json::from_value(status).unwrap();
            pod.status.as_mut().unwrap().container_statuses = Some(vec![status]);
            not_running(&pod, "app")
        };
        assert_eq!(with(json!({"running": {}})), None);
        assert_eq!(
            with(json!({"waiting": {"reason": "CrashLoopBackOff"}})).as_deref(),
            Some("CrashLoopBackOff")
        );
        assert_eq!(
            with(json!({"terminated": {"exitCode": 3, "reason": "Error"}})).as_deref(),
            Some("Error")
        );
        assert_eq!(not_running(&pod("a", true, &json!({})), "app"), None);
    }

    #[test]
    fn application_container_is_the_default() {
        let one = pod("a", true, &json!({}));
        assert_eq!(container(&one, None).as_deref(), Ok("app"));
        assert_eq!(container(&one, Some("proxy")).as_deref(), Ok("proxy"));
        assert_eq!(containers(&one), ["migrate", "proxy", "app"]);
        let other = pod("a", true, &json!({"annotations": {DEFAULT: "proxy"}}));
        assert_eq!(container(&other, None).as_deref(), Ok("proxy"));
        insta::assert_snapshot!(container(&one, Some("db")).unwrap_err().text(&RenderOptions::default()), @r"
        error: a has no container db
          why:  it has migrate, proxy, app
        ");
    }
}
