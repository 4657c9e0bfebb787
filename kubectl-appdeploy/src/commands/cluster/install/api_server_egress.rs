//! The egress rule of the network policy for the operator's connections to the API server and to queue services.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::cluster::connection::{Cluster, KubeArgs};
use crate::error::{Error, Result};
use crate::installation::manifests::Kind;
use crate::terminal::ui::Ui;

/// Adds the ports of this cluster's API server to the manifests of a dry run, which also works without a cluster. Prints a warning
/// if the ports are unknown: without them, the network policy can block the operator.
pub async fn allow_in_dry_run(kube: &KubeArgs, objects: &mut [DynamicObject], ui: &mut Ui) {
    let unknown = match kube.connect().await {
        Ok(cluster) => match ports(&cluster).await {
            Ok(ports) if !ports.is_empty() => return allow_all(objects, &ports),
            Ok(_) => Error::failed("Service default/kubernetes has no EndpointSlice"),
            Err(error) => error,
        },
        Err(error) => error,
    };
    ui.warn(&format!(
        "the ports of the API server are unknown, so the NetworkPolicy allows 443 and 6443 only: {}",
        unknown.sentence()
    ));
}

/// Adds the ports on which this cluster's API server listens to the policy that allows the usual ones: microk8s, for
/// one, has another. Without the right to read them, the usual ones are used. Any other error fails the
/// installation, which would otherwise cut the operator off from the API server.
pub async fn open(cluster: &Cluster, objects: &mut [DynamicObject]) -> Result<()> {
    match ports(cluster).await {
        Ok(ports) => allow_all(objects, &ports),
        Err(error) if error.is_forbidden() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Lists the ports on which the API server listens.
async fn ports(cluster: &Cluster) -> Result<Vec<i32>> {
    let api: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), "default");
    let params = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slices = cluster.call(api.list(&params)).await?.items;
    let ports = slices.into_iter().flat_map(|slice| slice.ports.unwrap_or_default());
    Ok(ports.filter_map(|port| port.port).collect())
}

/// Adds ports to the network policy of the operator.
pub fn allow_all<P: Copy + Into<i32>>(objects: &mut [DynamicObject], ports: &[P]) {
    let ports: Vec<i32> = ports.iter().map(|port| (*port).into()).collect();
    for object in objects {
        if Kind::of(object) == Kind::network_policy() {
            allow(&mut object.data, &ports);
        }
    }
}

/// Adds ports to the last egress rule.
fn allow(policy: &mut Value, ports: &[i32]) {
    // By pointer: an index would add the field to a policy that denies everything.
    let rules = policy.pointer_mut("/spec/egress").and_then(Value::as_array_mut);
    let rule = rules.and_then(|rules| rules.last_mut());
    let Some(allowed) = rule.and_then(|rule| rule.pointer_mut("/ports")?.as_array_mut()) else {
        return;
    };
    for port in ports {
        if !allowed.iter().any(|known| known["port"] == *port) {
            allowed.push(json!({"port": port}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::manifests::{self, Options};

    #[test]
    fn only_a_port_that_is_not_allowed_yet_is_added() {
        let mut all = manifests::objects(&Options::default()).unwrap().into_iter();
        let mut policy = all
            .find(|object| {
                object.metadata.name.as_deref() == Some("appdeploy-operator")
                    && Kind::of(object) == Kind::network_policy()
            })
            .unwrap();
        allow(&mut policy.data, &[6443, 16443]);
        let usual = json!([{"port": 443}, {"port": 6443}, {"port": 16443}]);
        assert_eq!(policy.data["spec"]["egress"][1]["ports"], usual);
        let mut closed = json!({"spec": {"podSelector": {}}});
        allow(&mut closed, &[16443]);
        assert_eq!(closed, json!({"spec": {"podSelector": {}}}));
    }
}
