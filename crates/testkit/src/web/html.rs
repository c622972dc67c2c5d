//! Converts the HTML of the pages to Markdown. Supports the elements that these pages use. Of other elements, only the
//! text is kept.

use serde::Serialize;

/// A page in the form that the scraper returns.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) markdown: String,
    pub(super) links: Vec<Link>,
}

/// A link of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Link {
    pub(super) text: String,
    pub(super) url: String,
}

pub(super) fn read(html: &str) -> Document {
    let mut reader = Reader::default();
    let mut pieces = html.split('<');
    pieces.next();
    for piece in pieces {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        reader.tag(tag);
        reader.text(&decode(text));
    }
    reader.document.markdown = reader.document.markdown.trim().to_owned();
    reader.document
}

/// The document as far as it was converted, and the open elements that influence the conversion.
#[derive(Default)]
struct Reader {
    document: Document,
    in_title: bool,
    /// The open `script` or `style` element. Its text is skipped.
    skipped: Option<&'static str>,
    /// For an open link: its address, and the offset in the Markdown text at which the link starts.
    link: Option<(String, usize)>,
    cells: usize,
}

impl Reader {
    fn tag(&mut self, tag: &str) {
        let (closing, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
        let name = tag.split_whitespace().next().unwrap_or_default().trim_end_matches('/').to_ascii_lowercase();
        match (name.as_str(), closing) {
            ("title", _) => self.in_title = !closing,
            ("script", _) => self.skipped = (!closing).then_some("script"),
            ("style", _) => self.skipped = (!closing).then_some("style"),
            ("meta", _) if attribute(tag, "name") == Some("description") => {
                self.document.description = decode(attribute(tag, "content").unwrap_or_default());
            }
            ("h1", false) => self.block("# "),
            ("h2", false) => self.block("## "),
            ("h3", false) => self.block("### "),
            ("p" | "table" | "ul" | "ol", false) => self.block(""),
            ("blockquote", false) => self.block("> "),
            ("li", false) => self.line("- "),
            ("tr", false) => {
                self.cells = 0;
                self.line("");
            }
            ("td" | "th", false) => {
                if self.cells > 0 {
                    self.document.markdown.push_str(" | ");
                }
                self.cells += 1;
            }
            ("a", false) => {
                let url = decode(attribute(tag, "href").unwrap_or_default());
                self.link = Some((url, self.document.markdown.len()));
            }
            ("a", true) => self.end_link(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        if self.in_title {
            self.document.title.push_str(&words);
        }
        if self.in_title || self.skipped.is_some() || words.is_empty() {
            return;
        }
        let markdown = &mut self.document.markdown;
        if text.starts_with(char::is_whitespace) && !markdown.ends_with(char::is_whitespace) {
            markdown.push(' ');
        }
        markdown.push_str(&words);
        if text.ends_with(char::is_whitespace) {
            markdown.push(' ');
        }
    }

    /// Starts a paragraph that begins with `prefix`.
    fn block(&mut self, prefix: &str) {
        let markdown = &mut self.document.markdown;
        markdown.truncate(markdown.trim_end().len());
        markdown.push_str("\n\n");
        markdown.push_str(prefix);
    }

    /// Starts a line of a list or a table that begins with `prefix`.
    fn line(&mut self, prefix: &str) {
        let markdown = &mut self.document.markdown;
        markdown.truncate(markdown.trim_end_matches(' ').len());
        if !markdown.ends_with('\n') {
            markdown.push('\n');
        }
        markdown.push_str(prefix);
    }

    fn end_link(&mut self) {
        let Some((url, start)) = self.link.take() else { return };
        let text = self.document.markdown.get(start..).unwrap_or_default().trim().to_owned();
        self.document.markdown.truncate(start);
        self.document.markdown.push_str(&format!("[{text}]({url})"));
        self.document.links.push(Link { text, url });
    }
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

fn decode(text: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", "\u{a0}"), ("&amp;", "&")];
    entities.into_iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_converted_to_markdown_with_title_description_and_links() {
        let document = read(concat!(
            "<!doctype html><html><head><title>A &amp; B</title><meta name=\"description\" content=\"About &lt;A&gt;\">",
            "<style>p { color: red }</style></head><body>\n  <h1>Plans</h1>\n  <p>One\n    <strong>big</strong> plan. ",
            "<a href=\"https://a.example/\">Home page</a>, ok.</p><ul><li>x</li><li>y</li></ul>",
            "<table><tr><th>Plan</th><th>Price</th></tr><tr><td>Team</td><td>$5</td></tr></table>",
            "<script>if (a > b) { alert('x') }</script><blockquote>said</blockquote></body></html>",
        ));
        assert_eq!((document.title.as_str(), document.description.as_str()), ("A & B", "About <A>"));
        assert_eq!(document.links, [Link { text: "Home page".into(), url: "https://a.example/".into() }]);
        let expected = "# Plans\n\nOne big plan. [Home page](https://a.example/), ok.\n\n- x\n- y\n\nPlan | Price\nTeam | $5\n\n> said";
        assert_eq!(document.markdown, expected);
    }
}
