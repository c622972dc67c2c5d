//! Checks a document and reports all errors with their positions.

use crate::diagnostic::{Diagnostic, DiagnosticCode, MAX_DIAGNOSTICS, SpannedError, locate};
use crate::labels::{is_agent, is_tool};
use crate::model::{self, DefinitionIndex, Pattern};
use crate::position::LineIndex;
use crate::syntax::Tree;
use crate::view::{self, ValidationError, ValidationErrorKind};

/// Returns all errors of a document: syntax errors, name errors, and invalid agents and tools.
///
/// Names and definitions are checked only if the syntax is valid. References may point to definitions in `others`.
pub fn check(source: &str, others: &DefinitionIndex) -> Vec<Diagnostic> {
    let tree = match Tree::parse(source).into_result() {
        Ok(tree) => tree,
        Err(errors) => return errors.into_vec(),
    };
    let pattern = match model::lower(&tree) {
        Ok(pattern) => pattern,
        Err(errors) => return errors.into_vec(),
    };
    let mut errors = model::check_names(&tree, others);
    // `locate` reports at most `MAX_DIAGNOSTICS` errors. It needs one more error to report that there are too many.
    // Further spans are not computed, because each search for a span starts at the root of the tree.
    for (path, invalid) in validate(&pattern, others).into_iter().take(MAX_DIAGNOSTICS + 1) {
        let span = model::locate_element(&tree, &path);
        errors.push(SpannedError::new(code(&invalid.kind), span, invalid.to_string()));
    }
    locate(source, errors)
}

impl Diagnostic {
    /// Creates a diagnostic for an element of the document `source`. `path` has the format of
    /// [`crate::ValidationError::path`].
    pub fn for_element(source: &str, path: &[usize], code: DiagnosticCode, message: impl Into<String>) -> Self {
        let span = model::locate_element(&Tree::parse(source), path);
        let lines = LineIndex::new(source);
        let (position, end) = (lines.position(span.start), lines.position(span.end));
        Self { code, span, position, end, message: message.into(), hint: None }
    }
}

/// Validates each agent and tool in `text`. Returns each error with the path from the document root to the invalid
/// element.
fn validate(text: &Pattern, others: &DefinitionIndex) -> Vec<(Vec<usize>, ValidationError)> {
    let mut found = Vec::new();
    let definitions = others.with(text);
    visit(text, &definitions, &mut Vec::new(), &mut found);
    found
}

fn visit(
    pattern: &Pattern,
    definitions: &DefinitionIndex,
    path: &mut Vec<usize>,
    found: &mut Vec<(Vec<usize>, ValidationError)>,
) {
    let (errors, is_agent_or_tool) = if is_agent(pattern) {
        (view::validate_agent(pattern, definitions), true)
    } else if is_tool(pattern) {
        (view::validate_tool(pattern), true)
    } else {
        (Vec::new(), false)
    };
    found.extend(errors.into_iter().map(|error| {
        let full_path: Vec<usize> = path.iter().chain(&error.path).copied().collect();
        (full_path, error)
    }));
    // `validate_agent` has already validated the agent's tools.
    if is_agent_or_tool {
        return;
    }
    for (index, element) in pattern.elements.iter().enumerate() {
        path.push(index);
        visit(element, definitions, path, found);
        path.pop();
    }
}

fn code(kind: &ValidationErrorKind) -> DiagnosticCode {
    match kind {
        ValidationErrorKind::Signature { .. } => DiagnosticCode::InvalidSignature,
        ValidationErrorKind::MissingToolLabel
        | ValidationErrorKind::MissingToolName
        | ValidationErrorKind::MissingDescription { .. }
        | ValidationErrorKind::SignatureCount { .. } => DiagnosticCode::InvalidTool,
        _ => DiagnosticCode::InvalidAgent,
    }
}
