use crd::{AppDeploy, AppDeploySpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Desired, desired, validate};

fn app(spec: &Value) -> AppDeploy {
    serde_json::from_value(json!({
        "apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy",
        "metadata": {"name": "shop", "namespace": "a"}, "spec": spec,
    }))
    .unwrap()
}

fn render(spec: &Value) -> Desired {
    desired(&validate(&app(spec)).unwrap())
}

/// Returns the children as the API server returns them.
fn stored(children: &Desired) -> Vec<Value> {
    let filled = children
        .iter()
        .map(|child| defaults::filled(child.id.kind, &child.object));
    filled.collect()
}

fn back(children: &[Value]) -> ReadApp {
    let of = |kind: &ChildKind| children.iter().find(|object| object["kind"] == kind.kind);
    let live = LiveObjects {
        deployment: of(&DEPLOYMENT),
        service: of(&SERVICE),
        ingress: of(&INGRESS),
    };
    read_app("shop", "a", live)
}

/// Returns a spec without fields that have their default.
fn normalized(spec: &Value) -> AppDeploySpec {
    let mut spec = app(spec).spec;
    let has_port = spec.pod.container.port.is_some();
    if !has_port {
        spec.expose = None;
    }
    spec.host = spec.host.filter(|host| host != "shop.a");
    spec.path = spec.path.filter(|path| path != "/");
    let rollout = spec.rollout.take().map(|rollout| {
        let usual = IntOrString::String("25%".to_owned());
        crd::RolloutStrategy {
            type_: rollout.type_.filter(|kind| *kind == crd::RolloutType::Recreate),
            max_surge: rollout.max_surge.filter(|limit| *limit != usual),
            max_unavailable: rollout.max_unavailable.filter(|limit| *limit != usual),
            progress_deadline_seconds: rollout.progress_deadline_seconds.filter(|seconds| *seconds != 600),
        }
    });
    spec.rollout = rollout.filter(|rollout| *rollout != crd::RolloutStrategy::default());
    let pod = &mut spec.pod;
    pod.security_profile = pod
        .security_profile
        .filter(|profile| *profile != crd::SecurityProfile::Baseline);
    for var in &mut pod.container.env {
        var.value = var.value.take().filter(|value| !value.is_empty());
    }
    pod.container.resources = pod
        .container
        .resources
        .take()
        .filter(|resources| !resources.requests.is_empty() || !resources.limits.is_empty());
    let image = pod.container.image.clone();
    pod.container.image_pull_policy = pod
        .container
        .image_pull_policy
        .filter(|policy| policy.as_str() != defaults::pull_policy(&image));
    for volume in &mut pod.volumes {
        volume.read_only = volume.read_only.filter(|is| *is && volume.empty_dir.is_some());
        if let Some(image) = &mut volume.image {
            let usual = defaults::pull_policy(&image.reference);
            image.pull_policy = image.pull_policy.filter(|policy| policy.as_str() != usual);
        }
    }
    pod.automount_service_account_token = pod.automount_service_account_token.filter(|mounts| *mounts);
    if let Some(check) = &mut pod.container.health_check {
        check.port = check.port.filter(|port| Some(*port) != pod.container.port);
        check.period_seconds = check.period_seconds.filter(|seconds| *seconds != 10);
        check.timeout_seconds = check.timeout_seconds.filter(|seconds| *seconds != 1);
        // A startup probe checks every two seconds.
        let seconds = check.startup_seconds.map(|seconds| seconds + seconds % 2);
        check.startup_seconds = seconds.filter(|seconds| *seconds != 60);
    }
    if let Some(probes) = &mut pod.container.probes {
        for probe in [&mut probes.readiness, &mut probes.liveness, &mut probes.startup] {
            let Some(probe) = probe else { continue };
            if let Some(http) = &mut probe.http_get {
                http.path = http.path.take().filter(|path| path != "/");
                http.scheme = http.scheme.filter(|scheme| *scheme != crd::HttpScheme::Http);
            }
            probe.initial_delay_seconds = probe.initial_delay_seconds.filter(|seconds| *seconds != 0);
            probe.period_seconds = probe.period_seconds.filter(|seconds| *seconds != 10);
            probe.timeout_seconds = probe.timeout_seconds.filter(|seconds| *seconds != 1);
            probe.success_threshold = probe.success_threshold.filter(|count| *count != 1);
            probe.failure_threshold = probe.failure_threshold.filter(|count| *count != 3);
        }
    }
    pod.termination_grace_period_seconds = pod.termination_grace_period_seconds.filter(|seconds| *seconds != 30);
    for port in &mut pod.container.ports {
        port.protocol = port.protocol.filter(|protocol| *protocol != crd::PortProtocol::Tcp);
    }
    // Kubernetes has no field for a pod without any.
    pod.container.probes = pod
        .container
        .probes
        .take()
        .filter(|probes| *probes != crd::Probes::default());
    spec
}

fn text() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9]{0,6}"
}

fn variable() -> impl Strategy<Value = Value> {
    let key = |field: &'static str| {
        (text(), text(), proptest::option::of(any::<bool>())).prop_map(move |(name, key, optional)| {
            let mut source = json!({"name": name, "key": key});
            if let Some(optional) = optional {
                source["optional"] = json!(optional);
            }
            json!({"valueFrom": {field: source}})
        })
    };
    prop_oneof![
        "[ -~]{0,6}".prop_map(|value| json!({"value": value})),
        Just(json!({})),
        key("secretKeyRef"),
        key("configMapKeyRef"),
        proptest::sample::select(crd::FieldPath::ALL.to_vec())
            .prop_map(|path| json!({"valueFrom": {"fieldRef": {"fieldPath": path}}})),
    ]
}

fn env_from() -> impl Strategy<Value = Value> {
    let object = (
        proptest::option::of("[A-Z]{1,3}_"),
        any::<bool>(),
        text(),
        proptest::option::of(any::<bool>()),
    );
    let object = object.prop_map(|(prefix, is_secret, name, optional)| {
        let field = if is_secret { "secretRef" } else { "configMapRef" };
        json!({"prefix": prefix, field: {"name": name, "optional": optional}})
    });
    proptest::collection::vec(object, 0..3).prop_map(|objects| json!(objects))
}

fn amounts() -> impl Strategy<Value = Value> {
    let amount = prop_oneof![Just("500m"), Just("0.5"), Just("1"), Just("64Mi"), Just("1e3")];
    proptest::collection::btree_map(prop_oneof![Just("cpu"), Just("memory")], amount, 0..3)
        .prop_map(|amounts| json!(amounts))
}

/// Removes the limits of resources that have a request, because a limit must not be below its request.
fn apart(mut limits: Value, requests: &Value) -> Value {
    if let Some(limits) = limits.as_object_mut() {
        limits.retain(|name, _| requests.get(name).is_none());
    }
    limits
}

fn health() -> impl Strategy<Value = Value> {
    let maybe = |range: std::ops::RangeInclusive<i32>| proptest::option::of(range);
    (
        proptest::option::of("/[a-z]{0,5}"),
        maybe(1..=65535),
        maybe(1..=3600),
        maybe(1..=300),
        maybe(1..=3600),
    )
        .prop_map(|(path, port, period, timeout, startup)| {
            json!({"path": path, "port": port, "periodSeconds": period, "timeoutSeconds": timeout,
                "startupSeconds": startup})
        })
}

fn probe() -> impl Strategy<Value = Value> {
    let maybe = |range: std::ops::RangeInclusive<i32>| proptest::option::of(range);
    let port = || 1..=65535;
    let http = (
        proptest::option::of("/[a-z]{0,5}"),
        port(),
        proptest::option::of(prop_oneof![Just("HTTP"), Just("HTTPS")]),
        proptest::collection::vec("[A-Z]{1,3}", 0..3),
    );
    let http = http.prop_map(|(path, port, scheme, headers)| {
        let headers: Vec<Value> = headers.iter().map(|name| json!({"name": name, "value": "a"})).collect();
        json!({"httpGet": {"path": path, "port": port, "scheme": scheme, "httpHeaders": headers}})
    });
    let checks = prop_oneof![
        http,
        port().prop_map(|port| json!({"tcpSocket": {"port": port}})),
        (port(), proptest::option::of(text()))
            .prop_map(|(port, service)| json!({"grpc": {"port": port, "service": service}})),
        proptest::collection::vec("[ -~]{1,5}", 1..3).prop_map(|command| json!({"exec": {"command": command}})),
    ];
    let times = (maybe(0..=99), maybe(1..=99), maybe(1..=99), maybe(1..=9), maybe(1..=99));
    (checks, times, maybe(1..=99)).prop_map(|(mut probe, (delay, period, timeout, successes, failures), grace)| {
        probe["initialDelaySeconds"] = json!(delay);
        probe["periodSeconds"] = json!(period);
        probe["timeoutSeconds"] = json!(timeout);
        probe["successThreshold"] = json!(successes);
        probe["failureThreshold"] = json!(failures);
        probe["terminationGracePeriodSeconds"] = json!(grace);
        probe
    })
}

fn probes() -> impl Strategy<Value = Value> {
    let maybe = || proptest::option::of(probe());
    (maybe(), maybe(), maybe()).prop_map(|(readiness, liveness, startup)| {
        let mut probes = json!({"readiness": readiness, "liveness": liveness, "startup": startup});
        for (name, field) in [
            ("readiness", "terminationGracePeriodSeconds"),
            ("liveness", "successThreshold"),
            ("startup", "successThreshold"),
        ] {
            if let Some(probe) = probes[name].as_object_mut() {
                probe.remove(field);
            }
        }
        probes
    })
}

fn volume() -> impl Strategy<Value = Value> {
    let file = (text(), "[a-z]{1,3}(/[a-z]{1,3})?").prop_map(|(key, path)| json!({"key": key, "path": path}));
    let files = proptest::collection::vec(file, 0..3);
    let maybe = || proptest::option::of(any::<bool>());
    let keys = (any::<bool>(), text(), files, maybe()).prop_map(|(is_secret, name, files, optional)| {
        let (kind, field) = if is_secret {
            ("secret", "secretName")
        } else {
            ("configMap", "name")
        };
        json!({kind: {field: name, "items": files, "optional": optional}})
    });
    let size = proptest::option::of(prop_oneof![Just("64Mi"), Just("0.5Gi"), Just("1e6")]);
    let dir = (any::<bool>(), size, maybe()).prop_map(|(in_memory, size, read_only)| {
        json!({"emptyDir": {"medium": in_memory.then_some("Memory"), "sizeLimit": size}, "readOnly": read_only})
    });
    let policy = proptest::option::of(prop_oneof![Just("Always"), Just("IfNotPresent"), Just("Never")]);
    let image = (prop_oneof![Just("assets"), Just("assets:1.4")], policy)
        .prop_map(|(image, policy)| json!({"image": {"reference": image, "pullPolicy": policy}}));
    prop_oneof![keys, dir, image]
}

fn volumes() -> impl Strategy<Value = Value> {
    let volumes = proptest::collection::btree_map("(/[a-z0-9._]{0,2}[a-z]){1,2}", volume(), 0..4);
    volumes.prop_map(|volumes| {
        let named = volumes.into_iter().enumerate().map(|(number, (path, mut volume))| {
            volume["name"] = json!(format!("v{number}"));
            volume["mountPath"] = json!(path);
            volume
        });
        named.collect()
    })
}

fn account() -> impl Strategy<Value = (Value, Value)> {
    let account = (
        prop_oneof![Just("default".to_owned()), text()],
        proptest::option::of(any::<bool>()),
    );
    proptest::option::of(account).prop_map(|account| match account {
        Some((name, token)) => (json!({"name": name}), json!(token)),
        None => (Value::Null, Value::Null),
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let image = prop_oneof![
        Just("nginx"),
        Just("nginx:latest"),
        Just("ghcr.io/acme/shop:1.4"),
        Just("localhost:5000/shop@sha256:0123456789abcdef0123456789abcdef"),
    ];
    let policy = prop_oneof![Just("Always"), Just("IfNotPresent"), Just("Never")];
    (
        image,
        (proptest::collection::btree_map("[A-Z]{1,3}", variable(), 0..4), env_from()),
        proptest::collection::vec("[ -~]{1,5}", 0..3),
        proptest::collection::vec("[ -~]{1,5}", 0..3),
        proptest::option::of((amounts(), amounts())),
        prop_oneof![
            Just(json!({})),
            health().prop_map(|check| json!({"healthCheck": check})),
            probes().prop_map(|probes| json!({"probes": probes})),
        ],
        proptest::option::of(policy),
        (proptest::collection::btree_set(text(), 0..3), proptest::collection::btree_set(text(), 0..3)),
        any::<bool>(),
        (volumes(), account()),
    )
        .prop_map(
            |(image, (env, env_from), command, args, resources, health, policy, (secrets, queues), restricted, (volumes, (account, token)))| {
                let env: Vec<Value> = env
                    .into_iter()
                    .map(|(name, mut var)| {
                        var["name"] = json!(name);
                        var
                    })
                    .collect();
                let [secrets, queues] = [secrets, queues]
                    .map(|names| names.into_iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
                json!({"image": image, "env": env, "envFrom": env_from, "command": command, "args": args,
                "resources": resources.map(|(requests, limits)| json!({"requests": requests, "limits": apart(limits, &requests)})),
                "healthCheck": health["healthCheck"], "probes": health["probes"], "imagePullPolicy": policy, "imagePullSecrets": secrets, "queues": queues,
                "volumes": volumes, "serviceAccount": account, "automountServiceAccountToken": token,
                "securityProfile": if restricted { "Restricted" } else { "Baseline" }})
            },
        )
}

fn rollout() -> impl Strategy<Value = Value> {
    let limit = || {
        proptest::option::of(prop_oneof![
            (1..=1000).prop_map(|count| json!(count)),
            (1..=100).prop_map(|share| json!(format!("{share}%"))),
        ])
    };
    let type_ = prop_oneof![Just(Value::Null), Just(json!("RollingUpdate")), Just(json!("Recreate"))];
    let deadline = proptest::option::of(5..=9999);
    (type_, limit(), limit(), deadline).prop_map(|(type_, surge, unavailable, deadline)| {
        let mut rollout = json!({"type": type_, "progressDeadlineSeconds": deadline});
        if type_ != "Recreate" {
            rollout["maxSurge"] = json!(surge);
            rollout["maxUnavailable"] = json!(unavailable);
        }
        rollout
    })
}

/// Ports with other names and numbers than the main one, of which the number is below 100.
fn ports() -> impl Strategy<Value = Value> {
    let protocol = prop_oneof![
        Just(Value::Null),
        Just(json!("TCP")),
        Just(json!("UDP")),
        Just(json!("SCTP"))
    ];
    let port = (
        protocol,
        proptest::option::of(prop_oneof![Just("grpc"), Just("kubernetes.io/h2c")]),
    );
    proptest::collection::btree_map("[a-z]{1,3}", port, 0..3).prop_map(|ports| {
        let ports = ports.into_iter().zip(100..);
        let port = |((name, (protocol, app_protocol)), number)| json!({"name": name, "port": number, "protocol": protocol, "appProtocol": app_protocol});
        json!(ports.map(port).collect::<Vec<Value>>())
    })
}

fn shutdown() -> impl Strategy<Value = (Option<i64>, Option<i64>)> {
    let grace = proptest::option::of(prop_oneof![Just(0), 1..=99_i64]);
    (grace, 1..=99_i64, any::<bool>()).prop_map(|(grace, sleep, sleeps)| {
        let sleep = Some(sleep).filter(|sleep| sleeps && *sleep < grace.unwrap_or(30));
        (grace, sleep)
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let route = (
        proptest::option::of(prop_oneof![
            Just("shop.example.com".to_owned()),
            Just("shop.a".to_owned())
        ]),
        proptest::option::of(prop_oneof![Just("/"), Just("/cart")]),
        proptest::option::of(text()),
        proptest::option::of(text()),
    );
    let count = (0..9, any::<bool>(), shutdown(), proptest::option::of(rollout()));
    let port = prop_oneof![1..=99, 200..=65535];
    let port = proptest::option::of((port, ports()));
    (pod(), count, port, any::<bool>(), route).prop_map(
        |(mut spec, (replicas, paused, (grace, sleep), rollout), port, inside, (host, path, class, secret))| {
            spec["replicas"] = json!(replicas);
            spec["paused"] = json!(paused);
            spec["rollout"] = json!(rollout);
            spec["terminationGracePeriodSeconds"] = json!(grace);
            spec["preStopSleepSeconds"] = json!(sleep);
            match port {
                Some((port, ports)) if inside => {
                    spec["port"] = json!(port);
                    spec["ports"] = ports;
                    spec["expose"] = json!("Cluster");
                }
                Some((port, ports)) => {
                    spec["port"] = json!(port);
                    spec["ports"] = ports;
                    spec["host"] = json!(host);
                    spec["path"] = json!(path);
                    spec["ingressClassName"] = json!(class);
                    spec["tls"] = json!(secret.map(|secret| json!({"secretName": secret})));
                }
                // A health check needs a port to ask.
                None if spec["healthCheck"]["port"].is_null() => spec["healthCheck"] = Value::Null,
                None => {}
            }
            spec
        },
    )
}

proptest! {
    #[test]
    fn rendered_objects_are_read_back_without_unmapped_fields(spec in spec()) {
        let written = render(&spec);
        let objects = written.iter().map(|child| child.object.clone()).collect();
        for children in [objects, stored(&written)] {
            let back = back(&children);
            prop_assert_eq!(&back.unmapped, &[]);
            prop_assert_eq!(&back.spec, &normalized(&spec));
        }
    }

    #[test]
    fn spec_that_was_read_renders_the_same_objects(spec in spec()) {
        let before = stored(&render(&spec));
        let again = stored(&render(&serde_json::to_value(back(&before).spec).unwrap()));
        prop_assert_eq!(before.len(), again.len());
        // Without annotations, which contain the spec.
        for (before, again) in before.iter().zip(&again) {
            let specs = [before, again].map(|object| crate::Digest::of(&json!({"spec": object["spec"]})));
            prop_assert_eq!(&specs[0], &specs[1], "{}", &before["kind"]);
        }
    }
}

/// A typical Deployment: with other names, and with fields that a spec can't express.
#[test]
fn third_party_deployment_is_read_as_far_as_possible() {
    let deployment = json!({
        "metadata": {"name": "shop", "labels": {"app": "shop"}},
        "spec": {
            "replicas": 2, "revisionHistoryLimit": 3, "selector": {"matchLabels": {"app": "shop"}},
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": {"app": "shop", "tier": "web"}, "annotations": {"prometheus.io/scrape": "true"}},
                "spec": {
                    "serviceAccountName": "shop", "serviceAccount": "shop",
                    "initContainers": [{"name": "migrate", "image": "shop:1.4"}],
                    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                    "securityContext": {"runAsUser": 1000},
                    "containers": [{
                        "name": "shop", "image": "shop:1.4", "imagePullPolicy": "IfNotPresent",
                        "ports": [{"containerPort": 9090, "name": "metrics"}, {"containerPort": 8080, "name": "web"}],
                        "env": [{"name": "MODE", "value": "live"},
                                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}}}],
                        "envFrom": [{"secretRef": {"name": "shop"}}],
                        "resources": {"limits": {"memory": "64Mi"}},
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": "web", "scheme": "HTTP"}, "periodSeconds": 5},
                        "livenessProbe": {"httpGet": {"path": "/live", "port": "web"}, "initialDelaySeconds": 90},
                        "securityContext": {"privileged": false, "allowPrivilegeEscalation": true},
                    }, {"name": "proxy", "image": "envoy:1"}],
                },
            },
        },
    });
    let service = json!({"spec": {"type": "LoadBalancer", "selector": {"app": "shop"}, "clusterIP": "10.0.0.1",
        "ports": [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "metrics", "port": 9090}]}});
    let ingress = json!({"spec": {"ingressClassName": "traefik", "tls": [{"hosts": ["shop.example.com"], "secretName": "tls"}],
        "rules": [{"host": "shop.example.com", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "shop", "port": {"number": 80}}}},
            {"path": "/api", "pathType": "Prefix", "backend": {"service": {"name": "api", "port": {"number": 80}}}}]}}]}});
    let live = LiveObjects {
        deployment: Some(&deployment),
        service: Some(&service),
        ingress: Some(&ingress),
    };
    let read = read_app("shop", "a", live);
    insta::assert_yaml_snapshot!(read.spec);
    let unmapped: Vec<String> = read
        .unmapped
        .iter()
        .map(|(kind, rest)| {
            let mark = if rest.matters() { ' ' } else { '-' };
            let how = if rest.differs { "differs" } else { "extra" };
            format!("{mark} {kind} {}: {} ({how})", rest.path, rest.value)
        })
        .collect();
    insta::assert_snapshot!(unmapped.join("\n"));
    insta::assert_yaml_snapshot!(extra_ports(
        &service,
        &deployment["spec"]["template"],
        8080,
        &read.spec.pod.container.ports
    ));
}

#[test]
fn app_without_a_service_and_an_ingress_is_not_public() {
    let deployment = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]}}}});
    let live = LiveObjects {
        deployment: Some(&deployment),
        ..LiveObjects::default()
    };
    let spec = read_app("shop", "a", live).spec;
    assert_eq!(
        (spec.pod.container.port, spec.expose),
        (Some(80), Some(crd::Expose::Cluster))
    );
}

#[test]
fn unsupported_fields_of_services_and_ingresses_are_unmapped() {
    let deployment = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]}}}});
    let unmapped = |service: Value, ingress: Value| -> Vec<String> {
        let live = LiveObjects {
            deployment: Some(&deployment),
            service: Some(&service),
            ingress: Some(&ingress),
        };
        let unmapped = read_app("shop", "a", live).unmapped;
        unmapped
            .iter()
            .map(|(kind, rest)| format!("{kind} {} {}", rest.path, rest.differs))
            .collect()
    };
    let service = |extra: Value| {
        let mut spec = json!({"selector": {"app": "shop"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80}]});
        spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"spec": spec})
    };
    let ingress = |host: Option<&str>, path: &str, kind: &str| {
        json!({"spec": {"rules": [{"host": host, "http": {"paths": [{"path": path, "pathType": kind,
            "backend": {"service": {"name": "shop", "port": {"number": 80}}}}]}}]}})
    };
    let plain = ingress(Some("a.example.com"), "/", "ImplementationSpecific");
    assert_eq!(unmapped(service(json!({})), plain.clone()), Vec::<String>::new());
    assert_eq!(
        unmapped(service(json!({"clusterIP": "None"})), plain.clone()),
        ["Service spec.clusterIP true"]
    );
    assert_eq!(
        unmapped(service(json!({"sessionAffinity": "ClientIP"})), plain.clone()),
        ["Service spec.sessionAffinity true"]
    );
    assert_eq!(
        unmapped(service(json!({"externalIPs": ["1.2.3.4"]})), plain),
        ["Service spec.externalIPs false"]
    );
    for other in [
        ingress(None, "/", "Prefix"),
        ingress(Some("a.example.com"), "/x", "ImplementationSpecific"),
        ingress(Some("a.example.com"), "/", "Exact"),
    ] {
        assert_eq!(unmapped(service(json!({})), other), ["Ingress spec.rules true"]);
    }
}

#[test]
fn host_port_and_host_users_and_grace_period_matter() {
    let lost = |pod: Value| -> Vec<String> {
        let deployment = json!({"spec": {"template": {"spec": pod}}});
        let live = LiveObjects {
            deployment: Some(&deployment),
            ..LiveObjects::default()
        };
        let unmapped = read_app("shop", "a", live).unmapped;
        let lost = unmapped.into_iter().filter(|(_, rest)| rest.matters());
        lost.map(|(_, rest)| format!("{} {}", rest.path, rest.value)).collect()
    };
    let pod = |extra: Value, port: Value| {
        let mut pod = json!({"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}]}]});
        pod.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let ports = pod["containers"][0]["ports"].as_array_mut().unwrap();
        ports[0]
            .as_object_mut()
            .unwrap()
            .extend(port.as_object().unwrap().clone());
        ports.push(json!({"containerPort": 9090, "name": "metrics"}));
        pod
    };
    assert_eq!(lost(pod(json!({}), json!({"name": "web"}))), Vec::<String>::new());
    assert_eq!(
        lost(pod(json!({}), json!({"hostPort": 8080}))),
        ["spec.template.spec.containers[c].ports[80].hostPort 8080"]
    );
    assert_eq!(
        lost(pod(json!({"hostUsers": false, "hostNetwork": false}), json!({}))),
        ["spec.template.spec.hostUsers false"]
    );
    assert_eq!(
        lost(pod(json!({"terminationGracePeriodSeconds": 600}), json!({}))),
        Vec::<String>::new()
    );
}

#[test]
fn path_of_an_ingress_that_routes_to_the_app_is_read() {
    let deployment = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx",
        "ports": [{"containerPort": 8080, "name": "web"}, {"containerPort": 9000, "name": "admin"}]}]}}}});
    let service = json!({"spec": {"selector": {"app": "shop"}, "clusterIP": "10.0.0.1",
        "ports": [{"name": "web", "port": 80, "targetPort": "web"}, {"name": "admin", "port": 81, "targetPort": "admin"}]}});
    let path = |path: &str, service: &str, port: Value| json!({"path": path, "pathType": "Prefix", "backend": {"service": {"name": service, "port": port}}});
    let read = |paths: Value, tls: Value| {
        let ingress = json!({"spec": {"tls": tls, "rules": [{"host": "shop.example.com", "http": {"paths": paths}}]}});
        let live = LiveObjects {
            deployment: Some(&deployment),
            service: Some(&service),
            ingress: Some(&ingress),
        };
        let ReadApp { spec, unmapped } = read_app("shop", "a", live);
        let unmapped: Vec<String> = unmapped
            .into_iter()
            .filter(|(kind, rest)| *kind == &INGRESS && rest.matters())
            .map(|(_, rest)| format!("{} {}", rest.path, rest.value))
            .collect();
        (spec.path, unmapped)
    };
    let by_name = path("/", "shop", json!({"name": "web"}));
    assert_eq!(read(json!([by_name]), json!([])), (None, vec![]));
    // Another path before it does not route to the app.
    let api = path("/api", "api", json!({"number": 80}));
    let (taken, unmapped) = read(json!([api, by_name]), json!([]));
    assert_eq!(taken, None);
    assert!(
        unmapped.len() == 1 && unmapped[0].contains("/api") && !unmapped[0].contains("web"),
        "{unmapped:?}"
    );
    // It routes to another port of the Service.
    let (_, unmapped) = read(json!([path("/", "shop", json!({"number": 81}))]), json!([]));
    assert!(
        unmapped.len() == 1 && unmapped[0].starts_with("spec.rules "),
        "{unmapped:?}"
    );
    // A host with two certificates.
    let tls = |secret: &str| json!({"hosts": ["shop.example.com"], "secretName": secret});
    let (_, unmapped) = read(json!([by_name]), json!([tls("rsa"), tls("ecdsa")]));
    assert!(
        unmapped.len() == 1 && unmapped[0].contains("ecdsa") && !unmapped[0].contains("rsa\""),
        "{unmapped:?}"
    );
}

#[test]
fn port_of_a_service_is_kept_with_the_new_target_port() {
    let template = json!({"spec": {"containers": [{"name": "app", "image": "nginx", "ports": [{"containerPort": 8080, "name": "http"}]}]}});
    let offered = |target: Value| {
        let service = json!({"spec": {"ports": [{"port": 80, "targetPort": target}, {"name": "admin", "port": 81, "targetPort": "admin"}]}});
        let ports = extra_ports(&service, &template, 8080, &[]);
        ports.iter().map(|port| port["targetPort"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(offered(json!("web")), ["http", "admin"]);
    assert_eq!(offered(json!(3000)), ["http", "admin"]);
}

#[test]
fn probes_are_read_exactly() {
    let read = |probes: Value| {
        let mut container = json!({"name": "c", "image": "nginx", "ports": [{"containerPort": 80, "name": "web"}]});
        container
            .as_object_mut()
            .unwrap()
            .extend(probes.as_object().unwrap().clone());
        let deployment = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let live = LiveObjects {
            deployment: Some(&deployment),
            ..LiveObjects::default()
        };
        let read = read_app("shop", "a", live);
        let unmapped: Vec<String> = read.unmapped.into_iter().map(|(_, rest)| rest.path).collect();
        let container = read.spec.pod.container;
        (json!([container.health_check, container.probes]), unmapped)
    };
    let none: Vec<String> = Vec::new();
    let http = json!({"httpGet": {"path": "live", "port": "web"}, "initialDelaySeconds": 120, "timeoutSeconds": 900});
    assert_eq!(
        read(json!({"livenessProbe": http})),
        (
            json!([null, {"liveness": {"httpGet": {"path": "/live", "port": 80}, "initialDelaySeconds": 120, "timeoutSeconds": 900}}]),
            none.clone()
        )
    );
    let tcp = json!({"tcpSocket": {"port": 80}, "periodSeconds": 2});
    assert_eq!(
        read(json!({"readinessProbe": tcp})),
        (json!([null, null]), none.clone())
    );
    let with = |failures: i32, period: i32| json!({"httpGet": {"path": "/", "port": "web"}, "periodSeconds": period, "failureThreshold": failures});
    let all = json!({"readinessProbe": with(3, 10), "livenessProbe": with(6, 10), "startupProbe": with(30, 2)});
    assert_eq!(read(all), (json!([{"path": "/"}, null]), none.clone()));
    // The kubelet would send these requests to another host.
    let elsewhere = json!({"tcpSocket": {"port": 80, "host": "192.0.2.1"}});
    assert_eq!(
        read(json!({"livenessProbe": elsewhere})),
        (
            json!([null, {"liveness": {"tcpSocket": {"port": 80}}}]),
            vec!["spec.template.spec.containers[c].livenessProbe.tcpSocket.host".to_owned()]
        )
    );
    let unknown = json!({"httpGet": {"port": "unknown"}});
    assert_eq!(
        read(json!({"startupProbe": unknown})),
        (
            json!([null, null]),
            vec!["spec.template.spec.containers[c].startupProbe".to_owned()]
        )
    );
}

#[test]
fn variables_that_are_not_complete_are_no_queue() {
    let spec = json!({"image": "nginx", "queues": [{"name": "orders"}], "env": [{"name": "QUEUE_ORDERS_REGION", "value": "x"}]});
    let read = back(&stored(&render(&spec))).spec.pod;
    assert_eq!(read.queues, []);
    let names: Vec<_> = read.container.env.iter().map(|var| var.name.as_str()).collect();
    assert_eq!(
        names,
        ["QUEUE_ORDERS_URL", "QUEUE_ORDERS_ENDPOINT", "QUEUE_ORDERS_REGION"]
    );
}
