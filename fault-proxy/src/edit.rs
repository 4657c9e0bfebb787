//! Changes to the API server's answers.

use hyper::body::Bytes;
use serde_json::Value;

use crate::action::Edit;

/// Returns `body` with one edit applied, or why it can't be.
pub(crate) fn apply(body: &[u8], edit: &Edit) -> Result<Bytes, String> {
    let parse = || serde_json::from_slice::<Value>(body).map_err(|error| format!("the answer is not JSON: {error}"));
    match edit {
        Edit::Body(text) => Ok(text.clone().into()),
        Edit::Replace(pointer, value) => {
            let mut json = parse()?;
            let place = json
                .pointer_mut(pointer)
                .ok_or_else(|| format!("the answer has no {pointer}"))?;
            *place = value.clone();
            Ok(json.to_string().into())
        }
        Edit::HideItem(name) => {
            let mut json = parse()?;
            let items = json
                .get_mut("items")
                .and_then(Value::as_array_mut)
                .ok_or("the answer is not a list")?;
            items.retain(|item| item.pointer("/metadata/name").and_then(Value::as_str) != Some(name));
            Ok(json.to_string().into())
        }
    }
}
