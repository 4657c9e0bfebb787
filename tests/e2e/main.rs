//! End-to-end tests on the real node.
//!
//! They share the local cluster and one operator, and each has its own namespace. At the end the initial state of the
//! cluster is restored. Most of them only wait, so several run concurrently; those that change the operator, the node or
//! the host run alone after that. `make test-e2e` runs them; `make test-e2e NAME=causes` some of them. `make test` runs
//! them while other tests keep the processors busy, so they wait for conditions, with timeouts that only matter if
//! something fails.

mod causes;
mod environment;
mod failover;
mod gitops;
mod guides;
mod host;
mod load;
mod logs;
mod olm;
mod picture;
mod placement;
mod podset;
mod private;
mod queue_server;
mod reach;
mod registry;
mod rollout;
mod story;

use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};

use environment::{Environment, InitialState, TestContext};

type Test = fn(&Environment, &TestContext) -> Result<()>;

/// The number of tests that run concurrently.
const LANES: usize = 4;

/// Tests that need only the operator and their namespace. The slowest come first.
const SHARED: [(&str, Test); 23] = [
    ("guide-queue", guides::queue),
    ("guide-podset", guides::podset),
    ("causes", causes::causes_are_in_status_table_and_waits),
    ("causes-image-volume", causes::missing_image_volumes_are_reported),
    ("causes-user-namespace", causes::missing_user_namespace_is_reported),
    ("podset-exits", podset::image_that_exits_stays_in_one_pod_under_load),
    ("podset-in-place", podset::image_is_changed_in_place),
    ("podset-back", podset::image_is_changed_and_changed_back_under_load),
    ("podset-digest", podset::image_is_pinned_by_digest_under_load),
    ("podset-respelled", podset::image_is_respelled_under_load),
    ("logs", logs::logs_of_all_pods_are_printed),
    ("rollout", rollout::rollout_drops_no_request),
    (
        "private",
        private::suggested_commands_lead_to_a_page_from_a_private_registry,
    ),
    ("guide-containers", guides::containers),
    ("guide-changing", guides::changing),
    ("guide-gitops", guides::gitops),
    (
        "gitops-come",
        gitops::third_party_deployment_is_adopted_without_dropped_requests,
    ),
    ("guide-first-app", guides::first_app),
    ("guide-workload-identity", guides::workload_identity),
    ("children", story::app_has_five_kinds_of_objects_and_a_page),
    ("guide-looking", guides::looking),
    ("podset", podset::pods_are_replaced_scaled_and_deleted),
    ("reach", reach::exec_and_port_forward_reach_pods),
];

/// Tests that run alone: they change the operator, taint the node, or compare the whole host.
const ALONE: [(&str, Test); 17] = [
    ("demo", story::demo_prints_a_page_and_can_be_repeated),
    ("restricted", story::operator_runs_in_a_restricted_namespace),
    ("causes-taint", causes::taint_is_reported),
    (
        "failover-deleted",
        failover::children_are_created_once_while_the_leader_is_deleted,
    ),
    (
        "failover-killed",
        failover::children_are_created_once_while_the_leader_is_killed,
    ),
    ("gitops-leave", gitops::app_is_ejected_and_adopted_with_the_same_pods),
    ("host", host::host_is_unchanged_by_a_second_cluster),
    ("picture", picture::picture_of_the_readme_is_current),
    ("readme", picture::transcript_of_the_readme_is_current),
    ("guide-debugging", guides::debugging),
    ("guide-run-outside", guides::run_outside),
    ("guide-inside-and-outside", guides::inside_and_outside),
    ("guide-production", guides::production),
    ("guide-healing", guides::healing),
    ("guide-config-files", guides::config_files),
    (
        "placement",
        placement::operator_outside_the_cluster_creates_the_same_children,
    ),
    // Last: it replaces the operator.
    ("olm", olm::app_works_with_an_operator_from_olm),
];

fn main() -> ExitCode {
    let Some(image) = std::env::var("E2E_IMAGE").ok().filter(|image| !image.is_empty()) else {
        say(&format!(
            "e2e: {} skipped: they need a cluster on this machine, `make test-e2e` runs them\n",
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
    let mut initial = InitialState::read()?;
    let environment = Environment::start(image, &mut initial)?;
    let summary = Mutex::new(Summary::default());
    for (lanes, tests) in [(LANES, &SHARED[..]), (1, &ALONE[..])] {
        let queue = Mutex::new(tests.iter().filter(|(name, _)| is_wanted(name)));
        thread::scope(|scope| {
            for _ in 0..lanes {
                scope.spawn(|| {
                    let next = || lock(&queue).next();
                    while let Some((name, test)) = next() {
                        let ended = run_one(&environment, name, *test);
                        lock(&summary).add(name, ended);
                    }
                });
            }
        });
        environment.until_clean()?;
    }
    initial.restore(&environment)?;
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

/// The results so far.
#[derive(Default)]
struct Summary {
    passed: usize,
    skipped: usize,
    failed: Vec<&'static str>,
}

/// The result of a test.
enum Ended {
    Skipped(&'static str),
    Ran {
        outcome: Result<()>,
        notes: String,
        seconds: f64,
    },
}

impl Summary {
    /// Counts a result and prints its line.
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
                // The state of the cluster first, then the error.
                error.chain().for_each(|cause| say(&format!("{cause}\n")));
                self.failed.push(name);
            }
        }
    }
}

fn run_one(environment: &Environment, name: &str, test: Test) -> Ended {
    if let Some(reason) = environment.skip_reason(name) {
        return Ended::Skipped(reason);
    }
    let start = Instant::now();
    let mut notes = String::new();
    let outcome = environment.context(name).and_then(|context| {
        // A test that panics must not end the others.
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| test(environment, &context)));
        let outcome = outcome.unwrap_or_else(|_| bail!("the test panicked: stderr has the message"));
        notes = context.notes();
        outcome.map_err(|error| error.context(context.describe()))
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

/// Prints text immediately. A closed standard output does not end the tests.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
