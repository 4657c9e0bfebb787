//! Actions for watches.

use fault_proxy::{Action, Events, Requests, Rule};
use testcluster::wait::eventually;

use crate::{Stage, TIMEOUT, watches};

#[test]
fn watch_is_closed_after_a_number_of_events() {
    let stage = Stage::new("cut-after");
    for name in ["one", "two", "three"] {
        stage.create(name).unwrap();
    }
    stage.proxy.add(Rule::new(watches(), Action::CutAfterEvents(2)));
    let mut watch = stage.watch();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    assert_eq!(watch.next(), ["ADDED", "three"]);
    assert!(watch.end().contains("EOF"), "a cut is not to look like an end");
}

#[test]
fn matching_open_watches_are_closed() {
    let stage = Stage::new("cut");
    let mut watch = stage.watch();
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    assert_eq!(stage.proxy.cut_watches(&Requests::all().on("secrets")), 0);
    stage.create("two").unwrap();
    assert_eq!(watch.next(), ["ADDED", "two"]);
    assert_eq!(stage.proxy.cut_watches(&watches()), 1);
    assert!(watch.end().contains("EOF"), "a cut is not to look like an end");
    assert_eq!(stage.proxy.cut_watches(&watches()), 0);
}

#[test]
fn frozen_watch_stays_open_and_receives_all_events_later() {
    let stage = Stage::new("freeze");
    let mut watch = stage.watch();
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    let freeze = stage.proxy.add(Rule::new(watches(), Action::FreezeWatches));
    stage.create("two").unwrap();
    stage.create("three").unwrap();
    stage.proxy.wait_for_hits(TIMEOUT, freeze, 1).unwrap();
    watch.hears_nothing();
    // A watch that opens while the rule exists is frozen from the start.
    let mut late = stage.watch();
    late.hears_nothing();
    stage.proxy.remove(freeze);
    assert_eq!(watch.next(), ["ADDED", "two"]);
    assert_eq!(watch.next(), ["ADDED", "three"]);
    assert_eq!(late.next(), ["ADDED", "one"]);
}

#[test]
fn open_watch_lags_behind_later_watches() {
    let stage = Stage::new("lag");
    let mut watch = stage.watch();
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    let freeze = stage.proxy.add(Rule::new(watches(), Action::FreezeOpenWatches));
    stage.create("two").unwrap();
    stage.proxy.wait_for_hits(TIMEOUT, freeze, 1).unwrap();
    watch.hears_nothing();
    let mut later = stage.watch();
    assert_eq!(later.next(), ["ADDED", "one"]);
    assert_eq!(later.next(), ["ADDED", "two"]);
    stage.proxy.remove(freeze);
    assert_eq!(watch.next(), ["ADDED", "two"]);
}

#[test]
fn events_are_hidden_from_open_watches() {
    let stage = Stage::new("hide");
    let mut watch = stage.watch();
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    let deleted = Events::of_type("DELETED").named("one");
    let hide = stage
        .proxy
        .add(Rule::new(watches(), Action::HideEvents(deleted)).first(1));
    stage.delete("one");
    stage.proxy.wait_for_hits(TIMEOUT, hide, 1).unwrap();
    stage.create("two").unwrap();
    assert_eq!(watch.next(), ["ADDED", "two"]);
    stage.create("one").unwrap();
    assert_eq!(watch.next(), ["ADDED", "one"]);
    stage.delete("one");
    assert_eq!(watch.next(), ["DELETED", "one"], "only the first was to be hidden");
    assert_eq!(stage.proxy.hits(hide), 1);
}

#[test]
fn watch_is_open_until_its_client_disconnects() {
    let stage = Stage::new("open");
    let watch = stage.watch();
    assert_eq!(stage.proxy.open_watches(&watches()), 1);
    assert_eq!(stage.proxy.open_watches(&Requests::all().on("secrets")), 0);
    drop(watch);
    eventually("the watch is closed", || stage.proxy.open_watches(&watches()) == 0);
}

#[test]
fn watch_replays_its_events() {
    let stage = Stage::new("replay");
    let mut watch = stage.watch();
    let two = Events::of_type("ADDED").named("two");
    stage.proxy.add(Rule::new(watches(), Action::Replay(two)).first(1));
    for name in ["one", "two", "three"] {
        stage.create(name).unwrap();
    }
    for name in ["one", "two", "one", "two", "three"] {
        assert_eq!(watch.next(), ["ADDED", name]);
    }
}
