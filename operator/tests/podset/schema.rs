//! The API server refuses what can't work, with a sentence that says what to write instead.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::PODSET;
use crate::podset::bare;

fn pod(name: &str) -> Value {
    json!({"name": name, "uid": "11111111-2222-3333-4444-555555555555"})
}

#[test]
fn invalid_spec_is_rejected_with_what_to_write_instead() {
    let max = "maxUnavailable is a number from 1 to 1000, or a percentage from 1% to 100%; write it like 2 or 25%";
    let template = |mut fields: Value| {
        fields["image"] = json!("nginx");
        json!({"template": fields})
    };
    let specs = vec![
        (json!({"replicas": -1}), "greater than or equal to 0"),
        (json!({"replicas": 1001}), "less than or equal to 1000"),
        (json!({"minReadySeconds": -1}), "greater than or equal to 0"),
        (json!({"minReadySeconds": 3601}), "less than or equal to 3600"),
        (json!({"maxUnavailable": 0}), max),
        (json!({"maxUnavailable": -1}), max),
        (json!({"maxUnavailable": "0%"}), max),
        (json!({"maxUnavailable": "101%"}), max),
        (json!({"maxUnavailable": "2"}), max),
        (json!({"maxUnavailable": "a%"}), max),
        (json!({"maxUnavailable": 1.5}), "spec.maxUnavailable"),
        (json!({"replacePods": [pod("a"), pod("a")]}), "Duplicate value"),
        (json!({"replacePods": [pod("")]}), "at least 1 chars long"),
        (json!({"replacePods": [{"name": "a"}]}), "uid: Required value"),
        (
            json!({"replacePods": (0..101).map(|n| pod(&format!("a-{n}"))).collect::<Vec<_>>()}),
            "must have at most 100 items",
        ),
        (json!({"template": {}}), "spec.template.image: Required value"),
        (
            json!({"template": {"image": "a b"}}),
            "write it like nginx or ghcr.io/acme/shop:1.4",
        ),
        (
            json!({"template": {"image": "nginx", "healthCheck": {}}}),
            "a health check needs a port to ask: set spec.template.port or spec.template.healthCheck.port",
        ),
        (template(json!({"port": 0})), "greater than or equal to 1"),
        (
            template(json!({"env": [{"name": "A"}, {"name": "A"}]})),
            "Duplicate value",
        ),
        (
            template(json!({"securityProfile": "privileged"})),
            "supported values: \"Baseline\", \"Restricted\"",
        ),
    ];
    let space = bare("bad");
    for (spec, sentence) in specs {
        let refused = space.try_create(PODSET, json!({"metadata": {"name": "web"}, "spec": spec}));
        let message = refused.map_or_else(|error| error.to_string(), |_| "it was taken".to_owned());
        assert!(
            message.contains(sentence),
            "{spec}\nexpected: {sentence}\nbut was:  {message}"
        );
    }
}

#[test]
fn valid_spec_is_accepted() {
    let space = bare("good");
    let specs = [
        json!({"replicas": 0, "maxUnavailable": 1}),
        json!({"replicas": 1000, "maxUnavailable": "1%", "minReadySeconds": 3600}),
        json!({"maxUnavailable": "100%", "replacePods": [pod("web-1"), pod("anything")]}),
        json!({"template": {"image": "nginx", "healthCheck": {"port": 8080}}}),
        json!({"template": {"image": "nginx", "port": 80, "healthCheck": {}}}),
    ];
    for (number, spec) in specs.into_iter().enumerate() {
        space.podset(&format!("web-{number}"), spec);
    }
}

#[test]
fn name_of_a_set_must_be_valid_in_names_of_pods() {
    let space = bare("named");
    let long = "a".repeat(53);
    for name in ["a", "a-0", &long] {
        space.podset(name, json!({}));
    }
    for (name, sentence) in [
        ("1web", "the name becomes part of the names of pods"),
        ("a.b", "the name becomes part of the names of pods"),
        (&format!("{long}a"), "use at most 53 characters"),
    ] {
        let refused = space.try_create(PODSET, json!({"metadata": {"name": name}, "spec": {}}));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(sentence), "{name}: {message}");
    }
}

/// Only the numbers are, so that no default of the template stays when a template is given.
#[test]
fn defaults_of_the_template_are_not_stored() {
    let space = bare("defaults");
    let spec = json!({"replicas": 1, "minReadySeconds": 0});
    assert_eq!(space.podset("web", json!({}))["spec"], spec);
    let template = json!({"image": "nginx"});
    let object = json!({"apiVersion": PODSET.api_version(), "kind": PODSET.name(), "metadata": {"name": "web"},
        "spec": {"template": template}});
    let (api, patch) = (space.api(PODSET), Patch::Apply(&object));
    let params = PatchParams::apply("git").force();
    let applied = api.patch("web", &params, &patch);
    let applied = serde_json::to_value(space.cluster.block_on(applied).unwrap()).unwrap();
    assert_eq!(
        applied["spec"]["template"], template,
        "without the command of the default"
    );
}

#[test]
fn kubectl_explains_every_field() {
    let space = bare("explain");
    let explained = space.kubectl(&["explain", "podset.spec"]);
    for description in [
        "The container and the settings of each pod",
        "Pods to replace, one after the other",
        "The maximum number of pods that may be unavailable",
    ] {
        assert!(explained.contains(description), "{description} is not in\n{explained}");
    }
    for fields in ["podset.spec", "podset.status", "podset.spec.template"] {
        let explained = space.kubectl(&["explain", fields]);
        assert!(!explained.contains("<no description>"), "{explained}");
    }
}
