//! Tests of the limits together, with tokio's paused clock.

use super::*;

fn limits(settings: LimitSettings) -> Arc<Limits> {
    Arc::new(Limits::new(settings))
}

async fn fail(limits: &Arc<Limits>, count: u32) {
    for _ in 0..count {
        limits.enter().await.unwrap().finish(Outcome::Failed(None), "refused");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_concurrency_wait_and_then_fail() {
    let limits = limits(LimitSettings {
        concurrency: 2,
        ..LimitSettings::default()
    });
    let (one, _two) = (limits.enter().await.unwrap(), limits.enter().await.unwrap());
    let started = Instant::now();
    let error = limits.enter().await.unwrap_err();
    assert_eq!(started.elapsed(), limits.settings.wait);
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    drop(one);
    limits.enter().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_hung_endpoint_fail_when_the_breaker_opens() {
    let limits = limits(LimitSettings {
        concurrency: 5,
        ..LimitSettings::default()
    });
    let mut hung = Vec::new();
    for _ in 0..5 {
        hung.push(limits.enter().await.unwrap());
    }
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let limits = limits.clone();
            tokio::spawn(async move { limits.enter().await.map(|_| ()) })
        })
        .collect();
    tokio::task::yield_now().await;
    let started = Instant::now();
    for permit in hung {
        permit.finish(Outcome::Failed(None), "no answer within 10 s");
    }
    for call in waiting {
        let error = call.await.unwrap().unwrap_err();
        assert!(error.to_string().ends_with("no answer within 10 s"), "{error}");
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn open_breaker_refuses_immediately_and_recovers() {
    let limits = limits(LimitSettings::default());
    fail(&limits, 5).await;
    let started = Instant::now();
    let error = limits.enter().await.unwrap_err();
    assert_eq!(error.retry_after(), Some(limits.settings.open));
    assert_eq!(started.elapsed(), Duration::ZERO);
    sleep(limits.settings.open).await;
    let probe = limits.enter().await.unwrap();
    limits.enter().await.unwrap_err();
    // The caller was canceled.
    drop(probe);
    limits.enter().await.unwrap().finish(Outcome::Answered, "");
    limits.enter().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn throttled_endpoint_is_paused_for_all_callers() {
    let limits = limits(LimitSettings::default());
    let pause = |seconds| Outcome::Throttled(Some(Duration::from_secs(seconds)));
    limits.enter().await.unwrap().finish(pause(4), "");
    let started = Instant::now();
    let permit = limits.enter().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(4));
    permit.finish(pause(30), "");
    let started = Instant::now();
    let error = limits.enter().await.unwrap_err();
    assert_eq!(
        started.elapsed(),
        Duration::ZERO,
        "a call waits longer than its deadline"
    );
    let retry_after = Some(Duration::from_secs(30));
    assert_eq!(error, Error::Throttled { retry_after });
}
