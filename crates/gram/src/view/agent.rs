//! Reads, changes and builds patterns that represent agents: `[name:Agent {description, instruction, model} | tools…]`.

use std::borrow::{Borrow, BorrowMut};
use std::collections::BTreeSet;

use super::{ValidationError, ValidationErrorKind, text_property, validate_tool};
use crate::labels::{AGENT, is_agent, is_tool};
use crate::model::{DefinitionIndex, Pattern};
use crate::print::print_line;

/// A typed view of a pattern that is a valid agent.
///
/// `P` is a [`Pattern`] or a Rust reference to one. The setters need an owned pattern or a mutable reference.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSpecView<P>(P);

impl<P: Borrow<Pattern>> AgentSpecView<P> {
    /// Checks that `pattern` is a valid agent. Its tools may be references. A reference that is not in `definitions` is
    /// accepted; it is resolved by name when the agent runs.
    pub fn new(pattern: P, definitions: &DefinitionIndex) -> Result<Self, Vec<ValidationError>> {
        let errors = validate_agent(pattern.borrow(), definitions);
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
    pub fn description(&self) -> Option<&str> {
        self.pattern().get("description").and_then(|value| value.as_text())
    }

    /// Returns the model, such as `OpenAI/gpt-4o-mini`.
    pub fn model(&self) -> &str {
        text_property::get(self.pattern(), "model")
    }

    /// Splits the model at the first slash. Without a slash there is no provider.
    pub fn provider_and_model(&self) -> (Option<&str>, &str) {
        match self.model().split_once('/') {
            Some((provider, model)) => (Some(provider), model),
            None => (None, self.model()),
        }
    }

    /// Returns the instruction.
    pub fn instruction(&self) -> &str {
        text_property::get(self.pattern(), "instruction")
    }

    /// Returns the tools: tool patterns or references.
    pub fn tools(&self) -> impl Iterator<Item = &Pattern> {
        self.pattern().elements.iter()
    }
}

impl<P: BorrowMut<Pattern>> AgentSpecView<P> {
    /// Sets the name.
    pub fn set_name(&mut self, name: &str) -> Result<(), ValidationErrorKind> {
        if name.is_empty() {
            return Err(ValidationErrorKind::MissingAgentName);
        }
        name.clone_into(&mut self.pattern_mut().subject.identity);
        Ok(())
    }

    /// Sets or removes the description.
    pub fn set_description(&mut self, description: Option<&str>) {
        match description {
            Some(description) => text_property::set(self.pattern_mut(), "description", description),
            None => drop(self.pattern_mut().subject.properties.remove("description")),
        }
    }

    /// Sets the model.
    pub fn set_model(&mut self, model: &str) -> Result<(), ValidationErrorKind> {
        text_property::require_non_empty(self.name(), "model", model)?;
        text_property::set(self.pattern_mut(), "model", model);
        Ok(())
    }

    /// Sets the instruction.
    pub fn set_instruction(&mut self, instruction: &str) -> Result<(), ValidationErrorKind> {
        text_property::require_non_empty(self.name(), "instruction", instruction)?;
        text_property::set(self.pattern_mut(), "instruction", instruction);
        Ok(())
    }

    /// Replaces the tools.
    pub fn set_tools(&mut self, tools: Vec<Pattern>) -> Result<(), Vec<ValidationError>> {
        let errors = tool_errors(self.name(), &tools, &DefinitionIndex::default());
        if !errors.is_empty() {
            return Err(errors);
        }
        self.pattern_mut().elements = tools;
        Ok(())
    }

    fn pattern_mut(&mut self) -> &mut Pattern {
        self.0.borrow_mut()
    }
}

/// Returns all reasons why `pattern` is not a valid agent. If a tool is a reference, its definition must have the label
/// of a tool, but is not validated further.
pub fn validate_agent(pattern: &Pattern, definitions: &DefinitionIndex) -> Vec<ValidationError> {
    let agent = pattern.identity();
    let mut kinds = Vec::new();
    if !is_agent(pattern) {
        kinds.push(ValidationErrorKind::MissingAgentLabel);
    }
    if agent.is_empty() {
        kinds.push(ValidationErrorKind::MissingAgentName);
    }
    kinds.extend(text_property::optional(pattern, "description").err());
    for key in ["instruction", "model"] {
        let missing = || ValidationErrorKind::MissingProperty { agent: agent.to_owned(), key };
        kinds.extend(text_property::required(pattern, key, missing).err());
    }
    let mut errors: Vec<ValidationError> = kinds.into_iter().map(ValidationError::at_root).collect();
    errors.extend(tool_errors(agent, &pattern.elements, definitions));
    errors
}

/// A builder for an agent pattern.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentBuilder {
    /// The name.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The model, such as `OpenAI/gpt-4o-mini`.
    pub model: String,
    /// The instruction.
    pub instruction: String,
    /// The tools: tool patterns or references.
    pub tools: Vec<Pattern>,
}

impl AgentBuilder {
    /// Builds and validates the agent.
    pub fn build(self) -> Result<AgentSpecView<Pattern>, Vec<ValidationError>> {
        let mut pattern = Pattern::named(self.name).label(AGENT);
        pattern = pattern.property("instruction", self.instruction).property("model", self.model);
        if let Some(description) = self.description {
            pattern = pattern.property("description", description);
        }
        pattern.elements = self.tools;
        AgentSpecView::new(pattern, &DefinitionIndex::default())
    }
}

fn tool_errors(agent: &str, tools: &[Pattern], definitions: &DefinitionIndex) -> Vec<ValidationError> {
    let mut names = BTreeSet::new();
    let errors = tools.iter().enumerate().flat_map(|(index, element)| {
        let tool = definitions.resolve(element);
        let is_duplicate = !element.identity().is_empty() && !names.insert(element.identity());
        let duplicate =
            || ValidationErrorKind::DuplicateTool { agent: agent.to_owned(), tool: element.identity().to_owned() };
        let mut found: Vec<ValidationError> =
            is_duplicate.then(duplicate).map(ValidationError::at_root).into_iter().collect();
        if is_tool(tool) {
            if !element.is_reference() {
                found.extend(validate_tool(element));
            }
        } else if !tool.is_reference() {
            // The message shows the element and not its definition, because a definition may be large and may be
            // referenced many times.
            let element = print_line(&Pattern { subject: element.subject.clone(), elements: Vec::new() });
            found.push(ValidationError::at_root(ValidationErrorKind::NotATool { agent: agent.to_owned(), element }));
        }
        found.into_iter().map(move |error| error.nested(index))
    });
    errors.collect()
}
