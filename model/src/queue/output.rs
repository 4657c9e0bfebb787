//! The ConfigMap with the address of a queue, and the environment variables that refer to it.

use std::collections::BTreeMap;

use crd::{AppQueue, label};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};

use super::{Desired, View};

/// The key of the URL in the ConfigMap.
pub(crate) const URL: &str = "url";
/// The key of the region.
pub(crate) const REGION: &str = "region";
/// The key of the endpoint, if the spec has one.
pub(crate) const ENDPOINT: &str = "endpoint";
/// The key of the ARN.
const ARN: &str = "arn";

/// What follows the name of an AppQueue in the name of its ConfigMap.
pub(crate) const CONFIG_MAP_SUFFIX: &str = "-queue";

/// Returns the name of the ConfigMap of an AppQueue.
#[must_use]
pub fn config_map_name(queue: &str) -> String {
    format!("{queue}{CONFIG_MAP_SUFFIX}")
}

/// Returns the start of the names of the environment variables for a queue, such as `QUEUE_ORDERS_`.
#[must_use]
pub fn env_prefix(queue: &str) -> String {
    let name = queue.to_ascii_uppercase().replace('-', "_");
    format!("QUEUE_{name}_")
}

/// Returns the data of the ConfigMap.
#[must_use]
pub fn output(desired: &Desired, view: &View) -> BTreeMap<String, String> {
    let optional = [(ENDPOINT, desired.endpoint.clone()), (ARN, view.arn.clone())];
    let optional = optional.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let all = [(URL, view.url.clone()), (REGION, desired.region.clone())];
    let all = all.into_iter().chain(optional);
    all.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the ConfigMap with the address of a queue. The garbage collector deletes it with the AppQueue.
#[must_use]
pub fn config_map(queue: &AppQueue, desired: &Desired, view: &View) -> ConfigMap {
    let labels = [
        (label::MANAGED_BY, label::MANAGED_BY_VALUE.to_owned()),
        (label::NAME, queue.name_any()),
    ];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(config_map_name(&queue.name_any())),
            namespace: queue.namespace(),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: Some(vec![OwnerReference {
                api_version: AppQueue::api_version(&()).into_owned(),
                kind: AppQueue::kind(&()).into_owned(),
                name: queue.name_any(),
                uid: queue.uid().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        data: Some(output(desired, view)),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn config_map_has_the_address_and_an_owner() {
        let queue: AppQueue = serde_json::from_value(json!({
            "metadata": {"name": "orders", "namespace": "shop", "uid": "u1"},
            "spec": {"sqs": {"region": "us-east-1", "endpoint": "http://sqs.example:9324"}}
        }))
        .unwrap();
        let desired = super::super::desired(&queue, |_| None::<AppQueue>).unwrap();
        let view = View {
            url: "http://sqs.example:9324/0/shop_orders".into(),
            arn: Some("arn:aws:sqs:us-east-1:0:shop_orders".into()),
            depth: Some(3),
        };
        let found = serde_json::to_value(config_map(&queue, &desired, &view)).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "orders-queue", "namespace": "shop",
                "labels": {"app.kubernetes.io/managed-by": "appdeploy", "app.kubernetes.io/name": "orders"},
                "ownerReferences": [{
                    "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppQueue", "name": "orders", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "data": {
                "url": "http://sqs.example:9324/0/shop_orders", "region": "us-east-1",
                "endpoint": "http://sqs.example:9324", "arn": "arn:aws:sqs:us-east-1:0:shop_orders",
            },
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn variables_are_named_after_the_queue() {
        assert_eq!(env_prefix("orders-2"), "QUEUE_ORDERS_2_");
    }
}
