//! The only place that writes: results to stdout, everything about them to stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

/// Where text goes and how it may look there.
pub struct Output {
    /// Whether stdout carries JSON for a program.
    pub json: bool,
    /// Colours of stdout.
    pub out: Paint,
    /// Colours of stderr.
    pub err: Paint,
    /// Columns of the terminal; none when stdout is no terminal.
    pub width: Option<usize>,
}

/// Colours, or none.
#[derive(Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Output {
    /// Finds out whether people are watching.
    pub fn detect(json: bool) -> Self {
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let size = if out { terminal_size::terminal_size() } else { None };
        Self {
            json,
            out: Paint { on: colours && out },
            err: Paint { on: colours && err },
            width: size.map(|(width, _)| usize::from(width.0)),
        }
    }

    /// Output without a terminal.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { json: false, out: Paint::none(), err: Paint::none(), width: None }
    }

    /// One line of the result.
    pub fn line(&self, text: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Several lines of the result.
    pub fn lines(&self, lines: impl IntoIterator<Item = String>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// A part of a line of the result, at once.
    pub fn part(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// One line about the result. That it cannot be written is nothing one could tell anyone.
    pub fn note(&self, text: impl Display) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

impl Paint {
    /// No colours.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { on: false }
    }

    /// What went well.
    pub fn good(self, text: impl Display) -> String {
        self.styled(AnsiColor::Green.on_default(), text)
    }

    /// What did not.
    pub fn bad(self, text: impl Display) -> String {
        self.styled(AnsiColor::Red.on_default().bold(), text)
    }

    /// What deserves a look.
    pub fn warn(self, text: impl Display) -> String {
        self.styled(AnsiColor::Yellow.on_default(), text)
    }

    /// What only helps to read the rest.
    pub fn dim(self, text: impl Display) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    fn styled(self, style: Style, text: impl Display) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}

/// Writes bytes to stdout as they are.
pub fn raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    // A reader that stopped listening is no failure.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Text of others with its lines: an answer must not steer the terminal either.
pub fn printable(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' => Some('\n'),
        '\t' => Some(' '),
        '\r' => None,
        c if c.is_control() => Some('\u{fffd}'),
        c => Some(c),
    };
    text.chars().filter_map(visible).collect()
}

/// Text of others on one line: a description from an imported tool must not steer the terminal.
pub fn plain(text: &str) -> String {
    let visible = |c: char| {
        if c.is_whitespace() {
            ' '
        } else if c.is_control() {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        assert_eq!(plain("two\nlines\tand \u{1b}[31mred\u{9b}"), "two lines and \u{fffd}[31mred\u{fffd}");
    }

    #[test]
    fn an_answer_keeps_its_lines_and_nothing_else() {
        assert_eq!(printable("two\r\nlines\tand \u{1b}[31mred"), "two\nlines and \u{fffd}[31mred");
    }

    #[test]
    fn without_colours_text_stays_as_it_is() {
        let (plain, coloured) = (Paint { on: false }, Paint { on: true });
        assert_eq!(plain.good("ok"), "ok");
        assert_eq!(coloured.good("ok"), "\u{1b}[32mok\u{1b}[0m");
    }
}
