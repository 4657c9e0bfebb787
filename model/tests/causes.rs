//! The causes of apps that don't work, from objects of a real cluster. `make causes` records the objects again.
//!
//! Each file in `causes/` has an app, its children and pods, the Events of the kubelet about them and the time. See the
//! README there.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::path::{Path, PathBuf};

use crd::AppDeploy;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::core::ObjectMeta;
use model::pod::PodState;
use model::status::{StatusOptions, event_query};
use model::{CHILDREN, Child, ChildId, IngressClasses, Observed, desired, plan, status, validate};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/causes")
}

fn list<T: serde::de::DeserializeOwned>(fixture: &Value, field: &str) -> Vec<T> {
    serde_json::from_value(fixture[field].clone()).unwrap()
}

fn observed(fixture: &Value) -> Observed {
    let mut observed = Observed::default();
    for object in list::<Value>(fixture, "children") {
        let kind = CHILDREN.iter().find(|kind| object["kind"] == kind.kind).unwrap();
        let meta: ObjectMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
        let id = ChildId::new(kind, meta.name.as_deref().unwrap());
        observed.insert(id, Child::read(kind, &meta, &object));
    }
    observed.pods = list::<Pod>(fixture, "pods").iter().map(PodState::read).collect();
    let classes: Vec<ObjectMeta> = list::<Value>(fixture, "ingressClasses")
        .into_iter()
        .map(|class| serde_json::from_value(class["metadata"].clone()).unwrap())
        .collect();
    observed.ingress_classes = IngressClasses::Known {
        has_default: false,
        names: classes.into_iter().filter_map(|class| class.name).collect(),
    };
    observed
}

/// Returns the cause as the operator reports it, with the Events that it would read.
fn cause_of(fixture: &Value) -> String {
    let app: AppDeploy = serde_json::from_value(fixture["app"].clone()).unwrap();
    let valid = validate(&app).unwrap();
    let mut observed = observed(fixture);
    let planned = plan(&valid, &desired(&valid), &observed);
    let now = Timestamp::from_second(fixture["now"].as_i64().unwrap()).unwrap();
    let options = StatusOptions { needs_address: true };
    let report = |observed: &Observed| status(&app, Some(&valid), observed, &planned.failures, options, now);
    if let Some(query) = event_query(&report(&observed), &observed, now) {
        let about = |event: &Event| event.involved_object.uid.as_deref() == Some(&*query.uid);
        let mut events: Vec<Event> = list(fixture, "events");
        events.retain(about);
        let found = observed.pods.iter_mut().find(|pod| pod.uid == query.uid);
        found.unwrap().event = query.read(&events);
    }
    let cause = report(&observed).cause.unwrap_or_default();
    format!(
        "{}: {}\n  {}",
        cause.reason,
        cause.message,
        cause.next.unwrap_or_default()
    )
}

#[test]
fn causes_of_objects_of_a_real_cluster() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    let causes: Vec<String> = files
        .iter()
        .map(|file| {
            let fixture = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            let name = file.file_stem().unwrap().display();
            format!("# {name}\n{}", cause_of(&fixture))
        })
        .collect();
    insta::assert_snapshot!(causes.join("\n\n"));
}

/// A file without an explanation could not be recorded again.
#[test]
fn each_file_is_in_the_readme() {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".json") {
            assert!(readme.contains(&format!("| `{name}` |")), "{name} has no row");
        }
    }
}
