//! Scenarios: a small cluster and the faults that may happen.

use crate::pods::{Name, Pod};
use crate::rules::{Budget, Clock, Lag, Rules};
use crate::server::Server;
use crate::spec::Spec;
use crate::world::World;

/// The start time if the clock runs. Existing pods are old by then.
const START: i16 = 100;

/// A small cluster and its rules.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub rules: Rules,
    pub operators: usize,
    pub budget: Budget,
    /// Whether the pods of the first spec exist and are ready.
    pub is_up: bool,
}

impl Scenario {
    /// Returns the initial state.
    pub fn start(&self) -> World {
        let first = &self.rules.specs[0];
        let mut server = Server {
            is_timed: self.rules.clock == Clock::Runs,
            ..Server::default()
        };
        let count = if self.is_up { first.valid.replicas } else { 0 };
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

    /// Returns a scenario with one operator and ready pods of the first spec.
    pub fn of(specs: Vec<Spec>) -> Self {
        Self {
            rules: Rules {
                specs,
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

    /// Starts without pods.
    pub fn with_no_pods(mut self) -> Self {
        self.is_up = false;
        self
    }

    /// Lets time pass.
    pub fn timed(mut self) -> Self {
        self.rules.clock = Clock::Runs;
        self
    }

    /// Sets the number of concurrent operators.
    pub fn operators(mut self, operators: usize) -> Self {
        self.operators = operators;
        self
    }

    /// Sets the faults that may happen.
    pub fn with(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Caches receive one change after the other.
    pub fn step_by_step(mut self) -> Self {
        self.rules.lag = Lag::Steps;
        self
    }

    /// Caches may receive changes at any time, also between a request and its response.
    pub fn at_any_time(mut self) -> Self {
        self.rules.lag = Lag::Jumps;
        self
    }

    /// Nothing fails and all caches are current. Then no write may cause an outage.
    pub fn calm(mut self) -> Self {
        self.rules.is_calm = true;
        self.rules.lag = Lag::Never;
        self
    }
}
