//! What others have made becomes an app. The operator's part is played: what it writes is what `export` prints.

use serde_json::{Value, json};
use testcluster::ControlPlane;
use testcluster::audit::Requests;

use crate::plugin::{Plugin, Run, conditions};

/// A namespace of its own with a Deployment, a Service and an Ingress `shop`, as `kubectl create` makes them.
struct Space<'a> {
    cluster: &'a ControlPlane,
    plugin: Plugin,
    namespace: &'static str,
}

impl<'a> Space<'a> {
    fn empty(cluster: &'a ControlPlane, namespace: &'static str) -> Self {
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        let plugin = Plugin::admin(cluster);
        Self {
            cluster,
            plugin,
            namespace,
        }
    }

    fn with_shop(cluster: &'a ControlPlane, namespace: &'static str) -> Self {
        let space = Self::empty(cluster, namespace);
        space.kubectl("create deployment shop --image=nginx:1.28 --replicas=2 --port=80");
        space.kubectl("expose deployment shop --port=8080 --target-port=80");
        space.kubectl("create ingress shop --rule=shop.example.com/*=shop:8080");
        space
    }

    /// Runs kubectl in this namespace with a line without quotes in it.
    #[track_caller]
    fn kubectl(&self, line: &str) -> String {
        let mut arguments = vec!["-n", self.namespace];
        arguments.extend(line.split_whitespace());
        self.cluster.kubectl(&arguments).unwrap()
    }

    fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("get {what} -o json"))).unwrap()
    }

    fn patch(&self, what: &str, patch: &Value) {
        let patch = patch.to_string();
        let arguments = ["-n", self.namespace, "patch", what, "--type=merge", "-p", &patch];
        self.cluster.kubectl(&arguments).unwrap();
    }

    fn adopt(&self, flags: &str) -> Run {
        self.plugin.run(&self.line(flags))
    }

    fn line(&self, flags: &str) -> String {
        format!("adopt shop -n {} {flags}", self.namespace)
    }

    /// Runs a command and returns what it asked the API server for, questions about rights aside.
    fn asked(&self, run: impl FnOnce()) -> Requests {
        let mark = self.cluster.audit().mark().unwrap();
        run();
        let since = self.cluster.audit().since(mark).unwrap();
        since
            .by_user_agent_prefix("kubectl-appdeploy/")
            .without("selfsubjectaccessreviews")
    }

    fn says(&self, status: &Value) {
        let object = json!({"status": status}).to_string();
        let arguments = [
            "-n",
            self.namespace,
            "patch",
            "appdeploy/shop",
            "--subresource=status",
            "--type=merge",
            "-p",
            &object,
        ];
        self.cluster.kubectl(&arguments).unwrap();
    }

    /// The operator finds the app, and its names taken.
    fn operator_finds_names_taken(&self) {
        self.kubectl("wait --for=create appdeploy/shop --timeout=30s");
        let mut taken = conditions("False", "NameConflict", "Deployment shop exists", Some("Stalled"));
        taken["cause"] =
            json!({"reason": "NameConflict", "message": "Deployment shop exists and is not managed by appdeploy"});
        self.says(&taken);
    }

    /// The operator finds the name of the Deployment free, and makes its own.
    fn operator_makes_its_deployment(&self) {
        self.kubectl("wait --for=delete deployment/shop --timeout=30s");
        let children = self
            .plugin
            .run(&format!("export shop --with-owner -o json -n {}", self.namespace))
            .ok();
        let children: Value = serde_json::from_str(&children).unwrap();
        self.cluster.apply(&children["items"][0].to_string()).unwrap();
    }

    /// The operator finds that all is its own, and works.
    fn operator_finds_all_its_own(&self, objects: &str) {
        for object in objects.split_whitespace() {
            let owner = "--for=jsonpath={.metadata.ownerReferences[0].kind}=AppDeploy";
            self.kubectl(&format!("wait {owner} {object} --timeout=60s"));
        }
        let ready = conditions("True", "Available", "2 of 2 pods are ready", None);
        self.says(&json!({"cause": null, "conditions": ready["conditions"]}));
    }

    /// No other manager owns a field that the app may drop, and the operator's next apply is not its first.
    #[track_caller]
    fn belongs_to_the_operator(&self, objects: &[&str]) {
        for object in objects {
            let live = self.get(&format!("{object} --show-managed-fields"));
            let entries = live["metadata"]["managedFields"].as_array().unwrap().iter();
            let own = entries.filter(|entry| entry["subresource"] != "status");
            let mut all: Vec<String> = own
                .map(|entry| format!("{} {}", entry["manager"], entry["operation"]))
                .collect();
            all.sort_unstable();
            assert_eq!(all, ["\"appdeploy\" \"Apply\"", "\"appdeploy\" \"Update\""], "{object}");
        }
    }

    fn names(&self, what: &str) -> Vec<String> {
        let names = self.kubectl(&format!("get {what} -o name --sort-by=.metadata.name"));
        names.lines().map(str::to_owned).collect()
    }
}

/// Returns the error, without the plan above it.
fn refusal(said: &str) -> &str {
    said.find("error: ").map_or(said, |at| &said[at..])
}

/// A cluster in which pods run as soon as they are made.
fn cluster_with_pods() -> ControlPlane {
    let cluster = ControlPlane::builder()
        .controller_manager(&["deployment", "replicaset", "endpointslice", "garbagecollector"])
        .fake_nodes(1)
        .start()
        .unwrap();
    Plugin::admin(&cluster)
        .run("install --wait=false --webhooks=false")
        .ok();
    cluster
}

/// A deploy while the question is open would be reverted.
#[test]
fn changed_objects_are_not_adopted_after_the_plan() {
    let cluster = cluster_with_pods();
    let shop = Space::with_shop(&cluster, "asked");
    let question = |line: &str, question: &str| {
        let terminal = shop.plugin.at_terminal(line);
        terminal.shows(question).unwrap();
        let screen = terminal.screen().text();
        // The server and the namespace are named.
        let text: String = screen.split_whitespace().collect();
        assert!(
            text.contains("namespaceasked,") && text.contains(cluster.url().as_str()),
            "{screen}"
        );
        terminal
    };
    let terminal = question(&shop.line("-o name"), "Adopt shop?");
    shop.kubectl("set image deployment/shop nginx=nginx:1.29");
    terminal.send("y").unwrap();
    terminal
        .shows("the objects have changed since they were shown")
        .unwrap();
    assert_eq!(terminal.end().unwrap().0, 1);
    assert_eq!(shop.names("appdeploys"), [""; 0]);

    shop.plugin.run("create blog -n asked --image=nginx:1").ok();
    let terminal = question("eject blog -n asked", "Eject blog?");
    shop.plugin.run("set image blog=nginx:2 -n asked").ok();
    terminal.send("y").unwrap();
    terminal
        .shows("the objects have changed since they were shown")
        .unwrap();
    assert_eq!(terminal.end().unwrap().0, 1);
    assert_eq!(shop.names("appdeploys"), ["appdeploy.appdeploy.dev/blog"]);
}

#[test]
fn third_party_objects_are_adopted_also_after_an_interruption() {
    let cluster = cluster_with_pods();
    let shop = Space::with_shop(&cluster, "whole");
    shop.kubectl("rollout status deployment shop --timeout=30s");
    let before = ["service/shop", "ingress/shop"].map(|what| shop.get(what)["metadata"]["uid"].clone());
    let old_pods = shop.names("pods");

    // A dry run shows the plan and changes nothing.
    let shown = shop.asked(|| {
        let dry = shop.adopt("--dry-run=client").ok();
        for words in [
            "  port: 80\n  replicas: 2\n",
            "+++ MERGED/apps.v1.Deployment.whole.shop\n",
            "-      app: shop\n+      appdeploy.dev/app: shop\n",
            "+  - name: port-8080\n",
            "pods:  are replaced, because the selector of a Deployment is immutable",
        ] {
            assert!(dry.contains(words), "{words:?} is not in:\n{dry}");
        }
    });
    assert_eq!(shown.writes().count(), 0);
    let unasked = shop.asked(|| {
        let error = shop.adopt("").fails(2);
        assert!(error.contains("adopt shop --yes -n whole"), "{error}");
    });
    // Except for the dry runs: the creation of the app, and two writes for each of the others.
    assert_eq!(unasked.writes().count(), 5);

    // Interrupted when the old Deployment is deleted. Its pods are kept.
    let mut first = shop.plugin.start(&shop.line("--yes"));
    shop.operator_finds_names_taken();
    shop.kubectl("wait --for=delete deployment/shop --timeout=30s");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(shop.names("pods"), old_pods);
    assert_eq!(shop.names("replicasets -l appdeploy.dev/replaced-by=shop").len(), 1);

    // It ends again when the Service is the app's. The Deployment exists before: a plan that it changes would be rejected.
    shop.operator_makes_its_deployment();
    let mut second = shop.plugin.start(&shop.line("--yes"));
    let owner = "--for=jsonpath={.metadata.ownerReferences[0].kind}=AppDeploy";
    shop.kubectl(&format!("wait {owner} service/shop --timeout=60s"));
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(
        shop.names("pods").len() > 2,
        "old pods serve those who have not heard yet"
    );

    let third = shop.plugin.start(&shop.line("--yes"));
    shop.operator_finds_all_its_own("service/shop ingress/shop");
    let third = Run::of(third);
    assert_eq!(third.code, 0, "{third:?}");
    assert!(
        third.out.ends_with("appdeploy.appdeploy.dev/shop adopted\n"),
        "{third:?}"
    );
    assert!(third.err.contains("shop is ready: "), "{third:?}");

    // The addresses are those of before, the pods are others, and nothing else is left.
    let after = ["service/shop", "ingress/shop"].map(|what| shop.get(what)["metadata"]["uid"].clone());
    assert_eq!(after, before);
    let pods = shop.names("pods");
    assert!(
        pods.len() == 2 && pods.iter().all(|pod| !old_pods.contains(pod)),
        "{pods:?}"
    );
    assert_eq!(shop.names("replicasets").len(), 1);
    let bridges =
        shop.kubectl("get endpointslices -l endpointslice.kubernetes.io/managed-by=kubectl-appdeploy -o name");
    assert_eq!(bridges, "");
    let ports = &shop.get("service/shop")["spec"]["ports"];
    let of_ports: Vec<_> = ports
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (&port["name"], &port["port"], &port["targetPort"]))
        .collect();
    assert_eq!(
        of_ports,
        [
            (&json!("http"), &json!(80), &json!("http")),
            (&json!("port-8080"), &json!(8080), &json!("http"))
        ]
    );
    shop.belongs_to_the_operator(&["service/shop", "ingress/shop"]);
    assert_eq!(shop.adopt("").ok(), "appdeploy.appdeploy.dev/shop unchanged\n");
    assert_eq!(shop.plugin.run("diff shop -n whole").code, 0);
}

#[test]
fn pods_of_a_deleted_app_are_adopted_again() {
    let cluster = cluster_with_pods();
    let shop = Space::empty(&cluster, "back");
    shop.plugin
        .run("create shop --image=nginx:1.28 --port=80 --replicas=2 --env=MODE=live -n back")
        .ok();
    let children = shop.plugin.run("export shop --with-owner -o json -n back").ok();
    cluster.apply(&children).unwrap();
    shop.kubectl("rollout status deployment shop --timeout=30s");
    let pods = shop.names("pods");
    shop.plugin.run("eject shop --yes -n back").ok();

    let adopting = shop.plugin.start(&shop.line("--yes"));
    shop.operator_finds_names_taken();
    shop.operator_finds_all_its_own("deployment/shop service/shop ingress/shop");
    let adopted = Run::of(adopting);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert!(adopted.err.contains("pods:  are kept"), "{adopted:?}");
    assert_eq!(shop.names("pods"), pods);

    // The operator does not find what it notes of its wishes, so it writes them once more.
    let annotations = &shop.get("deployment/shop")["metadata"]["annotations"];
    assert_eq!(annotations["appdeploy.dev/desired-hash"], Value::Null);
    shop.belongs_to_the_operator(&["deployment/shop", "service/shop", "ingress/shop"]);
}

#[test]
fn losses_and_taken_names_are_rejected_without_a_write() {
    let (cluster, _) = Plugin::installed();
    let shop = Space::with_shop(&cluster, "rich");
    shop.patch(
        "deployment/shop",
        &json!({"spec": {"template": {"spec": {"hostNetwork": true,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}}}}),
    );
    shop.kubectl("autoscale deployment shop --max=5 --cpu-percent=80");
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "ship", "uid": "u1"}]}});
    shop.patch("ingress/shop", &owner);
    let sent = shop.asked(|| {
        insta::assert_snapshot!(refusal(&shop.adopt("--yes").fails(1)), @r#"
        error: adopting appdeploy.appdeploy.dev/shop would lose something: nothing was changed
          why:  deployment/shop spec.template.spec.hostNetwork: true can't be set in an app
          why:  deployment/shop spec.template.spec.volumes[data]: {"name":"data","persistentVolumeClaim":{"claimName":"data"}} can't be set in an app
          why:  ingress/shop is owned by Deployment ship, which may change or delete it
          why:  horizontalpodautoscaler/shop scales the Deployment, which the operator would revert: set its scaleTargetRef to the AppDeploy
          next: kubectl appdeploy adopt shop --force -n rich
                (to confirm)
        "#);
    });
    // One of each kind by name, and one list of each kind that may count on them, however many there are.
    assert_eq!((sent.count(), sent.writes().count()), (13, 0));

    // Forced, it is shown what is lost.
    let forced = shop.adopt("--force --dry-run=server").ok();
    assert!(
        forced.contains("lost:  deployment/shop spec.template.spec.hostNetwork: true"),
        "{forced}"
    );
}

#[test]
fn missing_forbidden_and_paused_objects_are_reported_before_any_change() {
    let (cluster, _) = Plugin::installed();
    let shop = Space::empty(&cluster, "parts");
    assert_eq!(
        shop.adopt("").fails(1),
        "error: Deployment shop not found in namespace parts\n  next: kubectl get deployments -n parts\n"
    );

    // A Deployment alone is a worker, and a Service without an Ingress is not published.
    shop.kubectl("create deployment shop --image=nginx:1.28");
    let worker = shop.adopt("--dry-run=server -o yaml").ok();
    assert!(
        worker.ends_with("spec:\n  image: nginx:1.28\n  replicas: 1\n"),
        "{worker}"
    );
    shop.kubectl("expose deployment shop --port=80");
    let inside = shop.adopt("--dry-run=server -o yaml").ok();
    assert!(
        inside.ends_with("spec:\n  expose: Cluster\n  image: nginx:1.28\n  port: 80\n  replicas: 1\n"),
        "{inside}"
    );
    shop.kubectl("rollout pause deployment shop");
    let paused = shop.adopt("--dry-run=client").ok();
    assert!(
        paused.contains("note:  deployment/shop is paused; the app is not"),
        "{paused}"
    );

    // Without an operator nothing is begun but the app.
    let refused = shop.adopt("--yes --timeout=1s").fails(4);
    insta::assert_snapshot!(refusal(&refused), @r"
    error: no operator has seen appdeploy.appdeploy.dev/shop after 1s
      why:  the existing objects were not changed
      why:  the operator is not running: its Deployment has no ready pod
      next: kubectl -n appdeploy-system describe pods
      next: kubectl appdeploy adopt shop -n parts
            (continues)
    ");
    assert_eq!(shop.names("deployments"), ["deployment.apps/shop"]);
    shop.kubectl("delete appdeploy shop");

    // The rights are those of the person.
    let verbs = [
        ("appdeploys.appdeploy.dev", "get,list,watch,create,patch"),
        ("deployments.apps", "get,list,watch"),
        ("services", "get,list,watch,update,patch"),
        ("ingresses.networking.k8s.io", "get,list"),
        ("replicasets.apps", "get,list"),
    ];
    for (index, (resource, verb)) in verbs.iter().enumerate() {
        shop.kubectl(&format!("create role part-{index} --resource={resource} --verb={verb}"));
        shop.kubectl(&format!(
            "create rolebinding part-{index} --role=part-{index} --user=ann"
        ));
    }
    let ann = Plugin::of(&cluster.kubeconfig_for("ann", &[]).unwrap());
    insta::assert_snapshot!(refusal(&ann.run(&shop.line("--yes --force")).fails(1)), @r"
    error: appdeploy.appdeploy.dev/shop would be adopted only in part: nothing was changed
      why:  you may not delete deployments.apps -n parts
      why:  you may not delete replicasets.apps -n parts
      why:  you may not list pods -n parts
      why:  you may not list endpointslices.discovery.k8s.io -n parts
      why:  you may not patch replicasets.apps -n parts
      why:  you may not watch replicasets.apps -n parts
      why:  you may not watch endpointslices.discovery.k8s.io -n parts
      next: kubectl auth can-i delete deployments.apps -n parts
    ");
    assert_eq!(shop.names("appdeploys"), Vec::<String>::new());
}

#[test]
fn service_is_not_switched_to_pods_that_are_not_ready() {
    let cluster = cluster_with_pods();
    let shop = Space::empty(&cluster, "early");
    shop.kubectl("create deployment shop-v1 --image=nginx:1.28");
    shop.kubectl("expose deployment shop-v1 --name=shop --port=80");
    let asked = shop.adopt("--deployment=shop-v1").fails(2);
    assert!(
        asked.contains("kubectl appdeploy adopt shop --deployment=shop-v1 --yes -n early"),
        "{asked}"
    );

    shop.plugin
        .run("create shop --image=nginx:1.28 --port=80 --expose=cluster -n early")
        .ok();
    let children = shop.plugin.run("export shop --with-owner -o json -n early").ok();
    let mut deployment = serde_json::from_str::<Value>(&children).unwrap()["items"][0].clone();
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"place": "nowhere"});
    cluster.apply(&deployment.to_string()).unwrap();
    shop.operator_finds_names_taken();
    // Without the name of the other Deployment, its pods can't be found.
    let refused = shop.adopt("--yes").fails(1);
    assert!(
        refused.contains("service/shop does not select the pods of the app"),
        "{refused}"
    );
    let late = shop.adopt("--yes --force --timeout=3s").fails(4);
    assert!(
        late.contains("the new pods of appdeploy.appdeploy.dev/shop are not available")
            && late.ends_with("next: kubectl appdeploy adopt shop --force -n early\n        (continues)\n"),
        "{late}"
    );
    let service = shop.get("service/shop");
    assert_eq!(
        (&service["metadata"]["ownerReferences"], &service["spec"]["selector"]),
        (&Value::Null, &json!({"app": "shop-v1"}))
    );

    shop.patch(
        "deployment/shop",
        &json!({"spec": {"template": {"spec": {"nodeSelector": null}}}}),
    );
    let adopting = shop.plugin.start(&shop.line("--yes --force"));
    shop.operator_finds_all_its_own("service/shop");
    let adopted = Run::of(adopting);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert_eq!(
        shop.get("service/shop")["spec"]["selector"],
        json!({"appdeploy.dev/app": "shop"})
    );
}

#[test]
fn rejection_by_the_server_is_found_before_any_change() {
    let (cluster, _) = Plugin::installed();
    // What one type alone may have goes with it.
    let shop = Space::with_shop(&cluster, "typed");
    shop.patch(
        "service/shop",
        &json!({"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local"}}),
    );
    shop.adopt("--force --dry-run=server").ok();
    assert_eq!(shop.get("service/shop")["spec"]["type"], "LoadBalancer");

    // What an app has left, and is wanted otherwise: with another port, and without what it had.
    let kept = Space::empty(&cluster, "kept");
    kept.plugin
        .run("create shop --image=nginx:1.28 --port=80 --health-path=/ --env=GONE=1 -n kept")
        .ok();
    let left = kept.plugin.run("export shop -n kept").ok();
    cluster.apply(&left).unwrap();
    kept.kubectl("delete appdeploy shop");
    kept.plugin.run("create shop --image=nginx:1.28 --port=81 -n kept").ok();
    let shown = kept.adopt("--dry-run=server").ok();
    for gone in ["- name: GONE", "livenessProbe:"] {
        let is_gone = |line: &str| line.strip_prefix('-').is_some_and(|line| line.trim() == gone);
        assert!(shown.lines().any(is_gone), "{gone} is not in:\n{shown}");
    }

    // A policy of the cluster.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "frozen"}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"],
                "operations": ["UPDATE"], "resources": ["ingresses"]}]},
            "validations": [{"expression": "false", "message": "ways are frozen"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "frozen"}, "spec": {"policyName": "frozen", "validationActions": ["Deny"]}});
    let shop = Space::with_shop(&cluster, "frozen");
    cluster.apply(&policy.to_string()).unwrap();
    cluster.apply(&binding.to_string()).unwrap();
    // It takes a moment until the API server knows of it.
    let refused = (0..60).find_map(|_| {
        let run = shop.adopt("--dry-run=server");
        if run.code == 0 {
            std::thread::sleep(std::time::Duration::from_millis(250));
        }
        (run.code != 0).then_some(run)
    });
    let refused = refused.unwrap().fails(1);
    assert!(
        refused.contains("ingresses/shop") && refused.contains("ways are frozen"),
        "{refused}"
    );
    assert_eq!(shop.names("appdeploys"), Vec::<String>::new());
}
