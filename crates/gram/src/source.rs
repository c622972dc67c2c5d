//! The doors: from bytes to text, from text to a pattern.

use crate::diagnostic::{Code, Diagnostics, Mistake};
use crate::model::{self, Pattern};
use crate::position::Span;

/// Reads a text into a pattern: the one it holds, or a root around all of them.
///
/// Whether names are defined and agents complete is the matter of [`crate::check`].
pub fn parse(source: &str) -> Result<Pattern, Diagnostics> {
    model::parse(source)
}

/// The text of `bytes`, or where they stop being UTF-8.
pub fn decode(bytes: &[u8]) -> Result<&str, Diagnostics> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let text = String::from_utf8_lossy(valid);
        let byte = bytes.get(valid.len()).copied().unwrap_or_default();
        let span = Span::new(valid.len(), valid.len() + error.error_len().unwrap_or(1));
        let mistake = Mistake::new(Code::InvalidUtf8, span, format!("byte `0x{byte:02X}` is not UTF-8"));
        Diagnostics::of_one(&text, mistake.hint("save the file as UTF-8"))
    })
}
