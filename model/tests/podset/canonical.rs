//! Renames UIDs and sorts operators, so that states that differ only in these are equal. The decision compares UIDs, and
//! does not order by them.

use std::hash::{Hash, Hasher};

use crate::operator::Operator;
use crate::pods::{Pod, Uid};
use crate::server::Request;
use crate::world::World;

/// The name of all pods and containers that only records of previous pods and containers mention.
const FORGOTTEN: Uid = Uid(u8::MAX);

/// Renames pods and containers.
pub fn rename(world: &mut World) {
    let (mut pods, mut containers) = (Names::default(), Names(vec![0]));
    in_world(world, &mut |name| match name {
        Name::Pod(uid) => pods.learn(uid.0),
        Name::Replaced(_) | Name::Past(_) => {}
        Name::Container(number) => containers.learn(*number),
    });
    in_world(world, &mut |name| match name {
        Name::Pod(uid) | Name::Replaced(uid) => *uid = pods.of(uid.0).map_or(FORGOTTEN, Uid),
        Name::Container(number) | Name::Past(number) => *number = containers.of(*number).unwrap_or(FORGOTTEN.0),
    });
    world.server.next_uid = Uid(pods.count());
    world.server.next_container = containers.count();
    for operator in &mut world.operators {
        operator.flights.sort();
    }
    world.late_requests.sort();
    world.operators.sort_by(|a, b| rank(a).cmp(&rank(b)));
}

/// The old names, indexed by the new ones.
#[derive(Default)]
struct Names(Vec<u8>);

impl Names {
    fn of(&self, old: u8) -> Option<u8> {
        let new = self.0.iter().position(|known| *known == old);
        new.and_then(|new| u8::try_from(new).ok())
    }

    fn learn(&mut self, old: u8) {
        if !self.0.contains(&old) {
            self.0.push(old);
        }
    }

    fn count(&self) -> u8 {
        u8::try_from(self.0.len()).unwrap_or(u8::MAX)
    }
}

/// A name that is replaced.
enum Name<'a> {
    /// The UID of a pod.
    Pod(&'a mut Uid),
    /// The UID of the pod that another one replaces.
    Replaced(&'a mut Uid),
    /// The id of a container that may be running.
    Container(&'a mut u8),
    /// The id of a previous container.
    Past(&'a mut u8),
}

fn in_world(world: &mut World, visit: &mut impl FnMut(Name<'_>)) {
    in_pods(&mut world.server.pods, visit);
    for operator in &mut world.operators {
        in_pods(&mut operator.watched, visit);
        for pods in &mut operator.unheard {
            in_pods(pods, visit);
        }
        for own in &mut operator.own {
            in_pods(std::slice::from_mut(&mut own.pod), visit);
        }
    }
    let flights = world.operators.iter_mut().flat_map(|operator| &mut operator.flights);
    for flight in flights.chain(&mut world.late_requests) {
        in_request(&mut flight.request, visit);
    }
}

fn in_pods(pods: &mut [Pod], visit: &mut impl FnMut(Name<'_>)) {
    for pod in pods {
        visit(Name::Pod(&mut pod.uid));
        if let Some(uid) = &mut pod.replaces {
            visit(Name::Replaced(uid));
        }
        visit(Name::Container(&mut pod.container));
        if let Some(change) = &mut pod.change {
            visit(Name::Past(&mut change.container));
        }
    }
}

fn in_request(request: &mut Request, visit: &mut impl FnMut(Name<'_>)) {
    match request {
        Request::Create { replaces: None, .. } => {}
        Request::Create {
            replaces: Some(uid), ..
        } => visit(Name::Replaced(uid)),
        Request::Update {
            uid, version, change, ..
        } => {
            visit(Name::Pod(uid));
            visit(Name::Past(&mut version.container));
            visit(Name::Past(&mut change.container));
        }
        Request::Delete { uid, .. } | Request::Adopt { uid, .. } | Request::Release { uid, .. } => {
            visit(Name::Pod(uid));
        }
    }
}

/// Returns the sort key of an operator. Operators with the same key may differ in the names that they have found taken.
fn rank(operator: &Operator) -> impl Ord + '_ {
    (
        (operator.spec, operator.pace),
        (&operator.watched, &operator.flights),
        (&operator.unheard, &operator.own),
    )
}

/// Returns the FNV hash of a value, which is fast for small values.
pub fn hash(value: &impl Hash) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    value.hash(&mut hasher);
    hasher.finish()
}
