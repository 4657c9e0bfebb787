//! Why a pod of an object is not healthy or does not start. No pod's status has it: it was read from the kubelet's Events.

use std::time::Duration;

use model::pod::{EventQuery, PodEvent, PodState};
use tokio::time::Instant;

use super::ObjectStates;
use crate::backoff::Backoff;
use crate::key::Key;

/// How long fetched events are used. While a pod stays as it is, they rarely change; that is not worth more requests.
const LIFETIME: Duration = Duration::from_secs(300);

/// Delays between fetches that found nothing. An Event is created later than what it reports, and a server may be busy.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(15), LIFETIME);

/// The events of one pod that explain the status of an object.
#[derive(Debug)]
pub struct ProbeEvents {
    question: EventQuery,
    /// When they are fetched again.
    due: Instant,
    /// Fetches in a row that found nothing.
    missed: u32,
    answer: Option<PodEvent>,
}

impl ProbeEvents {
    fn new(question: EventQuery) -> Self {
        Self {
            question,
            due: Instant::now() + LIFETIME,
            missed: 0,
            answer: None,
        }
    }
}

impl<S> ObjectStates<S> {
    /// Records which pod's events explain the status of an object, if any do. Returns whether to fetch them now.
    pub fn need_probe_events(&self, key: &Key, question: Option<&EventQuery>) -> bool {
        let needed = self.with(key, |state| {
            let Some(question) = question else {
                state.probe_events = None;
                return false;
            };
            match state.probe_events.as_mut().filter(|known| known.question == *question) {
                Some(known) if Instant::now() < known.due => return false,
                Some(known) => known.due = Instant::now() + LIFETIME,
                None => state.probe_events = Some(Box::new(ProbeEvents::new(question.clone()))),
            }
            true
        });
        needed.unwrap_or_default()
    }

    /// Records what was fetched. Returns whether it is news.
    pub fn found_probe_events(&self, key: &Key, question: &EventQuery, answer: PodEvent) -> bool {
        let is_news = self.probe_events(key, question, |known| {
            let answer = Some(answer);
            let is_news = known.answer != answer;
            known.answer = answer;
            known.missed = 0;
            is_news
        });
        is_news.unwrap_or_default()
    }

    /// Records that nothing was found. Returns when the object is to be reconciled, to fetch again.
    pub fn missed_probe_events(&self, key: &Key, question: &EventQuery) -> Option<Duration> {
        self.probe_events(key, question, |known| {
            known.missed = known.missed.saturating_add(1);
            let wait = BACKOFF.delay(known.missed);
            known.due = Instant::now() + wait;
            wait
        })
    }

    /// Returns how long it takes until events that were not found are fetched again.
    pub fn probe_events_due_in(&self, key: &Key) -> Option<Duration> {
        self.with(key, |state| {
            let known = state.probe_events.as_ref().filter(|known| known.missed > 0)?;
            Some(known.due.saturating_duration_since(Instant::now()))
        })?
    }

    /// Adds what was fetched to the pods of an object.
    pub fn add_probe_events<'a>(&self, key: &Key, mut pods: impl Iterator<Item = &'a mut PodState>) {
        self.with(key, |state| {
            if let Some(known) = &state.probe_events
                && let Some(pod) = pods.find(|pod| pod.uid == known.question.uid)
            {
                pod.event.clone_from(&known.answer);
            }
        });
    }

    /// Changes the events of an object's pod, if they are still needed.
    fn probe_events<R>(
        &self,
        key: &Key,
        question: &EventQuery,
        change: impl FnOnce(&mut ProbeEvents) -> R,
    ) -> Option<R> {
        self.with(key, |state| {
            let known = state.probe_events.as_mut();
            known
                .filter(|known| known.question == *question)
                .map(|known| change(known))
        })?
    }
}

#[cfg(test)]
mod tests {
    use model::pod::EventTopic;
    use tokio::time::advance;

    use super::*;

    fn about(pod: &str) -> EventQuery {
        EventQuery {
            uid: pod.into(),
            container: Box::default(),
            topic: EventTopic::HealthCheck,
        }
    }

    fn known(states: &ObjectStates<()>, pod: &str) -> Option<PodEvent> {
        let mut pods = ["p1", "p2"].map(|uid| PodState {
            uid: uid.into(),
            ..PodState::default()
        });
        states.add_probe_events(&Key::new("shop", "web"), pods.iter_mut());
        let mut pods = pods.into_iter();
        pods.find(|known| &*known.uid == pod)?.event
    }

    fn states(key: &Key) -> ObjectStates<()> {
        let states = ObjectStates::default();
        states.begin(key, "u1");
        states
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_fetched_once_while_a_pod_stays_as_it_is() {
        let web = Key::new("shop", "web");
        let states = states(&web);
        let needs = |pod: Option<&str>| states.need_probe_events(&web, pod.map(about).as_ref());
        assert!(!needs(None));
        assert!(needs(Some("p1")) && !needs(Some("p1")));
        assert!(states.found_probe_events(&web, &about("p1"), PodEvent::HttpStatus(503)));
        assert_eq!(
            (known(&states, "p1"), known(&states, "p2")),
            (Some(PodEvent::HttpStatus(503)), None)
        );
        advance(LIFETIME).await;
        assert!(needs(Some("p1")) && !needs(Some("p1")), "again after a while");
        assert_eq!(known(&states, "p1"), Some(PodEvent::HttpStatus(503)), "used until then");
        assert!(
            !states.found_probe_events(&web, &about("p1"), PodEvent::HttpStatus(503)),
            "no news"
        );
        assert!(needs(Some("p2")), "another pod");
        assert!(
            !states.found_probe_events(&web, &about("p1"), PodEvent::ConnectionRefused),
            "too late"
        );
        assert!(!needs(None));
        assert!(needs(Some("p2")), "it was healthy in between");
        let start = EventQuery {
            topic: EventTopic::Start,
            ..about("p2")
        };
        assert!(states.need_probe_events(&web, Some(&start)), "another question");
    }

    #[tokio::test(start_paused = true)]
    async fn events_that_were_not_found_are_fetched_less_and_less_often() {
        let web = Key::new("shop", "web");
        let states = states(&web);
        let needs = || states.need_probe_events(&web, Some(&about("p1")));
        let miss = |pod: &str| states.missed_probe_events(&web, &about(pod)).map(|wait| wait.as_secs());
        let due_in = || states.probe_events_due_in(&web).map(|wait| wait.as_secs());
        assert_eq!(miss("p1"), None, "not needed");
        assert!(needs() && !needs() && due_in().is_none());
        for wait in [15, 30, 60, 120, 240, 300, 300] {
            assert_eq!(miss("p1"), Some(wait));
            assert!(!needs() && due_in() == Some(wait));
            advance(Duration::from_secs(wait)).await;
            assert!(needs() && !needs(), "after {wait} s");
        }
        assert_eq!(miss("p2"), None, "no longer needed");
        states.found_probe_events(&web, &about("p1"), PodEvent::ConnectionRefused);
        assert!(!needs() && due_in().is_none());
        advance(LIFETIME).await;
        assert!(needs());
        assert_eq!(
            (miss("p1"), known(&states, "p1")),
            (Some(15), Some(PodEvent::ConnectionRefused))
        );
    }
}
