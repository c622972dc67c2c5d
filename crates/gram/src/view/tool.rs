//! Tool specifications: `[name:ToolSpecification {description} | signature]`.

use std::borrow::{Borrow, BorrowMut};

use serde_json::Value as Json;

use super::{Flaw, Problem, TOOL_LABELS, is_tool, text};
use crate::model::Pattern;
use crate::print::print_signature;
use crate::signature::{Signature, SignatureError};

/// Typed access to a pattern that is a tool specification.
///
/// `P` is the pattern itself or a reference to it; with a mutable one, parts can be set.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpecView<P>(P);

impl<P: Borrow<Pattern>> ToolSpecView<P> {
    /// `pattern` as a tool, if it is one.
    pub fn new(pattern: P) -> Result<Self, Vec<Problem>> {
        let problems = validate_tool(pattern.borrow());
        if problems.is_empty() { Ok(Self(pattern)) } else { Err(problems) }
    }

    /// The pattern.
    pub fn pattern(&self) -> &Pattern {
        self.0.borrow()
    }

    /// Its name, which is the identity of the pattern.
    pub fn name(&self) -> &str {
        self.pattern().identity()
    }

    /// What it does.
    pub fn description(&self) -> &str {
        text::get(self.pattern(), "description")
    }

    /// Its signature as a pattern.
    pub fn signature_pattern(&self) -> Option<&Pattern> {
        self.pattern().elements.first()
    }

    /// Its signature as text, as in `(personName::Text)==>(::String)`.
    pub fn signature_text(&self) -> String {
        self.signature_pattern().map(print_signature).unwrap_or_default()
    }

    /// What it takes and returns.
    pub fn signature(&self) -> Result<Signature, SignatureError> {
        Signature::from_pattern(self.signature_pattern().ok_or(SignatureError::NotAPath)?)
    }

    /// The JSON Schema of what it takes, made from the signature each time: it is stored nowhere else.
    pub fn schema(&self) -> Result<Json, SignatureError> {
        Ok(self.signature()?.to_schema())
    }
}

impl<P: BorrowMut<Pattern>> ToolSpecView<P> {
    /// Changes the name.
    pub fn set_name(&mut self, name: &str) -> Result<(), Flaw> {
        if name.is_empty() {
            return Err(Flaw::NoToolName);
        }
        name.clone_into(&mut self.pattern_mut().subject.identity);
        Ok(())
    }

    /// Changes what it does.
    pub fn set_description(&mut self, description: &str) -> Result<(), Flaw> {
        text::not_empty(self.name(), "description", description)?;
        text::set(self.pattern_mut(), "description", description);
        Ok(())
    }

    /// Changes the signature.
    pub fn set_signature_pattern(&mut self, signature: Pattern) -> Result<(), SignatureError> {
        Signature::from_pattern(&signature)?;
        self.pattern_mut().elements = vec![signature];
        Ok(())
    }

    /// Changes the signature.
    pub fn set_signature(&mut self, signature: &Signature) {
        self.pattern_mut().elements = vec![signature.to_pattern()];
    }

    fn pattern_mut(&mut self) -> &mut Pattern {
        self.0.borrow_mut()
    }
}

/// Everything that keeps `pattern` from being a tool.
pub fn validate_tool(pattern: &Pattern) -> Vec<Problem> {
    let tool = pattern.identity().to_owned();
    let mut flaws = Vec::new();
    if !is_tool(pattern) {
        flaws.push(Flaw::NoToolLabel);
    }
    if tool.is_empty() {
        flaws.push(Flaw::NoToolName);
    }
    flaws.extend(text::required(pattern, "description", || Flaw::NoDescription { tool: tool.clone() }).err());
    let mut problems: Vec<Problem> = flaws.into_iter().map(Problem::here).collect();
    problems.extend(signature_problem(&tool, &pattern.elements));
    problems
}

/// The parts of a tool specification, to make one of.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpecParts {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it takes and returns.
    pub signature: Signature,
}

impl ToolSpecParts {
    /// A tool specification of these parts.
    pub fn build(self) -> Result<ToolSpecView<Pattern>, Vec<Problem>> {
        let [label, _] = TOOL_LABELS;
        let pattern = Pattern::named(self.name).label(label).property("description", self.description);
        ToolSpecView::new(pattern.element(self.signature.to_pattern()))
    }
}

fn signature_problem(tool: &str, elements: &[Pattern]) -> Option<Problem> {
    match elements {
        [signature] => {
            let source = Signature::from_pattern(signature).err()?;
            Some(Problem::here(Flaw::Signature { tool: tool.to_owned(), source }).below(0))
        }
        _ => Some(Problem::here(Flaw::NotOneSignature { tool: tool.to_owned(), count: elements.len() })),
    }
}
