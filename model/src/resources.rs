//! Checks requests and limits as the API server checks those of a Deployment, so that the Deployment is not rejected later.

use std::collections::BTreeMap;

use crd::{PodFields, Quantity, Resources};

use crate::quantity;

/// Returns a message for each unknown resource and for each request above its limit. `at` is the path of the fields.
#[must_use]
pub fn problems(pod: &PodFields, at: &str) -> Vec<String> {
    let others = pod.other_containers();
    let others = others.map(|(list, one)| (format!("{at}.{list}[{}]", one.name), &one.resources));
    let all = [(at.to_owned(), &pod.container.resources)].into_iter().chain(others);
    all.flat_map(|(at, resources)| resources.iter().flat_map(move |resources| of(resources, &at)))
        .collect()
}

fn of(resources: &Resources, at: &str) -> Vec<String> {
    let (requests, limits) = (&resources.requests, &resources.limits);
    let mut problems = unknown(requests, &format!("{at}.resources.requests"));
    problems.extend(unknown(limits, &format!("{at}.resources.limits")));
    problems.extend(requests.iter().filter_map(|(name, request)| {
        let limit = limits.get(name)?;
        (quantity::milli(&request.0)? > quantity::milli(&limit.0)?).then(|| {
            format!("{at}.resources: the request of {name} ({request}) is above its limit ({limit}); raise the limit or lower the request")
        })
    }));
    problems
}

fn unknown(amounts: &BTreeMap<String, Quantity>, at: &str) -> Vec<String> {
    let unknown = amounts.keys().filter(|name| !is_known(name));
    unknown
        .map(|name| format!("{at}: unknown resource {name:?}: {}", advice(name)))
        .collect()
}

/// Whether a container can have a resource with this name.
#[must_use]
pub fn is_known(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") || name.contains('/')
}

/// Returns what to write instead of an unknown resource.
#[must_use]
pub fn advice(name: &str) -> &'static str {
    match name.to_ascii_lowercase().as_str() {
        "cpu" | "cpus" | "core" | "cores" => "use cpu",
        "mem" | "memory" | "ram" => "use memory",
        "disk" | "storage" | "ephemeralstorage" => "use ephemeral-storage",
        _ => "use cpu, memory, ephemeral-storage, or a name with a domain, like example.com/gpu",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn messages(resources: &Value) -> Vec<String> {
        let pod = serde_json::from_value(json!({"image": "nginx:1", "resources": resources})).unwrap();
        problems(&pod, "spec")
    }

    #[test]
    fn unknown_resource_is_rejected_with_a_suggestion() {
        assert_eq!(
            messages(&json!({"limits": {"mem": "64Mi"}, "requests": {"CPU": 1, "gpu": 1}})),
            [
                r#"spec.resources.requests: unknown resource "CPU": use cpu"#,
                r#"spec.resources.requests: unknown resource "gpu": use cpu, memory, ephemeral-storage, or a name with a domain, like example.com/gpu"#,
                r#"spec.resources.limits: unknown resource "mem": use memory"#,
            ]
        );
        let known = json!({"memory": "64Mi", "cpu": "100m", "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi", "example.com/gpu": 1});
        assert_eq!(messages(&json!({"requests": known, "limits": known})), [""; 0]);
    }

    #[test]
    fn resources_of_other_containers_are_checked() {
        let pod = json!({"image": "nginx:1", "sidecars": [{"name": "proxy", "image": "proxy", "resources": {"limits": {"mem": "1Gi"}}}]});
        assert_eq!(
            problems(&serde_json::from_value(pod).unwrap(), "spec"),
            [r#"spec.sidecars[proxy].resources.limits: unknown resource "mem": use memory"#]
        );
    }

    #[test]
    fn request_above_its_limit_is_rejected() {
        let resources =
            json!({"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}});
        assert_eq!(
            messages(&resources),
            [
                "spec.resources: the request of memory (2Gi) is above its limit (1024Mi); raise the limit or lower the request"
            ]
        );
        assert_eq!(messages(&json!({"requests": {"memory": "2Gi"}})), [""; 0]);
    }
}
