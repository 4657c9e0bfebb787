//! Commands that change objects: requests, output and exit codes.

use std::path::Path;

use fault_proxy::Proxy;
use fault_proxy::{Action, Answer, Requests, Rule, Verb};
use serde_json::{Value, json};
use testcluster::{ControlPlane, PooledControlPlane};

use crate::plugin::{Plugin, Run, conditions, status};

/// An API server with the API and no operator.
fn installed() -> (PooledControlPlane, Plugin) {
    Plugin::installed()
}

fn spec(cluster: &ControlPlane, object: &str) -> Value {
    let json = cluster.kubectl(&["get", object, "-o", "json"]).unwrap();
    serde_json::from_str::<Value>(&json).unwrap()["spec"].take()
}

/// Returns the plugin's requests that change apps or pod sets, since a command began.
fn writes(cluster: &ControlPlane, run: impl FnOnce()) -> usize {
    let mark = cluster.audit().mark().unwrap();
    run();
    let since = cluster.audit().since(mark).unwrap();
    since.by_user_agent_prefix("kubectl-appdeploy/").writes().count()
}

#[test]
fn volumes_and_service_account_are_set_and_removed() {
    let (cluster, plugin) = installed();
    cluster
        .kubectl(&["create", "configmap", "web", "--from-literal=a=b"])
        .unwrap();
    cluster.kubectl(&["create", "serviceaccount", "web"]).unwrap();
    plugin
        .run("create shop --image=nginx:1 --volume=configmap/web:/etc/web --volume=tmp=emptydir:/tmp --service-account=web")
        .ok();
    let spec = |of: &str| -> Value {
        let app = cluster.kubectl(&["get", of, "-o", "json"]).unwrap();
        serde_json::from_str::<Value>(&app).unwrap()["spec"].take()
    };
    let web = json!({"name": "web", "mountPath": "/etc/web", "configMap": {"name": "web"}});
    let tmp = json!({"name": "tmp", "mountPath": "/tmp", "emptyDir": {}});
    let app = spec("appdeploy/shop");
    assert_eq!(
        (&app["volumes"], &app["serviceAccount"]),
        (&json!([web, tmp]), &json!({"name": "web"}))
    );
    let shown = plugin.run("describe shop").ok();
    for line in [
        "/etc/web from web (ro)",
        "/tmp from tmp (rw)",
        "web: ConfigMap web",
        "tmp: emptyDir",
        "Service Account: web",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }

    plugin.run("set volume shop keys=secret/keys:/keys tmp-").ok();
    plugin.run("set serviceaccount shop-").ok();
    let keys = json!({"name": "keys", "mountPath": "/keys", "secret": {"secretName": "keys"}});
    let app = spec("appdeploy/shop");
    assert_eq!(
        (&app["volumes"], &app["serviceAccount"]),
        (&json!([web, keys]), &Value::Null)
    );

    plugin.run("podset create workers --image=nginx:1").ok();
    plugin.run("podset set volume workers emptydir:/tmp").ok();
    plugin.run("podset set serviceaccount workers=web").ok();
    let template = spec("podset/workers")["template"].take();
    assert_eq!(
        (&template["volumes"], &template["serviceAccount"]),
        (&json!([tmp]), &json!({"name": "web"}))
    );
    let refused = plugin.run("set volume shop hostpath/etc:/etc").fails(2);
    assert!(refused.contains("write it like configmap/shop:/etc/shop"), "{refused}");
}

#[test]
fn placement_and_rollout_are_set_and_removed() {
    let (cluster, plugin) = installed();
    let create = "create shop --image=nginx:1 --node-selector=disktype=ssd --toleration=gpu \
                  --toleration=dedicated=batch:noschedule --rollout=recreate";
    let printed = plugin.run(&format!("{create} --dry-run=client -o yaml")).ok();
    let shop = "spec:
  image: nginx:1
  placement:
    nodeSelector:
      disktype: ssd
    tolerations:
    - key: gpu
      operator: Exists
    - effect: NoSchedule
      key: dedicated
      value: batch
  replicas: 1
  rollout:
    type: Recreate
";
    assert!(printed.ends_with(shop), "{printed}");
    plugin.run(create).ok();
    let gpu = json!({"key": "gpu", "operator": "Exists"});
    let dedicated = json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"});
    let app = spec(&cluster, "appdeploy/shop");
    assert_eq!(app["rollout"], json!({"type": "Recreate"}));
    assert_eq!(
        app["placement"],
        json!({"nodeSelector": {"disktype": "ssd"}, "tolerations": [gpu, dedicated]})
    );

    plugin
        .run("set placement shop --node-selector=zone=a --node-selector=disktype- --toleration=gpu-")
        .ok();
    plugin.run("set rollout shop-").ok();
    let app = spec(&cluster, "appdeploy/shop");
    assert_eq!(
        (&app["placement"], &app["rollout"]),
        (
            &json!({"nodeSelector": {"zone": "a"}, "tolerations": [dedicated]}),
            &Value::Null
        )
    );

    plugin
        .run("podset create workers --image=nginx:1 --toleration=gpu:NoExecute")
        .ok();
    plugin.run("podset set placement workers --toleration=gpu").ok();
    let tolerations = spec(&cluster, "podset/workers")["template"]["placement"]["tolerations"].take();
    assert_eq!(
        tolerations,
        json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, gpu])
    );

    let surge = json!({"spec": {"rollout": {"maxSurge": 1}}}).to_string();
    cluster
        .kubectl(&["patch", "appdeploy", "shop", "--type=merge", "-p", &surge])
        .unwrap();
    let refusals = [
        "create blog --image=nginx:1 --toleration=gpu:Never",
        "create blog --image=nginx:1 --toleration=gpu=a=b",
        "create blog --image=nginx:1 --rollout=Canary",
        "podset create blog --toleration=gpu",
        "podset create blog --image=nginx:1 --rollout=Recreate",
        "set placement shop",
        "set placement shop --toleration=:NoSchedule",
        "set placement shop --node-selector=disktype",
        "set rollout shop",
        "set rollout shop=Recreate",
        "podset set rollout workers=Recreate",
    ];
    let mut said = Vec::new();
    let written = writes(&cluster, || {
        said.extend(refusals.map(|line| {
            let run = plugin.run(line);
            format!("$ {line}: {}\n{}", run.code, run.err)
        }));
    });
    assert_eq!(written, 0, "{said:?}");
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn set_writes_only_the_given_field() {
    let (cluster, plugin) = installed();
    plugin
        .run("create shop --image=nginx:1 --port=80 --env=A=1 -l team=x")
        .ok();
    plugin.run("create blog --image=nginx:1 -l team=x").ok();
    plugin.run("podset create workers --image=nginx:1 --replicas=2").ok();

    // The output is like kubectl's, and unchanged objects are not written.
    let set = plugin.run("set image shop=nginx:2");
    assert_eq!(
        (set.out.as_str(), set.err.as_str()),
        (
            "appdeploy.appdeploy.dev/shop image updated\n",
            "next: kubectl appdeploy status shop\n"
        )
    );
    assert_eq!(
        writes(&cluster, || {
            let again = plugin.run("set image shop=nginx:2");
            assert_eq!(
                (again.out.as_str(), again.err.as_str()),
                ("appdeploy.appdeploy.dev/shop unchanged\n", "")
            );
        }),
        0
    );
    // Each of several; one that is missing does not stop the others.
    let set = plugin.run("set image shop=nginx:3 nope=nginx:3 blog=nginx:3");
    assert_eq!((set.code, set.out.lines().count()), (1, 2), "{set:?}");
    assert!(set.err.contains("\"nope\" not found"), "{}", set.err);
    assert_eq!(
        plugin.run("set image -l team=x nginx:4 -o name").ok().lines().count(),
        2
    );
    plugin.run("podset set image --all nginx:4").ok();
    plugin.run("set env shop B=2=3 C=").ok();
    plugin.run("set env shop A-").ok();
    plugin.run("set resources shop --requests=cpu=10m,memory=1Mi").ok();
    plugin
        .run("set resources shop --requests=cpu- --limits=memory=1Gi")
        .ok();
    plugin.run("set host shop=shop.example.com").ok();
    plugin.run("set port shop=8080").ok();
    assert_eq!(
        spec(&cluster, "appdeploy/shop"),
        json!({"image": "nginx:4", "port": 8080, "replicas": 1, "host": "shop.example.com",
            "env": [{"name": "B", "value": "2=3"}, {"name": "C", "value": ""}],
            "resources": {"requests": {"memory": "1Mi"}, "limits": {"memory": "1Gi"}}})
    );
    assert_eq!(
        spec(&cluster, "podset/workers")["template"],
        json!({"image": "nginx:4"})
    );
    cluster
        .kubectl(&[
            "create",
            "secret",
            "generic",
            "db",
            "--from-literal=user=a",
            "--from-literal=pass.word=b",
        ])
        .unwrap();
    plugin.run("set env blog --from=secret/db --prefix=DB_").ok();
    assert_eq!(
        plugin.run("set env blog --list").ok(),
        "# appdeploy.appdeploy.dev/blog\n# DB_PASS_WORD from secret db, key pass.word\n# DB_USER from secret db, key user\n"
    );
    plugin
        .run("set env blog --env-from=secret/db --env-from=cm/look DB_USER- DB_PASS_WORD-")
        .ok();
    plugin.run("set env blog --env-from=secret/db-").ok();
    let blog = spec(&cluster, "appdeploy/blog");
    let objects = json!([{"configMapRef": {"name": "look"}}]);
    assert_eq!((&blog["envFrom"], blog.get("env")), (&objects, None));
    // What can't be is refused before anything is sent, and a dry run changes nothing.
    let before = spec(&cluster, "appdeploy/shop");
    let nothing = writes(&cluster, || {
        let said = plugin.run("set port shop-").fails(2);
        assert!(
            said.contains("why:  spec: host, path, ingressClassName and tls need a port"),
            "{said}"
        );
        for line in ["set image shop", "set image shop blog", "set image shop nginx:5"] {
            let said = plugin.run(line).fails(2);
            assert!(
                said.starts_with("error: image missing for shop: nothing was done\n  next: "),
                "{line}: {said}"
            );
        }
        plugin.run("set env shop --from=secret/nope").fails(1);
        let json = plugin.run("set image shop=nginx:5 --dry-run=client -o json").ok();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["spec"]["image"], "nginx:5");
    });
    assert_eq!(nothing, 0);
    assert_eq!(
        plugin.run("set image shop=nginx:5 --dry-run=server").ok(),
        "appdeploy.appdeploy.dev/shop image updated (server dry run)\n"
    );
    assert_eq!(spec(&cluster, "appdeploy/shop"), before);
}

#[test]
fn scaling_an_app_with_an_autoscaler_prints_a_warning() {
    let (cluster, plugin) = installed();
    plugin.run("create shop --image=nginx:1").ok();
    plugin.run("create blog --image=nginx:1").ok();
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "busy"},
        "spec": {"minReplicas": 2, "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": "shop"}}});
    cluster.apply(&scaler.to_string()).unwrap();
    let run = plugin.run("scale shop --replicas=3");
    assert_eq!(run.code, 0, "{run:?}");
    let warning = "Warning: HorizontalPodAutoscaler busy sets the number of pods of shop (2 to 5 pods) and will change it again\n";
    assert!(run.err.ends_with(warning), "{}", run.err);
    assert!(!plugin.run("scale blog --replicas=3").err.contains("Autoscaler"));
    assert!(
        !plugin
            .run("scale shop --replicas=4 --dry-run=server")
            .err
            .contains("Autoscaler")
    );
}

/// A variable that was named without a value reads like the name of an app.
#[test]
fn only_named_keys_of_a_secret_are_imported_and_errors_change_nothing() {
    let (cluster, plugin) = installed();
    plugin.run("create hello --image=nginx:1").ok();
    cluster
        .kubectl(&[
            "create",
            "secret",
            "generic",
            "api-db",
            "--from-literal=password=a",
            "--from-literal=USER=b",
        ])
        .unwrap();
    let nothing = writes(&cluster, || {
        for (line, said) in [
            (
                "set env hello PASWORD --from=secret/api-db",
                "error: secret/api-db has no key PASWORD: nothing was changed\n  why:  it has USER, password\n  \
                 next: kubectl describe secret/api-db\n",
            ),
            (
                "set env hello --from=secret/api-db --keys=nope",
                "secret/api-db has no key nope: nothing was changed",
            ),
            ("set env hello user --from=secret/api-db", "why:  nothing was changed"),
            ("set env hello nope A=b", "why:  nothing was changed"),
        ] {
            let err = plugin.run(line).fails(1);
            assert!(err.contains(said), "{line}: {err}");
        }
    });
    assert_eq!(nothing, 0);
    plugin.run("set env hello PASSWORD --from=secret/api-db").ok();
    let env = json!([{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "api-db", "key": "password"}}}]);
    assert_eq!(spec(&cluster, "appdeploy/hello")["env"], env);
}

#[test]
fn list_that_another_client_changed_is_not_overwritten() {
    let (cluster, plugin) = installed();
    plugin.run("create shop --image=nginx:1 --env=A=1").ok();
    let proxy = Proxy::before(&cluster, "admin", &["system:masters"]).unwrap();
    let through = Plugin::of(proxy.kubeconfig());
    let patches = || Requests::with(&[Verb::Patch]).on("appdeploys");
    let conflict = || Answer::refusal(409, "Conflict", "the object has been modified");
    let rule = proxy.add(Rule::new(patches(), Action::Answer(conflict())).first(1));
    through.run("set env shop B=2").ok();
    assert_eq!(proxy.hits(rule), 1);
    assert_eq!(spec(&cluster, "appdeploy/shop")["env"].as_array().unwrap().len(), 2);

    let rule = proxy.add(Rule::new(patches(), Action::Answer(conflict())));
    let said = through.run("set env shop C=3").fails(1);
    assert!(
        said.ends_with("next: another client changed it at the same time: run the command again\n"),
        "{said}"
    );
    assert_eq!(proxy.hits(rule), 4);
}

#[test]
fn warnings_of_the_api_server_are_printed() {
    let (cluster, plugin) = installed();
    let policy = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: tags}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [appdeploy.dev], apiVersions: [v1alpha1], operations: [CREATE, UPDATE], resources: [appdeploys]}
  validations:
  - {expression: "object.spec.image.contains(':')", message: "an image without a \"tag\" is a surprise"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: tags}
spec: {policyName: tags, validationActions: [Warn]}
"#;
    cluster.apply(policy).unwrap();
    // A policy begins to work when the API server has read it, which it does not tell.
    let warned = (0..200).find_map(|_| {
        let run = plugin.run("create shop --image=nginx --dry-run=server");
        (!run.err.is_empty()).then_some(run)
    });
    let warned = warned.expect("the policy works in the end");
    assert_eq!(warned.out, "appdeploy.appdeploy.dev/shop created (server dry run)\n");
    assert!(
        warned.err.starts_with("Warning: ") && warned.err.ends_with("an image without a \"tag\" is a surprise\n"),
        "{}",
        warned.err
    );
    plugin.run("create shop --image=nginx:1").ok();
    // An object that was not stored needs no advice.
    let again = plugin.run("create shop --image=nginx --limits=memory=64").fails(1);
    assert!(again.starts_with("Error from server (AlreadyExists): "), "{again}");
    let json = plugin.run("set image shop=nginx -o json");
    assert!(json.err.starts_with("Warning: "), "{}", json.err);
    serde_json::from_str::<Value>(&json.ok()).unwrap();
}

#[test]
fn several_objects_are_waited_for_and_the_worst_result_is_the_exit_code() {
    let (cluster, plugin) = installed();
    for name in ["good", "bad", "late", "gone"] {
        plugin
            .run(&format!("create {name} --image=nginx --replicas=2 -l team=x"))
            .ok();
    }
    let at = |generation: i32, mut status: Value| {
        status["observedGeneration"] = generation.into();
        status
    };
    let busy = conditions(
        "False",
        "Progressing",
        "1 of 2 pods run the new spec",
        Some("Reconciling"),
    );
    let mut broken = conditions("False", "ImageNotFound", "image nginx:2 was not found", Some("Stalled"));
    broken["cause"] = json!({"reason": "ImageNotFound", "message": "image nginx:2 was not found", "next": "kubectl edit appdeploy bad -n default"});
    let ready = || at(2, conditions("True", "Available", "", None));

    let mark = cluster.audit().mark().unwrap();
    let waiting = plugin.start("set image good=nginx:2 bad=nginx:2 late=nginx:2 --wait --timeout=8s");
    for name in ["good", "bad", "late"] {
        let wait = [
            "wait",
            &format!("appdeploy/{name}"),
            "--for=jsonpath={.spec.image}=nginx:2",
            "--timeout=20s",
        ];
        cluster.kubectl(&wait).unwrap();
    }
    status(&cluster, "appdeploy/late", &at(2, busy.clone()));
    status(&cluster, "appdeploy/bad", &at(2, broken.clone()));
    status(&cluster, "appdeploy/good", &ready());
    let run = Run::of(waiting);
    let said = run.fails(3);
    for part in [
        "late: 1 of 2 pods run the new spec\n",
        "appdeploy.appdeploy.dev/good is ready (0/2)\n",
        "late is not ready after 8s; it may still become so\n  why:  1 of 2 pods run the new spec\n",
        "bad will not become ready by itself\n  why:  image nginx:2 was not found\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // One list and one watch for all of them, and three patches.
    let asked = cluster
        .audit()
        .since(mark)
        .unwrap()
        .by_user_agent_prefix("kubectl-appdeploy/");
    assert_eq!(asked.clone().writes().count(), 3);
    assert!(asked.count() <= 3 + 3 + 2, "{:?}", asked.tally());

    // Those of before the change are no answer; when all are ready, it is well.
    status(
        &cluster,
        "appdeploy/gone",
        &at(1, conditions("True", "Available", "", None)),
    );
    let waiting = plugin.start("scale -l team=x --replicas=3 --wait --timeout=60s");
    for name in ["good", "bad", "late", "gone"] {
        let wait = [
            "wait",
            &format!("appdeploy/{name}"),
            "--for=jsonpath={.spec.replicas}=3",
            "--timeout=20s",
        ];
        cluster.kubectl(&wait).unwrap();
    }
    for name in ["good", "bad", "late"] {
        let mut now = at(3, conditions("True", "Available", "", None));
        now["cause"] = Value::Null;
        status(&cluster, &format!("appdeploy/{name}"), &now);
    }
    cluster.kubectl(&["delete", "appdeploy/gone"]).unwrap();
    let said = Run::of(waiting).fails(1);
    assert!(
        said.ends_with("error: appdeploy.appdeploy.dev/gone was deleted while waiting for it\n"),
        "{said}"
    );
    assert_eq!(said.matches("is ready (0/3)").count(), 3, "{said}");
}

#[test]
fn apply_sets_what_files_contain() {
    let (cluster, plugin) = installed();
    cluster.kubectl(&["create", "namespace", "other"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    let path = file.display();
    let app = |image: &str, rest: &str| {
        format!(
            "apiVersion: appdeploy.dev/v1alpha1\nkind: AppDeploy\nmetadata: {{name: shop}}\nspec: {{image: {image}{rest}}}\n"
        )
    };
    let set = "---\napiVersion: appdeploy.dev/v1alpha1\nkind: PodSet\nmetadata: {name: workers, namespace: other}\nspec: {replicas: 0}\n";
    let write = |text: String| std::fs::write(&file, text).unwrap();
    let apply = |flags: &str| plugin.run(&format!("apply -f {path} {flags}"));

    // Nothing is written before everything was found to be valid.
    write(app("nginx:1", "") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: x}\n");
    assert!(apply("").fails(2).contains("document 2: Service of v1 is not an app"));
    write(app("nginx:1", "") + set);
    let said = apply("-n default").fails(2);
    assert!(
        said.contains("workers is in namespace other, but -n is default"),
        "{said}"
    );
    assert_eq!(plugin.run("status -A -o name").ok(), "");

    write(app("nginx:1", ", port: 80") + set);
    for flags in ["--dry-run=client", "--dry-run=server"] {
        assert_eq!(apply(flags).ok().matches(" created (").count(), 2);
    }
    assert_eq!(
        apply("").ok(),
        "appdeploy.appdeploy.dev/shop created\npodset.appdeploy.dev/workers created\n"
    );
    assert_eq!(apply("").ok().matches(" unchanged\n").count(), 2);
    // A field of another command of the plugin is not a conflict, one of another manager is.
    plugin.run("set image shop=nginx:2").ok();
    assert_eq!(
        apply("--dry-run=client").ok().lines().next(),
        Some("appdeploy.appdeploy.dev/shop configured (dry run)")
    );
    assert!(apply("").ok().starts_with("appdeploy.appdeploy.dev/shop configured\n"));
    assert_eq!(spec(&cluster, "appdeploy/shop")["image"], "nginx:1");
    cluster
        .kubectl(&[
            "patch",
            "appdeploy/shop",
            "--type=merge",
            "-p",
            r#"{"spec":{"image":"nginx:9"}}"#,
        ])
        .unwrap();
    let said = apply("").fails(1);
    assert!(
        said.contains("why:  .spec.image: conflict with \"kubectl-patch\""),
        "{said}"
    );
    apply("--force-conflicts").ok();
    // A field that the file does not name any more goes.
    write(app("nginx:1", ""));
    apply("").ok();
    assert_eq!(spec(&cluster, "appdeploy/shop").get("port"), None);
    let json: Value = serde_json::from_str(&apply("-o json").ok()).unwrap();
    assert_eq!(json["kind"], "AppDeploy");
    what_the_plugin_itself_has_set_goes(&cluster, &plugin, &file);
}

/// Fields that other commands of the plugin have set are removed, too, and a dry run prints the same.
fn what_the_plugin_itself_has_set_goes(cluster: &ControlPlane, plugin: &Plugin, file: &Path) {
    let path = file.display();
    let write = |text: String| std::fs::write(file, text).unwrap();
    let apply = |flags: &str| plugin.run(&format!("apply -f {path} {flags}"));
    let blog = |rest: &str| {
        format!(
            "apiVersion: appdeploy.dev/v1alpha1\nkind: AppDeploy\nmetadata: {{name: blog}}\nspec: {{image: nginx:1{rest}}}\n"
        )
    };
    plugin.run("create blog --image=nginx:1 --port=80 --env=A=1").ok();
    write(blog(
        ", env: [{name: A, valueFrom: {secretKeyRef: {name: db, key: a}}}]",
    ));
    plugin.run("set env blog B=2").ok();
    let tried = apply("--dry-run=client").ok();
    assert_eq!(tried, "appdeploy.appdeploy.dev/blog configured (dry run)\n");
    assert_eq!(apply("").ok(), "appdeploy.appdeploy.dev/blog configured\n");
    let env = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "db", "key": "a"}}}]);
    let now = spec(cluster, "appdeploy/blog");
    assert_eq!((now.get("port"), &now["env"]), (None, &env));
    write(blog(""));
    for (flags, suffix) in [
        ("--dry-run=client", " (dry run)"),
        ("--dry-run=server", " (server dry run)"),
        ("", ""),
    ] {
        let said = format!("appdeploy.appdeploy.dev/blog configured{suffix}\n");
        assert_eq!(apply(flags).ok(), said);
        assert_eq!(apply(flags).ok() == said, !suffix.is_empty());
    }
    assert_eq!(spec(cluster, "appdeploy/blog").get("env"), None);
    plugin.run("set env blog C=3").ok();
    assert_eq!(
        apply("--dry-run=server").ok(),
        "appdeploy.appdeploy.dev/blog configured (server dry run)\n"
    );
    // A restart and a pause are not reverted by a file that does not contain them, and a saved file does not repeat them.
    plugin.run("restart blog").ok();
    plugin.run("pause blog").ok();
    let restarted = || {
        let annotations = "jsonpath={.metadata.annotations.appdeploy\\.dev/restarted-at}";
        cluster.kubectl(&["get", "appdeploy/blog", "-o", annotations]).unwrap()
    };
    let first = restarted();
    apply("").ok();
    assert_eq!(
        (restarted(), &spec(cluster, "appdeploy/blog")["paused"]),
        (first.clone(), &json!(true))
    );
    assert_eq!(spec(cluster, "appdeploy/blog").get("env"), None);
    write(cluster.kubectl(&["get", "appdeploy/blog", "-o", "yaml"]).unwrap());
    let later = "appdeploy.dev/restarted-at=2030-01-01T00:00:00Z";
    cluster
        .kubectl(&["annotate", "--overwrite", "appdeploy/blog", later])
        .unwrap();
    assert!(apply("").ok().ends_with(" unchanged\n"));
    assert_eq!(restarted(), "2030-01-01T00:00:00Z");
    // The same one twice is one.
    let twice = plugin.run("scale blog appdeploy/blog --replicas=2 -o name").ok();
    assert_eq!(twice, "appdeploy.appdeploy.dev/blog\n");
    // A pause does not hold back a scale.
    let scaled = plugin.run("scale blog --replicas=3");
    assert_eq!(scaled.err, "next: kubectl appdeploy status blog\n");
}
