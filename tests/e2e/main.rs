//! The demo's story on the real node, as tests.
//!
//! They share the local cluster and one operator, each in a namespace of its own; what was there before is there afterwards.
//! Most of them only wait, so several run at a time; those that change the operator, the node or the host run alone after
//! that. `make test-e2e` runs them; `make test-e2e NAME=causes` some of them.

mod causes;
mod failover;
mod gitops;
mod guides;
mod host;
mod logs;
mod olm;
mod picture;
mod placement;
mod podset;
mod private;
mod reach;
mod registry;
mod story;
mod world;

use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};

use world::{Found, Space, World};

type Test = fn(&World, &Space) -> Result<()>;

/// How many tests run at a time.
const LANES: usize = 3;

/// Tests that need nothing but the operator and their namespace, those that take longest first.
const SHARED: [(&str, Test); 13] = [
    ("guide-podset", guides::podset),
    ("causes", causes::what_is_wrong_is_told_three_ways),
    ("podset-in-place", podset::an_image_is_changed_in_place),
    ("logs", logs::all_pods_of_an_app_are_heard),
    ("private", private::each_sentence_leads_one_step_closer_to_the_page),
    ("guide-changing", guides::changing),
    ("guide-gitops", guides::gitops),
    ("gitops-come", gitops::what_others_have_made_becomes_an_app),
    ("guide-first-app", guides::first_app),
    ("children", story::an_app_is_five_kinds_of_objects_and_a_page),
    ("guide-looking", guides::looking),
    ("podset", podset::pods_are_kept_scaled_and_deleted),
    ("reach", reach::pods_are_reached),
];

/// Tests that run alone: they change the operator, taint the node, look at the whole host, or depend on how fast it answers.
const ALONE: [(&str, Test); 20] = [
    ("demo", story::the_demo_ends_with_a_page_and_can_be_repeated),
    ("restricted", story::the_operator_runs_in_a_restricted_namespace),
    ("causes-taint", causes::a_taint_is_reported),
    (
        "failover-deleted",
        failover::each_child_is_made_once_while_the_leader_is_deleted,
    ),
    (
        "failover-killed",
        failover::each_child_is_made_once_while_the_leader_is_killed,
    ),
    // A pod that is slow to answer counts as one that is down.
    ("podset-digest", podset::image_is_pinned_by_digest_under_load),
    ("podset-respelled", podset::image_is_respelled_under_load),
    ("podset-back", podset::image_is_changed_and_changed_back_under_load),
    ("podset-exits", podset::image_that_exits_stays_in_one_pod_under_load),
    ("gitops-leave", gitops::an_app_leaves_and_comes_back_with_the_same_pods),
    ("host", host::host_is_unchanged_by_a_second_cluster),
    ("picture", picture::a_session_is_what_the_readme_shows),
    ("readme", picture::a_transcript_is_what_the_readme_shows),
    ("guide-debugging", guides::debugging),
    ("guide-run-outside", guides::run_outside),
    ("guide-inside-and-outside", guides::inside_and_outside),
    ("guide-production", guides::production),
    ("guide-healing", guides::healing),
    ("placement", placement::outside_and_inside_make_the_same),
    // Last: it takes the operator out, and another one in.
    ("olm", olm::olm_installs_it_and_an_app_works),
];

fn main() -> ExitCode {
    let Some(image) = std::env::var("E2E_IMAGE").ok().filter(|image| !image.is_empty()) else {
        say(&format!(
            "e2e: {} skipped: they take this machine for a cluster, `make test-e2e` runs them\n",
            SHARED.len() + ALONE.len()
        ));
        return ExitCode::SUCCESS;
    };
    match run(image) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

fn run(image: String) -> Result<bool> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let mut found = Found::look()?;
    let world = World::open(image, &mut found)?;
    let summary = Mutex::new(Summary::default());
    for (lanes, tests) in [(LANES, &SHARED[..]), (1, &ALONE[..])] {
        let queue = Mutex::new(tests.iter().filter(|(name, _)| is_wanted(name)));
        thread::scope(|scope| {
            for _ in 0..lanes {
                scope.spawn(|| {
                    let next = || lock(&queue).next();
                    while let Some((name, test)) = next() {
                        let ended = run_one(&world, name, *test);
                        lock(&summary).add(name, ended);
                    }
                });
            }
        });
        world.until_clean()?;
    }
    found.restore(&world)?;
    let Summary {
        passed,
        skipped,
        failed,
    } = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    say(&format!(
        "e2e: {passed} passed, {} failed, {skipped} skipped\n",
        failed.len()
    ));
    if !failed.is_empty() {
        say(&format!("failed: {}\n", failed.join(", ")));
    }
    Ok(failed.is_empty())
}

/// What became of the tests so far.
#[derive(Default)]
struct Summary {
    passed: usize,
    skipped: usize,
    failed: Vec<&'static str>,
}

/// What became of one.
enum Ended {
    Skipped(&'static str),
    Ran {
        outcome: Result<()>,
        notes: String,
        seconds: f64,
    },
}

impl Summary {
    /// Counts a test and prints its line.
    fn add(&mut self, name: &'static str, ended: Ended) {
        match ended {
            Ended::Skipped(reason) => {
                say(&format!("test {name} ... skipped: {reason}\n"));
                self.skipped += 1;
            }
            Ended::Ran {
                outcome: Ok(()),
                notes,
                seconds,
            } => {
                say(&format!("test {name} ... {notes}ok ({seconds:.1} s)\n"));
                self.passed += 1;
            }
            Ended::Ran {
                outcome: Err(error),
                notes,
                seconds,
            } => {
                say(&format!("test {name} ... {notes}FAILED ({seconds:.1} s)\n"));
                // The scene first, then what went wrong in it.
                error.chain().for_each(|cause| say(&format!("{cause}\n")));
                self.failed.push(name);
            }
        }
    }
}

fn run_one(world: &World, name: &str, test: Test) -> Ended {
    if let Some(reason) = world.cannot(name) {
        return Ended::Skipped(reason);
    }
    let start = Instant::now();
    let mut notes = String::new();
    let outcome = world.space(name).and_then(|space| {
        // A test that panics must not end the others.
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| test(world, &space)));
        let outcome = outcome.unwrap_or_else(|_| bail!("it panicked: stderr says where"));
        notes = space.notes();
        outcome.map_err(|error| error.context(space.scene()))
    });
    Ended::Ran {
        outcome,
        notes,
        seconds: start.elapsed().as_secs_f64(),
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the person at once; a closed standard output ends no test.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
