//! A watch at an API server that plays a script.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::{BoxError, service_fn};

use super::*;
use crate::cache::Item;
use crate::protobuf::tests::{UNKNOWN_FIELD, answer_of, field};
use crate::protobuf::{self, Descriptor};
use crate::reduced::Parts;

fn item(name: &str, version: u64) -> Item<()> {
    let key = Key::new("shop", name);
    Item {
        owners: [key.clone()].into(),
        key,
        version: version.to_string(),
        value: (),
    }
}

/// Keeps nothing of an object but its name.
struct Plain;

tokio::task_local! {
    /// How many objects were parsed.
    static PARSED: AtomicUsize;
}

impl Reduce for Plain {
    type Value = ();

    fn resource() -> &'static str {
        "configmaps"
    }

    fn descriptor() -> Option<&'static Descriptor> {
        protobuf::descriptor("", "Service")
    }

    fn reduce(object: Parts<'_>) -> Option<Item<()>> {
        PARSED.with(|parsed| parsed.fetch_add(1, Ordering::Relaxed));
        let version = object.meta.resource_version?.parse().ok()?;
        Some(item(&object.meta.name?, version))
    }
}

fn object(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": version.to_string()}})
}

fn added(name: &str, version: u64) -> Value {
    json!({"type": "ADDED", "object": object(name, version)})
}

fn deleted(name: &str, version: u64) -> Value {
    json!({"type": "DELETED", "object": object(name, version)})
}

fn bookmark(version: u64) -> Value {
    json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version.to_string()}}})
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "refused", "code": code})
}

/// How the server answers a request.
enum Answer {
    /// With this HTTP status.
    Refusal(u16),
    /// With the last page of a list with a version.
    Page(u64, Vec<Value>),
    /// With a page after which there is another.
    FirstPage(u64, Vec<Value>),
    /// With the last page of the versions of a list.
    Versions(u64, Vec<(&'static str, u64)>),
    /// With a page of versions after which there is another.
    FirstVersions(u64, Vec<(&'static str, u64)>),
    /// With the last page of a list with a version, as protobuf.
    Messages(u64, Vec<(&'static str, u64)>),
    /// With an object, as protobuf, that has a field of a newer version, perhaps in its spec.
    UnknownField { in_spec: bool },
    /// With such an event, and the end of the answer.
    UnknownFieldInEvent,
    /// With these events, and then none.
    Events(Vec<Value>),
    /// With these events, and the end of the answer.
    EventsAndEnd(Vec<Value>),
    /// With these events, and then the connection breaks.
    EventsAndBreak(Vec<Value>),
    /// With these events, and half of another: the server has ended without an end of its answer.
    EventsAndHalf(Vec<Value>),
    /// With these events, and half of another, at which the answer ends.
    EventsAndHalfAtEnd(Vec<Value>),
}

use Answer::{
    Events, EventsAndBreak, EventsAndEnd, EventsAndHalf, EventsAndHalfAtEnd, FirstPage, FirstVersions, Messages,
    Page as LastPage, Refusal, UnknownField, UnknownFieldInEvent, Versions,
};

impl Answer {
    fn respond(self) -> Response<http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>> {
        let text = |value: &Value| {
            Full::from(value.to_string())
                .map_err(|never| match never {})
                .boxed_unsync()
        };
        let page = |version: u64, items: &[Value], token: &str| {
            let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
            Response::new(text(&json!({"metadata": metadata, "items": items})))
        };
        let versions = |version: u64, objects: &[(&str, u64)], token: &str| {
            let answer = Full::from(VersionPage::answer(version, token, objects));
            Response::new(answer.map_err(|never| match never {}).boxed_unsync())
        };
        let lines = |events: Vec<Value>| {
            let lines = events
                .into_iter()
                .map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))));
            stream::iter(lines.collect::<Vec<Result<_, BoxError>>>())
        };
        match self {
            Refusal(code) => {
                let mut response = Response::new(text(&status(code)));
                *response.status_mut() = code.try_into().unwrap();
                response
            }
            LastPage(version, items) => page(version, &items, ""),
            FirstPage(version, items) => page(version, &items, "more"),
            // The metadata of a whole object has the same place as that of one without more.
            Versions(version, objects) | Messages(version, objects) => versions(version, &objects, ""),
            UnknownField { in_spec } => {
                let object = object_with_unknown_field(in_spec);
                let list = answer_of(&[field(1, field(2, "11")), field(2, object)].concat());
                Response::new(Full::from(list).map_err(|never| match never {}).boxed_unsync())
            }
            FirstVersions(version, objects) => versions(version, &objects, "more"),
            UnknownFieldInEvent => {
                let object = answer_of(&object_with_unknown_field(true));
                let event = [field(1, "ADDED"), field(2, field(1, object))].concat();
                let length = u32::try_from(event.len()).unwrap().to_be_bytes();
                let content = format!("{};stream=watch", protobuf::CONTENT_TYPE);
                let body = Full::from([&length[..], &event].concat());
                Response::builder()
                    .header(http::header::CONTENT_TYPE, content)
                    .body(body.map_err(|never| match never {}).boxed_unsync())
                    .unwrap()
            }
            Events(events) => Response::new(StreamBody::new(lines(events).chain(stream::pending())).boxed_unsync()),
            EventsAndEnd(events) => Response::new(StreamBody::new(lines(events)).boxed_unsync()),
            EventsAndBreak(events) => {
                let broken = stream::once(async { Err(BoxError::from("the connection broke")) });
                Response::new(StreamBody::new(lines(events).chain(broken)).boxed_unsync())
            }
            EventsAndHalf(events) => {
                let eof = stream::once(async { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) });
                Response::new(StreamBody::new(lines(events).chain(half()).chain(eof)).boxed_unsync())
            }
            EventsAndHalfAtEnd(events) => Response::new(StreamBody::new(lines(events).chain(half())).boxed_unsync()),
        }
    }
}

/// Returns an object as protobuf that has an unknown field, in its spec or next to it.
fn object_with_unknown_field(in_spec: bool) -> Vec<u8> {
    let meta = field(1, [field(1, "new"), field(6, "12")].concat());
    let unknown = if in_spec {
        field(2, UNKNOWN_FIELD)
    } else {
        UNKNOWN_FIELD.to_vec()
    };
    [meta, unknown].concat()
}

/// Returns the start of an event.
fn half() -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send {
    let text = br#"{"type": "ADDED", "object": {"metadata": {"name": "ha"#;
    stream::once(async { Ok(Frame::data(Bytes::from_static(text))) })
}

/// The kinds of requests, in their order; and what came of them.
#[derive(Debug, PartialEq)]
struct Seen {
    requests: Vec<String>,
    cached: Vec<String>,
    woken: Vec<String>,
    parsed: usize,
}

fn request_kind(request: &http::Request<Body>) -> String {
    let query = request.uri().query().unwrap_or_default();
    let accept = request.headers().get(http::header::ACCEPT);
    let is_of_versions = accept.is_some_and(|accept| accept == versions::ACCEPT);
    let is_of_messages = accept.is_some_and(|accept| accept == protobuf::ACCEPT);
    let (limit, form) = match (is_of_versions, is_of_messages) {
        (true, _) => ("500", " of versions"),
        (_, true) => ("250", ""),
        _ => ("250", " as JSON"),
    };
    assert!(query.contains("labelSelector=a%3Db"), "{query}");
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    match (value("resourceVersion="), value("continue="), value("limit=")) {
        (Some(version), None, None) if query.contains("watch=true") => {
            assert!(query.contains("allowWatchBookmarks=true"), "{query}");
            format!("watch from {version}{form}")
        }
        (None, None, Some(page)) if page == limit => format!("list{form}"),
        (None, Some(_), Some(page)) if page == limit => format!("next page{form}"),
        _ => panic!("{query}"),
    }
}

/// The object whose event demands a new list.
const TAKEOVER: &str = "takeover";

/// Watches at a server that gives these answers, until it receives one more request. Before, the object `old` is cached at version 5. With
/// the first answer that is not a refusal, the answers to creates are cached: `new-1` at version 7, and `new-2` at 10.
async fn watched(answers: impl Into<VecDeque<Answer>>) -> Seen {
    watched_with_errors(answers).await.0
}

/// Returns also how many errors were counted.
async fn watched_with_errors(answers: impl Into<VecDeque<Answer>>) -> (Seen, u64) {
    let store = Arc::new(Store::<()>::default());
    store.cache.upsert(item("old", 5));
    let (requests, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(answers.into())));
    let (over, written) = (Arc::new(Notify::new()), Mutex::new(false));
    let (cached, asked, ended) = (store.clone(), requests.clone(), over.clone());
    let service = service_fn(move |request: http::Request<Body>| {
        let answer = answers.lock().unwrap().pop_front();
        let ended = ended.clone();
        let lists = !matches!(answer, None | Some(Refusal(_)));
        if lists && !std::mem::replace(&mut *written.lock().unwrap(), true) {
            cached.cache.upsert(item("new-1", 7));
            cached.cache.upsert(item("new-2", 10));
        }
        if answer.is_some() {
            asked.lock().unwrap().push(request_kind(&request));
        }
        async move {
            let Some(answer) = answer else {
                ended.notify_one();
                return std::future::pending().await;
            };
            sleep(Duration::from_millis(1)).await;
            Ok::<_, Infallible>(answer.respond())
        }
    });
    let woken = Mutex::new(Vec::new());
    let watch = Watch::<Plain> {
        resource: "configmaps",
        api: Api::all_with(Client::new(service, "default"), &ApiResource::erase::<ConfigMap>(&())),
        scope: None,
        config: ListParams::default().labels("a=b"),
        resync: Duration::from_secs(3600),
        kind: &store,
        wake: &|keys, _| {
            if keys.iter().any(|key| &*key.name == TAKEOVER) {
                store.health.demand(Instant::now());
            }
            let names = keys.into_iter().map(|key| key.name.to_string());
            woken.lock().unwrap().extend(names);
        },
        on_vanish: None,
        definition: None,
    };
    let run = async {
        tokio::select! {
            () = watch.run() => {}
            () = over.notified() => {}
            // A list that fails is tried again without an end.
            () = sleep(Duration::from_secs(24 * 3600)) => panic!("not all answers were requested"),
        }
        PARSED.with(|parsed| parsed.load(Ordering::Relaxed))
    };
    let parsed = PARSED.scope(AtomicUsize::new(0), run).await;
    let mut cached: Vec<String> = store.cache.keys().into_iter().map(|key| key.name.to_string()).collect();
    cached.sort();
    let mut woken = woken.into_inner().unwrap();
    woken.sort();
    let requests = requests.lock().unwrap().clone();
    let seen = Seen {
        requests,
        cached,
        woken,
        parsed,
    };
    (seen, store.health.errors())
}

fn seen(requests: &[&str], cached: &[&str], woken: &[&str], parsed: usize) -> Seen {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Seen {
        requests: owned(requests),
        cached: owned(cached),
        woken: owned(woken),
        parsed,
    }
}

/// Returns the objects that are cached when a list begins.
fn known() -> Vec<Value> {
    [("old", 5), ("new-1", 7), ("new-2", 10)]
        .map(|(name, version)| object(name, version))
        .into()
}

#[tokio::test(start_paused = true)]
async fn only_news_of_a_list_are_parsed() {
    let pages = [
        FirstPage(11, vec![object("old", 5), object("new-1", 7)]),
        LastPage(11, vec![object("new-2", 10), object("other", 8)]),
    ];
    let cached = ["new-1", "new-2", "old", "other"];
    assert_eq!(
        watched(pages).await,
        seen(&["list", "next page"], &cached, &["other"], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn list_is_read_as_protobuf() {
    let list = Messages(11, vec![("old", 5), ("new-1", 7), ("new-2", 10), ("other", 8)]);
    let cached = ["new-1", "new-2", "old", "other"];
    assert_eq!(watched([list]).await, seen(&["list"], &cached, &["other"], 1));
}

/// A newer API server may send fields that are not in our tables.
#[tokio::test(start_paused = true)]
async fn list_that_cannot_be_read_as_protobuf_is_requested_as_json() {
    for in_spec in [false, true] {
        let answers = [
            UnknownField { in_spec },
            LastPage(11, known()),
            EventsAndEnd(Vec::new()),
            Refusal(410),
            LastPage(12, known()),
        ];
        let watch = "watch from 11 as JSON";
        let requests = ["list", "list as JSON", watch, watch, "list as JSON"];
        let cached = ["new-1", "new-2", "old"];
        assert_eq!(watched(answers).await, seen(&requests, &cached, &[], 0));
    }
}

#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_read_as_protobuf_is_requested_as_json() {
    let answers = [
        LastPage(11, known()),
        UnknownFieldInEvent,
        Events(vec![added("new", 12)]),
    ];
    let requests = ["list", "watch from 11", "watch from 11 as JSON"];
    let cached = ["new", "new-1", "new-2", "old"];
    assert_eq!(watched(answers).await, seen(&requests, &cached, &["new"], 1));
}

#[tokio::test(start_paused = true)]
async fn object_that_the_list_lacks_is_removed_unless_it_is_newer() {
    let list = LastPage(9, vec![object("old", 5)]);
    assert_eq!(watched([list]).await, seen(&["list"], &["new-2", "old"], &["new-1"], 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_concluded_from_an_incomplete_list() {
    let cached = ["new-1", "new-2", "old"];
    for cut in [Refusal(500), Refusal(410), EventsAndHalfAtEnd(Vec::new())] {
        let pages = [FirstPage(9, vec![object("old", 5)]), cut];
        assert_eq!(watched(pages).await, seen(&["list", "next page"], &cached, &[], 0));
    }
}

/// A token expires after some minutes.
#[tokio::test(start_paused = true)]
async fn list_whose_token_has_expired_begins_again() {
    let answers = [
        FirstPage(9, vec![object("old", 5)]),
        Refusal(410),
        LastPage(10, known()),
        Events(vec![added("a", 11)]),
    ];
    let requests = ["list", "next page", "list", "watch from 10"];
    assert_eq!(
        watched(answers).await,
        seen(&requests, &["a", "new-1", "new-2", "old"], &["a"], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_continues_where_it_was() {
    let answers = [
        LastPage(10, known()),
        EventsAndBreak(vec![added("a", 11), deleted("old", 12)]),
        Refusal(500),
        EventsAndEnd(vec![bookmark(20)]),
        Events(vec![added("b", 21)]),
    ];
    let requests = [
        "list",
        "watch from 10",
        "watch from 12",
        "watch from 12",
        "watch from 20",
    ];
    assert_eq!(
        watched(answers).await,
        seen(&requests, &["a", "b", "new-1", "new-2"], &["a", "b", "old"], 2)
    );
}

/// A server that restarts cuts its watches. That is not an error.
#[tokio::test(start_paused = true)]
async fn watch_whose_server_ends_continues_without_an_error() {
    for cut in [EventsAndHalf, EventsAndHalfAtEnd] {
        let answers = [
            LastPage(10, known()),
            cut(vec![added("a", 11)]),
            Events(vec![added("b", 12)]),
        ];
        let requests = ["list", "watch from 10", "watch from 11"];
        let cached = ["a", "b", "new-1", "new-2", "old"];
        assert_eq!(
            watched_with_errors(answers).await,
            (seen(&requests, &cached, &["a", "b"], 2), 0)
        );
    }
    // A list that is cut is one.
    let (found, errors) = watched_with_errors([EventsAndHalf(Vec::new())]).await;
    assert_eq!((found.cached.len(), errors), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn expired_position_causes_a_new_list() {
    for expired in [
        Refusal(410),
        Events(vec![json!({"type": "ERROR", "object": status(410)})]),
        Events(vec![status(410)]),
    ] {
        let again = LastPage(12, vec![object("old", 5), object("new-2", 10)]);
        assert_eq!(
            watched([LastPage(10, known()), expired, again]).await,
            seen(&["list", "watch from 10", "list"], &["new-2", "old"], &["new-1"], 0)
        );
    }
}

/// The watch continues until the new list has ended.
#[tokio::test(start_paused = true)]
async fn failed_resync_does_not_end_the_watch() {
    let answers = [
        LastPage(10, known()),
        Events(Vec::new()),
        Refusal(500),
        FirstPage(13, vec![object("old", 5)]),
        Refusal(500),
        LastPage(13, vec![object("old", 5)]),
        Events(vec![added("a", 14)]),
    ];
    let requests = [
        "list",
        "watch from 10",
        "list of versions",
        "list",
        "next page",
        "list",
        "watch from 13",
    ];
    assert_eq!(
        watched(answers).await,
        seen(&requests, &["a", "old"], &["a", "new-1", "new-2"], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn resync_reads_no_object_that_is_cached() {
    let answers = [
        LastPage(10, known()),
        Events(Vec::new()),
        FirstVersions(13, vec![("old", 5)]),
        Versions(13, vec![("new-2", 10)]),
        Events(vec![added("a", 14)]),
    ];
    let requests = [
        "list",
        "watch from 10",
        "list of versions",
        "next page of versions",
        "watch from 13",
    ];
    assert_eq!(
        watched(answers).await,
        seen(&requests, &["a", "new-2", "old"], &["a", "new-1"], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn resync_reads_objects_that_no_event_has_reported() {
    // A newer one, one that was created, and one that is older: etcd was restored from a backup.
    for (name, version) in [("old", 12), ("other", 12), ("new-2", 9)] {
        let others = known().into_iter().filter(|known| known["metadata"]["name"] != name);
        let listed = others.chain([object(name, version)]).collect();
        let versions = [("old", 5), ("new-1", 7), ("new-2", 10)];
        let versions = versions.into_iter().filter(|known| known.0 != name);
        let answers = [
            LastPage(10, known()),
            Events(Vec::new()),
            Versions(13, versions.chain([(name, version)]).collect()),
            LastPage(13, listed),
        ];
        let found = watched(answers).await;
        assert_eq!(
            found.requests,
            ["list", "watch from 10", "list of versions", "list"],
            "{name}"
        );
        assert_eq!(found.parsed, 1, "{name}");
    }
}

/// The list of versions is newer than the watch, which then reports the change.
#[tokio::test(start_paused = true)]
async fn resync_reads_no_object_that_an_event_has_reported_since() {
    let all = vec![("old", 5), ("new-1", 7), ("new-2", 10), (TAKEOVER, 11)];
    let answers = [
        LastPage(10, known()),
        Events(vec![added(TAKEOVER, 11), added("a", 12)]),
        FirstVersions(12, all),
        Versions(12, vec![("a", 12)]),
    ];
    let requests = ["list", "watch from 10", "list of versions", "next page of versions"];
    assert_eq!(watched(answers).await.requests, requests);
}

#[tokio::test(start_paused = true)]
async fn resync_reads_all_objects_of_a_server_that_sends_no_versions() {
    let json = || LastPage(13, known());
    let cut = || EventsAndHalfAtEnd(Vec::new());
    for answer in [Refusal(406), Refusal(500), json(), cut(), Versions(0, Vec::new())] {
        let answers = [LastPage(10, known()), Events(Vec::new()), answer, json()];
        let found = watched(answers).await;
        let requests = ["list", "watch from 10", "list of versions", "list"];
        assert_eq!(found.requests, requests);
        assert_eq!(found.cached.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn demanded_list_begins_immediately() {
    let all = vec![("old", 5), ("new-1", 7), ("new-2", 10), (TAKEOVER, 11)];
    let answers = [
        LastPage(10, known()),
        Events(vec![added(TAKEOVER, 11)]),
        Versions(11, all),
    ];
    let began = Instant::now();
    assert_eq!(
        watched(answers).await,
        seen(
            &["list", "watch from 10", "list of versions"],
            &["new-1", "new-2", "old", TAKEOVER],
            &[TAKEOVER],
            1
        )
    );
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "it did not wait for the resync"
    );
}

#[tokio::test(start_paused = true)]
async fn optional_kind_is_requested_again_when_it_is_defined() {
    let store = Arc::new(Store::<()>::default());
    let definition = Arc::new(Definition::default());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let service = service_fn(move |_: http::Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Refusal(404).respond()) }
    });
    let watch = Watch::<Plain> {
        resource: "configmaps",
        api: Api::all_with(Client::new(service, "default"), &ApiResource::erase::<ConfigMap>(&())),
        scope: None,
        config: ListParams::default(),
        resync: Duration::from_secs(3600),
        kind: &store,
        wake: &|_, _| {},
        on_vanish: None,
        definition: Some(&definition),
    };
    let minutes = |count: u64| sleep(Duration::from_secs(60 * count));
    let steps = async {
        let asked = || requests.load(Ordering::Relaxed);
        minutes(50).await;
        assert_eq!(asked(), 1);
        minutes(50).await;
        assert_eq!(asked(), 2, "once in a resync period");
        assert!(store.liveness.stuck().is_empty() && store.health.is_not_served());

        definition.store.cache.upsert(item("configmaps", 1));
        definition.update();
        sleep(Duration::from_secs(1)).await;
        assert!(
            asked() > 3,
            "the server begins to serve it a moment after its definition appears"
        );
        definition.store.cache.remove(&item("configmaps", 1).key, "2");
        definition.update();
        minutes(1).await;
        let before = asked();
        minutes(50).await;
        assert_eq!(asked(), before);
    };
    tokio::select! {
        () = watch.run() => {}
        () = steps => {}
    }
}
