//! Agents: `[name:Agent {description, instruction, model} | tools…]`.

use std::borrow::{Borrow, BorrowMut};
use std::collections::BTreeSet;

use super::{AGENT, Flaw, Problem, is_agent, is_tool, text, validate_tool};
use crate::model::{Definitions, Pattern};
use crate::print::print_line;

/// Typed access to a pattern that is an agent.
///
/// `P` is the pattern itself or a reference to it; with a mutable one, parts can be set.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentView<P>(P);

impl<P: Borrow<Pattern>> AgentView<P> {
    /// `pattern` as an agent, if it is one. Its tools may be references into `definitions`, or to tools that are not known
    /// there: such a reference is a name, and binding it is up to whoever runs the agent.
    pub fn new(pattern: P, definitions: &Definitions) -> Result<Self, Vec<Problem>> {
        let problems = validate_agent(pattern.borrow(), definitions);
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

    /// What it is for.
    pub fn description(&self) -> Option<&str> {
        self.pattern().get("description").and_then(|value| value.as_text())
    }

    /// The model, as in `OpenAI/gpt-4o-mini`.
    pub fn model(&self) -> &str {
        text::get(self.pattern(), "model")
    }

    /// The model in two parts: what stands before the first slash, if there is one, and the rest.
    pub fn provider_and_model(&self) -> (Option<&str>, &str) {
        match self.model().split_once('/') {
            Some((provider, model)) => (Some(provider), model),
            None => (None, self.model()),
        }
    }

    /// What it is told to do.
    pub fn instruction(&self) -> &str {
        text::get(self.pattern(), "instruction")
    }

    /// Its tools: tool patterns, or references to them.
    pub fn tools(&self) -> impl Iterator<Item = &Pattern> {
        self.pattern().elements.iter()
    }
}

impl<P: BorrowMut<Pattern>> AgentView<P> {
    /// Changes the name.
    pub fn set_name(&mut self, name: &str) -> Result<(), Flaw> {
        if name.is_empty() {
            return Err(Flaw::NoAgentName);
        }
        name.clone_into(&mut self.pattern_mut().subject.identity);
        Ok(())
    }

    /// Changes what it is for, or takes it away.
    pub fn set_description(&mut self, description: Option<&str>) {
        match description {
            Some(description) => text::set(self.pattern_mut(), "description", description),
            None => drop(self.pattern_mut().subject.properties.remove("description")),
        }
    }

    /// Changes the model.
    pub fn set_model(&mut self, model: &str) -> Result<(), Flaw> {
        text::not_empty(self.name(), "model", model)?;
        text::set(self.pattern_mut(), "model", model);
        Ok(())
    }

    /// Changes what it is told to do.
    pub fn set_instruction(&mut self, instruction: &str) -> Result<(), Flaw> {
        text::not_empty(self.name(), "instruction", instruction)?;
        text::set(self.pattern_mut(), "instruction", instruction);
        Ok(())
    }

    /// Replaces its tools.
    pub fn set_tools(&mut self, tools: Vec<Pattern>) -> Result<(), Vec<Problem>> {
        let problems = tool_problems(self.name(), &tools, &Definitions::default());
        if !problems.is_empty() {
            return Err(problems);
        }
        self.pattern_mut().elements = tools;
        Ok(())
    }

    fn pattern_mut(&mut self) -> &mut Pattern {
        self.0.borrow_mut()
    }
}

/// Everything that keeps `pattern` from being an agent. A tool that is a reference is looked at where it is defined.
pub fn validate_agent(pattern: &Pattern, definitions: &Definitions) -> Vec<Problem> {
    let agent = pattern.identity();
    let mut flaws = Vec::new();
    if !is_agent(pattern) {
        flaws.push(Flaw::NoAgentLabel);
    }
    if agent.is_empty() {
        flaws.push(Flaw::NoAgentName);
    }
    flaws.extend(text::optional(pattern, "description").err());
    for key in ["instruction", "model"] {
        let missing = || Flaw::AgentWithout { agent: agent.to_owned(), key };
        flaws.extend(text::required(pattern, key, missing).err());
    }
    let mut problems: Vec<Problem> = flaws.into_iter().map(Problem::here).collect();
    problems.extend(tool_problems(agent, &pattern.elements, definitions));
    problems
}

/// The parts of an agent, to make one of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentParts {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its model, as in `OpenAI/gpt-4o-mini`.
    pub model: String,
    /// What it is told to do.
    pub instruction: String,
    /// Its tools, or references to them.
    pub tools: Vec<Pattern>,
}

impl AgentParts {
    /// An agent of these parts.
    pub fn build(self) -> Result<AgentView<Pattern>, Vec<Problem>> {
        let mut pattern = Pattern::named(self.name).label(AGENT);
        pattern = pattern.property("instruction", self.instruction).property("model", self.model);
        if let Some(description) = self.description {
            pattern = pattern.property("description", description);
        }
        pattern.elements = self.tools;
        AgentView::new(pattern, &Definitions::default())
    }
}

fn tool_problems(agent: &str, tools: &[Pattern], definitions: &Definitions) -> Vec<Problem> {
    let mut names = BTreeSet::new();
    let problems = tools.iter().enumerate().flat_map(|(index, element)| {
        let tool = definitions.follow(element);
        let is_duplicate = !element.identity().is_empty() && !names.insert(element.identity());
        let duplicate = || Flaw::DuplicateTool { agent: agent.to_owned(), tool: element.identity().to_owned() };
        let mut found: Vec<Problem> = is_duplicate.then(duplicate).map(Problem::here).into_iter().collect();
        if is_tool(tool) {
            if !element.is_reference() {
                found.extend(validate_tool(element));
            }
        } else if !tool.is_reference() {
            // As it is written here: what a reference leads to may be large, and there may be many references.
            let element = print_line(&Pattern { subject: element.subject.clone(), elements: Vec::new() });
            found.push(Problem::here(Flaw::NotATool { agent: agent.to_owned(), element }));
        }
        found.into_iter().map(move |problem| problem.below(index))
    });
    problems.collect()
}
