//! Objects in files, and what differs from them.

use crd::AppDeploy;
use model::children::{DEPLOYMENT, INGRESS, SERVICE};
use model::spec_reader::{LiveObjects, read_app};
use model::{ChildKind, defaults};
use serde_json::{Value, json};
use testcluster::control_plane::Builder;
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::Plugin;

const KINDS: [(&ChildKind, &str); 3] = [
    (&DEPLOYMENT, "deployment"),
    (&SERVICE, "service"),
    (&INGRESS, "ingress"),
];

/// An app with all that the operator would make of it, made by hand: no operator runs.
fn shop() -> (PooledControlPlane, Plugin) {
    shop_with(ControlPlane::builder())
}

fn shop_with(builder: Builder) -> (PooledControlPlane, Plugin) {
    let (cluster, plugin) = Plugin::installed_in(builder);
    plugin
        .run("create shop --image=nginx:1.27 --port=8080 --host=shop.example.com --tls-secret=tls --health-path=/healthz --env=MODE=live --limits=cpu=0.5 --queue=orders --replicas=2")
        .ok();
    let children = plugin.run("export shop --with-owner").ok();
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    admin
        .run_with_input(&["create", "--validate=strict", "-f", "-"], &children)
        .unwrap();
    (cluster, plugin)
}

fn get(cluster: &ControlPlane, what: &str) -> Value {
    serde_json::from_str(&cluster.kubectl(&["get", what, "-o", "json"]).unwrap()).unwrap()
}

#[test]
fn spec_of_an_app_is_read_back_from_its_stored_children() {
    let (cluster, plugin) = shop();
    let wanted: Value = serde_json::from_str(&plugin.run("export shop --with-owner -o json").ok()).unwrap();
    let live = KINDS.map(|(_, kind)| get(&cluster, &format!("{kind}/shop")));
    for (((kind, _), live), wanted) in KINDS.iter().zip(&live).zip(wanted["items"].as_array().unwrap()) {
        // Neither more nor less than what the API server is known to add.
        let mut spec = live["spec"].clone();
        for given in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            spec.as_object_mut().unwrap().remove(given);
        }
        let mut filled = defaults::filled(kind, wanted)["spec"].clone();
        if let Some(container) = filled.pointer_mut("/template/spec/containers/0") {
            container["resources"]["limits"]["cpu"] = json!("500m");
        }
        let (spec, filled) = (
            model::digest::paths(&json!({"spec": spec})),
            model::digest::paths(&json!({"spec": filled})),
        );
        assert_eq!(spec, filled, "{kind}");
        assert_eq!(defaults::filled(kind, live), *live, "{kind}");
    }
    let app: AppDeploy = serde_json::from_value(get(&cluster, "appdeploy/shop")).unwrap();
    let [deployment, service, ingress] = &live;
    let read = read_app(
        "shop",
        "default",
        LiveObjects {
            deployment: Some(deployment),
            service: Some(service),
            ingress: Some(ingress),
            ..LiveObjects::default()
        },
    );
    assert_eq!(read.unmapped, []);
    let mut spec = app.spec;
    spec.pod
        .container
        .resources
        .as_mut()
        .unwrap()
        .limits
        .insert("cpu".into(), "500m".into());
    assert_eq!(read.spec, spec);
}

#[test]
fn diff_shows_only_drift() {
    let (cluster, plugin) = shop();
    let same = plugin.run("diff shop");
    assert_eq!((same.code, same.out.as_str(), same.err.as_str()), (0, "", ""));
    assert_eq!(plugin.run("diff --all").code, 0);
    assert_eq!(plugin.run("diff missing").code, 2);

    // What an older operator did not write comes with the next pods.
    for policy in ["File", "FallbackToLogsOnError"] {
        let place = "/spec/template/spec/containers/0/terminationMessagePolicy";
        let patch = json!([{"op": "replace", "path": place, "value": policy}]).to_string();
        cluster
            .kubectl(&["patch", "deployment/shop", "--type=json", "-p", &patch])
            .unwrap();
        assert_eq!(plugin.run("diff shop").code, 0, "{policy}");
    }

    // Fields that others add are ignored; fields that they change are shown.
    cluster.kubectl(&["annotate", "service/shop", "team=shop"]).unwrap();
    assert_eq!(plugin.run("diff shop").code, 0);
    cluster
        .kubectl(&["set", "image", "deployment/shop", "app=evil"])
        .unwrap();
    cluster.kubectl(&["delete", "ingress/shop"]).unwrap();
    let before = cluster.audit().mark().unwrap();
    let drifted = plugin.run("diff shop");
    assert_eq!(drifted.code, 1, "{drifted:?}");
    let changed: Vec<&str> = drifted
        .out
        .lines()
        .filter(|line| line.starts_with(['-', '+']))
        .collect();
    assert_eq!(
        &changed[..4],
        [
            "--- LIVE/apps.v1.Deployment.default.shop",
            "+++ MERGED/apps.v1.Deployment.default.shop",
            "-        image: evil",
            "+        image: nginx:1.27",
        ],
        "{drifted:?}"
    );
    assert_eq!(changed[4], "--- LIVE/networking.k8s.io.v1.Ingress.default.shop");
    assert!(changed[6..].iter().all(|line| line.starts_with('+')), "{drifted:?}");
    let sent = cluster
        .audit()
        .since(before)
        .unwrap()
        .by_user_agent_prefix("kubectl-appdeploy/");
    assert_eq!(sent.count(), 4, "{:?}", sent.tally());
}

#[test]
fn diff_compares_a_file_before_it_is_applied() {
    let (cluster, plugin) = shop();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    let diff = |text: &str| {
        std::fs::write(&file, text).unwrap();
        plugin.run(&format!("diff -f {}", file.display()))
    };
    let written = plugin.run("export shop --manifest").ok();
    assert_eq!(diff(&written).code, 0, "{written}");
    let version = || get(&cluster, "appdeploy/shop")["metadata"]["resourceVersion"].clone();
    let before = version();

    // A field that goes is shown to go, as what stays is not shown at all.
    let (without, _) = written.split_once("  env:").unwrap();
    let (_, after) = written.split_once("live\n").unwrap();
    let differs = diff(&format!("{without}{after}").replace("1.27", "1.28"));
    assert_eq!(differs.code, 1, "{differs:?}");
    insta::assert_snapshot!(differs.out);
    let another = diff(&written.replace("name: shop\n", "name: other\n"));
    assert_eq!(
        (another.code, another.out.matches("\n+kind: ").count()),
        (1, 3),
        "{another:?}"
    );

    assert_eq!(diff(&written.replace("8080", "0")).code, 2);
    assert!(
        diff(&written.replace("replicas:", "replica:"))
            .fails(2)
            .contains("spec.replica")
    );
    assert!(
        diff("kind: Service\napiVersion: v1\n")
            .fails(2)
            .contains("Service of v1 is not an app, a pod set or a queue")
    );
    assert_eq!(version(), before, "nothing was written");

    let external = plugin
        .command(&format!("diff -f {}", file.display()))
        .env("KUBECTL_EXTERNAL_DIFF", "diff --brief")
        .output()
        .unwrap();
    assert_eq!(external.status.code(), Some(2), "the file is still that of a Service");
    std::fs::write(&file, written.replace("1.27", "1.28")).unwrap();
    let external = plugin
        .command(&format!("diff -f {}", file.display()))
        .env("KUBECTL_EXTERNAL_DIFF", "diff --brief")
        .output()
        .unwrap();
    assert_eq!(external.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&external.stdout).starts_with("Files "));
}

#[test]
fn fields_that_no_file_names_are_kept() {
    let (cluster, plugin) = shop();
    let written = plugin.run("export shop --manifest").ok();
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), written.replace("  replicas: 2\n", "")).unwrap();
    let diff = || plugin.run(&format!("diff -f {}", file.path().display()));
    assert_eq!(diff().code, 1, "the file would revert fields of the created app");
    plugin.run("scale shop --replicas=5").ok();
    plugin.run("pause shop").ok();
    let patch = json!({"spec": {"replicas": 5, "paused": true}}).to_string();
    cluster
        .kubectl(&["patch", "deployment/shop", "--type=merge", "-p", &patch])
        .unwrap();
    let same = diff();
    assert_eq!(same.code, 0, "{same:?}");
}

#[test]
fn exported_objects_work_without_appdeploy() {
    let (cluster, plugin) = shop();
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), plugin.run("export shop --manifest").ok()).unwrap();
    // With a file no cluster is asked.
    let before = cluster.audit().mark().unwrap();
    let offline = plugin
        .run(&format!("export -f {} -n default", file.path().display()))
        .ok();
    let sent = cluster
        .audit()
        .since(before)
        .unwrap()
        .by_user_agent_prefix("kubectl-appdeploy/");
    assert_eq!(sent.count(), 0, "{:?}", sent.tally());
    let objects = plugin.run("export shop").ok();
    assert_eq!(offline, objects);
    assert!(
        !objects.contains("ownerReferences") && !objects.contains("appdeploy.dev/desired-hash"),
        "{objects}"
    );
    cluster.kubectl(&["create", "namespace", "elsewhere"]).unwrap();
    let elsewhere = objects.replace("namespace: default", "namespace: elsewhere");
    let admin = cluster.kubectl_as(&cluster.kubeconfig());
    let made = admin
        .run_with_input(&["apply", "--validate=strict", "-f", "-"], &elsewhere)
        .unwrap();
    assert_eq!(made.lines().count(), 3, "{made}");

    plugin.run("podset create workers --replicas=2").ok();
    let pods = plugin.run("podset export workers").ok();
    assert_eq!(pods.matches("kind: Pod\n").count(), 2, "{pods}");
    let manifest = plugin.run("podset export workers --manifest").ok();
    assert!(
        manifest.contains("kind: PodSet\n") && !manifest.contains("uid"),
        "{manifest}"
    );
}

#[test]
fn ejected_app_leaves_its_children_unchanged() {
    let (cluster, plugin) = shop_with(ControlPlane::builder().controller_manager(&["garbagecollector"]));
    let before = KINDS.map(|(_, kind)| get(&cluster, &format!("{kind}/shop")));
    assert_eq!(
        plugin.run("eject shop").fails(2),
        "goes:  AppDeploy shop; drift of its children is no longer repaired\nstays: deployment/shop, service/shop, ingress/shop and the pods, which keep serving\nerror: shop is ejected only after confirmation: nothing was changed\n  next: kubectl appdeploy eject shop --yes\n        (to confirm)\n"
    );
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "busy"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "shop"}}});
    cluster.apply(&scaler.to_string()).unwrap();
    for mode in ["client", "server"] {
        let run = plugin.run(&format!("eject shop --dry-run={mode}"));
        let note = "note:  horizontalpodautoscaler/busy scales AppDeploy shop, which is deleted: set its scaleTargetRef to Deployment shop\n";
        assert!(run.code == 0 && run.err.ends_with(note), "{run:?}");
    }
    assert_eq!(KINDS.map(|(_, kind)| get(&cluster, &format!("{kind}/shop"))), before);

    let exported = plugin.run("export shop").ok();
    assert_eq!(
        plugin.run("eject shop --yes").ok(),
        "appdeploy.appdeploy.dev/shop ejected\n"
    );
    assert!(plugin.run("status -o name").ok().is_empty());
    for ((_, kind), before) in KINDS.iter().zip(&before) {
        let after = get(&cluster, &format!("{kind}/shop"));
        assert_eq!(
            (&after["spec"], &after["metadata"]["uid"]),
            (&before["spec"], &before["metadata"]["uid"])
        );
        let labels = json!({"app.kubernetes.io/name": "shop", "appdeploy.dev/app": "shop"});
        let metadata = &after["metadata"];
        assert_eq!(
            (
                &metadata["labels"],
                &metadata["ownerReferences"],
                &metadata["annotations"]
            ),
            (&labels, &Value::Null, &Value::Null)
        );
    }
    // What was exported is what is left.
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), exported).unwrap();
    let file = file.path().display().to_string();
    cluster
        .kubectl(&["diff", "--server-side", "--force-conflicts", "-f", &file])
        .unwrap();
    let gone = plugin.run("eject shop --yes").fails(1);
    assert!(gone.starts_with("Error from server (NotFound)"), "{gone}");
}

#[test]
fn interrupted_eject_can_be_continued() {
    let (cluster, plugin) = shop_with(ControlPlane::builder().controller_manager(&["garbagecollector"]));
    cluster
        .kubectl(&["delete", "appdeploy/shop", "--cascade=orphan"])
        .unwrap();
    let again = plugin.run("eject shop");
    assert_eq!(again.out, "appdeploy.appdeploy.dev/shop ejected\n", "{again:?}");
    let ours = cluster
        .kubectl(&[
            "get",
            "deploy,svc,ing",
            "-l",
            "app.kubernetes.io/managed-by=appdeploy",
            "-o",
            "name",
        ])
        .unwrap();
    assert_eq!(ours, "");
}

#[test]
fn eject_reports_that_it_waits_for_the_garbage_collector() {
    let (cluster, plugin) = shop();
    let late = plugin.run("eject shop --yes --timeout=1s").fails(4);
    assert!(
        late.contains("is the kube-controller-manager running?\n  next: kubectl appdeploy eject shop"),
        "{late}"
    );
    for (_, kind) in KINDS {
        assert!(
            get(&cluster, &format!("{kind}/shop"))["metadata"]["ownerReferences"].is_array(),
            "{kind}"
        );
    }
}

/// `images`, `replicas`, generated hashes and a prefix reach the fields of apps and pod sets, with kubectl's own kustomize.
#[test]
fn kustomize_rewrites_images_and_names() {
    let (cluster, _plugin) = shop();
    let folder = tempfile::tempdir().unwrap();
    let component = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/kustomize");
    let copied = folder.path().join("appdeploy");
    std::fs::create_dir(&copied).unwrap();
    for file in ["kustomization.yaml", "transformers.yaml"] {
        std::fs::copy(format!("{component}/{file}"), copied.join(file)).unwrap();
    }
    let secret = json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}});
    let map = json!({"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}});
    let objects = json!([{"secretRef": {"name": "db"}}, {"configMapRef": {"name": "settings"}}]);
    let pod = json!({"image": "ghcr.io/acme/web:1.4", "env": [secret, map], "envFrom": objects, "imagePullSecrets": [{"name": "db"}]});
    let mut app = pod.clone();
    app["port"] = json!(80);
    app["tls"] = json!({"secretName": "db"});
    let object = |kind: &str, spec: Value| json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": kind, "metadata": {"name": "web"}, "spec": spec});
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "web"}}});
    let list = json!({"apiVersion": "v1", "kind": "List",
        "items": [object("AppDeploy", app), object("PodSet", json!({"template": pod})), scaler]});
    let kustomization = json!({"components": ["appdeploy"], "resources": ["objects.yaml"], "namePrefix": "live-",
        "secretGenerator": [{"name": "db", "literals": ["password=a"]}],
        "configMapGenerator": [{"name": "settings", "literals": ["mode=live"]}],
        "images": [{"name": "ghcr.io/acme/web", "newTag": "1.5"}], "replicas": [{"name": "web", "count": 3}]});
    std::fs::write(folder.path().join("objects.yaml"), list.to_string()).unwrap();
    std::fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    cluster
        .kubectl(&["apply", "-k", &folder.path().display().to_string()])
        .unwrap();

    let names = cluster.kubectl(&["get", "secrets,configmaps", "-o", "name"]).unwrap();
    let generated = |start: &str| {
        let mut names = names
            .lines()
            .filter_map(|line| line.split_once('/'))
            .map(|(_, name)| name);
        names.find(|name| name.starts_with(start)).unwrap().to_owned()
    };
    let (secret, map) = (generated("live-db-"), generated("live-settings-"));
    let app = get(&cluster, "appdeploy/live-web")["spec"].take();
    let set = get(&cluster, "podset/live-web")["spec"].take();
    assert_eq!((&app["replicas"], &set["replicas"]), (&json!(3), &json!(3)));
    assert_eq!(app["tls"]["secretName"], json!(secret));
    for pod in [&app, &set["template"]] {
        assert_eq!(pod["image"], "ghcr.io/acme/web:1.5");
        assert_eq!(pod["env"][0]["valueFrom"]["secretKeyRef"]["name"], json!(secret));
        assert_eq!(pod["env"][1]["valueFrom"]["configMapKeyRef"]["name"], json!(map));
        assert_eq!(pod["envFrom"][0]["secretRef"]["name"], json!(secret));
        assert_eq!(pod["envFrom"][1]["configMapRef"]["name"], json!(map));
        assert_eq!(pod["imagePullSecrets"][0]["name"], json!(secret));
    }
    let scaler = get(&cluster, "hpa/live-web");
    assert_eq!(scaler["spec"]["scaleTargetRef"]["name"], "live-web");
}
