//! An app gives its author no access to Secrets and ConfigMaps that the author may not read.

use std::sync::Arc;

use kube::api::Patch;
use serde_json::{Value, json};
use testcluster::{ControlPlane, Kubectl};

use crate::admission::asking;
use crate::harness::{APP, Cluster, DEPLOYMENT, Namespace, SERVICE_ACCOUNT, Webhooks, config, eventually};

/// A tenant who may edit apps in a namespace, and nothing else.
fn tenant(space: &Namespace, name: &str) -> Kubectl {
    let control_plane = &space.cluster.control_plane;
    control_plane.apply(&config("rbac/editor_role.yaml")).unwrap();
    let user = format!("--user={name}");
    space.kubectl(&["create", "rolebinding", name, "--clusterrole=appdeploy-editor", &user]);
    let kubeconfig = control_plane.kubeconfig_for(name, &[]).unwrap();
    eventually("the tenant has the role", || {
        let asked = ["auth", "can-i", "create", "appdeploys", "-n", &space.name, "--as", name];
        control_plane.kubectl(&asked).is_ok()
    });
    control_plane.kubectl_as(&kubeconfig)
}

fn app(space: &Namespace, name: &str, spec: &Value) -> String {
    json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": name, "namespace": space.name}, "spec": spec})
    .to_string()
}

fn secretive(replicas: u32) -> Value {
    json!({"image": "nginx:1", "replicas": replicas, "env": [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]})
}

#[test]
fn secret_reference_requires_the_right_to_read_the_secret() {
    let asking = asking();
    let space = asking.cluster.namespace("tenants");
    let jane = tenant(&space, "jane");
    let apply = ["apply", "--server-side", "-f", "-"];
    let refused = jane
        .run_with_input(&apply, &app(&space, "shop", &secretive(1)))
        .unwrap_err()
        .to_string();
    let sentence = "spec.env PASSWORD refers to secret db, which jane may not get in namespace tenants: \
                    ask an administrator to apply it, or to grant the right to get secrets/db";
    assert!(refused.contains(sentence), "{refused}");
    assert!(refused.contains("(Forbidden)"), "{refused}");
    assert!(space.get(APP, "shop").is_null());
    for (field, value) in [
        ("imagePullSecrets", json!([{"name": "registry"}])),
        ("tls", json!({"secretName": "tls"})),
        ("envFrom", json!([{"secretRef": {"name": "db", "optional": true}}])),
        ("envFrom", json!([{"configMapRef": {"name": "look"}}])),
        (
            "volumes",
            json!([{"name": "a", "mountPath": "/a", "secret": {"secretName": "keys"}}]),
        ),
        (
            "volumes",
            json!([{"name": "a", "mountPath": "/a", "configMap": {"name": "keys"}}]),
        ),
        (
            "initContainers",
            json!([{"name": "a", "image": "a", "envFrom": [{"secretRef": {"name": "db"}}]}]),
        ),
        (
            "sidecars",
            json!([{"name": "a", "image": "a", "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "look", "key": "a"}}}]}]),
        ),
    ] {
        let spec = json!({"image": "nginx:1", "port": 80, field: value});
        let refused = jane.run_with_input(&apply, &app(&space, "shop", &spec)).unwrap_err();
        assert!(refused.to_string().contains("which jane may not get"), "{refused}");
    }
    // A field of the pod itself needs no right.
    let field = json!([{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
    let spec = json!({"image": "nginx:1", "env": field});
    jane.run_with_input(&apply, &app(&space, "own", &spec)).unwrap();
    let set = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
        "metadata": {"name": "set", "namespace": space.name}, "spec": {"template": secretive(1)}});
    let mut set = set;
    set["spec"]["template"].as_object_mut().unwrap().remove("replicas");
    let refused = jane.run_with_input(&apply, &set.to_string()).unwrap_err();
    assert!(
        refused.to_string().contains("spec.template.env PASSWORD refers to"),
        "{refused}"
    );

    // A user who may read this Secret may refer to it, and a user who only scales need not be able to read it.
    space.kubectl(&[
        "create",
        "role",
        "db",
        "--verb=get",
        "--resource=secrets",
        "--resource-name=db",
    ]);
    space.kubectl(&["create", "rolebinding", "db", "--role=db", "--user=jane"]);
    eventually("the right counts", || {
        jane.run_with_input(&apply, &app(&space, "shop", &secretive(1))).is_ok()
    });
    let john = tenant(&space, "john");
    john.run(&["-n", &space.name, "scale", "appdeploy", "shop", "--replicas=2"])
        .unwrap();
    john.run(&["-n", &space.name, "label", "appdeploy", "shop", "team=blue"])
        .unwrap();
    let image = r#"{"spec": {"image": "evil:1"}}"#;
    let refused = john
        .run(&[
            "-n",
            &space.name,
            "patch",
            "appdeploy",
            "shop",
            "--type=merge",
            "-p",
            image,
        ])
        .unwrap_err();
    assert!(refused.to_string().contains("which john may not get"), "{refused}");
}

/// Fields with which a pod reaches further need the right to create pods.
#[test]
fn fields_that_reach_further_require_the_right_to_create_pods() {
    let asking = asking();
    let space = asking.cluster.namespace("reaching");
    let jane = tenant(&space, "jane-reaching");
    let apply = ["apply", "--server-side", "-f", "-"];
    let fields = [
        ("serviceAccount", json!({"name": "builder"}), "spec.serviceAccount"),
        (
            "volumes",
            json!([{"name": "a", "mountPath": "/a", "image": {"reference": "private:1"}}]),
            "spec.volumes[a].image",
        ),
        (
            "initContainers",
            json!([{"name": "a", "image": "a:1"}]),
            "spec.initContainers",
        ),
        ("sidecars", json!([{"name": "a", "image": "a:1"}]), "spec.sidecars"),
        (
            "placement",
            json!({"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}),
            "spec.placement",
        ),
        (
            "placement",
            json!({"tolerations": [{"operator": "Exists"}]}),
            "spec.placement",
        ),
    ];
    let spec = |field: &str, value: &Value| json!({"image": "nginx:1", field: value});
    for (number, (field, value, path)) in fields.iter().enumerate() {
        let name = format!("shop-{number}");
        let create = || jane.run_with_input(&apply, &app(&space, &name, &spec(field, value)));
        let refused = create().unwrap_err().to_string();
        let sentence = format!(
            "{path} needs the right to create pods in namespace reaching, which jane-reaching does not have: ask an \
             administrator to apply it, or to grant the right: kubectl create role pod-creator -n reaching"
        );
        assert!(
            refused.contains(&sentence) && refused.contains("(Forbidden)"),
            "{refused}"
        );
        // An update that adds the field needs it, too.
        jane.run_with_input(&apply, &app(&space, &name, &json!({"image": "nginx:1"})))
            .unwrap();
        assert!(create().unwrap_err().to_string().contains(&sentence));
        let set = json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "PodSet",
            "metadata": {"name": "set", "namespace": space.name}, "spec": {"template": spec(field, value)}});
        let refused = jane.run_with_input(&apply, &set.to_string()).unwrap_err().to_string();
        let path = path.replace("spec.", "spec.template.");
        assert!(
            refused.contains(&format!("{path} needs the right to create pods")),
            "{refused}"
        );
    }
    // A user namespace only takes rights from the pods.
    jane.run_with_input(&apply, &app(&space, "isolated", &spec("hostUsers", &json!(false))))
        .unwrap();
    // A user with the right names a ServiceAccount. Then jane may scale the app, and not run her own program in it.
    let admin = space
        .cluster
        .control_plane
        .kubectl_as(&space.cluster.control_plane.kubeconfig());
    let [(field, value, _), ..] = &fields;
    admin
        .run_with_input(&apply, &app(&space, "build", &spec(field, value)))
        .unwrap();
    let patch = |patch: &str| {
        let words = [
            "patch",
            "appdeploy",
            "build",
            "-n",
            &space.name,
            "--type=merge",
            "-p",
            patch,
        ];
        jane.run(&words).map_err(|error| error.to_string())
    };
    patch(r#"{"spec": {"replicas": 2}}"#).unwrap();
    let refused = patch(r#"{"spec": {"image": "evil:1"}}"#).unwrap_err();
    assert!(refused.contains("spec.serviceAccount needs the right"), "{refused}");

    // The command of the message grants the right.
    let (_, next) = refused.split_once("grant the right: kubectl ").unwrap();
    for command in next.trim().split(" && kubectl ") {
        let words = command.split(' ').collect::<Vec<_>>();
        space.cluster.control_plane.kubectl(&words).unwrap();
    }
    eventually("the right counts", || patch(r#"{"spec": {"image": "good:1"}}"#).is_ok());
}

/// A ServiceAccount that the operator creates needs both rights: to create it, and pods that run as it.
#[test]
fn own_service_account_requires_the_right_to_create_service_accounts() {
    let asking = asking();
    let space = asking.cluster.namespace("accounts");
    let jane = tenant(&space, "jane-accounts");
    let apply = ["apply", "--server-side", "-f", "-"];
    let spec = json!({"image": "nginx:1", "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn"}}});
    let create = || {
        let created = jane.run_with_input(&apply, &app(&space, "shop", &spec));
        created.map_err(|error| error.to_string())
    };
    let refused = create().unwrap_err();
    let pods =
        "spec.serviceAccount needs the right to create pods in namespace accounts, which jane-accounts does not have";
    let accounts = "spec.serviceAccount.annotations needs the right to create serviceaccounts in namespace accounts, which \
                    jane-accounts does not have: ask an administrator to apply it, or to grant the right: kubectl create role \
                    serviceaccount-creator -n accounts --verb=create --resource=serviceaccounts";
    assert!(refused.contains(pods) && refused.contains(accounts), "{refused}");
    let grant = |role: &str, resource: &str| {
        let resource = format!("--resource={resource}");
        space.kubectl(&["create", "role", role, "--verb=create", &resource]);
        let role = format!("--role={role}");
        space.kubectl(&["create", "rolebinding", &role[7..], &role, "--user=jane-accounts"]);
    };
    grant("pod-creator", "pods");
    eventually("the right to create pods counts", || {
        create().is_err_and(|refused| !refused.contains(pods) && refused.contains(accounts))
    });
    grant("serviceaccount-creator", "serviceaccounts");
    eventually("both rights count", || create().is_ok());
    space.until_there(SERVICE_ACCOUNT, "shop");
}

#[test]
fn tenant_names_the_credentials_of_a_queue_only_if_they_may_read_them() {
    let asking = asking();
    let space = asking.cluster.namespace("queue-tenants");
    let jane = tenant(&space, "jane-queues");
    let queue = |timeout: u32| {
        json!({"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppQueue",
            "metadata": {"name": "orders", "namespace": space.name},
            "spec": {"sqs": {"region": "us-east-1", "visibilityTimeoutSeconds": timeout}, "credentials": {"secretRef": {"name": "sqs"}}}})
        .to_string()
    };
    let apply = ["apply", "--server-side", "-f", "-"];
    let refused = jane.run_with_input(&apply, &queue(1)).unwrap_err().to_string();
    let sentence =
        "spec.credentials.secretRef refers to secret sqs, which jane-queues may not get in namespace queue-tenants";
    assert!(
        refused.contains(sentence) && refused.contains("(Forbidden)"),
        "{refused}"
    );
    // Nor may an author change what is done with the credentials that another user has named.
    let admin = space
        .cluster
        .control_plane
        .kubectl_as(&space.cluster.control_plane.kubeconfig());
    admin.run_with_input(&apply, &queue(2)).unwrap();
    let refused = jane
        .run_with_input(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &queue(3))
        .unwrap_err();
    assert!(refused.to_string().contains("may not get"), "{refused}");
}

/// Gives an app's Deployment a volume with a Secret, as an administrator or an injector would.
fn add_volume(space: &Namespace, app: &str) {
    let volume = json!({"spec": {"template": {"spec": {
        "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
        "containers": [{"name": "app", "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}]}}}});
    space.patch(DEPLOYMENT, app, Patch::Strategic(volume));
}

#[test]
fn changing_the_image_next_to_an_added_volume_requires_the_right_to_patch_the_deployment() {
    let asking = asking();
    let space = asking.cluster.namespace("volumes");
    let jane = tenant(&space, "jane-volumes");
    let patch = |app: &str, spec: &Value| {
        let patch = json!({"spec": spec}).to_string();
        let words = [
            "patch",
            "appdeploy",
            app,
            "-n",
            &space.name,
            "--type=merge",
            "-p",
            &patch,
        ];
        jane.run(&words).map_err(|error| error.to_string())
    };
    for app in ["shop", "plain"] {
        space.settled_app(app, json!({"image": "nginx:1"}));
        space.until_there(DEPLOYMENT, app);
        patch(app, &json!({"image": "nginx:2"})).unwrap();
        space.until_reported(app);
    }
    add_volume(&space, "shop");
    let changes = [
        json!({"command": ["cat", "/keys/key"]}),
        json!({"args": ["/keys/key"]}),
        json!({"image": "evil:1"}),
        json!({"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}),
    ];
    let sentence = "deployment shop has fields that were added by another manager \
                    (spec.template.spec.containers[app].volumeMounts[/keys], spec.template.spec.volumes[keys])";
    let right =
        "this change needs the right to patch deployments/shop in namespace volumes, which jane-volumes does not have";
    for change in &changes {
        let refused = patch("shop", change).unwrap_err();
        assert!(refused.contains("(Forbidden)"), "{refused}");
        assert!(refused.contains(sentence) && refused.contains(right), "{refused}");
        patch("plain", change).unwrap();
    }
    patch(
        "shop",
        &json!({"replicas": 2, "resources": {"requests": {"cpu": "10m"}}}),
    )
    .unwrap();

    // The command of the message grants the right.
    let refused = patch("shop", &changes[0]).unwrap_err();
    let (_, next) = refused.split_once("grant the right: kubectl ").unwrap();
    for command in next.trim().split(" && kubectl ") {
        space
            .cluster
            .control_plane
            .kubectl(&command.split(' ').collect::<Vec<_>>())
            .unwrap();
    }
    eventually("the right counts", || patch("shop", &changes[0]).is_ok());
}

/// I1 for the one right that only an admission needs.
#[test]
fn operator_without_the_right_to_access_reviews_rejects_and_reports_it() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder()));
    let webhooks = Webhooks::install(&cluster);
    let role = config("rbac/operator_role.yaml");
    let (without, _) = role
        .split_once("# The admission webhook checks whether the author")
        .unwrap();
    cluster.control_plane.apply(without).unwrap();
    let operator = webhooks.operator(&cluster, &[]);
    let space = cluster.namespace("asks");
    space.app("plain", json!({"image": "nginx:1"}));
    space.until_there(DEPLOYMENT, "plain");
    let secret = || space.try_create(APP, json!({"metadata": {"name": "shop"}, "spec": secretive(1)}));
    // A right that was taken away counts for a moment still.
    eventually("it may ask no more", || {
        let refused = secret().map_err(|error| error.to_string());
        if refused.is_ok() {
            space.kubectl(&["delete", "appdeploy", "shop", "--wait=false"]);
        }
        refused.is_err_and(|why| {
            why.contains("could not be reviewed, try again")
                && why.contains("cannot create resource \"localsubjectaccessreviews\"")
        })
    });
    assert!(operator.log().contains("the rights of an author could not be reviewed"));
    cluster.control_plane.apply(&role).unwrap();
    eventually("it may ask", || secret().is_ok());
    drop(operator);
}
