//! Texts of others, cut to what a model should read.

/// A short line and a longer text as one, of at most `most` characters.
pub(crate) fn described(summary: Option<&str>, description: Option<&str>, most: usize) -> Option<String> {
    let summary = summary.map(clean).filter(|text| !text.is_empty());
    let description = description.map(clean).filter(|text| !text.is_empty());
    let whole = match (summary, description) {
        // Many descriptions begin with their summary.
        (Some(summary), Some(text)) if text.starts_with(summary.trim_end_matches('.')) => text,
        (Some(summary), Some(text)) => {
            let stop = if summary.ends_with(['.', '!', '?', ':']) { "" } else { "." };
            format!("{summary}{stop} {text}")
        }
        (summary, text) => summary.or(text)?,
    };
    Some(shortened(&whole, most))
}

/// At most `most` characters of a text: whole sentences where that keeps half of them, else whole words.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let text = clean(text);
    let Some((end, _)) = text.char_indices().nth(most) else { return text };
    // Room for the ellipsis.
    let room = text.char_indices().nth(most.saturating_sub(1)).map_or(end, |(at, _)| at);
    let beginning = text.get(..room).unwrap_or_default();
    let sentence = beginning.rfind(". ").map(|at| at + 1).or_else(|| beginning.rfind("\n\n"));
    if let Some(whole) = sentence.filter(|at| *at * 2 >= room).and_then(|at| beginning.get(..at)) {
        return whole.trim_end().to_owned();
    }
    let words = beginning.rfind(char::is_whitespace).filter(|at| *at * 2 >= room).unwrap_or(room);
    format!("{}…", beginning.get(..words).unwrap_or_default().trim_end())
}

/// Without what steers a terminal and without the addresses of links, with single spaces, paragraphs kept.
fn clean(text: &str) -> String {
    let text = without_addresses(text);
    let mut out = String::with_capacity(text.len());
    let (mut breaks, mut space) = (0, false);
    for c in text.chars() {
        match c {
            '\n' => breaks += 1,
            c if c.is_whitespace() || c.is_control() => space = true,
            c => {
                if !out.is_empty() {
                    match breaks {
                        0 if space => out.push(' '),
                        0 => {}
                        1 => out.push('\n'),
                        _ => out.push_str("\n\n"),
                    }
                }
                (breaks, space) = (0, false);
                out.push(c);
            }
        }
    }
    out
}

/// The words of Markdown links: a model has no use for where they lead.
fn without_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let words = before.rfind('[').and_then(|at| Some((before.get(..at)?, before.get(at + 1..)?)));
        match (words, after.split_once(')')) {
            (Some((lead, words)), Some((address, behind))) if !address.contains(char::is_whitespace) => {
                out.push_str(lead);
                out.push_str(words);
                rest = behind;
            }
            _ => {
                out.push_str(before);
                out.push_str("](");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_said_once() {
        assert_eq!(
            described(Some("Get a pet"), Some("Get a pet by its id."), 99).as_deref(),
            Some("Get a pet by its id.")
        );
        assert_eq!(described(Some("Get a pet"), Some("By its id."), 99).as_deref(), Some("Get a pet. By its id."));
        assert_eq!(described(Some(" "), Some("By its id."), 99).as_deref(), Some("By its id."));
        assert_eq!(described(None, Some("\u{0}\u{1b}"), 99), None);
    }

    #[test]
    fn links_keep_their_words() {
        for (text, expected) in [
            ("See \"[Media types](https://x.example/a#b).\" and [more](/m).", "See \"Media types.\" and more."),
            ("f(a[0](x y)) and a](b) and [c](", "f(a[0](x y)) and a](b) and [c]("),
        ] {
            assert_eq!(shortened(text, 99), expected);
        }
    }

    #[test]
    fn long_texts_end_with_a_sentence_or_a_word() {
        assert_eq!(shortened("One sentence. Another one that is long.", 25), "One sentence.");
        assert_eq!(shortened("words without any end to them", 20), "words without any…");
        assert_eq!(shortened("ääääääääää", 5), "ääää…");
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("a\u{0}b\r\n\r\n\r\nc\td", 99), "a b\n\nc d");
    }
}
