//! Warnings about a spec that is accepted.

use crd::{PodFields, Resources};

use super::Admitted;
use crate::quantity;

/// Returns warnings about a spec that is accepted. What only matters in production is one warning, so that the first
/// command of a new user prints a single line.
#[must_use]
pub fn warnings<K: Admitted>(object: &K) -> Vec<String> {
    let (pod, at) = (object.pod(), K::POD);
    // Each with a short form.
    let mut later: Vec<(&str, String)> = Vec::new();
    let others = pod.other_containers();
    let others = others.map(|(list, one)| (format!("{at}.{list}[{}]", one.name), &one.image));
    let mut images = [(at.to_owned(), &pod.container.image)].into_iter().chain(others);
    if !object.is_default()
        && let Some((at, image)) = images.find(|(_, image)| !is_pinned(image))
    {
        let name = image.trim_end_matches(":latest");
        let why = if name == image { "has no tag" } else { "can change" };
        let sentence =
            format!("{at}.image: {image} {why}, so each start may run another version; write it like {name}:1.4");
        later.push(("pin the image version", sentence));
    }
    if pod
        .container
        .resources
        .as_ref()
        .is_none_or(|resources| resources.requests.is_empty())
    {
        let sentence = format!(
            "{at}.resources: without requests the scheduler reserves nothing, and the pods are the first to be evicted"
        );
        later.push(("set requests", sentence));
    }
    if object.replicas() == 1 && pod.container.port.is_some() {
        let sentence = "spec.replicas: with one pod nothing answers while it is replaced or its node is drained";
        later.push(("run 2 replicas", sentence.to_owned()));
    }
    let mut warnings = match later.as_slice() {
        [(_, sentence)] => vec![sentence.clone()],
        [] => Vec::new(),
        several => {
            let short: Vec<&str> = several.iter().map(|(short, _)| *short).collect();
            vec![format!("before production: {}", short.join(", "))]
        }
    };
    warnings.extend(tiny_amounts(pod, at));
    warnings
}

/// Returns a warning for each amount of memory that is too small to start a container, for example because its unit is
/// missing. `at` is the path of the fields.
#[must_use]
pub fn tiny_amounts(pod: &PodFields, at: &str) -> Vec<String> {
    let others = pod.other_containers();
    let others = others.map(|(list, one)| (format!("{at}.{list}[{}]", one.name), &one.resources));
    let all = [(at.to_owned(), &pod.container.resources)].into_iter().chain(others);
    all.flat_map(|(at, resources)| resources.iter().flat_map(move |resources| tiny_memory(resources, &at)))
        .collect()
}

fn tiny_memory(resources: &Resources, at: &str) -> Vec<String> {
    let parts = [("requests", &resources.requests), ("limits", &resources.limits)];
    let memory = parts
        .into_iter()
        .filter_map(|(part, amounts)| Some((part, &*amounts.get("memory")?.0)));
    memory
        .filter(|(_, amount)| quantity::is_tiny_memory(amount))
        .map(|(part, amount)| {
            format!(
                "{at}.resources.{part}.memory: no container starts with {}; write a unit, like {}",
                quantity::with_unit(amount),
                quantity::meant_memory(amount)
            )
        })
        .collect()
}

/// Whether an image has a digest, or a tag other than `latest`.
fn is_pinned(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    image.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest")
}

#[cfg(test)]
mod tests {
    use crd::AppDeploy;
    use serde_json::{Value, json};

    use super::*;

    fn app(spec: Value) -> AppDeploy {
        serde_json::from_value(json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
            "metadata": {"name": "shop", "namespace": "a"}, "spec": spec}))
        .unwrap()
    }

    #[test]
    fn several_warnings_for_production_are_one_line_of_80_columns() {
        let hasty = app(json!({"image": "localhost:5000/nginx", "port": 80}));
        let found = warnings(&hasty);
        assert_eq!(
            found,
            ["before production: pin the image version, set requests, run 2 replicas"]
        );
        assert!("Warning: ".len() + found[0].len() <= 80);
        let resources = json!({"requests": {"cpu": "10m"}});
        let fine = app(json!({"image": "localhost:5000/nginx:1", "port": 80, "replicas": 2, "resources": resources}));
        assert_eq!(warnings(&fine), [""; 0]);
        let resources = json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "128"}});
        let small = app(json!({"image": "nginx", "port": 80, "resources": resources}));
        assert_eq!(warnings(&small).len(), 2);
        for (image, pinned) in [
            ("nginx:latest", false),
            ("nginx@sha256:00", true),
            ("a/b:1", true),
            ("a:5/b", false),
        ] {
            assert_eq!(is_pinned(image), pinned, "{image}");
        }
    }

    #[test]
    fn single_warning_gives_the_reason() {
        let resources = json!({"requests": {"cpu": "10m"}});
        let warning = |image: &str| warnings(&app(json!({"image": image, "resources": resources}))).remove(0);
        assert_eq!(
            warning("nginx"),
            "spec.image: nginx has no tag, so each start may run another version; write it like nginx:1.4"
        );
        assert_eq!(
            warning("nginx:latest"),
            "spec.image: nginx:latest can change, so each start may run another version; write it like nginx:1.4"
        );
        let one = app(json!({"image": "nginx:1", "port": 80, "resources": resources}));
        assert_eq!(
            warnings(&one),
            ["spec.replicas: with one pod nothing answers while it is replaced or its node is drained"]
        );
    }

    #[test]
    fn other_containers_are_warned_about() {
        let resources = json!({"requests": {"cpu": "10m"}});
        let app = app(
            json!({"image": "nginx:1", "replicas": 2, "resources": resources, "sidecars": [
            {"name": "proxy", "image": "proxy", "resources": {"limits": {"memory": "64"}}}]}),
        );
        assert_eq!(
            warnings(&app),
            [
                "spec.sidecars[proxy].image: proxy has no tag, so each start may run another version; write it like proxy:1.4",
                "spec.sidecars[proxy].resources.limits.memory: no container starts with 64 bytes; write a unit, like 64Mi"
            ]
        );
    }

    #[test]
    fn memory_without_a_unit_is_a_warning() {
        let resources = json!({"requests": {"memory": "64Mi"}, "limits": {"memory": "128", "cpu": "1"}});
        let small = app(json!({"image": "nginx:1", "replicas": 2, "resources": resources}));
        assert_eq!(
            warnings(&small),
            ["spec.resources.limits.memory: no container starts with 128 bytes; write a unit, like 128Mi"]
        );
    }
}
