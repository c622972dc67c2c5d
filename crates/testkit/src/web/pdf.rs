//! Extracts the text of PDF documents whose content streams are not compressed.

/// The number of pages and the text of a PDF document.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) pages: usize,
    pub(super) text: String,
}

pub(super) fn read(bytes: &[u8]) -> Document {
    let source = String::from_utf8_lossy(bytes);
    let pages = source.split("/Type /Page").skip(1).filter(|rest| !rest.starts_with('s')).count();
    let mut pieces: Vec<&str> = source.split("endstream").collect();
    // The last piece has no stream: it is the text after the last stream.
    pieces.pop();
    let streams = pieces.into_iter().filter_map(|piece| piece.split_once("stream\n"));
    let lines: Vec<String> = streams.flat_map(|(_, content)| shown_strings(content)).collect();
    Document { pages, text: lines.join("\n") }
}

/// Returns the strings that a content stream shows with the operator `Tj`, each as one line.
fn shown_strings(content: &str) -> Vec<String> {
    let mut shown = Vec::new();
    let mut rest = content;
    while let Some((_, after)) = rest.split_once('(') {
        let (string, end) = string(after);
        rest = after.get(end..).unwrap_or_default();
        if rest.trim_start().starts_with("Tj") {
            shown.push(string);
        }
    }
    shown
}

/// Reads a string up to its closing parenthesis. Returns the string and its length in the source, including the
/// parenthesis.
fn string(source: &str) -> (String, usize) {
    let (mut text, mut depth) = (String::new(), 0_u32);
    let mut characters = source.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => text.extend(characters.next().map(|(_, escaped)| if escaped == 'n' { '\n' } else { escaped })),
            ')' if depth == 0 => return (text, at + 1),
            other => {
                // Balanced parentheses in a string need no escape.
                depth = match other {
                    '(' => depth + 1,
                    ')' => depth - 1,
                    _ => depth,
                };
                text.push(other);
            }
        }
    }
    (text, source.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_strings_are_extracted_with_their_escapes() {
        let page = "<< /Type /Page >> << /Type /Pages >> << /Title (Not shown) >>";
        let source = format!(
            "{page}stream\nBT (One \\(1\\)) Tj T* (a (b) \\\\) Tj (skipped) Tf ET\nendstream\n(outside) Tj stream\n(Two) Tj endstream"
        );
        let expected = Document { pages: 1, text: "One (1)\na (b) \\\nTwo".into() };
        assert_eq!(read(source.as_bytes()), expected);
        assert_eq!(read(b"not a PDF (x) Tj stream\n(open"), Document { pages: 0, text: String::new() });
    }
}
