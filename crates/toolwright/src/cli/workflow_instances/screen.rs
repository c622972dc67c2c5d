//! A part of the terminal that is drawn again in place.

use std::fmt::Write;

use crate::cli::failure::Failure;
use crate::cli::output::Output;

/// The height of a terminal that does not tell it.
const DEFAULT_HEIGHT: usize = 24;
/// The lines of the terminal below the tree that stay free.
const FREE_LINES: usize = 2;

/// The lines at the end of a terminal that show the steps of a run.
pub(super) struct TreeScreen<'a> {
    output: &'a Output,
    drawn: usize,
    frame: usize,
}

impl<'a> TreeScreen<'a> {
    /// A screen on which nothing is drawn.
    pub(super) fn new(output: &'a Output) -> Self {
        Self { output, drawn: 0, frame: 0 }
    }

    /// Whether the steps are drawn in place: stdout is a terminal, and its output is text.
    pub(super) fn is_live(&self) -> bool {
        self.output.width.is_some() && !self.output.json
    }

    /// The maximum number of lines. A higher tree would scroll, and its first lines could not be drawn again.
    pub(super) fn height() -> usize {
        let height = terminal_size::terminal_size().map_or(DEFAULT_HEIGHT, |(_, height)| usize::from(height.0));
        height.saturating_sub(FREE_LINES).max(FREE_LINES)
    }

    /// The number of the next frame of the animation.
    pub(super) fn next_frame(&mut self) -> usize {
        self.frame = self.frame.wrapping_add(1);
        self.frame
    }

    /// Draws lines in place of the lines that were drawn before.
    pub(super) fn draw(&mut self, lines: &[String]) -> Result<(), Failure> {
        let mut text = self.up();
        for line in lines {
            text.push_str(line);
            // Erases what is left of the line that was drawn before.
            text.push_str("\u{1b}[K\n");
        }
        text.push_str("\u{1b}[J");
        self.drawn = lines.len();
        Ok(self.output.print(&text)?)
    }

    /// Erases the drawn lines, before other output is written.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        if self.drawn == 0 {
            return Ok(());
        }
        let text = format!("{}\u{1b}[J", self.up());
        self.drawn = 0;
        Ok(self.output.print(&text)?)
    }

    /// The escape sequence that returns to the first drawn line.
    fn up(&self) -> String {
        let mut text = String::from("\r");
        if self.drawn > 0 {
            // Writing to a string does not fail.
            let _ = write!(text, "\u{1b}[{}A", self.drawn);
        }
        text
    }
}
