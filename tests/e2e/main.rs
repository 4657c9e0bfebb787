//! The demo's story on the real node, as tests.
//!
//! They share the local cluster and one operator, so they run one after the other, each in a namespace of its own;
//! what was there before is there afterwards. `make test-e2e` runs them; `make test-e2e NAME=causes` some of them.

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
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use world::{Found, Space, World};

type Test = fn(&World, &Space) -> Result<()>;

const TESTS: [(&str, Test); 32] = [
    ("demo", story::the_demo_ends_with_a_page_and_can_be_repeated),
    ("children", story::an_app_is_five_kinds_of_objects_and_a_page),
    ("restricted", story::the_operator_runs_in_a_restricted_namespace),
    ("causes", causes::what_is_wrong_is_told_three_ways),
    ("podset", podset::pods_are_kept_scaled_and_deleted),
    ("podset-in-place", podset::an_image_is_changed_in_place),
    ("podset-digest", podset::image_is_pinned_by_digest_under_load),
    ("podset-respelled", podset::image_is_respelled_under_load),
    ("podset-back", podset::image_is_changed_and_changed_back_under_load),
    ("podset-exits", podset::image_that_exits_stays_in_one_pod_under_load),
    (
        "failover-deleted",
        failover::each_child_is_made_once_while_the_leader_is_deleted,
    ),
    (
        "failover-killed",
        failover::each_child_is_made_once_while_the_leader_is_killed,
    ),
    ("private", private::each_sentence_leads_one_step_closer_to_the_page),
    ("logs", logs::all_pods_of_an_app_are_heard),
    ("gitops-leave", gitops::an_app_leaves_and_comes_back_with_the_same_pods),
    ("gitops-come", gitops::what_others_have_made_becomes_an_app),
    ("reach", reach::pods_are_reached),
    ("host", host::host_is_unchanged_by_a_second_cluster),
    ("picture", picture::a_session_is_what_the_readme_shows),
    ("readme", picture::a_transcript_is_what_the_readme_shows),
    ("guide-first-app", guides::first_app),
    ("guide-podset", guides::podset),
    ("guide-looking", guides::looking),
    ("guide-changing", guides::changing),
    ("guide-gitops", guides::gitops),
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
            TESTS.len()
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
    let chosen = TESTS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())));
    let mut found = Found::look()?;
    let world = World::open(image, &mut found)?;
    let (mut passed, mut skipped) = (0, 0);
    let mut failed = Vec::new();
    for (name, test) in chosen {
        say(&format!("test {name} ... "));
        if let Some(reason) = world.cannot(name) {
            say(&format!("skipped: {reason}\n"));
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let outcome = world.space(name).and_then(|space| {
            let outcome = test(&world, &space);
            outcome.map_err(|error| error.context(space.scene()))
        });
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                say(&format!("ok ({seconds:.1} s)\n"));
                passed += 1;
            }
            Err(error) => {
                say(&format!("FAILED ({seconds:.1} s)\n"));
                // The scene first, then what went wrong in it.
                error.chain().for_each(|cause| say(&format!("{cause}\n")));
                failed.push(*name);
            }
        }
    }
    found.restore(&world)?;
    say(&format!(
        "e2e: {passed} passed, {} failed, {skipped} skipped\n",
        failed.len()
    ));
    if !failed.is_empty() {
        say(&format!("failed: {}\n", failed.join(", ")));
    }
    Ok(failed.is_empty())
}

/// Tells the person at once; a closed standard output ends no test.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
