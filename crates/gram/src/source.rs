//! Decodes bytes and parses text.

use crate::diagnostic::{DiagnosticCode, Diagnostics, SpannedError};
use crate::model::{self, Pattern};
use crate::position::Span;

/// Parses a document. If the document has exactly one pattern, returns that pattern. Otherwise returns a root pattern
/// whose elements are the patterns of the document.
///
/// Undefined names and incomplete agents are accepted. [`crate::check`] reports them.
pub fn parse(source: &str) -> Result<Pattern, Diagnostics> {
    model::parse(source)
}

/// Decodes UTF-8. The error gives the position of the first invalid byte.
pub fn decode(bytes: &[u8]) -> Result<&str, Diagnostics> {
    std::str::from_utf8(bytes).map_err(|error| {
        let into_result = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let text = String::from_utf8_lossy(into_result);
        let byte = bytes.get(into_result.len()).copied().unwrap_or_default();
        let span = Span::new(into_result.len(), into_result.len() + error.error_len().unwrap_or(1));
        let error =
            SpannedError::new(DiagnosticCode::InvalidUtf8, span, format!("byte `0x{byte:02X}` is not valid UTF-8"));
        Diagnostics::single(&text, error.hint("save the file as UTF-8"))
    })
}
