//! Parses tolerations from a command line: `KEY[=VALUE][:EFFECT]`, like the taints of `kubectl taint`.

use crd::{TaintEffect, Toleration, TolerationOperator};

use super::choice::one_of;

/// Reads a toleration, such as `dedicated=batch:NoSchedule`. Without a value it tolerates any, and without an effect all.
pub fn parse(text: &str) -> Result<Toleration, String> {
    let (taint, effect) = effect_of(text)?;
    let (key, value) = match taint.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (taint, None),
    };
    if key.is_empty() {
        return Err(wrong());
    }
    Ok(Toleration {
        key: Some(key.to_owned()),
        operator: value.is_none().then_some(TolerationOperator::Exists),
        value: value.filter(|value| !value.is_empty()).map(str::to_owned),
        effect,
        toleration_seconds: None,
    })
}

/// Splits the effect from the end of a text.
pub fn effect_of(text: &str) -> Result<(&str, Option<TaintEffect>), String> {
    let Some((taint, name)) = text.rsplit_once(':') else {
        return Ok((text, None));
    };
    let effect = one_of(TaintEffect::ALL, TaintEffect::as_str, name);
    let effect = effect.ok_or_else(|| "the effect must be NoSchedule, PreferNoSchedule or NoExecute".to_owned())?;
    Ok((taint, Some(effect)))
}

/// Returns the message for a text without a key.
pub fn wrong() -> String {
    "write it like dedicated=batch:NoSchedule or dedicated".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations_are_read_with_or_without_value_and_effect() {
        for (text, toleration) in [
            (
                "dedicated=batch:NoSchedule",
                json!({"key": "dedicated", "value": "batch", "effect": "NoSchedule"}),
            ),
            ("dedicated=batch", json!({"key": "dedicated", "value": "batch"})),
            (
                "nvidia.com/gpu:noexecute",
                json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}),
            ),
            ("gpu", json!({"key": "gpu", "operator": "Exists"})),
            ("gpu=", json!({"key": "gpu"})),
        ] {
            assert_eq!(json!(parse(text).unwrap()), toleration, "{text}");
        }
        for (text, why) in [
            ("", "write it like"),
            ("=a", "write it like"),
            (":NoSchedule", "write it like"),
            ("gpu:", "the effect must be"),
            ("gpu=a:Never", "the effect must be"),
        ] {
            assert!(parse(text).unwrap_err().starts_with(why), "{text}");
        }
    }
}
