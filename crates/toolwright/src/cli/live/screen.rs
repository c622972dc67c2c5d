//! Writes a story to the terminal, and shows below it what is under way.

use std::time::Instant;

use super::timeline::duration;
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::table::cut;

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Back to the first column, and everything from there on erased.
const ERASE: &str = "\r\u{1b}[2K";

/// Where a story is written.
pub struct Screen<'a> {
    output: &'a Output,
    /// The line below the story, and since when it says so.
    shown: Option<(String, Instant)>,
    frame: usize,
}

impl<'a> Screen<'a> {
    /// A screen with nothing under way.
    pub fn new(output: &'a Output) -> Self {
        Self { output, shown: None, frame: 0 }
    }

    /// Adds to the story.
    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        if self.output.json || text.is_empty() {
            return Ok(());
        }
        let erase = if self.shown.take().is_some() { ERASE } else { "" };
        Ok(self.output.part(&format!("{erase}{text}"))?)
    }

    /// Shows what is under way, if someone is watching.
    pub fn spin(&mut self, under_way: Option<String>) -> Result<(), Failure> {
        let Some(width) = self.output.width.filter(|_| !self.output.json) else { return Ok(()) };
        let Some(label) = under_way else { return self.clear() };
        let since = match self.shown.take() {
            Some((shown, since)) if shown == label => since,
            _ => Instant::now(),
        };
        let elapsed = duration(u64::try_from(since.elapsed().as_millis() / 100 * 100).unwrap_or(u64::MAX));
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or_default();
        self.frame = self.frame.wrapping_add(1);
        // One column stays free: a full line would wrap, and could not be erased.
        let line = cut(&format!("{frame} {label}  {elapsed}"), width.saturating_sub(1));
        self.shown = Some((label, since));
        Ok(self.output.part(&format!("{ERASE}{}", self.output.out.dim(line)))?)
    }

    /// Takes away what is under way, before something else writes to the terminal.
    pub fn clear(&mut self) -> Result<(), Failure> {
        if self.shown.take().is_some() {
            self.output.part(ERASE)?;
        }
        Ok(())
    }
}
