//! Prints an HTML page as text.

/// Returns the text of an HTML page, line by line, without its markup.
#[must_use]
pub fn text(html: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let tag = &rest[start..];
        // The content of the head is not on the page.
        let end = if tag.starts_with("<head") { "</head>" } else { ">" };
        rest = tag.find(end).map_or("", |at| &tag[at + end.len()..]);
    }
    text.push_str(rest);
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_printed_without_markup() {
        let page = "<!DOCTYPE html>\n<html><head><title>Hi</title>\n<style>\nbody { color: red }\n</style></head>\n\
                    <body>\n<h1>Welcome to nginx!</h1>\n<p>It <em>works</em>.</p></body></html>\n";
        assert_eq!(text(page), ["Welcome to nginx!", "It works."]);
    }

    #[test]
    fn incomplete_markup_is_ignored() {
        assert_eq!(text("one <b"), ["one"]);
    }
}
