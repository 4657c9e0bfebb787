//! Random specs, with every field of an AppDeploy. Each field is a function; its values are valid for the schema.
//!
//! The operator's tests use this file, too: there, a real API server accepts the specs.

use crd::AppDeploySpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::defaults;

/// Returns a spec without fields that have their default.
pub fn normalized(spec: &Value) -> AppDeploySpec {
    let mut spec: AppDeploySpec = serde_json::from_value(spec.clone()).unwrap();
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
    spec.rollout = rollout
        .filter(|rollout| *rollout != crd::RolloutStrategy::default())
        .map(Box::new);
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
    if let Some(metrics) = &mut pod.metrics {
        metrics.port = metrics.port.filter(|port| Some(*port) != pod.container.port);
        metrics.path = metrics.path.take().filter(|path| path != "/metrics");
    }
    pod.placement = pod
        .placement
        .take()
        .filter(|placement| **placement != crd::Placement::default());
    pod.termination_grace_period_seconds = pod.termination_grace_period_seconds.filter(|seconds| *seconds != 30);
    for port in &mut pod.container.ports {
        port.protocol = port.protocol.filter(|protocol| *protocol != crd::PortProtocol::Tcp);
    }
    pod.container.probes = normalized_probes(pod.container.probes.take());
    normalize_others(pod);
    spec
}

/// Returns probes without fields that have their default.
fn normalized_probes(mut probes: Option<Box<crd::Probes>>) -> Option<Box<crd::Probes>> {
    if let Some(probes) = &mut probes {
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
    // Kubernetes has no field for a pod without any.
    probes.filter(|probes| **probes != crd::Probes::default())
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
    let own = proptest::collection::btree_map("([a-z]{1,3}[.]io/)?[a-z]{1,3}", "[ -~]{1,6}", 0..3);
    (proptest::option::of(account), proptest::option::of(own)).prop_map(|account| match account {
        (Some((_, token)), Some(annotations)) => (json!({"annotations": annotations}), json!(token)),
        (Some((name, token)), None) => (json!({"name": name}), json!(token)),
        (None, _) => (Value::Null, Value::Null),
    })
}

fn placement() -> impl Strategy<Value = Value> {
    let labels = proptest::collection::btree_map("([a-z]{1,3}[.]io/)?[a-z]{1,3}", "[A-Za-z0-9]{0,3}", 0..3);
    let effect = || proptest::option::of(prop_oneof![Just("NoSchedule"), Just("PreferNoSchedule")]);
    let toleration = prop_oneof![
        Just(json!({"operator": "Exists"})),
        (text(), effect()).prop_map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})),
        (text(), proptest::option::of(text()), any::<bool>()).prop_map(|(key, value, equal)| {
            json!({"key": key, "value": value, "operator": equal.then_some("Equal")})
        }),
        (text(), proptest::option::of(0..=99))
            .prop_map(|(key, seconds)| json!({"key": key, "effect": "NoExecute", "tolerationSeconds": seconds})),
    ];
    let tolerations = proptest::collection::vec(toleration, 0..3);
    proptest::option::of((labels, tolerations)).prop_map(|placement| match placement {
        Some((labels, tolerations)) => json!({"nodeSelector": labels, "tolerations": tolerations}),
        None => Value::Null,
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
        (volumes(), account(), placement(), any::<bool>(), others()),
    )
        .prop_map(
            |(image, (env, env_from), command, args, resources, health, policy, (secrets, queues), restricted, (volumes, (account, token), placement, isolated, others))| {
                let env: Vec<Value> = env
                    .into_iter()
                    .map(|(name, mut var)| {
                        var["name"] = json!(name);
                        var
                    })
                    .collect();
                let [secrets, queues] = [secrets, queues]
                    .map(|names| names.into_iter().map(|name| json!({"name": name})).collect::<Vec<_>>());
                let mut pod = json!({"image": image, "env": env, "envFrom": env_from, "command": command, "args": args,
                "resources": resources.map(|(requests, limits)| json!({"requests": requests, "limits": apart(limits, &requests)})),
                "healthCheck": health["healthCheck"], "probes": health["probes"], "imagePullPolicy": policy, "imagePullSecrets": secrets, "queues": queues,
                "volumes": volumes, "serviceAccount": account, "automountServiceAccountToken": token,
                "placement": placement, "hostUsers": isolated.then_some(false),
                "securityProfile": if restricted { "Restricted" } else { "Baseline" }});
                add_others(&mut pod, others);
                pod
            },
        )
}

/// Returns random containers with these names, with indexes of volumes instead of their names.
fn containers(name: &'static str, has_probes: bool) -> impl Strategy<Value = Vec<Value>> {
    let image = prop_oneof![Just("busybox"), Just("ghcr.io/acme/proxy:1.4")];
    let policy = prop_oneof![Just("Always"), Just("IfNotPresent"), Just("Never")];
    let words = || proptest::collection::vec("[ -~]{1,5}", 0..3);
    let mounts = proptest::collection::btree_map("/[a-z]{1,2}", (0..9_usize, any::<Option<bool>>()), 0..3);
    let probes = if has_probes {
        probes().boxed()
    } else {
        Just(Value::Null).boxed()
    };
    let one = (
        image,
        proptest::option::of(policy),
        (words(), words()),
        (
            proptest::collection::btree_map("[A-Z]{1,3}", variable(), 0..3),
            env_from(),
        ),
        proptest::option::of(amounts()),
        mounts,
        proptest::option::of(probes),
    );
    let one = one.prop_map(|(image, policy, (command, args), (env, env_from), limits, mounts, probes)| {
        let env: Vec<Value> = env
            .into_iter()
            .map(|(name, mut var)| {
                var["name"] = json!(name);
                var
            })
            .collect();
        let mounts: Vec<Value> = mounts
            .into_iter()
            .map(|(path, (volume, read_only))| json!({"name": volume, "mountPath": path, "readOnly": read_only}))
            .collect();
        let resources = limits.map(|limits| json!({"limits": limits}));
        let mut one = json!({"image": image, "imagePullPolicy": policy, "command": command, "args": args, "env": env,
            "envFrom": env_from, "resources": resources, "mounts": mounts});
        if let Some(probes) = probes.filter(Value::is_object) {
            one["probes"] = probes;
        }
        one
    });
    proptest::collection::vec(one, 0..3).prop_map(move |mut all| {
        for (number, one) in all.iter_mut().enumerate() {
            one["name"] = json!(format!("{name}{number}"));
        }
        all
    })
}

/// Lets random containers mount volumes. Those that they mount have a `mountPath` or, if `only_there`, none.
fn mount_volumes(volumes: &mut Value, containers: &mut [Value], only_there: bool) {
    let Some(volumes) = volumes.as_array_mut() else { return };
    for container in containers {
        let mounts = container["mounts"].as_array_mut().unwrap();
        if volumes.is_empty() {
            mounts.clear();
        }
        for mount in mounts {
            let index = usize::try_from(mount["name"].as_u64().unwrap()).unwrap() % volumes.len();
            let volume = &mut volumes[index];
            mount["name"] = volume["name"].clone();
            if volume.get("emptyDir").is_none() && mount["readOnly"] == false {
                mount["readOnly"] = Value::Null;
            }
            if only_there {
                volume["mountPath"] = Value::Null;
                volume["readOnly"] = Value::Null;
            }
        }
    }
}

/// Returns random sidecars and init containers, and whether only they mount their volumes.
fn others() -> impl Strategy<Value = (Vec<Value>, Vec<Value>, bool)> {
    (containers("side", true), containers("init", false), any::<bool>())
}

/// Adds random containers to the fields of a pod.
fn add_others(pod: &mut Value, (mut sidecars, mut inits, only_there): (Vec<Value>, Vec<Value>, bool)) {
    mount_volumes(&mut pod["volumes"], &mut sidecars, only_there);
    mount_volumes(&mut pod["volumes"], &mut inits, only_there);
    pod["sidecars"] = json!(sidecars);
    pod["initContainers"] = json!(inits);
}

/// Removes what has its default.
fn normalize_others(pod: &mut crd::PodFields) {
    let volumes = pod.volumes.clone();
    let sidecars = pod.sidecars.iter_mut().map(|sidecar| &mut sidecar.container);
    for one in sidecars.chain(&mut pod.init_containers) {
        for var in &mut one.env {
            var.value = var.value.take().filter(|value| !value.is_empty());
        }
        let usual = defaults::pull_policy(&one.image);
        one.image_pull_policy = one.image_pull_policy.filter(|policy| policy.as_str() != usual);
        let resources = one.resources.take();
        one.resources = resources.filter(|resources| !resources.limits.is_empty());
        for mount in &mut one.mounts {
            let volume = volumes.iter().find(|volume| volume.name == mount.name).unwrap();
            mount.read_only = mount.read_only.filter(|is| *is && volume.empty_dir.is_some());
        }
    }
    for sidecar in &mut pod.sidecars {
        sidecar.probes = normalized_probes(sidecar.probes.take());
    }
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

fn metrics() -> impl Strategy<Value = Value> {
    let port = proptest::option::of(prop_oneof![Just(80), 1..=65535]);
    let path = proptest::option::of(prop_oneof![Just("/metrics"), Just("/prom?a=b")]);
    proptest::option::of((port, path)).prop_map(|metrics| match metrics {
        Some((port, path)) => json!({"port": port, "path": path}),
        None => Value::Null,
    })
}

pub fn spec() -> impl Strategy<Value = Value> {
    let route = (
        proptest::option::of(prop_oneof![
            Just("shop.example.com".to_owned()),
            Just("shop.a".to_owned())
        ]),
        proptest::option::of(prop_oneof![Just("/"), Just("/cart")]),
        proptest::option::of(text()),
        proptest::option::of(text()),
    );
    let count = (
        0..9,
        any::<bool>(),
        (shutdown(), metrics()),
        proptest::option::of(rollout()),
    );
    let port = prop_oneof![1..=99, 200..=65535];
    let port = proptest::option::of((port, ports()));
    (pod(), count, port, any::<bool>(), route).prop_map(
        |(
            mut spec,
            (replicas, paused, ((grace, sleep), metrics), rollout),
            port,
            inside,
            (host, path, class, secret),
        )| {
            spec["replicas"] = json!(replicas);
            spec["paused"] = json!(paused);
            spec["rollout"] = json!(rollout);
            spec["terminationGracePeriodSeconds"] = json!(grace);
            spec["preStopSleepSeconds"] = json!(sleep);
            if port.is_some() {
                spec["metrics"] = metrics;
            }
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
