//! A PodSet against a ReplicaSet: whatever is done to both, at rest they are the same.
//!
//! The same schedule, drawn from a seed, is played on one real API server with fake nodes: sets are scaled, pods are
//! deleted, fail, lose the label and get it back, and strangers with the label appear. After each burst both have to
//! come to rest with as many pods as wanted, and with as many that were released. What a ReplicaSet leaves and a PodSet
//! deletes, a pod that has failed, counts on neither side (docs/adr/0009).
//!
//! `APPDEPLOY_SEED=7` plays one schedule alone. `make test` plays 8 schedules, `make test-long` 200.

mod ending;
mod schedule;
mod side;
mod sight;

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use testcluster::ControlPlane;

use crate::harness::{Cluster, is_long};
use schedule::{Burst, Schedule};
use side::{Rival, Side};
use sight::Sight;

/// How many schedules are played at a time.
const AT_A_TIME: usize = 20;

#[test]
fn pod_set_settles_like_a_replica_set() {
    let cluster = Arc::new(Cluster::start(ControlPlane::builder().fake_nodes(4)).with_operator(&[]));
    let seeds = Mutex::new(seeds().into_iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(seed) = { seeds.lock().unwrap().next() } {
                    let schedule = Schedule::draw(seed);
                    let played = catch_unwind(AssertUnwindSafe(|| play(&cluster, &schedule)));
                    if let Err(failure) = played.unwrap_or(Err("the test panicked, see above".to_owned())) {
                        failures.lock().unwrap().push(format!("{schedule}\n  {failure}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} schedules failed (APPDEPLOY_SEED=<seed> plays one again):\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn seeds() -> Vec<u64> {
    let count = if is_long() { 200 } else { 8 };
    match std::env::var("APPDEPLOY_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// Plays a schedule on both sides, which have to come to the same rest after each burst.
fn play(cluster: &Arc<Cluster>, schedule: &Schedule) -> Result<(), String> {
    let mut sides = Rival::BOTH.map(|rival| {
        let space = cluster.namespace(&format!("{rival:?}-{}", schedule.seed).to_lowercase());
        Side::start(rival, space, schedule.replicas)
    });
    let mut sights = rest(&sides, schedule.replicas, 0..=0)?;
    for (number, burst) in schedule.bursts.iter().enumerate() {
        let compared = compare(&mut sides, &sights, burst);
        sights = compared.map_err(|failure| format!("after burst {number}, {:?}: {failure}", burst.acts))?;
    }
    Ok(())
}

/// Plays a burst on both sides, and waits until they are the same again.
fn compare(sides: &mut [Side; 2], before: &[Sight; 2], burst: &Burst) -> Result<[Sight; 2], String> {
    let mut done = Vec::new();
    for (side, sight) in sides.iter_mut().zip(before) {
        done.push(side.play(burst, sight));
    }
    let (lost, back) = (done[0].stripped.len(), done[0].restored);
    let released = before[0].released.len() - back;
    if !burst.races {
        return rest(sides, burst.replicas, released + lost..=released + lost);
    }
    rest(sides, burst.replicas, released..=released + lost)?;
    // Luck has made them different.
    for (side, done) in sides.iter().zip(done) {
        done.stripped.iter().for_each(|pod| side.delete(pod));
    }
    rest(sides, burst.replicas, released..=released)
}

/// Waits until both have settled, with so many pods and so many released ones.
fn rest(sides: &[Side; 2], replicas: u8, released: RangeInclusive<usize>) -> Result<[Sight; 2], String> {
    Ok([sides[0].rest(replicas, &released)?, sides[1].rest(replicas, &released)?])
}
