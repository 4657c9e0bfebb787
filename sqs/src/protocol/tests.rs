//! Tests of the answers of servers.

use std::time::Duration;

use super::*;

const READ: Action = Action::read("GetQueueUrl");
const WRITE: Action = Action::write("CreateQueue");

fn answer(action: Action, status: u16, headers: &[(&'static str, &str)], body: &str) -> Result<Url, Error> {
    let headers = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    let status = StatusCode::from_u16(status).unwrap();
    parse(action, status, &headers, body.as_bytes(), str::to_owned).map_err(|failed| failed.error)
}

fn error(action: Action, status: u16, body: &str) -> Error {
    answer(action, status, &[], body).unwrap_err()
}

#[test]
fn codes_of_queues_are_recognized_in_all_notations() {
    for (code, expected) in [
        ("com.amazonaws.sqs#QueueDoesNotExist", Error::NoSuchQueue),
        ("AWS.SimpleQueueService.NonExistentQueue", Error::NoSuchQueue),
        ("com.amazonaws.sqs#QueueDeletedRecently", Error::DeletedRecently),
        (
            "QueueNameExists",
            Error::AttributesDiffer {
                message: "reason".to_owned(),
            },
        ),
    ] {
        let body = format!(r#"{{"__type":"{code}","message":"reason"}}"#);
        assert_eq!(error(WRITE, 400, &body), expected, "{code}");
        let header = format!("{code};Sender");
        let headers = [("x-amzn-query-error", header.as_str())];
        let found = answer(WRITE, 400, &headers, r#"{"message":"reason"}"#).unwrap_err();
        assert_eq!(found, expected, "{header}");
    }
}

#[test]
fn throttling_is_recognized_by_code_and_by_status() {
    let retry_after = Some(Duration::from_secs(7));
    for (status, body) in [
        (400, r#"{"__type":"RequestThrottled"}"#),
        (400, r#"{"__type":"com.amazon.coral.availability#ThrottlingException"}"#),
        (403, r#"{"__type":"RequestThrottled"}"#),
        (503, r#"{"__type":"SlowDown"}"#),
        (429, ""),
    ] {
        let found = answer(WRITE, status, &[("retry-after", "7")], body).unwrap_err();
        assert_eq!(found, Error::Throttled { retry_after }, "{status} {body}");
    }
}

#[test]
fn denials_are_recognized_by_code_and_by_status() {
    for (status, body, expected) in [
        (
            400,
            r#"{"__type":"com.amazon.coral.service#InvalidClientTokenId","message":"bad"}"#,
            "InvalidClientTokenId",
        ),
        (400, r#"{"__type":"ExpiredToken","message":"bad"}"#, "ExpiredToken"),
        (403, r#"{"__type":"Other","Message":"bad"}"#, "Other"),
        (
            403,
            "<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code><Message>bad</Message></Error></ErrorResponse>",
            "SignatureDoesNotMatch",
        ),
        (403, "<html>", "403"),
        (401, "", "401"),
    ] {
        match error(READ, status, body) {
            Error::Denied { code, .. } => assert_eq!(code, expected),
            other => panic!("{status} {body}: {other}"),
        }
    }
}

#[test]
fn failure_of_a_write_may_have_been_carried_out_and_of_a_read_does_not_matter() {
    for (status, body) in [
        (500, r#"{"__type":"InternalError"}"#),
        (503, "<html>"),
        (502, ""),
        (504, ""),
        (408, ""),
        (200, "<html>"),
        (200, r#"{"QueueUrl":"http"#),
        (200, r#"{"QueueUrl":7}"#),
        (200, "{}"),
    ] {
        assert!(
            matches!(error(WRITE, status, body), Error::Lost { .. }),
            "{status} {body}"
        );
        assert!(
            matches!(error(READ, status, body), Error::Unavailable { .. }),
            "{status} {body}"
        );
    }
}

#[test]
fn other_statuses_are_refusals() {
    for (status, body, expected) in [
        (
            400,
            r#"{"__type":"InvalidAttributeValue","message":"bad"}"#,
            "InvalidAttributeValue",
        ),
        (404, "<html>", "404"),
        (301, "", "301"),
        (307, "", "307"),
    ] {
        match error(WRITE, status, body) {
            Error::Refused { code, .. } => assert_eq!(code, expected),
            other => panic!("{status} {body}: {other}"),
        }
    }
}

#[test]
fn error_with_both_spellings_of_message_is_parsed() {
    let found = error(
        WRITE,
        400,
        r#"{"__type":"QueueNameExists","message":"reason","Message":"reason"}"#,
    );
    let message = "reason".to_owned();
    assert_eq!(found, Error::AttributesDiffer { message });
}

#[test]
fn messages_are_redacted_and_shortened() {
    let body = serde_json::json!({ "__type": "Other", "message": format!("hush {}\nsecond", "x".repeat(1000)) });
    let failed = parse::<Url>(
        WRITE,
        StatusCode::BAD_REQUEST,
        &HeaderMap::new(),
        body.to_string().as_bytes(),
        |text| text.replace("hush", "[redacted]"),
    );
    match failed.unwrap_err().error {
        Error::Refused { message, .. } => {
            assert!(
                message.starts_with("[redacted] xxx") && message.ends_with('…'),
                "{message}"
            );
            assert_eq!(message.chars().count(), 301);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn long_or_unreadable_retry_after_is_bounded() {
    for (header, expected) in [
        ("3", Some(3)),
        ("99999999", Some(300)),
        ("-1", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ] {
        let found = answer(READ, 429, &[("retry-after", header)], "").unwrap_err();
        assert_eq!(found.retry_after(), expected.map(Duration::from_secs), "{header}");
    }
}

#[test]
fn results_are_parsed_with_and_without_content() {
    let ok = |body: &str| answer(READ, 200, &[], body).unwrap().url;
    assert_eq!(ok(r#"{"QueueUrl":"http://a/1","New":[]}"#), "http://a/1");
    let headers = HeaderMap::new();
    parse::<Empty>(WRITE, StatusCode::OK, &headers, b"", str::to_owned).unwrap();
    for body in ["", "{}", r#"{"Tags":null}"#, r#"{"Tags":{}}"#] {
        let tags: Tags = parse(READ, StatusCode::OK, &headers, body.as_bytes(), str::to_owned).unwrap();
        assert_eq!(tags.tags.unwrap_or_default(), BTreeMap::new());
    }
}
