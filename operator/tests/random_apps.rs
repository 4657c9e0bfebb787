//! Random apps, with any combination of fields: a real API server accepts them, the operator settles, and `adopt` reads the
//! spec back from the objects that `export` prints.
//!
//! `APPDEPLOY_SEED=7` runs one app alone. `make test` runs 24 apps, `make test-long` 400.

#[path = "../../model/src/spec_reader/tests/random.rs"]
mod random;

use std::collections::BTreeMap;

use crd::{AppDeploy, AppDeploySpec};
use kube::api::Patch;
use model::export::{of_app, standalone};
use model::spec_reader::{LiveObjects, read_app};
use model::{Digest, defaults, desired, validate};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use testcluster::ControlPlane;

use crate::harness::{APP, Cluster, DEPLOYMENT, INGRESS, Kind, Namespace, SERVICE, SERVICE_ACCOUNT, Shared, is_long};

/// The kinds of children in a cluster without optional ones.
const KINDS: [Kind; 4] = [DEPLOYMENT, SERVICE, INGRESS, SERVICE_ACCOUNT];

/// How many apps are in the cluster at a time.
const AT_A_TIME: usize = 50;

fn seeds() -> Vec<u64> {
    match std::env::var("APPDEPLOY_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..if is_long() { 400 } else { 24 }).collect(),
    }
}

/// Draws a spec. Each app has its own host.
fn draw(seed: u64, name: &str) -> Value {
    // The strategy of a whole spec needs more stack than a test has.
    let drawing = std::thread::Builder::new().stack_size(64 << 20);
    let drawn = drawing.spawn(move || draw_spec(seed)).unwrap().join();
    let mut spec = drawn.unwrap();
    if spec["host"].is_string() {
        spec["host"] = json!(format!("{name}.example.com"));
    }
    spec
}

fn draw_spec(seed: u64) -> Value {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    random::spec().new_tree(&mut runner).unwrap().current()
}

#[test]
fn random_apps_are_accepted_settle_and_come_back_equal() {
    static SHARED: Shared<Cluster> = Shared::new();
    let cluster = SHARED.get(|| Cluster::start(ControlPlane::builder()).with_operator(&["--allow-unchecked-fields"]));
    for (round, seeds) in seeds().chunks(AT_A_TIME).enumerate() {
        let apps = cluster.namespace(&format!("random-{round}"));
        let copies = cluster.namespace(&format!("copies-{round}"));
        let specs: BTreeMap<String, Value> = seeds
            .iter()
            .map(|seed| {
                let name = format!("app-{seed}");
                (name.clone(), draw(*seed, &name))
            })
            .collect();
        for (name, spec) in &specs {
            let created = apps.try_create(APP, json!({"metadata": {"name": name}, "spec": spec}));
            assert!(created.is_ok(), "{name} is refused: {created:?}\n{spec:#}");
        }
        for (name, spec) in &specs {
            let app = apps.until_reported(name);
            let refused = ["InvalidSpec", "Rejected", "NameConflict", "Unreadable"];
            let reason = crate::harness::ready(&app).1;
            assert!(!refused.contains(&reason), "{name}: {}\n{spec:#}", app["status"]);
        }
        apps.settle();
        assert_settled(&apps, &specs);
        for (name, spec) in &specs {
            assert_read_back(&apps, &copies, name, spec);
        }
    }
}

/// Another reconcile of each app writes nothing.
fn assert_settled(apps: &Namespace, specs: &BTreeMap<String, Value>) {
    let mark = apps.mark();
    for name in specs.keys() {
        apps.patch(
            APP,
            name,
            Patch::Merge(json!({"metadata": {"labels": {"again": "yes"}}})),
        );
        apps.patch(
            DEPLOYMENT,
            name,
            Patch::Merge(json!({"metadata": {"labels": {"again": "yes"}}})),
        );
    }
    apps.settle();
    let asked = apps.asked_since(mark);
    let unsettled: Vec<String> = asked
        .iter()
        .map(|request| format!("{} {}", request.what(), request.name))
        .collect();
    let of = |line: &String| specs.get(line.rsplit(' ').next().unwrap_or_default());
    let first = unsettled.first().and_then(of);
    assert_eq!(unsettled, [""; 0], "{first:#?}");
}

/// The objects that `export` prints, stored by the API server without the operator, have the spec of the app.
fn assert_read_back(apps: &Namespace, copies: &Namespace, name: &str, spec: &Value) {
    let app: AppDeploy = serde_json::from_value(apps.get(APP, name)).unwrap();
    for object in of_app(&app, &[]).unwrap() {
        let mut copy = standalone(&object);
        copy["metadata"]["namespace"] = json!(copies.name);
        let kind = kind_of(&copy);
        let created = copies.try_create(kind, copy);
        assert!(created.is_ok(), "{name} can't be exported: {created:?}\n{spec:#}");
    }
    let live = KINDS.map(|kind| Some(copies.get(kind, name)).filter(|live| !live.is_null()));
    let read = read_app(
        name,
        &apps.name,
        LiveObjects {
            deployment: live[0].as_ref(),
            service: live[1].as_ref(),
            ingress: live[2].as_ref(),
            service_account: live[3].as_ref(),
            ..LiveObjects::default()
        },
    );
    assert_eq!(read.unmapped, [], "{name}\n{spec:#}");
    let wanted = random::normalized(spec);
    assert_eq!(
        without_amounts(&read.spec),
        without_amounts(&wanted),
        "{name}\n{spec:#}"
    );
    // Amounts are written differently: both specs render the same objects.
    let [read, wanted] = [read.spec, wanted].map(|spec| {
        let app = AppDeploy { spec, ..app.clone() };
        let children = desired(&validate(&app).unwrap());
        let specs = children
            .iter()
            .map(|child| Digest::of(&json!({"spec": child.object["spec"]})));
        specs.collect::<Vec<_>>()
    });
    assert_eq!(read, wanted, "{name}\n{spec:#}");
}

fn kind_of(object: &Value) -> Kind {
    KINDS.into_iter().find(|kind| object["kind"] == kind.name()).unwrap()
}

/// Returns a spec without the values that the API server may write in another form.
fn without_amounts(spec: &AppDeploySpec) -> Value {
    let mut spec = serde_json::to_value(spec).unwrap();
    spec["resources"] = Value::Null;
    for list in ["initContainers", "sidecars"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container["resources"] = Value::Null;
        }
    }
    for volume in spec["volumes"].as_array_mut().into_iter().flatten() {
        if let Some(dir) = volume.get_mut("emptyDir").and_then(Value::as_object_mut) {
            dir.remove("sizeLimit");
        }
    }
    spec
}
