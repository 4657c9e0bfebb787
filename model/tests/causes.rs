//! What is said of apps that can't work, as a real cluster had them: `make causes` takes them anew.
//!
//! Each file in `causes/` has an app, its children and pods, the kubelet's Events about them and the time. See the README
//! there.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

use std::path::{Path, PathBuf};

use crd::AppDeploy;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::core::ObjectMeta;
use model::pod::PodState;
use model::status::{StatusOptions, asks};
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

/// Says what the operator says: it writes what is missing, and asks for the answer of a health check where it is wanted.
fn told(fixture: &Value) -> String {
    let app: AppDeploy = serde_json::from_value(fixture["app"].clone()).unwrap();
    let valid = validate(&app).unwrap();
    let mut observed = observed(fixture);
    let planned = plan(&valid, &desired(&valid), &observed);
    let now = Timestamp::from_second(fixture["now"].as_i64().unwrap()).unwrap();
    let options = StatusOptions { needs_address: true };
    let say = |observed: &Observed| status(&app, Some(&valid), observed, &planned.failures, options, now);
    if let Some(question) = asks(&say(&observed), &observed, now) {
        let about = |event: &Event| event.involved_object.uid.as_deref() == Some(&*question.uid);
        let mut events: Vec<Event> = list(fixture, "events");
        events.retain(about);
        let asked = observed.pods.iter_mut().find(|pod| pod.uid == question.uid);
        asked.unwrap().answer = question.read(&events);
    }
    let cause = say(&observed).cause.unwrap_or_default();
    format!(
        "{}: {}\n  {}",
        cause.reason,
        cause.message,
        cause.next.unwrap_or_default()
    )
}

#[test]
fn each_cause_is_told_of_the_objects_of_a_real_cluster() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    let told: Vec<String> = files
        .iter()
        .map(|file| {
            let fixture = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            let name = file.file_stem().unwrap().display();
            format!("# {name}\n{}", told(&fixture))
        })
        .collect();
    insta::assert_snapshot!(told.join("\n\n"));
}

/// A file that nobody explains is one that nobody takes anew.
#[test]
fn each_file_is_explained() {
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".json") {
            assert!(readme.contains(&format!("| `{name}` |")), "{name} has no row");
        }
    }
}
