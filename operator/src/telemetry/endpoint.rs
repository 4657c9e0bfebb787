//! Where traces go: what a flag or OpenTelemetry's own variables say.

use anyhow::Context as _;
use http::Uri;

/// What follows the address of a collector.
const PATH: &str = "/v1/traces";

/// Returns where traces are sent, if anywhere. The flag wins, then OpenTelemetry's variable for traces, then that for
/// everything. `variable` reads the environment.
///
/// # Errors
/// Says which of them is no URL.
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
    // The variable for traces is complete, as OpenTelemetry has it; the others name the collector.
    let is_complete = name == TRACES || value.ends_with(PATH);
    let url = if is_complete {
        value.clone()
    } else {
        format!("{}{PATH}", value.trim_end_matches('/'))
    };
    let wrong =
        || format!("{name} is {value:?}, which is no address of a collector; write it like http://collector:4318");
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
    fn nothing_is_sent_unless_told() {
        assert_eq!(of(None, &[]), "none");
        assert_eq!(of(Some(""), &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), "none");
    }

    #[test]
    fn the_flag_goes_before_the_variable_for_traces_and_that_before_the_one_for_all() {
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
    fn what_is_no_url_is_said_with_where_it_stands() {
        assert_eq!(
            of(Some("collector:4318"), &[]),
            "error: --otlp-endpoint is \"collector:4318\", which is no address of a collector; write it like \
             http://collector:4318"
        );
        let variable = of(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://x")]);
        assert!(
            variable.starts_with("error: OTEL_EXPORTER_OTLP_ENDPOINT is \"grpc://x\""),
            "{variable}"
        );
    }
}
