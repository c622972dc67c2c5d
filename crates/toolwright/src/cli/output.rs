//! Terminal output: results go to stdout, messages about the results go to stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

/// Texts are wrapped only if the terminal is wider than this number of columns.
const MIN_WRAP_WIDTH: usize = 20;

/// The output settings of a command.
pub(super) struct Output {
    /// Whether the command prints a JSON or YAML document to stdout instead of text (`--json`, `--yaml`).
    pub json: bool,
    /// Whether that document is YAML (`--yaml`).
    pub yaml: bool,
    /// The colors of stdout.
    pub out: Paint,
    /// The colors of stderr.
    pub err: Paint,
    /// The terminal width in columns; `None` if stdout is not a terminal.
    pub width: Option<usize>,
    /// The width of the terminal of stderr; `None` if stderr is not a terminal.
    err_width: Option<usize>,
}

/// Styles text, if colors are enabled.
#[derive(Clone, Copy)]
pub(super) struct Paint {
    enabled: bool,
}

impl Output {
    /// Detects terminals and `NO_COLOR`.
    pub(super) fn detect(json: bool, yaml: bool) -> Self {
        let colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let size = terminal_size::terminal_size().or_else(|| terminal_size::terminal_size_of(io::stderr()));
        let width = size.map(|(width, _)| usize::from(width.0));
        Self {
            json: json || yaml,
            yaml,
            out: Paint { enabled: colors && out },
            err: Paint { enabled: colors && err },
            width: width.filter(|_| out),
            err_width: width.filter(|_| err),
        }
    }

    /// Returns settings for text output without a terminal.
    #[cfg(test)]
    pub(super) fn for_tests() -> Self {
        Self { json: false, yaml: false, out: Paint::none(), err: Paint::none(), width: None, err_width: None }
    }

    /// Prints a line to stdout.
    pub(super) fn line(&self, text: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Prints a JSON document to stdout: unchanged for `--json`, converted for `--yaml`.
    pub(super) fn document(&self, json: impl Display) -> io::Result<()> {
        let json = json.to_string();
        let yaml = if self.yaml { serde_json::from_str(&json).ok() } else { None };
        match yaml.and_then(|value: serde_json::Value| serde_norway::to_string(&value).ok()) {
            Some(yaml) => self.print(&yaml),
            None => self.line(json.trim_end()),
        }
    }

    /// Prints one of several JSON documents to stdout. In YAML, `---` separates them.
    pub(super) fn stream_item(&self, json: &str) -> io::Result<()> {
        if self.yaml {
            self.line("---")?;
        }
        self.document(json)
    }

    /// Prints several lines to stdout.
    pub(super) fn lines(&self, lines: impl IntoIterator<Item = String>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Prints text to stdout without a line break, and flushes.
    pub(super) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Prints a line to stderr, wrapped at words. Write errors are ignored, because there is nowhere to report them.
    pub(super) fn note(&self, text: impl Display) {
        let text = wrap(&text.to_string(), self.err_width, 2);
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

impl Paint {
    /// Returns a `Paint` that does not style text.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { enabled: false }
    }

    /// Styles a success.
    pub(super) fn good(self, text: impl Display) -> String {
        self.styled(AnsiColor::Green.on_default(), text)
    }

    /// Styles a failure.
    pub(super) fn bad(self, text: impl Display) -> String {
        self.styled(AnsiColor::Red.on_default().bold(), text)
    }

    /// Styles a warning.
    pub(super) fn warn(self, text: impl Display) -> String {
        self.styled(AnsiColor::Yellow.on_default(), text)
    }

    /// Styles secondary text.
    pub(super) fn dim(self, text: impl Display) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    fn styled(self, style: Style, text: impl Display) -> String {
        if self.enabled { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}

/// Wraps the lines of a text at words, so that they fit into `width` columns. A continued line is indented by `hanging`
/// columns more than its first line. A word that is wider than a line is not cut, because it may be a URL or a path.
pub(super) fn wrap(text: &str, width: Option<usize>, hanging: usize) -> String {
    let Some(width) = width.filter(|width| *width > MIN_WRAP_WIDTH) else { return text.to_owned() };
    let lines: Vec<String> = text.split('\n').map(|line| wrap_line(line, width, hanging)).collect();
    lines.join("\n")
}

fn wrap_line(line: &str, width: usize, hanging: usize) -> String {
    if visible_width(line) <= width {
        return line.to_owned();
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    let (mut wrapped, mut column) = (" ".repeat(indent), indent);
    for (index, word) in line.trim_start_matches(' ').split(' ').enumerate() {
        let word_width = visible_width(word);
        if index > 0 && column + 1 + word_width > width {
            column = indent + hanging;
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(column));
        } else if index > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += word_width;
    }
    wrapped
}

/// The width of a text in columns, without the escape sequences of styles.
fn visible_width(text: &str) -> usize {
    let mut width = 0;
    for (index, part) in text.split('\u{1b}').enumerate() {
        let visible = if index == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) };
        width += visible.width();
    }
    width
}

/// Writes bytes to stdout unchanged.
pub(super) fn write_raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    // A closed pipe is not an error.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Replaces control characters in untrusted text, because they could manipulate the terminal. Line breaks are kept.
pub(super) fn sanitize(text: &str) -> String {
    let replace_control = |c: char| match c {
        '\n' => Some('\n'),
        '\t' => Some(' '),
        '\r' => None,
        c if c.is_control() => Some('\u{fffd}'),
        c => Some(c),
    };
    text.chars().filter_map(replace_control).collect()
}

/// Puts untrusted text on one line and replaces its control characters, because they could manipulate the terminal.
pub(super) fn sanitize_line(text: &str) -> String {
    let replace_control = |c: char| {
        if c.is_whitespace() {
            ' '
        } else if c.is_control() {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(replace_control).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitize_line_replaces_control_characters_and_line_breaks() {
        assert_eq!(sanitize_line("two\nlines\tand \u{1b}[31mred\u{9b}"), "two lines and \u{fffd}[31mred\u{fffd}");
    }

    #[test]
    fn sanitize_replaces_all_control_characters_except_line_breaks() {
        assert_eq!(sanitize("two\r\nlines\tand \u{1b}[31mred"), "two\nlines and \u{fffd}[31mred");
    }

    #[test]
    fn texts_are_wrapped_at_words_with_a_hanging_indent() {
        assert_eq!(wrap("  one two three four five", Some(21), 2), "  one two three four\n    five");
        assert_eq!(
            wrap("short\nsecond line is too long for it", Some(21), 0),
            "short\nsecond line is too\nlong for it"
        );
        let url = "see http://host.example/with/a/long/path now";
        assert_eq!(wrap(url, Some(21), 2), "see\n  http://host.example/with/a/long/path\n  now");
        let styled = format!("{} two three four", Paint { enabled: true }.good("one"));
        assert_eq!(wrap(&styled, Some(22), 2), styled);
        assert_eq!(wrap(url, None, 2), url);
    }

    #[test]
    fn disabled_paint_leaves_text_unchanged() {
        let (uncolored, colored) = (Paint { enabled: false }, Paint { enabled: true });
        assert_eq!(uncolored.good("ok"), "ok");
        assert_eq!(colored.good("ok"), "\u{1b}[32mok\u{1b}[0m");
    }
}
