//! A small world with a few things that may go wrong.

use crate::pods::{Name, Pod};
use crate::rules::{Budget, Clock, Lag, Rules};
use crate::server::Server;
use crate::wish::Wish;
use crate::world::World;

/// What time it is at the start, where the clock runs: the pods have been there for long.
const START: i16 = 100;

/// A small world and its rules.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub rules: Rules,
    pub operators: usize,
    pub budget: Budget,
    /// Whether the pods of the first wish are there already, and ready.
    pub is_up: bool,
}

impl Scenario {
    /// Returns the world at the start.
    pub fn start(&self) -> World {
        let first = &self.rules.wishes[0];
        let mut server = Server {
            is_timed: self.rules.clock == Clock::Runs,
            ..Server::default()
        };
        let count = if self.is_up { first.wanted.replicas } else { 0 };
        for name in (0..u8::MAX).map(Name::Slot).take(count) {
            let uid = server.fresh_uid();
            server.insert(Pod::created(name, uid, first.set, first.template, 0));
            server.becomes_ready(name);
        }
        if server.is_timed {
            server.now = START;
        }
        let mut world = World::new(server, self.operators, self.budget);
        world.choose(&self.rules);
        world
    }

    /// One operator, and the pods of the first wish are there.
    pub fn of(wishes: Vec<Wish>) -> Self {
        Self {
            rules: Rules {
                wishes,
                lag: Lag::Looks,
                clock: Clock::Stands,
                is_calm: false,
                flaws: Vec::new(),
            },
            operators: 1,
            budget: Budget::default(),
            is_up: true,
        }
    }

    /// No pod is there yet.
    pub fn with_no_pods(mut self) -> Self {
        self.is_up = false;
        self
    }

    /// Time passes, from when the pods have been there for long.
    pub fn timed(mut self) -> Self {
        self.rules.clock = Clock::Runs;
        self
    }

    /// So many operators are active at once.
    pub fn operators(mut self, operators: usize) -> Self {
        self.operators = operators;
        self
    }

    /// This may happen.
    pub fn with(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Caches go through all that was.
    pub fn step_by_step(mut self) -> Self {
        self.rules.lag = Lag::Steps;
        self
    }

    /// Caches may jump at any time, also between a request and its answer.
    pub fn at_any_time(mut self) -> Self {
        self.rules.lag = Lag::Jumps;
        self
    }

    /// Nothing fails, and nobody is behind: then no write may cause an outage.
    pub fn calm(mut self) -> Self {
        self.rules.is_calm = true;
        self.rules.lag = Lag::Never;
        self
    }
}
