//! The guides' commands, as they stand there.

use anyhow::{Context as _, Result, bail, ensure};
use tests::guide;

use crate::registry::Registry;
use crate::world::{Space, World};

pub fn first_app(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "first-app")
}

pub fn podset(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "podset")
}

pub fn looking(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "looking")
}

pub fn changing(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "changing")
}

pub fn gitops(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "gitops")
}

pub fn debugging(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "debugging")
}

pub fn run_outside(world: &World, space: &Space) -> Result<()> {
    let outcome = follow(world, space, "run-outside");
    // The guide takes the operator out of the cluster.
    world.install()?;
    outcome
}

pub fn inside_and_outside(world: &World, space: &Space) -> Result<()> {
    let _registry = Registry::start(&world.checkout)?;
    let outcome = follow(world, space, "inside-and-outside");
    world.install()?;
    outcome
}

pub fn production(world: &World, space: &Space) -> Result<()> {
    let outcome = follow(world, space, "production");
    let _ = world.shell.run("kubectl delete namespace rival --ignore-not-found");
    world.install()?;
    outcome
}

pub fn healing(world: &World, space: &Space) -> Result<()> {
    let outcome = follow(world, space, "healing");
    // The guide takes the operator away for a while, and might end meanwhile.
    world
        .shell
        .run("kubectl scale deployment appdeploy-operator --namespace appdeploy-system --replicas 2")?;
    outcome
}

fn follow(world: &World, space: &Space, name: &str) -> Result<()> {
    let file = world.checkout.root().join(format!("docs/guide/{name}.md"));
    let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
    // A reader's namespace is `default`, the test's is its own.
    let text = text
        .replace(".default", &format!(".{}", space.namespace))
        .replace("-n default", &format!("-n {}", space.namespace))
        .replace("namespace default", &format!("namespace {}", space.namespace));
    let blocks = guide::blocks(&text);
    ensure!(!blocks.is_empty(), "{} has no commands to run", file.display());
    let printed = space.shell.run(&guide::script(&blocks))?;
    match guide::missing(&blocks, &printed) {
        Some(line) => bail!("{} shows\n{line}\nand this was printed:\n{printed}", file.display()),
        None => Ok(()),
    }
}
