//! Why pods are not healthy or do not start. No pod's status has it: it was read from the kubelet's Events, once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::pod::{Answer, PodState, Question};
use tokio::time::Instant;

use crate::key::Key;

/// How long an answer is believed. While a pod stays as it is, one may change; it is not worth more requests.
const TRUST: Duration = Duration::from_secs(300);

/// How long after the first question that got no answer it is asked again; each time twice as long, up to [`TRUST`]. An
/// Event comes later than what it tells of, and a server may be busy.
const FIRST_WAIT: Duration = Duration::from_secs(15);

/// The answers, at most one for each object of which one was wanted.
#[derive(Debug, Default)]
pub struct ProbeEvents(Mutex<All>);

type All = HashMap<(crd::Kind, Key), Asked>;

#[derive(Debug)]
struct Asked {
    question: Question,
    /// When to ask again.
    due: Instant,
    /// How often it was asked in vain.
    vain: u32,
    answer: Option<Answer>,
}

impl ProbeEvents {
    /// Takes in that an answer is wanted of an object's pod, or none any more. Returns whether to ask now.
    pub fn wants(&self, kind: crd::Kind, key: &Key, question: Option<&Question>) -> bool {
        let mut all = self.lock();
        let Some(question) = question else {
            all.remove(&(kind, key.clone()));
            return false;
        };
        let known = all
            .get_mut(&(kind, key.clone()))
            .filter(|asked| asked.question == *question);
        match known {
            Some(asked) if Instant::now() < asked.due => return false,
            Some(asked) => asked.due = Instant::now() + TRUST,
            None => {
                let asked = Asked {
                    question: question.clone(),
                    due: Instant::now() + TRUST,
                    vain: 0,
                    answer: None,
                };
                all.insert((kind, key.clone()), asked);
            }
        }
        true
    }

    /// Takes in an answer. Returns whether it is news.
    pub fn tell(&self, kind: crd::Kind, key: &Key, question: &Question, answer: Answer) -> bool {
        let mut all = self.lock();
        asked(&mut all, kind, key, question).is_some_and(|asked| {
            let answer = Some(answer);
            let is_news = asked.answer != answer;
            asked.answer = answer;
            asked.vain = 0;
            is_news
        })
    }

    /// Takes in that there was no answer. Returns when the object is to be looked at, to ask again.
    pub fn miss(&self, kind: crd::Kind, key: &Key, question: &Question) -> Option<Duration> {
        let mut all = self.lock();
        let asked = asked(&mut all, kind, key, question)?;
        let wait = FIRST_WAIT.saturating_mul(1 << asked.vain.min(10)).min(TRUST);
        asked.vain = asked.vain.saturating_add(1);
        asked.due = Instant::now() + wait;
        Some(wait)
    }

    /// Returns how long it takes until a question that got no answer is asked again.
    pub fn asked_again_in(&self, kind: crd::Kind, key: &Key) -> Option<Duration> {
        let all = self.lock();
        let asked = all.get(&(kind, key.clone())).filter(|asked| asked.vain > 0)?;
        Some(asked.due.saturating_duration_since(Instant::now()))
    }

    /// Adds what is known to the pods of an object.
    pub fn add_to<'a>(&self, kind: crd::Kind, key: &Key, mut pods: impl Iterator<Item = &'a mut PodState>) {
        let all = self.lock();
        if let Some(asked) = all.get(&(kind, key.clone()))
            && let Some(pod) = pods.find(|pod| pod.uid == asked.question.uid)
        {
            pod.answer.clone_from(&asked.answer);
        }
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what was asked, if it is still wanted.
fn asked<'a>(all: &'a mut All, kind: crd::Kind, key: &Key, question: &Question) -> Option<&'a mut Asked> {
    let asked = all.get_mut(&(kind, key.clone()));
    asked.filter(|asked| asked.question == *question)
}

#[cfg(test)]
mod tests {
    use model::pod::Topic;
    use tokio::time::advance;

    use super::*;

    const KIND: crd::Kind = crd::Kind::AppDeploy;

    fn about(pod: &str) -> Question {
        Question {
            uid: pod.into(),
            topic: Topic::Check,
        }
    }

    fn told(probe_events: &ProbeEvents, pod: &str) -> Option<Answer> {
        let mut pods = ["p1", "p2"].map(|uid| PodState {
            uid: uid.into(),
            ..PodState::default()
        });
        probe_events.add_to(KIND, &Key::new("shop", "web"), pods.iter_mut());
        let mut pods = pods.into_iter();
        pods.find(|known| &*known.uid == pod)?.answer
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_once_while_a_pod_stays_as_it_is_and_forgotten_when_it_is_well() {
        let (probe_events, web) = (ProbeEvents::default(), Key::new("shop", "web"));
        let wants = |pod: Option<&str>| probe_events.wants(KIND, &web, pod.map(about).as_ref());
        assert!(!wants(None));
        assert!(wants(Some("p1")) && !wants(Some("p1")));
        assert!(probe_events.tell(KIND, &web, &about("p1"), Answer::Status(503)));
        assert_eq!(
            (told(&probe_events, "p1"), told(&probe_events, "p2")),
            (Some(Answer::Status(503)), None)
        );
        advance(TRUST).await;
        assert!(wants(Some("p1")) && !wants(Some("p1")), "again after a while");
        assert_eq!(
            told(&probe_events, "p1"),
            Some(Answer::Status(503)),
            "it is kept meanwhile"
        );
        assert!(
            !probe_events.tell(KIND, &web, &about("p1"), Answer::Status(503)),
            "no news"
        );
        assert!(wants(Some("p2")), "another pod");
        assert!(
            !probe_events.tell(KIND, &web, &about("p1"), Answer::Refused),
            "too late"
        );
        assert!(!wants(None));
        assert!(wants(Some("p2")), "it was well in between");
        let start = Question {
            topic: Topic::Start,
            ..about("p2")
        };
        assert!(probe_events.wants(KIND, &web, Some(&start)), "another question");
    }

    #[tokio::test(start_paused = true)]
    async fn what_got_no_answer_is_asked_again_ever_later() {
        let (probe_events, web) = (ProbeEvents::default(), Key::new("shop", "web"));
        let wants = || probe_events.wants(KIND, &web, Some(&about("p1")));
        let miss = |pod: &str| probe_events.miss(KIND, &web, &about(pod)).map(|wait| wait.as_secs());
        let again_in = || probe_events.asked_again_in(KIND, &web).map(|wait| wait.as_secs());
        assert_eq!(miss("p1"), None, "nobody has asked");
        assert!(wants() && !wants() && again_in().is_none());
        for wait in [15, 30, 60, 120, 240, 300, 300] {
            assert_eq!(miss("p1"), Some(wait));
            assert!(!wants() && again_in() == Some(wait));
            advance(Duration::from_secs(wait)).await;
            assert!(wants() && !wants(), "after {wait} s");
        }
        assert_eq!(miss("p2"), None, "it is not wanted any more");
        probe_events.tell(KIND, &web, &about("p1"), Answer::Refused);
        assert!(!wants() && again_in().is_none());
        advance(TRUST).await;
        assert!(wants());
        assert_eq!(
            (miss("p1"), told(&probe_events, "p1")),
            (Some(15), Some(Answer::Refused))
        );
    }
}
