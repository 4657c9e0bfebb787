//! The API server refuses what can't work, with a sentence that says what to write instead.

use serde_json::{Value, json};

use crate::harness::PODSET;
use crate::podset::bare;

#[test]
fn a_bad_spec_is_refused_with_what_to_write_instead() {
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
        (json!({"replacePods": ["a", "a"]}), "Duplicate value"),
        (json!({"replacePods": [""]}), "at least 1 chars long"),
        (json!({"replacePods": vec!["a"; 101]}), "must have at most 100 items"),
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
            "supported values: \"baseline\", \"restricted\"",
        ),
    ];
    let space = bare("bad");
    for (spec, sentence) in specs {
        let refused = space.try_create(PODSET, json!({"metadata": {"name": "web"}, "spec": spec}));
        let message = refused.map_or_else(|error| error.to_string(), |_| "it was taken".to_owned());
        assert!(
            message.contains(sentence),
            "{spec}\nshould be told: {sentence}\nand is told:    {message}"
        );
    }
}

#[test]
fn a_good_spec_is_taken() {
    let space = bare("good");
    let specs = [
        json!({"replicas": 0, "maxUnavailable": 1}),
        json!({"replicas": 1000, "maxUnavailable": "1%", "minReadySeconds": 3600}),
        json!({"maxUnavailable": "100%", "replacePods": ["web-1", "anything"]}),
        json!({"template": {"image": "nginx", "healthCheck": {"port": 8080}}}),
        json!({"template": {"image": "nginx", "port": 80, "healthCheck": {}}}),
    ];
    for (number, spec) in specs.into_iter().enumerate() {
        space.podset(&format!("web-{number}"), spec);
    }
}

#[test]
fn a_name_has_to_serve_in_names_of_pods() {
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

/// What is left out is stored, so that who looks sees what they get, and a later default changes nothing.
#[test]
fn defaults_are_stored() {
    let space = bare("defaults");
    let command = json!(["sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"]);
    let sleeper = json!({"image": "busybox", "command": command, "securityProfile": "baseline"});
    let spec = json!({"replicas": 1, "minReadySeconds": 0, "template": sleeper});
    assert_eq!(space.podset("web", json!({}))["spec"], spec);
    let own = space.podset("own", json!({"template": {"image": "nginx"}}))["spec"]["template"].clone();
    assert_eq!(
        own,
        json!({"image": "nginx", "securityProfile": "baseline"}),
        "the command is not the sleeper's"
    );
}

#[test]
fn kubectl_explains_every_field() {
    let space = bare("explain");
    let explained = space.kubectl(&["explain", "podset.spec"]);
    for description in [
        "What runs in each pod",
        "Names of pods to replace",
        "How many pods may be unavailable",
    ] {
        assert!(explained.contains(description), "{description} is not in\n{explained}");
    }
    for fields in ["podset.spec", "podset.status", "podset.spec.template"] {
        let explained = space.kubectl(&["explain", fields]);
        assert!(!explained.contains("<no description>"), "{explained}");
    }
}
