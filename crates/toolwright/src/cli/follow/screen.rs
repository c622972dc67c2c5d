//! Writes the timeline to the terminal, with a status line below it.

use std::time::Instant;

use super::timeline::format_duration;
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::table::truncate;

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The escape sequence that returns to the first column and erases the line.
const ERASE: &str = "\r\u{1b}[2K";

/// The terminal that shows a timeline and a status line.
pub(super) struct Screen<'a> {
    output: &'a Output,
    /// The text of the status line, and the time at which this text was first shown.
    status_line: Option<(String, Instant)>,
    frame: usize,
}

impl<'a> Screen<'a> {
    /// A screen without a status line.
    pub(super) fn new(output: &'a Output) -> Self {
        Self { output, status_line: None, frame: 0 }
    }

    /// Appends text to the timeline.
    pub(super) fn write(&mut self, text: &str) -> Result<(), Failure> {
        if self.output.json || text.is_empty() {
            return Ok(());
        }
        let erase = if self.status_line.take().is_some() { ERASE } else { "" };
        Ok(self.output.print(&format!("{erase}{text}"))?)
    }

    /// Updates the status line, if stdout is a terminal.
    pub(super) fn show_activity(&mut self, activity: Option<String>) -> Result<(), Failure> {
        let Some(width) = self.output.width.filter(|_| !self.output.json) else { return Ok(()) };
        let Some(label) = activity else { return self.clear() };
        let started = match self.status_line.take() {
            Some((status_line, started)) if status_line == label => started,
            _ => Instant::now(),
        };
        let elapsed = format_duration(u64::try_from(started.elapsed().as_millis() / 100 * 100).unwrap_or(u64::MAX));
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or_default();
        self.frame = self.frame.wrapping_add(1);
        // Leave one column free: a full line would wrap and could not be erased.
        let line = truncate(&format!("{frame} {label}  {elapsed}"), width.saturating_sub(1));
        self.status_line = Some((label, started));
        Ok(self.output.print(&format!("{ERASE}{}", self.output.out.dim(line)))?)
    }

    /// Erases the status line, before other output is written.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        if self.status_line.take().is_some() {
            self.output.print(ERASE)?;
        }
        Ok(())
    }
}
