//! Endpoints of a Service during an adoption.
//!
//! kube-proxy and ingress controllers find the endpoints of a Service port by the name of the port, and watch Services and
//! EndpointSlices separately. Adoption may rename the ports of a Service. Kubernetes updates the EndpointSlices a moment later, and
//! until then a renamed port has no endpoints. A bridge avoids this: temporary EndpointSlices for the pods of the app with the new
//! port names, created before the ports are renamed and deleted after that. A pod owns its slices, so they are garbage-collected
//! even if the command is interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use model::desired::PORT;
use serde_json::{Value, json};

use crate::cluster::connection::{Cluster, MANAGER};
use crate::cluster::known::ObjectCache;
use crate::cluster::wait::{self, Deadline};
use crate::cluster::watch::{self, Connection, Watched};
use crate::error::{Error, Result};
use crate::installation::rights::{Right, refused};
use crate::resource::children::SLICE_OF;
use crate::resource::pod;
use crate::terminal::ui::Ui;

/// How long kube-proxy and the ingress controller may take to apply a change of endpoints. No status reports that they have.
pub const PROXY_DELAY: Duration = Duration::from_secs(5);

/// The label with the manager of an EndpointSlice; the plugin sets [`MANAGER`].
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Maximum number of concurrent requests.
const CONCURRENCY: usize = 8;

/// Returns the old and the new name of each port of a Service that is renamed.
pub fn renamed(live: &Value, becomes: &Value) -> Vec<(String, String)> {
    let names = |service: &Value| -> BTreeMap<(String, i64), String> {
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        ports.map(|port| (key(port), text(&port["name"]))).collect()
    };
    let after = names(becomes);
    let before = names(live).into_iter();
    before
        .filter_map(|(port, name)| Some((name, after.get(&port)?.clone())))
        .filter(|(name, after)| name != after)
        .collect()
}

/// Whether any port of a Service is renamed.
pub fn are_renamed(live: &Value, becomes: &Value) -> bool {
    !renamed(live, becomes).is_empty()
}

/// Returns the ports of a Service in the format of an EndpointSlice. `number` is the container port of the app.
fn ports(service: &Value, number: i32) -> Vec<Value> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let target = |port: &Value| match &port["targetPort"] {
        Value::Number(target) => target.as_i64(),
        Value::String(name) if name == PORT => Some(number.into()),
        Value::Null => port["port"].as_i64(),
        _ => None,
    };
    ports
        .filter_map(|port| {
            let mut of = json!({"name": port["name"], "protocol": key(port).0, "port": target(port)?});
            if port["appProtocol"].is_string() {
                of["appProtocol"] = port["appProtocol"].clone();
            }
            Some(of)
        })
        .collect()
}

/// Returns the slices of a bridge: one for each address of each ready pod.
fn slices(service: &Value, pods: &[Pod], number: i32) -> Vec<Value> {
    let (name, ports) = (text(&service["metadata"]["name"]), ports(service, number));
    let families = service["spec"]["ipFamilies"].as_array().cloned().unwrap_or_default();
    let mut slices = Vec::new();
    for pod in pods.iter().filter(|pod| is_serving(pod)) {
        let (named, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let status = pod.status.iter();
        let addresses = status
            .flat_map(|status| status.pod_ips.iter().flatten())
            .map(|ip| &ip.ip);
        for address in addresses {
            let family = match address.parse() {
                Ok(IpAddr::V4(_)) => "IPv4",
                Ok(IpAddr::V6(_)) => "IPv6",
                Err(_) => continue,
            };
            if !families.is_empty() && !families.contains(&json!(family)) {
                continue;
            }
            slices.push(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": format!("{named}-{}", family.to_lowercase()),
                    "namespace": pod.namespace(),
                    "labels": {SLICE_OF: name, MANAGED_BY: MANAGER},
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": named, "uid": uid}],
                },
                "addressType": family,
                "endpoints": [{
                    "addresses": [address],
                    "conditions": {"ready": true, "serving": true, "terminating": false},
                    "nodeName": pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
                    "targetRef": {"kind": "Pod", "name": named, "namespace": pod.namespace(), "uid": uid},
                }],
                "ports": ports,
            }));
        }
    }
    slices
}

fn is_serving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && pod::is_ready(pod)
}

/// Creates the slices of a bridge for the new port names of a Service, and waits until proxies have applied them.
pub async fn bridge(cluster: &Cluster, app: &str, becomes: &Value, number: i32) -> Result<()> {
    let pods = own_pods(cluster, app).await?;
    let api = slices_of(cluster);
    let all = slices(becomes, &pods, number).into_iter().map(|slice| {
        let api = &api;
        async move {
            let broken = |source: serde_json::Error| Error::failed(format!("cannot write an EndpointSlice: {source}"));
            let slice: EndpointSlice = serde_json::from_value(slice).map_err(broken)?;
            let params = PostParams {
                field_manager: Some(MANAGER.to_owned()),
                dry_run: false,
            };
            match cluster.attempt(api.create(&params, &slice)).await? {
                // A slice of an interrupted command has the same content.
                Err(kube::Error::Api(status)) if !status.is_already_exists() => {
                    Err(cluster.explain(kube::Error::Api(status)).about("endpointslices"))
                }
                Err(kube::Error::Api(_)) | Ok(_) => Ok(()),
                Err(source) => Err(cluster.explain(source).about("endpointslices")),
            }
        }
    });
    stream::iter(all)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await?;
    tokio::time::sleep(PROXY_DELAY).await;
    Ok(())
}

/// Whether the user may create, list and delete EndpointSlices.
pub async fn may_bridge(cluster: &Cluster) -> Result<bool> {
    let rights = ["create", "list", "delete"]
        .map(|verb| Right::within(&cluster.namespace, verb, "discovery.k8s.io", "endpointslices"));
    Ok(refused(cluster, rights.into()).await?.is_empty())
}

/// Returns the names of the plugin's slices, including those of an interrupted command.
pub async fn bridges(cluster: &Cluster, app: &str) -> Result<Vec<String>> {
    let ours = ListParams::default().labels(&format!("{SLICE_OF}={app},{MANAGED_BY}={MANAGER}"));
    match cluster.attempt(slices_of(cluster).list(&ours)).await? {
        Ok(list) => Ok(list.items.iter().map(ResourceExt::name_any).collect()),
        // A user without the right to list them has created none.
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(Vec::new()),
        Err(source) => Err(cluster.explain(source).about("endpointslices")),
    }
}

/// Deletes the plugin's slices.
pub async fn remove_bridges(cluster: &Cluster, app: &str) -> Result<()> {
    let api = slices_of(cluster);
    for name in bridges(cluster, app).await? {
        match cluster.attempt(api.delete(&name, &DeleteParams::default())).await? {
            // It was deleted with its pod.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(source) => return Err(cluster.explain(source).about(&format!("endpointslices/{name}"))),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// The endpoints that a Service must have after an adoption.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The name of the app and of the Service.
    pub app: &'a str,
    /// The Service.
    pub service: &'a Value,
    /// The container port of the app.
    pub port: i32,
    /// Whether at least one ready pod is required. An app that is scaled to zero has none.
    pub has_pods: bool,
}

/// Waits until all endpoints of a Service are pods of the app, with the current port names. Returns whether this is the case
/// before the deadline.
pub async fn until_moved(cluster: &Cluster, target: Target<'_>, deadline: Deadline, ui: &mut Ui) -> Result<bool> {
    let Target { app, service, port, .. } = target;
    let config = watcher::Config::default().labels(&format!("{SLICE_OF}={app},{MANAGED_BY}!={MANAGER}"));
    let names: BTreeSet<String> = ports(service, port).iter().map(|port| text(&port["name"])).collect();
    let changes = watch::follow_all(cluster, slices_of(cluster), config);
    let mut changes = Watched::new(changes, Connection::after_a_change());
    let mut known = ObjectCache::default();
    let moved = wait::until(&mut changes, deadline, ui, async |event, _| {
        known.take(event);
        if !known.is_complete() {
            return Ok(None);
        }
        let own: BTreeSet<String> = own_pods(cluster, app)
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        Ok(has_moved(known.all(), &own, &names, target.has_pods).then_some(()))
    });
    if moved.await?.is_none() {
        return Ok(false);
    }
    tokio::time::sleep(PROXY_DELAY).await;
    Ok(true)
}

/// Whether all endpoints are pods in `own`, and at least one of them is ready if `has_pods`.
fn has_moved<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    own: &BTreeSet<String>,
    names: &BTreeSet<String>,
    has_pods: bool,
) -> bool {
    let mut ready = 0;
    for slice in slices.filter(|slice| !slice.endpoints.is_empty()) {
        let ports = slice.ports.iter().flatten();
        let offered: BTreeSet<String> = ports.map(|port| port.name.clone().unwrap_or_default()).collect();
        if !names.is_subset(&offered) {
            return false;
        }
        for endpoint in &slice.endpoints {
            let pod = endpoint.target_ref.as_ref().and_then(|target| target.name.as_ref());
            if !pod.is_some_and(|pod| own.contains(pod)) {
                return false;
            }
            let is_ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
            ready += usize::from(is_ready == Some(true));
        }
    }
    ready > 0 || !has_pods
}

async fn own_pods(cluster: &Cluster, app: &str) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let own = ListParams::default().labels(&cluster.kind.pod_selector(app));
    Ok(cluster.call(pods.list(&own)).await?.items)
}

fn slices_of(cluster: &Cluster) -> Api<EndpointSlice> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Returns the protocol and the number of a port of a Service, which identify it.
fn key(port: &Value) -> (String, i64) {
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    (protocol.to_owned(), port["port"].as_i64().unwrap_or_default())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ports: &Value) -> Value {
        json!({"metadata": {"name": "shop"}, "spec": {"ipFamilies": ["IPv4"], "ports": ports}})
    }

    #[test]
    fn bridge_is_needed_if_a_port_is_renamed() {
        let named = |name: &str| service(&json!([{"name": name, "port": 80, "protocol": "TCP", "targetPort": 8080}]));
        assert!(!are_renamed(&named("http"), &named("http")));
        assert!(are_renamed(&named(""), &named("http")));
        let extra_ports =
            service(&json!([{"name": "http", "port": 8080, "targetPort": "http"}, {"name": "port-80", "port": 80}]));
        assert!(
            are_renamed(&named("http"), &extra_ports),
            "80 was http, which 8080 is now"
        );
        assert!(
            !are_renamed(&named("port-80"), &extra_ports),
            "a new port has no clients yet"
        );
    }

    #[test]
    fn bridge_leads_to_serving_pods_and_is_deleted_with_them() {
        let pod = |name: &str, ready: &str, extra: Value| -> Pod {
            let mut pod = json!({
                "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}")}, "spec": {"nodeName": "n1"},
                "status": {"podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}], "conditions": [{"type": "Ready", "status": ready}]}});
            if extra.is_string() {
                pod["metadata"]["deletionTimestamp"] = extra;
            }
            serde_json::from_value(pod).unwrap()
        };
        let pods = [
            pod("new-0", "True", Value::Null),
            pod("new-1", "False", Value::Null),
            pod("new-2", "True", json!("2026-01-01T00:00:00Z")),
        ];
        let becomes = service(&json!([
            {"name": "http", "port": 8080, "protocol": "TCP", "targetPort": "http"},
            {"name": "port-80", "port": 80, "protocol": "TCP", "targetPort": "http", "appProtocol": "http"},
            {"name": "admin", "port": 9, "protocol": "TCP", "targetPort": 9000},
            {"name": "gone", "port": 10, "protocol": "TCP", "targetPort": "missing"},
        ]));
        insta::assert_json_snapshot!(slices(&becomes, &pods, 8080), @r#"
        [
          {
            "addressType": "IPv4",
            "apiVersion": "discovery.k8s.io/v1",
            "endpoints": [
              {
                "addresses": [
                  "10.0.0.7"
                ],
                "conditions": {
                  "ready": true,
                  "serving": true,
                  "terminating": false
                },
                "nodeName": "n1",
                "targetRef": {
                  "kind": "Pod",
                  "name": "new-0",
                  "namespace": "a",
                  "uid": "uid-new-0"
                }
              }
            ],
            "kind": "EndpointSlice",
            "metadata": {
              "labels": {
                "endpointslice.kubernetes.io/managed-by": "kubectl-appdeploy",
                "kubernetes.io/service-name": "shop"
              },
              "name": "new-0-ipv4",
              "namespace": "a",
              "ownerReferences": [
                {
                  "apiVersion": "v1",
                  "kind": "Pod",
                  "name": "new-0",
                  "uid": "uid-new-0"
                }
              ]
            },
            "ports": [
              {
                "name": "http",
                "port": 8080,
                "protocol": "TCP"
              },
              {
                "appProtocol": "http",
                "name": "port-80",
                "port": 8080,
                "protocol": "TCP"
              },
              {
                "name": "admin",
                "port": 9000,
                "protocol": "TCP"
              }
            ]
          }
        ]
        "#);
    }

    #[test]
    fn requests_have_moved_when_all_endpoints_are_pods_of_the_app() {
        let slice = |port: &str, pods: &[(&str, bool)]| -> EndpointSlice {
            let endpoints: Vec<Value> = pods
                .iter()
                .map(|(pod, ready)| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}}))
                .collect();
            let ports = json!([{"name": port, "port": 80}]);
            serde_json::from_value(json!({"addressType": "IPv4", "endpoints": endpoints, "ports": ports})).unwrap()
        };
        let own = BTreeSet::from(["new-0".to_owned(), "new-1".to_owned()]);
        let names = BTreeSet::from(["http".to_owned()]);
        let moved = |slices: &[EndpointSlice]| has_moved(slices.iter(), &own, &names, true);
        assert!(moved(&[slice("http", &[("new-0", true), ("new-1", false)])]));
        assert!(
            moved(&[slice("http", &[("new-0", true)]), slice("", &[])]),
            "an empty slice has no endpoints"
        );
        assert!(!moved(&[
            slice("http", &[("new-0", true)]),
            slice("http", &[("old-0", false)])
        ]));
        assert!(!moved(&[slice("", &[("new-0", true)])]), "the port is not renamed yet");
        assert!(!moved(&[slice("http", &[("new-0", false)])]));
        assert!(!moved(&[]));
        assert!(
            has_moved([].into_iter(), &own, &names, false),
            "an app that is scaled to zero has no endpoints"
        );
    }
}
