//! Reads, changes and builds patterns that represent tools: `[name:ToolSpecification {description} | signature]`.

use std::borrow::{Borrow, BorrowMut};

use serde_json::Value as Json;

use super::{ValidationError, ValidationErrorKind, text_property};
use crate::labels::{TOOL_LABELS, is_tool};
use crate::model::Pattern;
use crate::print::print_signature;
use crate::signature::{Signature, SignatureError};

/// A typed view of a pattern that is a valid tool specification.
///
/// `P` is a [`Pattern`] or a Rust reference to one. The setters need an owned pattern or a mutable reference.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpecView<P>(P);

impl<P: Borrow<Pattern>> ToolSpecView<P> {
    /// Checks that `pattern` is a valid tool specification.
    pub fn new(pattern: P) -> Result<Self, Vec<ValidationError>> {
        let errors = validate_tool(pattern.borrow());
        if errors.is_empty() { Ok(Self(pattern)) } else { Err(errors) }
    }

    /// Returns the pattern.
    pub fn pattern(&self) -> &Pattern {
        self.0.borrow()
    }

    /// Returns the name, which is the identity of the pattern.
    pub fn name(&self) -> &str {
        self.pattern().identity()
    }

    /// Returns the description.
    pub fn description(&self) -> &str {
        text_property::get(self.pattern(), "description")
    }

    /// Returns the signature as a pattern.
    pub fn signature_pattern(&self) -> Option<&Pattern> {
        self.pattern().elements.first()
    }

    /// Returns the signature as text, such as `(personName::Text)==>(::String)`.
    pub fn signature_text(&self) -> String {
        self.signature_pattern().map(print_signature).unwrap_or_default()
    }

    /// Returns the parsed signature.
    pub fn signature(&self) -> Result<Signature, SignatureError> {
        Signature::from_pattern(self.signature_pattern().ok_or(SignatureError::NotAPath)?)
    }

    /// Returns the JSON Schema of the parameters, derived from the signature on each call.
    pub fn schema(&self) -> Result<Json, SignatureError> {
        Ok(self.signature()?.to_schema())
    }
}

impl<P: BorrowMut<Pattern>> ToolSpecView<P> {
    /// Sets the name.
    pub fn set_name(&mut self, name: &str) -> Result<(), ValidationErrorKind> {
        if name.is_empty() {
            return Err(ValidationErrorKind::MissingToolName);
        }
        name.clone_into(&mut self.pattern_mut().subject.identity);
        Ok(())
    }

    /// Sets the description.
    pub fn set_description(&mut self, description: &str) -> Result<(), ValidationErrorKind> {
        text_property::require_non_empty(self.name(), "description", description)?;
        text_property::set(self.pattern_mut(), "description", description);
        Ok(())
    }

    /// Sets the signature from a pattern.
    pub fn set_signature_pattern(&mut self, signature: Pattern) -> Result<(), SignatureError> {
        Signature::from_pattern(&signature)?;
        self.pattern_mut().elements = vec![signature];
        Ok(())
    }

    /// Sets the signature.
    pub fn set_signature(&mut self, signature: &Signature) {
        self.pattern_mut().elements = vec![signature.to_pattern()];
    }

    fn pattern_mut(&mut self) -> &mut Pattern {
        self.0.borrow_mut()
    }
}

/// Returns all reasons why `pattern` is not a valid tool specification.
pub fn validate_tool(pattern: &Pattern) -> Vec<ValidationError> {
    let tool = pattern.identity().to_owned();
    let mut kinds = Vec::new();
    if !is_tool(pattern) {
        kinds.push(ValidationErrorKind::MissingToolLabel);
    }
    if tool.is_empty() {
        kinds.push(ValidationErrorKind::MissingToolName);
    }
    kinds.extend(
        text_property::required(pattern, "description", || ValidationErrorKind::MissingDescription {
            tool: tool.clone(),
        })
        .err(),
    );
    let mut errors: Vec<ValidationError> = kinds.into_iter().map(ValidationError::at_root).collect();
    errors.extend(signature_error(&tool, &pattern.elements));
    errors
}

/// A builder for a tool specification.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpecBuilder {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The signature.
    pub signature: Signature,
}

impl ToolSpecBuilder {
    /// Builds and validates the tool specification.
    pub fn build(self) -> Result<ToolSpecView<Pattern>, Vec<ValidationError>> {
        let [label, _] = TOOL_LABELS;
        let pattern = Pattern::named(self.name).label(label).property("description", self.description);
        ToolSpecView::new(pattern.element(self.signature.to_pattern()))
    }
}

fn signature_error(tool: &str, elements: &[Pattern]) -> Option<ValidationError> {
    match elements {
        [signature] => {
            let source = Signature::from_pattern(signature).err()?;
            Some(ValidationError::at_root(ValidationErrorKind::Signature { tool: tool.to_owned(), source }).nested(0))
        }
        _ => Some(ValidationError::at_root(ValidationErrorKind::SignatureCount {
            tool: tool.to_owned(),
            count: elements.len(),
        })),
    }
}
