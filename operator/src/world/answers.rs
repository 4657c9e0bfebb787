//! What health checks got for an answer. No pod says it of itself: it was read from the kubelet's Events, once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::pod::{Answer, PodState, Question};
use tokio::time::Instant;

use crate::key::Key;

/// How long an answer is believed. While a pod stays as it is, one may change; it is not worth more requests.
const TRUST: Duration = Duration::from_secs(300);

/// The answers, at most one for each object of which one was wanted.
#[derive(Debug, Default)]
pub struct Answers(Mutex<HashMap<(crd::Kind, Key), Asked>>);

#[derive(Debug)]
struct Asked {
    pod: Box<str>,
    at: Instant,
    answer: Option<Answer>,
}

impl Answers {
    /// Takes in that an answer is wanted of an object's pod, or none any more. Returns whether to ask now.
    pub fn wants(&self, kind: crd::Kind, key: &Key, question: Option<&Question>) -> bool {
        let mut all = self.lock();
        let Some(Question { uid }) = question else {
            all.remove(&(kind, key.clone()));
            return false;
        };
        let known = all.get_mut(&(kind, key.clone())).filter(|asked| asked.pod == *uid);
        match known {
            Some(asked) if asked.at.elapsed() < TRUST => return false,
            Some(asked) => asked.at = Instant::now(),
            None => {
                let asked = Asked {
                    pod: uid.clone(),
                    at: Instant::now(),
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
        let asked = all.get_mut(&(kind, key.clone()));
        asked.filter(|asked| asked.pod == question.uid).is_some_and(|asked| {
            let answer = Some(answer);
            let is_news = asked.answer != answer;
            asked.answer = answer;
            is_news
        })
    }

    /// Adds what is known to the pods of an object.
    pub fn add_to<'a>(&self, kind: crd::Kind, key: &Key, mut pods: impl Iterator<Item = &'a mut PodState>) {
        let all = self.lock();
        if let Some(asked) = all.get(&(kind, key.clone()))
            && let Some(pod) = pods.find(|pod| pod.uid == asked.pod)
        {
            pod.answer.clone_from(&asked.answer);
        }
    }

    // Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<(crd::Kind, Key), Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const KIND: crd::Kind = crd::Kind::AppDeploy;

    fn about(pod: &str) -> Question {
        Question { uid: pod.into() }
    }

    fn told(answers: &Answers, pod: &str) -> Option<Answer> {
        let mut pods = ["p1", "p2"].map(|uid| PodState {
            uid: uid.into(),
            ..PodState::default()
        });
        answers.add_to(KIND, &Key::new("shop", "web"), pods.iter_mut());
        let mut pods = pods.into_iter();
        pods.find(|known| &*known.uid == pod)?.answer
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_asked_once_while_a_pod_stays_as_it_is_and_forgotten_when_it_is_well() {
        let (answers, web) = (Answers::default(), Key::new("shop", "web"));
        let wants = |pod: Option<&str>| answers.wants(KIND, &web, pod.map(about).as_ref());
        assert!(!wants(None));
        assert!(wants(Some("p1")) && !wants(Some("p1")));
        assert!(answers.tell(KIND, &web, &about("p1"), Answer::Status(503)));
        assert_eq!(
            (told(&answers, "p1"), told(&answers, "p2")),
            (Some(Answer::Status(503)), None)
        );
        advance(TRUST).await;
        assert!(wants(Some("p1")) && !wants(Some("p1")), "again after a while");
        assert_eq!(told(&answers, "p1"), Some(Answer::Status(503)), "it is kept meanwhile");
        assert!(!answers.tell(KIND, &web, &about("p1"), Answer::Status(503)), "no news");
        assert!(wants(Some("p2")), "another pod");
        assert!(!answers.tell(KIND, &web, &about("p1"), Answer::Refused), "too late");
        assert!(!wants(None));
        assert!(wants(Some("p2")), "it was well in between");
    }
}
