//! The spec in `describe`.

mod container;
mod volume;

use crd::{
    AppDeploySpec, PodFields, PodSet, RolloutStrategy, RolloutType, SecurityProfile, Toleration, TolerationOperator,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::output::description::Page;
use crate::output::formats::some;
use crate::resource::workload::Workload;

/// Writes the lines of a spec.
pub fn write(page: &mut Page<'_>, workload: &Workload) {
    page.line("Image", &workload.pod().container.image);
    match workload {
        Workload::App(app) => route(page, &app.spec),
        Workload::PodSet(set) => replacement(page, set),
    }
    let pod = workload.pod();
    container::of_application(page, pod);
    container::others(page, pod);
    page.list("Volumes", &pod.volumes.iter().map(volume::source).collect::<Vec<_>>());
    surroundings(page, pod, workload.meta().name.as_deref().unwrap_or_default());
}

/// How an app is reached, and how its pods are replaced.
fn route(page: &mut Page<'_>, spec: &AppDeploySpec) {
    match spec.pod.container.port {
        Some(port) => page.line("Port", &port.to_string()),
        None => page.line("Port", "<none> (a worker: no Service, no Ingress)"),
    }
    container::other_ports(page, &spec.pod);
    if spec.pod.container.port.is_some() && !spec.is_public() {
        page.line("Expose", "Cluster (inside the cluster only)");
    }
    lines(
        page,
        [
            ("Host", spec.host.clone()),
            ("Path", spec.path.clone()),
            ("IngressClass", spec.ingress_class_name.clone()),
            ("TLS Secret", spec.tls.as_ref().and_then(|tls| tls.secret_name.clone())),
            ("Rollout", spec.rollout.as_deref().map(rollout)),
            ("Paused", paused(spec.paused)),
        ],
    );
}

fn rollout(rollout: &RolloutStrategy) -> String {
    let type_ = rollout.type_.unwrap_or(RolloutType::RollingUpdate).as_str().to_owned();
    let unavailable = rollout.max_unavailable.as_ref();
    let parts = [
        Some(type_),
        unavailable.map(|most| format!("{} max unavailable", limit(most))),
        rollout
            .max_surge
            .as_ref()
            .map(|most| format!("{} max surge", limit(most))),
        rollout
            .progress_deadline_seconds
            .map(|seconds| format!("progress deadline {seconds}s")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn limit(limit: &IntOrString) -> String {
    match limit {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(share) => share.clone(),
    }
}

fn paused(is_paused: bool) -> Option<String> {
    is_paused.then(|| "yes (changed pods are not rolled out)".to_owned())
}

/// How pods of a pod set are replaced.
fn replacement(page: &mut Page<'_>, set: &PodSet) {
    let spec = &set.spec;
    // A pod that was replaced stays in the spec.
    let there = set.status.iter().flat_map(|status| &status.pod_names);
    let going: Vec<String> = there
        .filter(|name| spec.replace_pods.iter().any(|pod| pod.name == **name))
        .cloned()
        .collect();
    let settled = (spec.min_ready_seconds > 0).then(|| format!("{}s", spec.min_ready_seconds));
    if let Some(port) = spec.pod().container.port {
        page.line("Port", &port.to_string());
    }
    container::other_ports(page, spec.pod());
    lines(
        page,
        [
            ("Min Ready", settled),
            ("Max Unavailable", spec.max_unavailable.as_ref().map(limit)),
            ("Paused", paused(spec.paused)),
            ("Replacing", (!going.is_empty()).then(|| some(&going))),
        ],
    );
}

fn lines<const N: usize>(page: &mut Page<'_>, lines: [(&str, Option<String>); N]) {
    for (label, value) in lines {
        if let Some(value) = value {
            page.line(label, &value);
        }
    }
}

/// Describes the pods as a whole: their shutdown, security, identity, nodes and metrics.
fn surroundings(page: &mut Page<'_>, pod: &PodFields, name: &str) {
    let seconds = |seconds: Option<i64>| seconds.map(|seconds| format!("{seconds}s"));
    let secrets: Vec<String> = pod.image_pull_secrets.iter().map(|one| one.name.clone()).collect();
    let isolated = pod.host_users == Some(false);
    lines(
        page,
        [
            ("Pull Secrets", (!secrets.is_empty()).then(|| secrets.join(", "))),
            ("Grace Period", seconds(pod.termination_grace_period_seconds)),
            (
                "Pre-Stop",
                seconds(pod.pre_stop_sleep_seconds).map(|time| format!("sleep {time}")),
            ),
            (
                "Config Change",
                pod.restarts_on_config_change().then(|| "restarts the pods".to_owned()),
            ),
            (
                "Security",
                (pod.profile() == SecurityProfile::Restricted).then(|| "Restricted".to_owned()),
            ),
            (
                "Host Users",
                isolated.then(|| "false (the pods run in a user namespace)".to_owned()),
            ),
        ],
    );
    if let Some(account) = &pod.service_account {
        let name = match &account.name {
            Some(name) => name.clone(),
            None => format!("{name}, created for the app"),
        };
        let token = if pod.automount_service_account_token == Some(true) {
            ", token mounted"
        } else {
            ""
        };
        page.line("Service Account", &format!("{name}{token}"));
        let annotations = account.annotations.iter().flatten();
        let annotations: Vec<String> = annotations.map(|(key, value)| format!("{key}: {value}")).collect();
        page.list("  Annotations", &annotations);
    }
    if let Some(placement) = &pod.placement {
        let labels = placement.node_selector.iter();
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        page.list("Node Selector", &labels);
        let tolerations: Vec<String> = placement.tolerations.iter().map(toleration).collect();
        page.list("Tolerations", &tolerations);
    }
    if let Some(metrics) = &pod.metrics {
        let port = metrics.port.or(pod.container.port).unwrap_or_default();
        let path = metrics.path.as_deref().unwrap_or("/metrics");
        page.line("Metrics", &format!("GET {path} on port {port}"));
    }
}

/// Describes a toleration, as `kubectl describe` does.
fn toleration(toleration: &Toleration) -> String {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_ref().map(|value| format!("={value}"));
    let effect = toleration.effect.map(|effect| format!(":{}", effect.as_str()));
    let operator = (toleration.operator == Some(TolerationOperator::Exists)).then_some(" op=Exists");
    let seconds = toleration.toleration_seconds.map(|seconds| format!(" for {seconds}s"));
    let text = [value, effect, operator.map(str::to_owned), seconds].map(Option::unwrap_or_default);
    format!("{key}{}", text.concat()).trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::observe::status::list::tests::app;
    use crate::terminal::ui::RenderOptions;

    /// Returns a spec of pods with every field, except `healthCheck`, which excludes probes.
    fn every_field() -> Value {
        json!({
            "image": "ghcr.io/acme/shop:1.4", "port": 8080,
            "ports": [{"name": "grpc", "port": 9090, "appProtocol": "kubernetes.io/h2c"}, {"name": "dns", "port": 9053, "protocol": "UDP"}],
            "env": [{"name": "MODE", "value": "live"},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "look", "key": "colour", "optional": true}}},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "envFrom": [{"prefix": "DB_", "secretRef": {"name": "db"}}, {"configMapRef": {"name": "look", "optional": true}}],
            "command": ["/shop"], "args": ["--greeting", "hello world"],
            "resources": {"requests": {"cpu": "0.5", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
            "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "registry"}], "securityProfile": "Restricted",
            "probes": {
                "readiness": {"httpGet": {"path": "/ready", "port": 8081, "scheme": "HTTPS",
                    "httpHeaders": [{"name": "Accept", "value": "text/plain"}]}, "successThreshold": 2},
                "liveness": {"exec": {"command": ["/alive"]}, "initialDelaySeconds": 5, "timeoutSeconds": 3,
                    "terminationGracePeriodSeconds": 7},
                "startup": {"grpc": {"port": 9091, "service": "health"}, "periodSeconds": 4, "failureThreshold": 61}},
            "terminationGracePeriodSeconds": 66, "preStopSleepSeconds": 6,
            "volumes": [
                {"name": "config", "mountPath": "/etc/shop", "configMap": {"name": "shop-config", "optional": true,
                    "items": [{"key": "shop.toml", "path": "conf/shop.toml"}, {"key": "words", "path": "words"}]}},
                {"name": "keys", "mountPath": "/keys", "readOnly": true, "secret": {"secretName": "shop-keys",
                    "items": [{"key": "tls.key", "path": "tls.key"}]}},
                {"name": "cache", "mountPath": "/var/cache/shop", "emptyDir": {"medium": "Memory", "sizeLimit": "65Mi"}},
                {"name": "inbox", "mountPath": "/inbox", "readOnly": true, "emptyDir": {}},
                {"name": "assets", "mountPath": "/assets", "image": {"reference": "ghcr.io/acme/assets:1.5",
                    "pullPolicy": "IfNotPresent"}},
                {"name": "spool", "emptyDir": {}}],
            "initContainers": [{"name": "migrate", "image": "ghcr.io/acme/migrate:1.6", "command": ["/migrate"],
                "env": [{"name": "ADMIN", "valueFrom": {"secretKeyRef": {"name": "db", "key": "admin"}}}],
                "mounts": [{"name": "config", "mountPath": "/etc/migrate"}]}],
            "sidecars": [{"name": "exporter", "image": "ghcr.io/acme/exporter:2", "args": ["--all"],
                "envFrom": [{"configMapRef": {"name": "exporter-settings"}}], "imagePullPolicy": "Never",
                "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "32Mi"}},
                "probes": {"liveness": {"tcpSocket": {"port": 9101}}},
                "mounts": [{"name": "spool", "mountPath": "/spool"}, {"name": "cache", "mountPath": "/cache", "readOnly": true}]}],
            "serviceAccount": {"name": "shop-account"}, "automountServiceAccountToken": true, "onConfigChange": "Restart",
            "hostUsers": false,
            "placement": {"nodeSelector": {"disktype": "ssd", "topology.kubernetes.io/zone": "eu-1"},
                "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "shops", "effect": "NoExecute",
                    "tolerationSeconds": 67}, {"operator": "Exists"}]}
        })
    }

    fn app_with_every_field() -> Workload {
        let mut spec = every_field();
        for (field, value) in [
            ("metrics", json!({"port": 9100, "path": "/prometheus"})),
            ("host", json!("shop.example.com")),
            ("path", json!("/cart")),
            ("ingressClassName", json!("traefik")),
            ("tls", json!({"secretName": "shop-tls"})),
            ("paused", json!(true)),
            (
                "rollout",
                json!({"type": "RollingUpdate", "maxSurge": 11, "maxUnavailable": "10%", "progressDeadlineSeconds": 120}),
            ),
        ] {
            spec[field] = value;
        }
        app("shop", &spec, &json!({}))
    }

    fn lines_of(workload: &Workload, width: Option<usize>) -> String {
        let render = RenderOptions {
            width,
            ..RenderOptions::default()
        };
        let mut page = Page {
            text: String::new(),
            render: &render,
        };
        write(&mut page, workload);
        page.text
    }

    #[test]
    fn every_field_is_shown_at_80_columns() {
        let text = lines_of(&app_with_every_field(), Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text, @r#"
        Image:           ghcr.io/acme/shop:1.4
        Port:            8080
        Other Ports:     grpc 9090/TCP (app protocol kubernetes.io/h2c)
                         dns 9053/UDP
        Host:            shop.example.com
        Path:            /cart
        IngressClass:    traefik
        TLS Secret:      shop-tls
        Rollout:         RollingUpdate, 10% max unavailable, 11 max surge, progress
                         deadline 120s
        Paused:          yes (changed pods are not rolled out)
        Pull Policy:     Always
        Command:         /shop
        Args:            --greeting "hello world"
        Requests:        cpu=0.5, memory=64Mi
        Limits:          memory=1Gi
        Readiness:       GET /ready on port 8081 over HTTPS, Accept: text/plain
                         (#success=2)
        Liveness:        command /alive (delay=5s timeout=3s grace-period=7s)
        Startup:         gRPC service health on port 9091 (period=4s #failure=61)
        Environment:     all keys of Secret db, prefix DB_
                         all keys of ConfigMap look, optional
                         MODE=live
                         PASSWORD from Secret db, key password
                         COLOUR from ConfigMap look, key colour, optional
                         POD_IP from field status.podIP
        Mounts:          /etc/shop from config (ro)
                         /keys from keys (ro)
                         /var/cache/shop from cache (rw)
                         /inbox from inbox (ro)
                         /assets from assets (ro)
        Init Containers:
          migrate:
            Image:       ghcr.io/acme/migrate:1.6
            Command:     /migrate
            Environment: ADMIN from Secret db, key admin
            Mounts:      /etc/migrate from config (ro)
        Sidecars:
          exporter:
            Image:       ghcr.io/acme/exporter:2
            Pull Policy: Never
            Args:        --all
            Requests:    cpu=10m
            Limits:      memory=32Mi
            Liveness:    TCP on port 9101
            Environment: all keys of ConfigMap exporter-settings
            Mounts:      /spool from spool (rw)
                         /cache from cache (ro)
        Volumes:         config: ConfigMap shop-config, key shop.toml as
                           conf/shop.toml, key words, optional
                         keys: Secret shop-keys, key tls.key
                         cache: emptyDir, medium Memory, size limit 65Mi
                         inbox: emptyDir
                         assets: image ghcr.io/acme/assets:1.5, pull policy
                           IfNotPresent
                         spool: emptyDir
        Pull Secrets:    registry
        Grace Period:    66s
        Pre-Stop:        sleep 6s
        Config Change:   restarts the pods
        Security:        Restricted
        Host Users:      false (the pods run in a user namespace)
        Service Account: shop-account, token mounted
        Node Selector:   disktype=ssd
                         topology.kubernetes.io/zone=eu-1
        Tolerations:     dedicated=shops:NoExecute for 67s
                         op=Exists
        Metrics:         GET /prometheus on port 9100
        "#);
    }

    #[test]
    fn no_value_of_a_spec_is_left_out() {
        fn leaves(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => fields.values().for_each(|field| leaves(field, found)),
                Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
                Value::String(text) => found.push(text.clone()),
                Value::Number(number) => found.push(number.to_string()),
                Value::Null | Value::Bool(_) => {}
            }
        }
        let text = lines_of(&app_with_every_field(), None);
        let Workload::App(app) = app_with_every_field() else {
            panic!("it is an app")
        };
        let mut values = Vec::new();
        leaves(&serde_json::to_value(app.spec).unwrap(), &mut values);
        // Shown as effects: `restarts the pods`, `<key> op=Exists`, `=`, and the number of replicas below the spec.
        values.retain(|value| !["Restart", "Exists", "Equal", "1"].contains(&&**value));
        for value in values {
            assert!(text.contains(&value), "{value} is not in\n{text}");
        }
    }

    #[test]
    fn pod_set_has_the_same_lines() {
        let spec = json!({"template": every_field(), "minReadySeconds": 8, "maxUnavailable": "25%", "paused": true});
        let set = json!({"metadata": {"name": "shop"}, "spec": spec});
        let set = Workload::PodSet(serde_json::from_value(set).unwrap());
        let text = lines_of(&set, Some(80));
        let of_app = lines_of(&app_with_every_field(), Some(80));
        let own: Vec<&str> = text.lines().filter(|line| !of_app.contains(line)).collect();
        insta::assert_snapshot!(own.join("\n"), @r"
        Min Ready:       8s
        Max Unavailable: 25%
        ");
    }

    #[test]
    fn created_service_account_has_its_name_and_annotations() {
        let account = json!({"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/shop"}});
        let check = json!({"port": 81, "timeoutSeconds": 2, "periodSeconds": 5, "startupSeconds": 30});
        let spec = json!({"image": "shop:1", "port": 80, "serviceAccount": account, "healthCheck": check});
        insta::assert_snapshot!(lines_of(&app("shop", &spec, &json!({})), None), @r"
        Image:           shop:1
        Port:            80
        Health Check:    TCP on port 81 (timeout=2s period=5s startup=30s)
        Service Account: shop, created for the app
          Annotations:   eks.amazonaws.com/role-arn: arn:aws:iam::123456789012:role/shop
        ");
    }
}
