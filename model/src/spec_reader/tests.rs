mod containers;
mod random;

use crd::AppDeploy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::children::{POD_MONITOR, SERVICE_ACCOUNT};
use crate::{Desired, desired, validate};
use random::{normalized, spec};

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

/// Renders an app in a cluster with all optional kinds.
fn render_with_options(spec: &Value) -> Desired {
    let app = app(spec);
    desired(&crate::Valid {
        served: vec![&POD_MONITOR],
        ..validate(&app).unwrap()
    })
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
        pod_monitor: of(&POD_MONITOR),
        service_account: of(&SERVICE_ACCOUNT),
    };
    read_app("shop", "a", live)
}

proptest! {
    #[test]
    fn rendered_objects_are_read_back_without_unmapped_fields(spec in spec()) {
        let written = render(&spec);
        let objects = written.iter().map(|child| child.object.clone()).collect();
        for children in [objects, stored(&written), stored(&render_with_options(&spec))] {
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
        ..LiveObjects::default()
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
            ..LiveObjects::default()
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
        lost(pod(json!({"hostUsers": true, "hostNetwork": false}), json!({}))),
        Vec::<String>::new()
    );
    assert_eq!(
        lost(pod(json!({"terminationGracePeriodSeconds": 600}), json!({}))),
        Vec::<String>::new()
    );
}

#[test]
fn only_the_own_service_account_is_read_by_its_annotations() {
    let deployment = json!({"spec": {"template": {"spec": {"serviceAccountName": "shop", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "nginx"}]}}}});
    let read = |labels: Value, annotations: Value| {
        let account = json!({"metadata": {"name": "shop", "labels": labels, "annotations": annotations}});
        let live = LiveObjects {
            deployment: Some(&deployment),
            service_account: Some(&account),
            ..LiveObjects::default()
        };
        json!(read_app("shop", "a", live).spec.pod.service_account)
    };
    let ours = || json!({"appdeploy.dev/app": "shop"});
    let named = json!({"name": "shop"});
    assert_eq!(read(ours(), json!({"a": "b"})), json!({"annotations": {"a": "b"}}));
    let recorded = json!({"appdeploy.dev/desired-hash": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    assert_eq!(read(ours(), recorded), json!({"annotations": {}}));
    assert_eq!(read(json!({"team": "a"}), json!({"a": "b"})), named);
    assert_eq!(read(ours(), json!({"appdeploy.dev/other": "b"})), named);
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
            ..LiveObjects::default()
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
