//! Templates with placeholders, `@like this@` but without spaces.

use anyhow::{Result, bail};

/// Replaces the placeholders of a text. Each placeholder needs a value, and each value a placeholder.
pub fn fill(text: &str, blanks: &[(&str, &str)]) -> Result<String> {
    let mut filled = text.to_owned();
    for (name, value) in blanks {
        let blank = format!("@{name}@");
        if !filled.contains(&blank) {
            bail!("there is no blank {blank} in the text");
        }
        filled = filled.replace(&blank, value);
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_placeholder_is_an_error() {
        assert_eq!(fill("a @b@ @b@ @c", &[("b", "1")]).unwrap(), "a 1 1 @c");
        let error = fill("a", &[("b", "1")]).unwrap_err();
        assert_eq!(error.to_string(), "there is no blank @b@ in the text");
    }
}
