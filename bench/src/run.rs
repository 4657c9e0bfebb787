//! One run of one contender, from an empty cluster to the end.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::cluster::{Cluster, tally};
use crate::contender::Entry;
use crate::drift::{self, Change, Drift, millis};
use crate::floor;
use crate::loader::{last, load, send};
use crate::observer::{Pending, Test};
use crate::program::Program;
use crate::request::{Key, Sent, create_app, image, set_image};
use crate::result::{Converge, Operator, Restart, Run, Steady, Tally, Update};
use crate::seen::Seen;
use crate::statistics::{Spread, number};

/// How long all apps together may take.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// The number of apps whose images are changed one after the other.
const CHANGES: usize = 200;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of apps.
    pub apps: usize,
    /// The number of the round, from 1.
    pub round: usize,
    /// How many seconds to record requests in a steady cluster; 0 for none.
    pub steady_s: u64,
}

/// Makes one run.
///
/// # Errors
/// When a contender does not behave as an operator must.
pub fn run(entry: &Entry, size: Size, load_before: f64, note: &mut dyn FnMut(&str)) -> Result<Run> {
    let cluster = Cluster::start(entry).context("failed to start a cluster")?;
    let keys: Vec<Key> = (0..size.apps).map(Key::of).collect();
    let stage = Stage { cluster, entry, keys };
    let (converge, operator) = if entry.program.is_some() {
        let (converge, operator) = stage.operator(size, note)?;
        (converge, Some(operator))
    } else {
        note("creates all");
        (stage.converge(None)?, None)
    };
    Ok(Run {
        contender: entry.contender,
        apps: size.apps,
        round: size.round,
        load_before,
        converge,
        operator,
    })
}

/// A cluster for one contender, and the apps that it is to have.
pub(crate) struct Stage<'a> {
    pub cluster: Cluster,
    pub entry: &'a Entry,
    pub keys: Vec<Key>,
}

impl Stage<'_> {
    fn operator(&self, size: Size, note: &mut dyn FnMut(&str)) -> Result<(Converge, Operator)> {
        note("starts");
        let mut program = self.start()?;
        let start = program.until_ready()?;
        program.until_quiet()?;
        let idle = program.memory()?;

        note("creates all");
        let before = program.cpu()?;
        let converge = self.converge(Some(&mut program))?;
        let open = program.open(self.cluster.address())?;
        program.until_quiet()?;
        let cpu = program.cpu()?.saturating_sub(before);
        let steady = self.steady(size.steady_s, note)?;
        let settled = program.memory()?;

        note("starts again");
        program.stop()?;
        let (mut program, restart) = self.restart()?;
        note("changes some");
        let (change_ms, unchanged) = self.block_on(drift::send_all(
            &self.cluster.people,
            &self.cluster.observer,
            self.changes(&image(2), CHANGES)?,
        ))?;
        ensure!(unchanged == 0, "{unchanged} Deployments did not get their image");
        program.until_quiet()?;
        note("changes all");
        let update = self.update(&mut program)?;
        note("restores children");
        let (restored_ms, not_restored) = self.drift(size.apps, Drift::Changed)?;
        let (recreated_ms, not_recreated) = self.drift(size.apps, Drift::Deleted)?;
        program.stop()?;
        let operator = Operator {
            program_mib: self.program_mib()?,
            start_ms: ms(start),
            idle_mib: idle.now_mib,
            cpu_ms_per_app: ms(cpu) / number(size.apps),
            connections: open.connections,
            descriptors: open.descriptors,
            settled_mib: settled.now_mib,
            peak_mib: settled.peak_mib,
            steady,
            restart,
            change_ms,
            update,
            restored_ms,
            recreated_ms,
            lost: not_restored + not_recreated,
        };
        Ok((converge, operator))
    }

    /// Changes or deletes some children. Returns the times until they were restored, and how many were not.
    fn drift(&self, apps: usize, drift: Drift) -> Result<(Spread, usize)> {
        let changes = drift::changes(apps, drift, &self.cluster.observer)?;
        self.block_on(drift::send_all(&self.cluster.people, &self.cluster.observer, changes))
    }

    /// Creates all apps, and waits until each has converged.
    pub fn converge(&self, program: Option<&mut Program>) -> Result<Converge> {
        let mark = self.cluster.mark()?;
        let pending = self.expect(&self.keys, |_| Seen::is_converged);
        let requests = self.requests(create_app)?;
        let (apiserver, etcd) = self.cluster.cpu()?;
        let begin = Instant::now();
        let answers = self.block_on(async {
            match program {
                Some(_) => load(&self.cluster.people, requests).await,
                None => floor::run(&self.cluster.people, &self.cluster.operator, requests).await,
            }
        })?;
        let reached = self.block_on(self.cluster.observer.wait_for_all(pending, TIMEOUT))?;
        let end = reached.values().max().context("there are no apps")?;
        let (apiserver_after, etcd_after) = self.cluster.cpu()?;
        if let Some(program) = program {
            program.until_quiet()?;
        }
        let (asked, _) = self.cluster.since(mark)?;
        let each = answers
            .iter()
            .filter_map(|answer| millis(&reached, &answer.key, answer.at));
        Ok(Converge {
            all_s: (*end - begin).as_secs_f64(),
            created_s: last(&answers).saturating_duration_since(begin).as_secs_f64(),
            each_ms: Spread::of(each.collect()),
            failed: asked.clone().failed().count(),
            asked: tally(&asked),
            apiserver_cpu_s: apiserver_after.saturating_sub(apiserver).as_secs_f64(),
            etcd_cpu_s: etcd_after.saturating_sub(etcd).as_secs_f64(),
        })
    }

    pub fn steady(&self, seconds: u64, note: &mut dyn FnMut(&str)) -> Result<Option<Steady>> {
        if seconds == 0 {
            return Ok(None);
        }
        note("does nothing");
        let mark = self.cluster.mark()?;
        thread::sleep(Duration::from_secs(seconds));
        let (asked, _) = self.cluster.since(mark)?;
        Ok(Some(Steady {
            seconds,
            asked: Tally(asked.tally()),
        }))
    }

    /// Starts the operator twice: once to count its requests, once to measure how long a new app waits.
    pub fn restart(&self) -> Result<(Program, Restart)> {
        let revision = self.cluster.revision()?;
        let mark = self.cluster.mark()?;
        let mut program = self.start()?;
        let ready = program.until_ready()?;
        program.until_quiet()?;
        let after = self.cluster.revision()?;
        let (asked, others) = self.cluster.since(mark)?;
        let foreign = others.writes().that(|request| request.code < 300).count();
        let memory = program.memory()?;
        program.stop()?;

        let canary = Key {
            name: "canary".to_owned(),
            ..Key::of(0)
        };
        let pending = self.expect(std::slice::from_ref(&canary), |_| Seen::is_converged);
        let mut program = self.start()?;
        let created = self.block_on(send(&self.cluster.people, canary.clone(), create_app(&canary)?))?;
        let reached = self.block_on(self.cluster.observer.wait_for_all(pending, TIMEOUT))?;
        program.until_ready()?;
        program.until_quiet()?;
        let restart = Restart {
            ready_ms: ms(ready),
            asked: tally(&asked),
            revisions: after - revision - i64::try_from(foreign)?,
            settled_mib: memory.now_mib,
            peak_mib: memory.peak_mib,
            canary_ms: millis(&reached, &canary, created.at).context("there is no canary")?,
        };
        Ok((program, restart))
    }

    /// Returns changes of the images of some apps, which are spread over all.
    pub fn changes(&self, image: &str, count: usize) -> Result<Vec<Change>> {
        Self::change_images(&self.keys, image, count)
    }

    /// Like [`Stage::changes`], of these apps.
    pub fn change_images(keys: &[Key], image: &str, count: usize) -> Result<Vec<Change>> {
        let count = count.min(keys.len());
        let some = (0..count).map(|number| &keys[number * keys.len() / count]);
        let change = |key: &Key| {
            let wanted = image.to_owned();
            Ok(Change {
                request: set_image(key, image)?,
                test: Box::new(move |seen| seen.has_image(&wanted)),
                key: key.clone(),
            })
        };
        some.map(change).collect()
    }

    fn update(&self, program: &mut Program) -> Result<Update> {
        let mark = self.cluster.mark()?;
        let wanted = image(3);
        let pending = self.expect(&self.keys, |_| {
            let wanted = wanted.clone();
            move |seen: &Seen| seen.has_image(&wanted) && seen.is_converged()
        });
        let requests = self.requests(|key| set_image(key, &wanted))?;
        let begin = Instant::now();
        self.block_on(load(&self.cluster.people, requests))?;
        let reached = self.block_on(self.cluster.observer.wait_for_all(pending, TIMEOUT))?;
        let end = reached.values().max().context("there are no apps")?;
        program.until_quiet()?;
        let (asked, _) = self.cluster.since(mark)?;
        Ok(Update {
            all_s: (*end - begin).as_secs_f64(),
            asked: tally(&asked),
        })
    }

    pub fn start(&self) -> Result<Program> {
        self.start_with(&[])
    }

    /// Starts the contender with additional flags.
    pub fn start_with(&self, flags: &[&str]) -> Result<Program> {
        Program::start_with(self.entry, self.cluster.kubeconfig(), &self.cluster.log(), flags)
    }

    /// Begins to test these apps at each of their changes.
    pub fn expect<T>(&self, keys: &[Key], test: impl Fn(&Key) -> T) -> Pending
    where
        T: FnMut(&Seen) -> bool + Send + 'static,
    {
        let tests = keys.iter().map(|key| (key.clone(), Box::new(test(key)) as Test));
        self.cluster.observer.expect(tests)
    }

    fn requests(&self, request: impl Fn(&Key) -> Result<Sent>) -> Result<Vec<(Key, Sent)>> {
        self.keys.iter().map(|key| Ok((key.clone(), request(key)?))).collect()
    }

    fn program_mib(&self) -> Result<Option<f64>> {
        let Some(program) = &self.entry.program else {
            return Ok(None);
        };
        let bytes = usize::try_from(std::fs::metadata(program)?.len())?;
        Ok(Some(number(bytes) / f64::from(1 << 20)))
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.cluster.runtime.block_on(future)
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
