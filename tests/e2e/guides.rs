//! The guides' commands, as they stand there.

use anyhow::{Context as _, Result, ensure};
use tests::guide;

use crate::world::{Space, World};

pub fn first_app(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "first-app")
}

pub fn podset(world: &World, space: &Space) -> Result<()> {
    follow(world, space, "podset")
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

fn follow(world: &World, space: &Space, name: &str) -> Result<()> {
    let file = world.checkout.root().join(format!("docs/guide/{name}.md"));
    let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
    // A reader's namespace is `default`, the test's is its own: it shows in nothing but the host.
    let text = text.replace(".default", &format!(".{}", space.namespace));
    let blocks = guide::blocks(&text);
    ensure!(!blocks.is_empty(), "{} has no commands to run", file.display());
    space.shell.run(&guide::script(&blocks)).map(drop)
}
