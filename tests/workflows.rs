//! The CI workflows only call `make`, as a developer does.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testcluster::checkout::root;

/// Permissions of jobs beyond reading the code, and their reasons.
const MORE: [(&str, &str); 4] = [
    // It pushes the images.
    ("images", "packages"),
    // It creates the release.
    ("publish", "contents"),
    // It signs the origin of each file, with the workflow's own identity.
    ("publish", "attestations"),
    ("publish", "id-token"),
];

/// Returns each workflow with its name.
fn workflows() -> Result<Vec<(String, Value)>> {
    let mut workflows = Vec::new();
    for file in std::fs::read_dir(root().join(".github/workflows"))? {
        let path = file?.path();
        let text = std::fs::read_to_string(&path)?;
        let workflow = serde_yaml::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))?;
        workflows.push((path.display().to_string(), workflow));
    }
    ensure!(workflows.len() > 1, "there are only {} workflows", workflows.len());
    Ok(workflows)
}

fn jobs(workflow: &Value) -> impl Iterator<Item = (&String, &Value)> {
    workflow["jobs"].as_object().into_iter().flatten()
}

fn steps(workflow: &Value) -> impl Iterator<Item = &Value> {
    jobs(workflow).flat_map(|(_, job)| job["steps"].as_array().into_iter().flatten())
}

#[test]
fn workflows_run_only_targets_of_make() -> Result<()> {
    let makefile = std::fs::read_to_string(root().join("Makefile"))?;
    let is_target = |word: &str| makefile.lines().any(|line| line.starts_with(&format!("{word}:")));
    for (name, workflow) in workflows()? {
        for run in steps(&workflow).filter_map(|step| step["run"].as_str()) {
            let mut words = run.split(' ');
            assert_eq!(words.next(), Some("make"), "`{run}` in {name}");
            for word in words {
                let is_variable = word.split_once('=').is_some_and(|(variable, _)| variable == "CLUSTER");
                assert!(is_variable || is_target(word), "{word} in `{run}` in {name}");
            }
        }
    }
    Ok(())
}

/// A CI checkout has one commit, and a runner is not root.
#[test]
fn ci_tests_have_the_history_and_the_rights_that_they_need() -> Result<()> {
    let path = root().join(".github/workflows/ci.yaml");
    let ci: Value = serde_yaml::from_str(&std::fs::read_to_string(path)?)?;
    let steps = ci["jobs"]["test"]["steps"].as_array().context("no steps")?;
    let checkout = steps.iter().find(|step| {
        step["uses"]
            .as_str()
            .is_some_and(|uses| uses.starts_with("actions/checkout@"))
    });
    assert_eq!(checkout.context("no checkout")?["with"]["fetch-depth"], 0);
    let test = steps.iter().find(|step| step["run"] == "make test");
    assert_eq!(test.context("no tests")?["env"]["YES"], "1");
    Ok(())
}

/// A tag can be moved to other code, a commit can't. The version is in a comment after it.
#[test]
fn actions_are_pinned_to_commits() -> Result<()> {
    for file in std::fs::read_dir(root().join(".github/workflows"))? {
        let path = file?.path();
        let text = std::fs::read_to_string(&path)?;
        let uses = text.lines().filter_map(|line| line.trim().strip_prefix("- uses: "));
        let mut count = 0;
        for action in uses {
            count += 1;
            let place = format!("{action} in {}", path.display());
            let pin = action.split_once('@').map(|(_, pin)| pin);
            let (commit, version) = pin.and_then(|pin| pin.split_once(" # v")).context(place.clone())?;
            let is_commit = commit.len() == 40 && commit.chars().all(|digit| digit.is_ascii_hexdigit());
            let is_version =
                version.split('.').count() == 3 && version.split('.').all(|part| part.parse::<u8>().is_ok());
            assert!(is_commit && is_version, "{place}");
        }
        assert!(count > 0, "{} uses no action", path.display());
    }
    Ok(())
}

/// All inputs of a release are pinned by content, not by names whose content changes.
#[test]
fn inputs_of_a_release_are_pinned_by_content() -> Result<()> {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned());
    let dockerfile = read("Dockerfile")?;
    let bases = dockerfile.lines().filter_map(|line| line.strip_prefix("FROM "));
    for base in bases.filter(|base| *base != "scratch") {
        let digest = base
            .split_once("@sha256:")
            .map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
        assert_eq!(digest.map(str::len), Some(64), "{base}");
    }
    for file in ["packages/zig.txt", "testcluster/traefik.txt"] {
        let text = read(file)?.replace("\\\n", " ");
        let packages = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut count = 0;
        for package in packages {
            count += 1;
            assert!(
                package.contains("==") && package.matches("--hash=sha256:").count() >= 2,
                "{package} in {file}"
            );
        }
        assert!(count > 0, "{file} names no package");
    }
    Ok(())
}

/// The packages of a job name the image that the previous job has pushed, by its digest.
#[test]
fn released_manifests_name_the_image_that_was_pushed() -> Result<()> {
    let path = root().join(".github/workflows/release.yaml");
    let release: Value = serde_yaml::from_str(&std::fs::read_to_string(path)?)?;
    let place = |job: &Value, command: &str| {
        let steps = job["steps"].as_array()?;
        let runs = |step: &Value| step["run"].as_str().is_some_and(|run| run.contains(command));
        steps.iter().position(runs)
    };

    let images = &release["jobs"]["images"];
    let pushed = place(images, "docker-push").context("no image is pushed")?;
    let pinned = place(images, "pin-image").context("the pushed image is not pinned")?;
    let bundled = place(images, "bundle-build").context("no bundle is built")?;
    assert!(pushed < pinned && pinned < bundled, "{pushed} {pinned} {bundled}");
    let (push, pin) = (&images["steps"][pushed], &images["steps"][pinned]);
    assert_eq!(push["env"]["IMG"], pin["env"]["IMG"]);
    let id = pin["id"].as_str().context("the step has no id")?;
    assert_eq!(
        images["outputs"]["digest"],
        format!("${{{{ steps.{id}.outputs.digest }}}}")
    );

    let mut packing = 0;
    for (name, job) in jobs(&release) {
        let Some(packs) = place(job, "make dist") else { continue };
        packing += 1;
        assert!(
            job["needs"].to_string().contains("\"images\""),
            "{name} does not wait for the images"
        );
        let pins = place(job, "make pin-image").with_context(|| format!("{name} does not pin the image"))?;
        assert!(pins < packs, "{name} packs before it pins the image");
        let digest = &job["steps"][pins]["env"]["DIGEST"];
        assert_eq!(digest, "${{ needs.images.outputs.digest }}", "{name}");
    }
    ensure!(packing == 2, "{packing} jobs pack something");
    Ok(())
}

#[test]
fn jobs_have_only_the_permissions_that_they_need() -> Result<()> {
    for (name, workflow) in workflows()? {
        assert_eq!(
            workflow["permissions"],
            serde_json::json!({"contents": "read"}),
            "{name}"
        );
        for (job, described) in jobs(&workflow) {
            for (what, how) in described["permissions"].as_object().into_iter().flatten() {
                let is_known = MORE.contains(&(job.as_str(), what.as_str()));
                assert!(how == "read" || is_known, "{job} in {name} may {how} {what}");
            }
        }
    }
    Ok(())
}
