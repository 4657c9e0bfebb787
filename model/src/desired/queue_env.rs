//! The environment variables with the addresses of queues.

use crd::PodFields;
use k8s_openapi::api::core::v1::{ConfigMapKeySelector, EnvVar, EnvVarSource};

use crate::queue::{ENDPOINT, REGION, URL, config_map_name, env_prefix};

/// The ends of the names of the variables, the keys in the ConfigMap, and whether the key may be missing. The kubelet does
/// not start a pod while the ConfigMap or another key is missing.
const VARIABLES: [(&str, &str, bool); 3] = [
    ("URL", URL, false),
    ("REGION", REGION, false),
    ("ENDPOINT", ENDPOINT, true),
];

/// Returns the variables of the queues of a pod, without those that the spec sets.
pub(super) fn queue_variables(pod: &PodFields) -> impl Iterator<Item = EnvVar> {
    let all = pod.queues.iter().flat_map(|queue| variables_of(&queue.name));
    all.filter(|var| pod.container.env.iter().all(|set| set.name != var.name))
}

/// Returns the variables of one queue.
pub(crate) fn variables_of(queue: &str) -> [EnvVar; 3] {
    VARIABLES.map(|(end, key, is_optional)| EnvVar {
        name: format!("{}{end}", env_prefix(queue)),
        value: None,
        value_from: Some(EnvVarSource {
            config_map_key_ref: Some(ConfigMapKeySelector {
                name: config_map_name(queue),
                key: key.to_owned(),
                optional: is_optional.then_some(true),
            }),
            ..EnvVarSource::default()
        }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::desired::pod_spec;

    fn rendered(spec: Value) -> Value {
        let pod = serde_json::from_value(spec).unwrap();
        serde_json::to_value(pod_spec(&pod)).unwrap()
    }

    fn of_queue(name: &str, key: &str) -> Value {
        json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "orders-queue", "key": key}}})
    }

    #[test]
    fn pods_get_the_address_of_a_queue_from_its_config_map() {
        let own = json!({"name": "A", "value": "$(QUEUE_ORDERS_URL)"});
        let mut found = rendered(json!({"image": "nginx", "queues": [{"name": "orders"}], "env": [own]}));
        let mut endpoint = of_queue("QUEUE_ORDERS_ENDPOINT", "endpoint");
        endpoint["valueFrom"]["configMapKeyRef"]["optional"] = true.into();
        assert_eq!(
            found["containers"][0]["env"].take(),
            json!([
                of_queue("QUEUE_ORDERS_URL", "url"),
                of_queue("QUEUE_ORDERS_REGION", "region"),
                endpoint,
                own
            ])
        );
        let mut without = rendered(json!({"image": "nginx", "env": [own]}));
        without["containers"][0]["env"].take();
        assert_eq!(found, without, "nothing else changes");
    }

    #[test]
    fn variables_of_the_spec_take_precedence() {
        let set = json!({"name": "QUEUE_ORDERS_URL", "value": "http://fake"});
        let found = rendered(json!({"image": "nginx", "queues": [{"name": "orders"}], "env": [set]}));
        let env = found["containers"][0]["env"].as_array().unwrap();
        let names: Vec<_> = env.iter().map(|var| var["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["QUEUE_ORDERS_REGION", "QUEUE_ORDERS_ENDPOINT", "QUEUE_ORDERS_URL"]
        );
        assert_eq!(env[2], set);
    }
}
