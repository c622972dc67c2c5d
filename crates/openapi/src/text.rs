//! Normalizes and truncates third-party descriptions for a model to read.

/// Combines a summary and a description into one text of at most `max_chars` characters.
pub(crate) fn merge_description(summary: Option<&str>, description: Option<&str>, max_chars: usize) -> Option<String> {
    let summary = summary.map(normalize).filter(|text| !text.is_empty());
    let description = description.map(normalize).filter(|text| !text.is_empty());
    let merged = match (summary, description) {
        // Omits the summary if the description begins with it, which is common.
        (Some(summary), Some(text)) if text.starts_with(summary.trim_end_matches('.')) => text,
        (Some(summary), Some(text)) => {
            let stop = if summary.ends_with(['.', '!', '?', ':']) { "" } else { "." };
            format!("{summary}{stop} {text}")
        }
        (summary, text) => summary.or(text)?,
    };
    Some(truncate(&merged, max_chars))
}

/// Truncates a text to `max_chars` characters. The text is cut after a sentence if at least half of the characters
/// remain, otherwise after a word.
pub(crate) fn truncate(text: &str, max_chars: usize) -> String {
    let text = normalize(text);
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text };
    // Leaves room for the ellipsis.
    let room = text.char_indices().nth(max_chars.saturating_sub(1)).map_or(end, |(at, _)| at);
    let start = text.get(..room).unwrap_or_default();
    let sentence = start.rfind(". ").map(|at| at + 1).or_else(|| start.rfind("\n\n"));
    if let Some(whole) = sentence.filter(|at| *at * 2 >= room).and_then(|at| start.get(..at)) {
        return whole.trim_end().to_owned();
    }
    let words = start.rfind(char::is_whitespace).filter(|at| *at * 2 >= room).unwrap_or(room);
    format!("{}…", start.get(..words).unwrap_or_default().trim_end())
}

/// Removes control characters and link targets, and collapses spaces. Line breaks and paragraphs are kept.
fn normalize(text: &str) -> String {
    let text = strip_link_targets(text);
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

/// Replaces Markdown links with their text, because a model cannot use their targets.
fn strip_link_targets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let label = before.rfind('[').and_then(|at| Some((before.get(..at)?, before.get(at + 1..)?)));
        match (label, after.split_once(')')) {
            (Some((lead, label)), Some((target, tail))) if !target.contains(char::is_whitespace) => {
                out.push_str(lead);
                out.push_str(label);
                rest = tail;
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
    fn summary_that_the_description_repeats_is_dropped() {
        assert_eq!(
            merge_description(Some("Get a pet"), Some("Get a pet by its id."), 99).as_deref(),
            Some("Get a pet by its id.")
        );
        assert_eq!(
            merge_description(Some("Get a pet"), Some("By its id."), 99).as_deref(),
            Some("Get a pet. By its id.")
        );
        assert_eq!(merge_description(Some(" "), Some("By its id."), 99).as_deref(), Some("By its id."));
        assert_eq!(merge_description(None, Some("\u{0}\u{1b}"), 99), None);
    }

    #[test]
    fn links_are_replaced_by_their_text() {
        for (text, expected) in [
            ("See \"[Media types](https://x.example/a#b).\" and [more](/m).", "See \"Media types.\" and more."),
            ("f(a[0](x y)) and a](b) and [c](", "f(a[0](x y)) and a](b) and [c]("),
        ] {
            assert_eq!(truncate(text, 99), expected);
        }
    }

    #[test]
    fn long_text_is_truncated_after_a_sentence_or_a_word() {
        assert_eq!(truncate("One sentence. Another one that is long.", 25), "One sentence.");
        assert_eq!(truncate("words without any end to them", 20), "words without any…");
        assert_eq!(truncate("ääääääääää", 5), "ääää…");
        assert_eq!(truncate("short", 5), "short");
        assert_eq!(truncate("a\u{0}b\r\n\r\n\r\nc\td", 99), "a b\n\nc d");
    }
}
