//! Endpoints of a Service during an adoption.
//!
//! Proxies and ingress controllers find the endpoints of a port by the port's name, and watch a Service and its EndpointSlices
//! separately. The ports of an existing Service can have other names than ours; the slices that Kubernetes manages
//! follow a moment later, and for that moment a port that got another name would lead nowhere. So there is a bridge:
//! slices that lead to the pods under the names to come, made before and removed after. Each belongs to its pod and goes with it,
//! whatever becomes of the command.

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
use crate::cluster::watch::{self, Connection, Watched};
use crate::error::{Error, Result};
use crate::installation::rights::{Right, refused};
use crate::resource::children::SLICE_OF;
use crate::resource::pod;
use crate::terminal::ui::Ui;

/// How long the proxies of nodes and the ingress controller may take to hear where requests go. Nothing says when they have.
pub const PROXIES_LISTEN: Duration = Duration::from_secs(5);

/// The label with the manager of a slice; ours is [`MANAGER`].
const KEPT_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Maximum number of concurrent requests.
const AT_ONCE: usize = 8;

/// Returns the ports of a Service that get another name: the one of before, and that.
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

/// Whether a port of a Service gets another name.
pub fn are_renamed(live: &Value, becomes: &Value) -> bool {
    !renamed(live, becomes).is_empty()
}

/// Returns the ports of a Service that lead to this port of the pods, as a slice has them.
fn ports(service: &Value, number: i32) -> Vec<Value> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let leads = |port: &Value| match &port["targetPort"] {
        Value::Number(target) => target.as_i64(),
        Value::String(name) if name == PORT => Some(number.into()),
        Value::Null => port["port"].as_i64(),
        _ => None,
    };
    ports
        .filter_map(|port| {
            let mut of = json!({"name": port["name"], "protocol": key(port).0, "port": leads(port)?});
            if port["appProtocol"].is_string() {
                of["appProtocol"] = port["appProtocol"].clone();
            }
            Some(of)
        })
        .collect()
}

/// Returns the slices of a bridge: one for each family of addresses of each pod that serves.
fn slices(service: &Value, pods: &[Pod], number: i32) -> Vec<Value> {
    let (name, ports) = (text(&service["metadata"]["name"]), ports(service, number));
    let families = service["spec"]["ipFamilies"].as_array().cloned().unwrap_or_default();
    let mut slices = Vec::new();
    for pod in pods.iter().filter(|pod| serves(pod)) {
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
                    "labels": {SLICE_OF: name, KEPT_BY: MANAGER},
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

fn serves(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && pod::is_ready(pod)
}

/// Lets all pods of an app that serve be found under the names that its Service is going to have, and returns when that
/// is known everywhere.
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
                // One that an interrupted command has left leads to the same pod.
                Err(kube::Error::Api(status)) if !status.is_already_exists() => {
                    Err(cluster.explain(kube::Error::Api(status)).about("endpointslices"))
                }
                Err(kube::Error::Api(_)) | Ok(_) => Ok(()),
                Err(source) => Err(cluster.explain(source).about("endpointslices")),
            }
        }
    });
    stream::iter(all).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    tokio::time::sleep(PROXIES_LISTEN).await;
    Ok(())
}

/// Whether the user may create and delete slices.
pub async fn may_bridge(cluster: &Cluster) -> Result<bool> {
    let rights = ["create", "list", "delete"]
        .map(|verb| Right::within(&cluster.namespace, verb, "discovery.k8s.io", "endpointslices"));
    Ok(refused(cluster, rights.into()).await?.is_empty())
}

/// Returns the names of our slices, including those of an interrupted command.
pub async fn bridges(cluster: &Cluster, app: &str) -> Result<Vec<String>> {
    let ours = ListParams::default().labels(&format!("{SLICE_OF}={app},{KEPT_BY}={MANAGER}"));
    match cluster.attempt(slices_of(cluster).list(&ours)).await? {
        Ok(list) => Ok(list.items.iter().map(ResourceExt::name_any).collect()),
        // A user without the right to list them has created none.
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(Vec::new()),
        Err(source) => Err(cluster.explain(source).about("endpointslices")),
    }
}

/// Deletes our slices.
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

/// Waits until a Service leads to the app's pods and to no others, under the names of its ports.
pub async fn until_moved(
    cluster: &Cluster,
    app: &str,
    service: &Value,
    number: i32,
    some: bool,
    ui: &mut Ui,
) -> Result<()> {
    let config = watcher::Config::default().labels(&format!("{SLICE_OF}={app},{KEPT_BY}!={MANAGER}"));
    let names: BTreeSet<String> = ports(service, number).iter().map(|port| text(&port["name"])).collect();
    let changes = watch::follow_all(cluster, slices_of(cluster), config);
    let mut changes = Watched::new(changes, Connection::after_a_change());
    let mut known = ObjectCache::default();
    while let Some(event) = changes.next(ui).await? {
        known.take(event);
        if !known.is_complete() {
            continue;
        }
        let own: BTreeSet<String> = own_pods(cluster, app)
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        if has_moved(known.all(), &own, &names, some) {
            break;
        }
    }
    tokio::time::sleep(PROXIES_LISTEN).await;
    Ok(())
}

/// Whether all endpoints are of these pods, and at least one of them is ready where there should be any.
fn has_moved<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    own: &BTreeSet<String>,
    names: &BTreeSet<String>,
    some: bool,
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
    ready > 0 || !some
}

async fn own_pods(cluster: &Cluster, app: &str) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let own = ListParams::default().labels(&cluster.kind.pod_selector(app));
    Ok(cluster.call(pods.list(&own)).await?.items)
}

fn slices_of(cluster: &Cluster) -> Api<EndpointSlice> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Returns what a port of a Service is known by: its protocol and its number.
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
        let beside =
            service(&json!([{"name": "http", "port": 8080, "targetPort": "http"}, {"name": "port-80", "port": 80}]));
        assert!(are_renamed(&named("http"), &beside), "80 was http, which 8080 is now");
        assert!(
            !are_renamed(&named("port-80"), &beside),
            "one that comes is nobody's way yet"
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
            {"name": "gone", "port": 10, "protocol": "TCP", "targetPort": "nobodys"},
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
    fn requests_have_moved_when_all_endpoints_are_ours() {
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
            "an empty slice leads nowhere"
        );
        assert!(!moved(&[
            slice("http", &[("new-0", true)]),
            slice("http", &[("old-0", false)])
        ]));
        assert!(
            !moved(&[slice("", &[("new-0", true)])]),
            "its ports are not called so yet"
        );
        assert!(!moved(&[slice("http", &[("new-0", false)])]));
        assert!(!moved(&[]));
        assert!(
            has_moved([].into_iter(), &own, &names, false),
            "an app that is stopped has none"
        );
    }
}
