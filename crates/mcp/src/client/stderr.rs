//! Logs the standard error of MCP servers that are child processes, without secrets, and keeps its end for error
//! messages.

use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::sync::watch;
use toolwright_tools::executor::{Attempt, Redactor};

/// The maximum number of bytes of a line that are read. Further bytes of the line are dropped.
const MAX_LINE: usize = 16 << 10;
/// The number of characters at the end of a shortened line that are not logged, because they may be the start of a
/// secret.
const MAX_SECRET: usize = 8 << 10;
/// The number of characters of the output that error messages contain.
const MAX_TAIL: usize = 300;

/// The end of the output, on one line and without secrets.
#[derive(Debug, Default, Clone)]
pub(super) struct StderrTail(String);

impl StderrTail {
    fn push(&mut self, line: &str) {
        if !self.0.is_empty() {
            self.0.push_str(" | ");
        }
        self.0.push_str(line.trim());
        let excess = self.0.chars().count().saturating_sub(MAX_TAIL);
        if excess > 0 {
            self.0 = ['…'].into_iter().chain(self.0.chars().skip(excess + 1)).collect();
        }
    }

    /// Returns the text. It is empty if the program wrote nothing.
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// Returns a redactor of the call's secrets. A secret of several lines is redacted in each line.
pub(super) fn line_redactor(attempt: &Attempt<'_>) -> Redactor {
    let lines = attempt.secrets.values().flat_map(|secret| secret.expose_secret().lines());
    let lines: Vec<SecretString> = lines.map(SecretString::from).collect();
    Redactor::new(attempt.secrets.values().chain(&lines))
}

/// Logs each line, until the end of the input. `tail` always has the last lines.
pub(super) async fn log_lines(
    mut input: impl AsyncBufRead + Unpin,
    provider: &str,
    redactor: &Redactor,
    tail: watch::Sender<StderrTail>,
) {
    let mut line = Vec::new();
    while let Ok(true) = read_line(&mut input, &mut line).await {
        let line = shown(&line, redactor);
        if !line.trim().is_empty() {
            tracing::info!(provider, line, "MCP server wrote to stderr");
            tail.send_modify(|tail| tail.push(&line));
        }
    }
}

/// Returns the text of a line for the log.
fn shown(line: &[u8], redactor: &Redactor) -> String {
    let mut text = String::from_utf8_lossy(line).into_owned();
    redactor.text(&mut text);
    if line.len() == MAX_LINE {
        let kept = text.chars().count().saturating_sub(MAX_SECRET);
        text = text.chars().take(kept).chain(['…']).collect();
    }
    text
}

/// Reads the next line without its line break. Returns false at the end of the input.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        let free = MAX_LINE.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(part.get(..free).unwrap_or_default());
        let consumed = part.len() + usize::from(end.is_some());
        input.consume(consumed);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn lines(text: &str, buffer: usize) -> Vec<String> {
        let redactor = Redactor::new([&SecretString::from("s3cret-of-the-test")]);
        let mut input = BufReader::with_capacity(buffer, text.as_bytes());
        let (mut line, mut all) = (Vec::new(), Vec::new());
        while read_line(&mut input, &mut line).await.unwrap() {
            all.push(shown(&line, &redactor));
        }
        all
    }

    #[tokio::test]
    async fn secret_that_is_split_across_two_reads_is_redacted() {
        for buffer in 1..30 {
            let logged = lines("first\n\ntoken=s3cret-of-the-test.\nlast", buffer).await;
            assert_eq!(logged, ["first", "", "token=[redacted].", "last"], "{buffer}");
        }
    }

    #[test]
    fn tail_has_the_last_characters_of_the_last_lines() {
        let mut tail = StderrTail::default();
        ["Traceback:\r", "  line 1", "ImportError: é"].iter().for_each(|line| tail.push(line));
        assert_eq!(tail.text(), "Traceback: | line 1 | ImportError: é");
        tail.push(&"é".repeat(MAX_TAIL - 10));
        assert!(tail.text().starts_with("…ror: é | é"), "{}", tail.text());
        assert_eq!(tail.text().chars().count(), MAX_TAIL);
    }

    #[tokio::test]
    async fn shortened_line_contains_no_part_of_a_secret() {
        for before in MAX_LINE - 18..MAX_LINE + 2 {
            let logged = lines(&format!("{}s3cret-of-the-test\nnext", "x".repeat(before)), 4096).await;
            assert!(!logged[0].contains("s3") && logged[0].ends_with('…'), "{before}");
            assert_eq!(logged[1], "next");
        }
        let repeated = lines(&"s3cret-of-the-test".repeat(1000), 4096).await;
        assert!(!repeated[0].contains("s3"), "{}", repeated[0]);
    }
}
