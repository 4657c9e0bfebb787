//! Parts of pages that are generated.

/// The markers around the generated part of a page.
#[derive(Clone, Copy, Debug)]
pub struct Markers {
    /// The line before it.
    pub begin: &'static str,
    /// The line after it.
    pub end: &'static str,
}

/// Replaces the generated part of a page; returns `None` if the page has no markers.
#[must_use]
pub fn replace(page: &str, Markers { begin, end }: Markers, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n{text}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_part_is_replaced() {
        let markers = Markers {
            begin: "<!-- begin -->\n",
            end: "<!-- end -->\n",
        };
        let page = "# Title\n\n<!-- begin -->\nold\n<!-- end -->\nMore\n";
        let new = replace(page, markers, "new").unwrap();
        assert_eq!(new, "# Title\n\n<!-- begin -->\n\nnew\n<!-- end -->\nMore\n");
        assert_eq!(replace("no markers", markers, ""), None);
    }
}
