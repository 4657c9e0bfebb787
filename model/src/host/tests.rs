use serde_json::json;

use super::*;

const HOST: &str = "shop.example.com";

fn claim(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
    Claim {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{namespace}/{name}"),
        created,
        wants: Some(IngressPath::new(HOST, path)),
        ..Claim::default()
    }
}

/// Returns the claim of an app whose Ingress exists.
fn serving(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
    Claim {
        has: vec![IngressPath::new(HOST, path)],
        ..claim(namespace, name, created, path)
    }
}

/// Returns the claim of an app that is being deleted and whose Ingress exists.
fn deleting(namespace: &str, name: &str, created: i64, path: &str) -> Claim {
    Claim {
        deleting: true,
        wants: None,
        ..serving(namespace, name, created, path)
    }
}

fn blocked_by(claims: &[Claim], of: usize) -> Option<&str> {
    blocking_claim(&claims[of], claims.iter()).map(|claim| claim.name.as_str())
}

#[test]
fn host_belongs_to_the_namespace_of_the_oldest_app() {
    let claims = [
        claim("b", "young", 2, "/"),
        claim("a", "old", 1, "/"),
        claim("a", "sister", 3, "/api"),
    ];
    assert_eq!(blocked_by(&claims, 0), Some("old"));
    assert_eq!(blocked_by(&claims, 1), None);
    assert_eq!(blocked_by(&claims, 2), None, "it shares the host by path");
}

#[test]
fn path_belongs_to_the_oldest_app_of_the_namespace() {
    let claims = [claim("a", "old", 1, "/"), claim("a", "young", 2, "/")];
    assert_eq!((blocked_by(&claims, 0), blocked_by(&claims, 1)), (None, Some("old")));
}

#[test]
fn smaller_uid_gets_the_host_if_both_apps_are_of_the_same_second() {
    let claims = [claim("b", "b", 1, "/"), claim("a", "a", 1, "/")];
    assert_eq!((blocked_by(&claims, 0), blocked_by(&claims, 1)), (Some("a"), None));
}

#[test]
fn app_that_serves_a_host_does_not_lose_it_to_an_older_one() {
    let claims = [claim("a", "old", 1, "/"), serving("b", "young", 2, "/")];
    assert_eq!((blocked_by(&claims, 0), blocked_by(&claims, 1)), (Some("young"), None));
}

#[test]
fn app_that_is_being_deleted_keeps_its_host_and_gets_no_other() {
    let claims = [deleting("a", "old", 1, "/"), claim("b", "young", 2, "/")];
    assert_eq!(blocked_by(&claims, 1), Some("old"), "its Ingress still serves");
    // The Ingress of the older app was changed by another client.
    let claims = [deleting("a", "old", 1, "/"), serving("b", "young", 2, "/")];
    assert_eq!(blocked_by(&claims, 1), None);
    // In the namespace, the path is blocked as well.
    let claims = [
        deleting("a", "old", 1, "/"),
        claim("a", "next", 2, "/"),
        claim("a", "other", 3, "/api"),
    ];
    assert_eq!((blocked_by(&claims, 1), blocked_by(&claims, 2)), (Some("old"), None));
}

#[test]
fn ingress_of_a_deleted_app_blocks_other_namespaces() {
    let orphan = Claim {
        deleting: false,
        uid: String::new(),
        created: i64::MAX,
        ..deleting("a", "old", 1, "/")
    };
    let claims = [orphan, claim("b", "heir", 1, "/"), claim("a", "next", 2, "/")];
    assert_eq!(blocked_by(&claims, 1), Some("old"));
    assert_eq!(blocked_by(&claims, 2), None, "the host stays in the namespace");
}

#[test]
fn default_host_belongs_to_its_app() {
    let of = |namespace: &str, name: &str, created: i64| Claim {
        wants: Some(IngressPath::new("shop.team-a", "/")),
        ..claim(namespace, name, created, "/")
    };
    let mut claims = [
        of("team-b", "thief", 1),
        of("team-a", "shop", i64::MAX),
        of("team-a", "late", 2),
    ];
    assert_eq!(blocked_by(&claims, 0), Some("shop"));
    assert_eq!(blocked_by(&claims, 1), None);
    assert_eq!(blocked_by(&claims, 2), Some("shop"));
    claims[0].has = vec![IngressPath::new("shop.team-a", "/")];
    assert_eq!(
        blocked_by(&claims, 0),
        Some("shop"),
        "its Ingress must be deleted first"
    );
    assert_eq!(
        blocked_by(&claims, 1),
        Some("thief"),
        "the default host is blocked until then"
    );
}

/// The second app can't have the host, so it does not block the third.
#[test]
fn blocked_claim_does_not_block_others() {
    let claims = [
        claim("a", "first", 1, "/x"),
        claim("b", "second", 2, "/"),
        claim("a", "third", 3, "/"),
    ];
    assert_eq!(blocked_by(&claims, 1), Some("first"));
    assert_eq!(blocked_by(&claims, 2), None);
}

fn app(host: &str, deleting: bool) -> AppDeploy {
    let mut app = json!({"metadata": {"name": "shop", "namespace": "a", "uid": "u1",
        "creationTimestamp": "1970-01-01T00:00:07Z"}, "spec": {"image": "nginx", "port": 80, "host": host}});
    if deleting {
        app["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(app).unwrap()
}

fn ingress(host: &str, controller: &str) -> Child {
    let meta = json!({"name": "shop", "ownerReferences": [
        {"apiVersion": "appdeploy.dev/v1alpha1", "kind": "AppDeploy", "name": controller, "uid": "u1", "controller": true}]});
    let data = json!({"spec": {"rules": [{"host": host, "http": {"paths": [{"path": "/api/"}, {"path": "/b"}]}}]}});
    Child::read(&crate::children::INGRESS, &serde_json::from_value(meta).unwrap(), &data)
}

#[test]
fn claim_has_the_host_of_the_spec_and_the_paths_of_the_ingress() {
    let read = |app: Option<&AppDeploy>, ingress: Option<&Child>| Claim::read("a", "shop", app, ingress);
    let (new, old) = (app("new.example.com", false), ingress("old.example.com", "shop"));
    let claim = read(Some(&new), Some(&old)).unwrap();
    assert_eq!((claim.created, claim.uid.as_str()), (7, "u1"));
    assert_eq!(claim.wants, Some(IngressPath::new("new.example.com", "/")));
    let places = ["/api", "/b"].map(|path| IngressPath::new("old.example.com", path));
    assert_eq!(claim.has, places);

    let deleted = app("new.example.com", true);
    let claim = read(Some(&deleted), Some(&old)).unwrap();
    assert_eq!((claim.wants, claim.has), (None, places.to_vec()));
    assert_eq!(read(Some(&deleted), None), None, "it never had an Ingress");
    assert_eq!(read(None, Some(&old)).unwrap().has, places, "its app was deleted");
    assert_eq!(
        read(None, Some(&ingress("old.example.com", "blog"))),
        None,
        "another app's"
    );
    assert_eq!(read(Some(&app("*", false)), None), None, "an invalid host");
}

#[test]
fn blocked_app_is_returned_when_its_host_becomes_free() {
    let mut claims = Claims::default();
    let [old, young] = ["old", "young"];
    assert_eq!(claims.update(&young, Some(claim("b", "young", 2, "/"))), [""; 0]);
    assert_eq!(claims.conflict(&young), None);
    assert_eq!(claims.update(&old, Some(claim("a", "old", 1, "/"))), [young]);
    assert_eq!(claims.conflict(&young).unwrap().1.name, "old");
    assert_eq!(
        claims.update(&old, Some(claim("a", "old", 1, "/"))),
        [""; 0],
        "nothing is new"
    );
    let mut moved = claim("a", "old", 1, "/");
    moved.wants = Some(IngressPath::new("other.example.com", "/"));
    assert_eq!(claims.update(&old, Some(moved)), [young]);
    assert_eq!(claims.conflict(&young), None);
    assert_eq!(claims.update(&young, None), [""; 0]);
}

#[test]
fn only_one_of_two_concurrent_writes_gets_the_host() {
    let mut claims = Claims::default();
    claims.update(&"young", Some(claim("b", "young", 2, "/")));
    assert_eq!(claims.reserve(&"young"), Ok(vec![]));
    claims.update(&"old", Some(claim("a", "old", 1, "/")));
    assert_eq!(claims.reserve(&"old").unwrap_err().1.name, "young");
    // The write failed.
    assert_eq!(claims.release(&"young", Some(claim("b", "young", 2, "/"))), ["old"]);
    assert_eq!(claims.reserve(&"old"), Ok(vec![]));
    let done = claims.release(&"old", Some(serving("a", "old", 1, "/")));
    assert_eq!(done, [""; 0], "the reservation had the same effect");
    assert_eq!(claims.reserve(&"young").unwrap_err().1.name, "old");
}

#[test]
fn apps_that_share_a_host_do_not_requeue_each_other() {
    let mut claims = Claims::default();
    for (name, path) in [("one", "/"), ("two", "/api")] {
        claims.update(&name, Some(claim("a", name, 1, path)));
    }
    for (name, path) in [("one", "/"), ("two", "/api"), ("one", "/")] {
        assert_eq!(claims.reserve(&name), Ok(vec![]));
        assert_eq!(claims.release(&name, Some(serving("a", name, 1, path))), [""; 0]);
    }
}

#[test]
fn reservation_outlives_its_app_during_a_write() {
    let mut claims = Claims::default();
    claims.update(&"old", Some(claim("a", "old", 1, "/")));
    claims.update(&"heir", Some(claim("b", "heir", 2, "/")));
    assert_eq!(claims.reserve(&"old"), Ok(vec![]));
    claims.update(&"old", None);
    assert!(
        claims.reserve(&"heir").is_err(),
        "the Ingress may be created any moment"
    );
    assert_eq!(claims.release(&"old", None), ["heir"]);
    assert_eq!(claims.reserve(&"heir"), Ok(vec![]));
}

/// The response to the write was lost. After that the app is unchanged, has another host, or was deleted.
#[test]
fn write_without_a_known_result_blocks_the_host() {
    let asks = |namespace: &str, name: &str| claim(namespace, name, 1, "/");
    let moved = Claim {
        wants: Some(IngressPath::new("other.example.com", "/")),
        ..asks("a", "old")
    };
    for later in [Some(asks("a", "old")), Some(moved), None] {
        let mut claims = Claims::default();
        claims.update(&"old", Some(asks("a", "old")));
        claims.update(&"heir", Some(asks("b", "heir")));
        assert_eq!(claims.reserve(&"old"), Ok(vec![]));
        claims.begin_write(&"old");
        claims.release(&"old", later.clone());
        assert!(claims.is_unverified(&"old") && claims.reserve(&"heir").is_err());
        claims.end_write(&"old");
        assert_eq!(claims.release(&"old", None), ["heir"], "{later:?}");
        assert_eq!(claims.reserve(&"heir"), Ok(vec![]));
    }
}

#[test]
fn watched_ingress_needs_no_read() {
    let mut claims = Claims::default();
    claims.update(&"shop", Some(claim("a", "shop", 1, "/")));
    assert_eq!(claims.reserve(&"shop"), Ok(vec![]));
    claims.begin_write(&"shop");
    assert!(claims.is_unverified(&"shop"));
    claims.update(&"shop", Some(serving("a", "shop", 1, "/")));
    assert!(!claims.is_unverified(&"shop"), "the watch has shown the Ingress");
}

#[test]
fn ingress_that_is_deleted_during_a_reconcile_does_not_free_the_host() {
    let mut claims = Claims::default();
    claims.update(&"young", Some(serving("b", "young", 2, "/")));
    claims.update(&"old", Some(claim("a", "old", 1, "/")));
    assert_eq!(claims.reserve(&"young"), Ok(vec![]));
    claims.update(&"young", Some(claim("b", "young", 2, "/")));
    assert!(claims.reserve(&"old").is_err(), "the Ingress is about to be recreated");
}

/// The reservation was made for a deleted app of the same name.
#[test]
fn reservation_does_not_outrank_an_ingress() {
    let inherits = Claim {
        reserved: Some(IngressPath::new(HOST, "/")),
        ..claim("a", "again", 1, "/")
    };
    let claims = [inherits, serving("a", "neighbour", 2, "/")];
    assert_eq!(
        (blocked_by(&claims, 0), blocked_by(&claims, 1)),
        (Some("neighbour"), None)
    );
}

#[test]
fn allowed_suffixes_match_whole_labels() {
    let allowed = |host: &str| allowed(&validate(&app(host, false)).unwrap(), &["example.com".into()]).is_ok();
    assert!(allowed("example.com") && allowed("shop.example.com"));
    assert!(allowed("shop.a"), "the default host");
    assert!(!allowed("badexample.com") && !allowed("example.org"));
}
