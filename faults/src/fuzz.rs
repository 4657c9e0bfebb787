//! Fuzzing: random mutations of valid inputs.
//!
//! A target takes bytes and returns a value that describes the result. An input with a new value is mutated further, so
//! that later checks are reached after earlier ones; this needs no instrumentation and works on a stable compiler. An
//! input that makes a target panic is stored with the seeds, and is a regression test from then on.

mod mutation;

use std::collections::HashSet;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use mutation::Mutator;

/// The variable with the number of seconds for each target.
const SECONDS: &str = "APPDEPLOY_FUZZ_SECONDS";
/// The variable with the seed of the random numbers.
const SEED: &str = "APPDEPLOY_FUZZ_SEED";
/// The time without [`SECONDS`]: enough to see that it works.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum number of inputs that are mutated further.
const MOST: usize = 5_000;
/// The prefix of files whose content once made a target panic.
const FOUND: &str = "found-";

/// The result of fuzzing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of different values that the target returned.
    pub words: usize,
    /// The longest time that the target took for an input.
    pub longest: Duration,
}

/// Runs a target with the files of a folder, and then with random mutations of them.
///
/// # Errors
/// When an input makes the target panic, with the file that it was written to; and when the folder can't be read.
pub fn run<W: Hash>(corpus: &Path, target: impl Fn(&[u8]) -> W) -> Result<Tried> {
    let seconds = env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    // Without a time it is a test, which does the same each time.
    let seed = seed.unwrap_or_else(|| if seconds.is_some() { now() } else { 1 });
    let time = seconds.map_or(POLL_INTERVAL, Duration::from_secs);
    Fuzz::new(corpus, seed)?.run(time, target)
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs())
}

struct Fuzz<'a> {
    corpus: &'a Path,
    seed: u64,
    inputs: Vec<Vec<u8>>,
    mutator: Mutator,
    seen: HashSet<u64>,
}

impl<'a> Fuzz<'a> {
    fn new(corpus: &'a Path, seed: u64) -> Result<Self> {
        let mut files: Vec<PathBuf> = fs::read_dir(corpus)
            .with_context(|| format!("failed to read {}", corpus.display()))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.sort();
        let inputs: Vec<Vec<u8>> = files.iter().map(fs::read).collect::<Result<_, _>>()?;
        if inputs.is_empty() {
            bail!("{} has no seeds", corpus.display());
        }
        Ok(Self {
            mutator: Mutator::new(seed, &inputs),
            corpus,
            seed,
            inputs,
            seen: HashSet::new(),
        })
    }

    fn run<W: Hash>(mut self, time: Duration, target: impl Fn(&[u8]) -> W) -> Result<Tried> {
        let (mut count, mut longest) = (0, Duration::ZERO);
        for input in self.inputs.clone() {
            let word = self.word(&input, &target)?;
            self.seen.insert(word);
            count += 1;
        }
        let started = Instant::now();
        while started.elapsed() < time {
            let input = self.mutator.change(&self.inputs);
            let began = Instant::now();
            let word = self.word(&input, &target)?;
            longest = longest.max(began.elapsed());
            if self.seen.insert(word) && self.inputs.len() < MOST {
                self.inputs.push(input);
            }
            count += 1;
        }
        Ok(Tried {
            inputs: count,
            words: self.seen.len(),
            longest,
        })
    }

    /// Returns the target's value for an input, as a hash.
    fn word<W: Hash>(&self, input: &[u8], target: impl Fn(&[u8]) -> W) -> Result<u64> {
        let Ok(word) = catch_unwind(AssertUnwindSafe(|| target(input))) else {
            let path = self.corpus.join(format!("{FOUND}{:016x}", xxh3_64(input)));
            fs::write(&path, input).with_context(|| format!("failed to write {}", path.display()))?;
            bail!(
                "an input caused a panic, with the seed {}: {}\n{}",
                self.seed,
                path.display(),
                String::from_utf8_lossy(input)
            );
        };
        let mut hasher = Xxh3::new();
        word.hash(&mut hasher);
        Ok(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each letter is a new value, so the fuzzer finds the third one, which random input would not.
    #[test]
    fn inputs_with_new_results_are_mutated_and_panics_are_stored() -> Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("seed"), "[a, b]")?;
        fs::write(folder.path().join("words"), "open sesame please")?;
        let target = |input: &[u8]| {
            let text = String::from_utf8_lossy(input);
            let words = ["sesame", "a", "please"];
            let known: Vec<bool> = words.iter().map(|word| text.contains(word)).collect();
            assert!(known.contains(&false) || !text.starts_with('['), "it is open");
            known
        };
        let error = Fuzz::new(folder.path(), 1)?
            .run(Duration::from_secs(60), target)
            .err()
            .context("it was not found")?;
        assert!(
            error.to_string().contains("an input caused a panic, with the seed 1: "),
            "{error}"
        );
        let kept = fs::read_dir(folder.path())?.count();
        assert_eq!(kept, 3);
        assert!(
            Fuzz::new(folder.path(), 2)?.run(Duration::ZERO, target).is_err(),
            "at once"
        );
        Ok(())
    }
}
