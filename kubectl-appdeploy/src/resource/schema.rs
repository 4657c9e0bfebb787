//! The fields that this plugin knows, and suggestions for unknown fields.

use std::sync::OnceLock;

use crd::{AppDeploy, AppQueue, Kind, PodSet};
use kube::CustomResourceExt as _;
use model::export::SERVER_SET;
use serde_json::Value;

use crate::cluster::kind_info::{self, KindInfo};

/// The fields of `metadata` that a manifest may set.
const METADATA: [&str; 7] = [
    "annotations",
    "finalizers",
    "generateName",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
];

/// Returns the schema of a kind's objects.
fn of(kind: &KindInfo) -> &'static Value {
    static ALL: OnceLock<[Value; 3]> = OnceLock::new();
    let [app, set, queue] = ALL.get_or_init(|| {
        [AppDeploy::crd(), PodSet::crd(), AppQueue::crd()].map(|crd| {
            let mut crd = serde_json::to_value(crd).unwrap_or_default();
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
        })
    });
    match kind.workload {
        Some(Kind::AppDeploy) => app,
        Some(Kind::PodSet) => set,
        None => queue,
    }
}

/// Returns the names of the fields that change the pods.
pub fn pod_fields() -> impl Iterator<Item = &'static str> {
    let template = &of(kind_info::of(Kind::PodSet))["properties"]["spec"]["properties"]["template"];
    template["properties"]
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .map(String::as_str)
}

/// Returns a sentence for each field of an object that no such object has, that is of another type, or that is missing.
pub fn problems(kind: impl Into<&'static KindInfo>, object: &Value) -> Vec<String> {
    let kind = kind.into();
    let mut found = Vec::new();
    if object.get("spec").is_none() {
        found.push("spec: required field is missing".to_owned());
    }
    for (field, value) in object.as_object().into_iter().flatten() {
        match field.as_str() {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => {
                let written = value.as_object().into_iter().flat_map(serde_json::Map::keys);
                let known = || METADATA.into_iter().chain(SERVER_SET);
                let unknown = written.filter(|field| known().all(|one| one != field.as_str()));
                found.extend(unknown.map(|field| sentence("metadata", field, known())));
            }
            "spec" => collect_unknown(&of(kind)["properties"]["spec"], value, "spec", &mut found),
            other => found.push(sentence("", other, ["metadata", "spec"].into_iter())),
        }
    }
    found
}

fn collect_unknown(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(wanted) = mistaken(schema, value) {
        found.push(format!("{path}: {wanted}"));
        return;
    }
    match value {
        Value::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = required
                .filter_map(Value::as_str)
                .filter(|field| !fields.contains_key(*field));
            found.extend(missing.map(|field| format!("{path}.{field}: required field is missing")));
            let known = schema["properties"].as_object();
            let any = schema.get("additionalProperties").filter(|rest| rest.is_object());
            for (field, value) in fields {
                let at = format!("{path}.{field}");
                match (known.and_then(|known| known.get(field)), any, known) {
                    (Some(schema), ..) | (None, Some(schema), _) => collect_unknown(schema, value, &at, found),
                    (None, None, Some(known)) => {
                        found.push(sentence(path, field, known.keys().map(String::as_str)));
                    }
                    (None, None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_unknown(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Returns what to write instead of a value of another type.
fn mistaken(schema: &Value, value: &Value) -> Option<&'static str> {
    let (is_right, wanted) = match schema["type"].as_str()? {
        "integer" => (value.is_i64() || value.is_u64(), "must be a whole number"),
        "string" => (value.is_string(), "must be a string: put a number into quotes"),
        "boolean" => (value.is_boolean(), "must be true or false"),
        "array" => (value.is_array(), "must be a list"),
        "object" => (value.is_object(), "must be an object with fields"),
        _ => return None,
    };
    // Nothing is as good as a field that is left out.
    (!is_right && !value.is_null()).then_some(wanted)
}

fn sentence<'a>(path: &str, field: &str, known: impl Iterator<Item = &'a str>) -> String {
    let at = if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    };
    if let Some(hint) = unsupported(field) {
        return format!("{at}: not supported: {hint}");
    }
    match nearest(field, known) {
        Some(meant) => format!("{at}: unknown field; did you mean {meant}?"),
        None => format!("{at}: unknown field"),
    }
}

/// Returns what to do instead of using a field of pods or Deployments that apps and pod sets do not have.
fn unsupported(field: &str) -> Option<&'static str> {
    Some(match field {
        "volumeMounts" => "each of the volumes has a mountPath; initContainers and sidecars have mounts",
        "persistentVolumeClaim" | "volumeClaimTemplates" | "hostPath" => {
            "apps keep no data; store it in a database or object storage, or use a Deployment or StatefulSet"
        }
        "containers" => {
            "image, command, args and env describe the container of the application; list others in sidecars or initContainers"
        }
        "restartPolicy" => "list a container that keeps running in sidecars, and one that ends in initContainers",
        "livenessProbe" | "readinessProbe" | "startupProbe" => {
            "use healthCheck, or probes.liveness, probes.readiness and probes.startup"
        }
        "serviceAccountName" => "write it like serviceAccount: {name: shop}",
        "affinity" | "topologySpreadConstraints" => "choose nodes by placement.nodeSelector, or use a Deployment",
        "nodeSelector" => "write it like placement: {nodeSelector: {disktype: ssd}}",
        "tolerations" => "write it like placement: {tolerations: [{key: dedicated, value: shop}]}",
        _ => return None,
    })
}

/// Returns the word that was probably meant.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// The minimum similarity. Equal words have 1; a wrong, missing or moved letter leaves more than this.
    const ALIKE: f64 = 0.8;
    let word = word.to_lowercase();
    let likeness = |other: &str| strsim::jaro_winkler(&word, &other.to_lowercase());
    let all = known.map(|other| (likeness(other), other));
    all.filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_field_is_reported_with_the_nearest_one() {
        let app = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "specs": {},
            "metadata": {"name": "shop", "label": {"a": "b"}, "annotations": {"any": "thing"}},
            "spec": {"imgae": "nginx", "Port": 80, "volumeMounts": [], "env": [{"nam": "A"}], "resources": {"limits": {"any": 1}, "limit": {}},
                "healthCheck": {"startupseconds": 3}, "tls": {"secret": "x"}, "replicas": "two", "host": 1, "args": "a", "paused": null}, "status": {"any": 1}});
        insta::assert_snapshot!(problems(Kind::AppDeploy, &app).join("\n"), @r"
        metadata.label: unknown field; did you mean labels?
        spec.image: required field is missing
        spec.Port: unknown field; did you mean port?
        spec.args: must be a list
        spec.env[0].name: required field is missing
        spec.env[0].nam: unknown field; did you mean name?
        spec.healthCheck.startupseconds: unknown field; did you mean startupSeconds?
        spec.host: must be a string: put a number into quotes
        spec.imgae: unknown field; did you mean image?
        spec.replicas: must be a whole number
        spec.resources.limit: unknown field; did you mean limits?
        spec.tls.secret: unknown field; did you mean secretName?
        spec.volumeMounts: not supported: each of the volumes has a mountPath; initContainers and sidecars have mounts
        specs: unknown field; did you mean spec?
        ");
        let set = json!({"spec": {"replicas": 1, "maxUnavailable": "25%", "template": {"image": "a"}, "image": "b"}});
        assert_eq!(problems(Kind::PodSet, &set), ["spec.image: unknown field"]);
        assert_eq!(problems(Kind::PodSet, &json!({})), ["spec: required field is missing"]);
    }

    #[test]
    fn fields_of_pods_are_known() {
        let fields: Vec<&str> = pod_fields().collect();
        assert!(fields.contains(&"image") && fields.contains(&"env") && !fields.contains(&"replicas"));
    }
}
