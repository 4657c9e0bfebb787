//! The way from the operator to the API server, which the network policy of an installation leaves open.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::connection::Cluster;
use crate::error::Result;
use crate::manifests::Kind;

/// Adds the ports at which this cluster's API server listens to the policy that allows the usual ones: microk8s, for
/// one, has another. Whoever may not see them gets the usual ones. What fails otherwise fails the installation: it would shut
/// the operator off from the API server, and say that all is well.
pub async fn open(cluster: &Cluster, objects: &mut [DynamicObject]) -> Result<()> {
    let api: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), "default");
    let params = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let slices = match cluster.call(api.list(&params)).await {
        Ok(slices) => slices,
        Err(error) if error.is_forbidden() => return Ok(()),
        Err(error) => return Err(error),
    };
    let ports = slices
        .items
        .into_iter()
        .flat_map(|slice| slice.ports.unwrap_or_default());
    let ports: Vec<i32> = ports.filter_map(|port| port.port).collect();
    for object in objects {
        if Kind::of(object) == Kind::network_policy() {
            allow(&mut object.data, &ports);
        }
    }
    Ok(())
}

/// Adds ports to the last rule for what goes out.
fn allow(policy: &mut Value, ports: &[i32]) {
    let rule = policy["spec"]["egress"]
        .as_array_mut()
        .and_then(|rules| rules.last_mut());
    let Some(allowed) = rule.and_then(|rule| rule["ports"].as_array_mut()) else {
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
    use crate::manifests::{self, Options};

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
        assert_eq!(closed["spec"]["egress"], Value::Null);
    }
}
