//! The webhook configurations of an installation.

use kube::api::DynamicObject;
use serde_json::{Value, json};

/// The resource that only the webhooks use.
const ASKED_FOR_ADMISSION: &str = "localsubjectaccessreviews";

/// Removes the rule of a role that only webhooks need.
pub fn without_access_reviews(role: &mut Value) {
    if let Some(rules) = role["rules"].as_array_mut() {
        rules.retain(|rule| rule["resources"] != json!([ASKED_FOR_ADMISSION]));
    }
}

/// Limits a configuration to some namespaces; none means all. The operator has no rights in the others.
pub fn only_in(configuration: &mut Value, namespaces: &[String]) {
    if namespaces.is_empty() {
        return;
    }
    for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
        webhook["namespaceSelector"] = json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
        ]});
    }
}

/// Whether each webhook of a configuration has a CA bundle.
pub fn is_trusted(configuration: &DynamicObject) -> bool {
    let webhooks = configuration.data["webhooks"].as_array();
    webhooks.into_iter().flatten().all(|webhook| {
        webhook["clientConfig"]["caBundle"]
            .as_str()
            .is_some_and(|bundle| !bundle.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::installation::manifests::{Kind, Options, objects};

    fn of(options: &Options) -> Vec<DynamicObject> {
        objects(options).unwrap()
    }

    #[test]
    fn installation_without_webhooks_has_no_rights_and_objects_for_them() {
        let options = Options {
            webhooks: false,
            ..Options::default()
        };
        for object in of(&options) {
            assert!(!Kind::webhooks().contains(&Kind::of(&object)));
            assert_ne!(Kind::of(&object), Kind::service());
            let text = object.data["rules"].to_string();
            assert!(
                !text.contains(ASKED_FOR_ADMISSION) && !text.contains("secrets"),
                "{text}"
            );
        }
        assert_eq!(of(&Options::default()).len() - of(&options).len(), 7);
    }

    #[test]
    fn webhooks_are_called_only_for_the_watched_namespaces() {
        let options = Options {
            namespaces: vec!["shop".into(), "blog".into()],
            ..Options::default()
        };
        let configurations = of(&options)
            .into_iter()
            .filter(|object| Kind::webhooks().contains(&Kind::of(object)));
        let selectors: Vec<_> = configurations
            .map(|object| object.data["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"].clone())
            .collect();
        assert_eq!(selectors, [json!(["shop", "blog"]), json!(["shop", "blog"])]);
    }

    #[test]
    fn every_webhook_needs_a_ca_bundle() {
        let trusted = |bundles: &[&str]| {
            let webhooks: Vec<_> = bundles
                .iter()
                .map(|bundle| json!({"clientConfig": {"caBundle": bundle}}))
                .collect();
            let object = json!({"metadata": {}, "webhooks": webhooks});
            is_trusted(&serde_json::from_value(object).unwrap())
        };
        assert!(trusted(&["Cg=="]) && !trusted(&["Cg==", ""]));
        let new = json!({"metadata": {}, "webhooks": [{"clientConfig": {"service": {}}}]});
        assert!(!is_trusted(&serde_json::from_value(new).unwrap()));
    }
}
