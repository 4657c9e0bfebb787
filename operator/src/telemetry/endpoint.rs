//! The address for traces, from a flag or OpenTelemetry's variables.

use anyhow::Context as _;
use http::Uri;

/// The path of traces at a collector.
const PATH: &str = "/v1/traces";

/// Returns the address for traces, if there is one. The flag has precedence, then OpenTelemetry's variable for traces, then its general
/// one. `variable` reads the environment.
///
/// # Errors
/// Returns which of them is not a URL.
pub fn endpoint(flag: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Uri>> {
    const FLAG: &str = "--otlp-endpoint";
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let said = [
        (FLAG, flag.map(ToOwned::to_owned)),
        (TRACES, variable(TRACES)),
        (ALL, variable(ALL)),
    ];
    let said = said.into_iter().find_map(|(name, value)| {
        let value = value?.trim().to_owned();
        (!value.is_empty()).then_some((name, value))
    });
    let Some((name, value)) = said else { return Ok(None) };
    // The variable for traces is a complete URL, as OpenTelemetry specifies; the others name the collector.
    let is_complete = name == TRACES || value.ends_with(PATH);
    let url = if is_complete {
        value.clone()
    } else {
        format!("{}{PATH}", value.trim_end_matches('/'))
    };
    let wrong =
        || format!("{name} is {value:?}, which is not the address of a collector; write it like http://collector:4318");
    let url = url.parse::<Uri>().ok();
    let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    url.map(Some).with_context(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flag: Option<&str>, variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            let mut all = variables.iter();
            all.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        match endpoint(flag, variable) {
            Ok(url) => url.map_or_else(|| "none".to_owned(), |url| url.to_string()),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn traces_are_off_by_default() {
        assert_eq!(of(None, &[]), "none");
        assert_eq!(of(Some(""), &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), "none");
    }

    #[test]
    fn flag_and_variable_for_traces_have_precedence() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/own/path");
        assert_eq!(of(None, &[all]), "http://all:4318/v1/traces");
        assert_eq!(of(None, &[all, traces]), "https://traces/own/path");
        assert_eq!(
            of(Some("http://flag:4318"), &[all, traces]),
            "http://flag:4318/v1/traces"
        );
        assert_eq!(of(Some("http://flag/v1/traces"), &[]), "http://flag/v1/traces");
    }

    #[test]
    fn invalid_url_is_reported_with_its_source() {
        assert_eq!(
            of(Some("collector:4318"), &[]),
            "error: --otlp-endpoint is \"collector:4318\", which is not the address of a collector; write it like \
             http://collector:4318"
        );
        let variable = of(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://x")]);
        assert!(
            variable.starts_with("error: OTEL_EXPORTER_OTLP_ENDPOINT is \"grpc://x\""),
            "{variable}"
        );
    }
}
