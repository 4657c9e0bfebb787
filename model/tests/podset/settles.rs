//! From random states to random specs, with one operator.

use model::podset::Phase;
use proptest::prelude::*;
use proptest::sample::select;

use crate::is_long;
use crate::pods::{Change, Controller, Name, Pod, Template, Uid};
use crate::rest::{is_as_desired, settle};
use crate::rules::{Budget, Clock, Lag, Rules};
use crate::server::Server;
use crate::spec::Spec;
use crate::world::World;

/// The start time.
const NOW: i16 = 100;

fn template() -> impl Strategy<Value = Template> {
    (0..2_u8, 0..2_u8).prop_map(|(image, shape)| Template { image, shape })
}

fn spec() -> impl Strategy<Value = Spec> {
    (
        0..5_usize,
        1..4_usize,
        select(vec![0, 0, 10]),
        prop::collection::vec(0..6_u8, 0..3),
        template(),
    )
        .prop_map(|(replicas, max_unavailable, min_ready, replace, template)| {
            let mut spec = Spec::for_pods(replicas).replace(&replace);
            spec.template = template;
            spec.valid.max_unavailable = max_unavailable;
            spec.valid.min_ready = min_ready;
            spec.completed()
        })
}

/// Returns random pods, without name and UID.
fn pod() -> impl Strategy<Value = Pod> {
    let identity = (
        prop_oneof![
            6 => Just(Controller::Set(0)),
            1 => Just(Controller::Set(1)),
            1 => Just(Controller::None),
            1 => Just(Controller::Other),
        ],
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.2),
    );
    let life = (
        select(vec![
            Phase::Running,
            Phase::Running,
            Phase::Pending,
            Phase::Unknown,
            Phase::Finished,
        ]),
        select(vec![0, NOW - 4, NOW]),
        prop::option::of(select(vec![0, NOW - 6, NOW])),
        -1..2_i8,
    );
    let made = (
        prop::option::weighted(0.9, template()),
        prop::bool::weighted(0.2),
        0..2_u8,
        0..2_u8,
    );
    let records = (
        prop::bool::weighted(0.2),
        prop::option::weighted(0.3, (0..6_u8).prop_map(Uid)),
        prop::option::weighted(0.1, 0..2_u8),
    );
    (identity, life, made, records).prop_map(
        |(
            (controller, label, deleting),
            (phase, created, ready, cost),
            (made_from, by_hand, image, container),
            records,
        )| {
            let (is_updated, replaces, released_from) = records;
            let runs_now = phase == Phase::Running;
            let container = if runs_now { container + 1 } else { 0 };
            // The recorded template matches the spec, unless a user has changed the image of the pod. Nothing is guaranteed
            // if a user does that during an update.
            let image_now = made_from
                .filter(|_| is_updated || !by_hand)
                .map_or(image, |from| from.image);
            let is_updated = is_updated && made_from.is_some() && runs_now;
            Pod {
                controller,
                label,
                deleting,
                phase,
                ready_since: ready.filter(|_| runs_now),
                deletion_cost: cost,
                image: image_now,
                runs: if is_updated { image } else { image_now },
                heard: if is_updated { image } else { image_now },
                observed: !is_updated,
                container,
                made_from,
                change: is_updated.then_some(Change {
                    container,
                    image,
                    at: NOW,
                }),
                replaces,
                released_from,
                ..Pod::foreign(Name::Other(0), Uid(0), created)
            }
        },
    )
}

fn start() -> impl Strategy<Value = World> {
    let mut names: Vec<Name> = (0..6).map(Name::Slot).collect();
    names.extend([Name::Other(0), Name::Other(1)]);
    let names = prop::sample::subsequence(names, 0..7);
    (names, prop::collection::vec(pod(), 7))
        .prop_map(|(names, pods)| world_of(names.into_iter().zip(pods).map(|(name, pod)| Pod { name, ..pod })))
}

/// Returns a state with these pods, with new UIDs.
fn world_of(pods: impl IntoIterator<Item = Pod>) -> World {
    let mut server = Server {
        now: NOW,
        next_container: 100,
        is_timed: true,
        ..Server::default()
    };
    for pod in pods {
        let uid = server.fresh_uid();
        server.insert(Pod { uid, ..pod });
    }
    World::new(server, 1, Budget::default())
}

fn rules(specs: Vec<Spec>, lag: Lag, is_calm: bool) -> Rules {
    Rules {
        specs,
        lag,
        clock: Clock::Runs,
        is_calm,
        flaws: Vec::new(),
    }
}

/// Returns random numbers, or always 0 for the seed 0.
fn random(seed: u32) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |count| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % count.max(1)
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if is_long() { 100_000 } else { 2000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// Caches and requests are late, and pods become ready and end in any order.
    #[test]
    fn any_state_reaches_any_spec(mut world in start(), spec in spec(), seed in any::<u32>()) {
        let rules = rules(vec![spec], Lag::Steps, false);
        world.choose(&rules);
        let end = settle(&mut world, &rules, random(seed));
        prop_assert!(end.is_ok(), "does not settle: {end:?}");
        prop_assert_eq!(is_as_desired(&world.server, world.spec(&rules)), Ok(()), "{:?}\n{:#?}", end, world.server);
        prop_assert_eq!(world.breach, None, "{:?}", end);
    }

    /// With current caches and without faults, the operator never leaves too few pods available.
    #[test]
    fn no_write_causes_an_outage(mut world in start(), spec in spec(), seed in any::<u32>()) {
        let rules = rules(vec![spec], Lag::Never, true);
        world.choose(&rules);
        let end = settle(&mut world, &rules, random(seed));
        prop_assert!(end.is_ok(), "does not settle: {end:?}");
        prop_assert_eq!(world.breach, None, "{:?}\n{:#?}", end, world.server);
    }
}

/// Returns a ready pod whose image was changed back, and whose kubelet has not reported since then.
fn in_doubt(name: Name, made_from: Template) -> Pod {
    let (container, image) = (1, made_from.image);
    Pod {
        controller: Controller::Set(0),
        label: true,
        phase: Phase::Running,
        ready_since: Some(0),
        made_from: Some(made_from),
        image,
        runs: image,
        heard: image,
        observed: false,
        container,
        change: Some(Change {
            container,
            image,
            at: NOW,
        }),
        ..Pod::foreign(name, Uid(0), 0)
    }
}

/// Lets the operator settle these pods, and fails if a write leaves too few of them serving.
fn causes_no_outage(pods: &[Pod], spec: Spec, seed: u32) {
    let mut world = world_of(pods.iter().copied());
    let rules = rules(vec![spec], Lag::Never, true);
    world.choose(&rules);
    let end = settle(&mut world, &rules, random(seed)).expect("the operator settles");
    assert_eq!(world.breach, None, "{end:?}\n{:#?}", world.server);
    assert_eq!(is_as_desired(&world.server, world.spec(&rules)), Ok(()), "{end:?}");
}

/// Found by the property tests: the pod to replace was deleted when the other one had just become ready.
#[test]
fn pod_to_replace_that_may_serve_stays_until_another_is_available() {
    let starting = Pod {
        ready_since: None,
        ..in_doubt(Name::Slot(0), Template { image: 0, shape: 0 })
    };
    let chosen = in_doubt(Name::Slot(2), Template { image: 1, shape: 0 });
    let unlabeled = |name, controller| Pod {
        phase: Phase::Running,
        container: 1,
        controller,
        ..Pod::foreign(name, Uid(0), 0)
    };
    let terminating = Pod {
        deleting: true,
        ..unlabeled(Name::Other(1), Controller::Set(0))
    };
    let pods = [
        starting,
        unlabeled(Name::Slot(1), Controller::None),
        chosen,
        unlabeled(Name::Other(0), Controller::Set(0)),
        terminating,
    ];
    causes_no_outage(&pods, Spec::for_pods(1).replace(&[2]), 1_783_121_022);
}

/// Found by the property tests: both pods were changed at the same time, because neither counted as available.
#[test]
fn pods_that_may_serve_are_not_changed_at_the_same_time() {
    let old = Template { image: 1, shape: 0 };
    let pods = [0, 1].map(|slot| in_doubt(Name::Slot(slot), old));
    for seed in 0..200 {
        causes_no_outage(&pods, Spec::for_pods(2), seed);
        causes_no_outage(&pods, Spec::for_pods(2).shape(1), seed);
    }
}
