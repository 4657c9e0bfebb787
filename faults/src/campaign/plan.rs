//! Plans: one fault at one call of one scenario, derived from the calls of the fault-free runs.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::call::Call;
use super::fault::Fault;

/// A run with one fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// The call.
    pub call: Call,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}: {}", self.scenario, self.call, self.fault)
    }
}

/// Returns a plan for every fault of every call. Each call has the number of events that it receives without faults.
#[must_use]
pub fn derive(scenario: &str, calls: &[(Call, usize)]) -> Vec<Plan> {
    let all = calls.iter().flat_map(|(call, events)| {
        let faults = Fault::of(call).into_iter();
        let faults = faults.filter(|fault| *events > 0 || !fault.needs_events());
        faults.map(|fault| Plan {
            scenario: scenario.to_owned(),
            call: call.clone(),
            fault,
        })
    });
    all.collect()
}

/// Returns `count` of the plans in their order, chosen by `seed`: the same seed chooses the same plans.
#[must_use]
pub fn choose(plans: &[Plan], count: usize, seed: u64) -> Vec<Plan> {
    let mut drawn: Vec<(u64, usize)> = plans
        .iter()
        .enumerate()
        .map(|(place, plan)| (lot(plan, seed), place))
        .collect();
    drawn.sort_unstable();
    let mut places: Vec<usize> = drawn.into_iter().take(count).map(|(_, place)| place).collect();
    places.sort_unstable();
    places.into_iter().map(|place| plans[place].clone()).collect()
}

fn lot(plan: &Plan, seed: u64) -> u64 {
    xxh3_64_with_seed(plan.to_string().as_bytes(), seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fault_proxy::Verb;

    fn call(verb: Verb, resource: &str, name: &str) -> Call {
        Call {
            verb,
            resource: resource.to_owned(),
            selector: String::new(),
            name: name.to_owned(),
            nth: 1,
        }
    }

    #[test]
    fn every_call_has_a_plan_for_every_fault() {
        let calls = [
            (call(Verb::Watch, "services", ""), 1),
            (call(Verb::Watch, "pods", ""), 0),
            (call(Verb::Create, "services", "web"), 0),
        ];
        let plans: Vec<String> = derive("app", &calls).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(plans.join("\n"), @r"
        app: watch services: 409
        app: watch services: 410
        app: watch services: 429
        app: watch services: 500
        app: watch services: 503
        app: watch services: 504
        app: watch services: reset
        app: watch services: done but lost
        app: watch services: truncated
        app: watch services: hangs
        app: watch services: cut
        app: watch services: interrupted
        app: watch services: stalled
        app: watch services: frozen
        app: watch services: unobserved
        app: watch services: stale
        app: watch services: GOAWAY
        app: watch services: GOAWAY excludes it
        app: watch services: stream refused
        app: watch services: stream reset
        app: watch services: stalled answer
        app: watch pods: 409
        app: watch pods: 410
        app: watch pods: 429
        app: watch pods: 500
        app: watch pods: 503
        app: watch pods: 504
        app: watch pods: reset
        app: watch pods: done but lost
        app: watch pods: truncated
        app: watch pods: hangs
        app: watch pods: interrupted
        app: watch pods: unobserved
        app: watch pods: stale
        app: watch pods: GOAWAY
        app: watch pods: GOAWAY excludes it
        app: watch pods: stream refused
        app: watch pods: stream reset
        app: watch pods: stalled answer
        app: create services web: crash before
        app: create services web: crash unanswered
        app: create services web: crash after
        app: create services web: 504 but done
        app: create services web: done but hangs
        app: create services web: late after a crash
        app: create services web: 409
        app: create services web: 410
        app: create services web: 429
        app: create services web: 500
        app: create services web: 503
        app: create services web: 504
        app: create services web: reset
        app: create services web: done but lost
        app: create services web: truncated
        app: create services web: hangs
        app: create services web: GOAWAY
        app: create services web: GOAWAY excludes it
        app: create services web: stream refused
        app: create services web: stream reset
        app: create services web: stalled answer
        app: create services web: stalled body
        ");
    }

    #[test]
    fn same_seed_chooses_the_same() {
        let calls = ["services", "pods"].map(|resource| call(Verb::Create, resource, "web"));
        let plans = derive("app", &calls.clone().map(|call| (call, 0)));
        let chosen = choose(&plans, 8, 1);
        assert_eq!(chosen.len(), 8);
        assert_eq!(chosen, choose(&plans, 8, 1));
        assert_ne!(chosen, choose(&plans, 8, 2));
        assert!(calls.iter().all(|call| chosen.iter().any(|plan| plan.call == *call)));
        assert_eq!(choose(&plans, 1000, 1), plans);
    }
}
