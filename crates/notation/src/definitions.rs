//! Reads all definitions of several documents.

use std::collections::HashMap;

use toolwright_gram::{DefinitionIndex, Pattern, is_agent, is_tool};
use toolwright_types::{AgentDefinition, ToolDefinition};

use crate::{AgentBundle, DefinitionError, read_tool};

/// A definition read from a document.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedDefinition {
    /// An agent.
    Agent(Box<AgentDefinition>),
    /// A tool.
    Tool(Box<ToolDefinition>),
}

/// A definition and its location.
#[derive(Debug, Clone, PartialEq)]
pub struct LocatedDefinition {
    /// The index of the document, counted from 0.
    pub text: usize,
    /// The path from the document to the pattern, one index per level.
    pub path: Vec<usize>,
    /// The definition.
    pub definition: ParsedDefinition,
}

/// Reads the agents and tools of several documents, including tools inside of agents. A document may refer to
/// definitions in the other documents. If several documents contain equal definitions of a tool, the tool is returned
/// once.
///
/// Returns all errors if there are any, each with the index of its document.
pub fn read_all(texts: &[Pattern]) -> Result<Vec<LocatedDefinition>, Vec<(usize, DefinitionError)>> {
    let definitions = DefinitionIndex::from_patterns(texts);
    let mut reader = Reader { definitions, found: Vec::new(), tools: HashMap::new(), errors: Vec::new() };
    for (number, text) in texts.iter().enumerate() {
        reader.visit(number, text, &mut Vec::new());
    }
    if reader.errors.is_empty() { Ok(reader.found) } else { Err(reader.errors) }
}

struct Reader<'p> {
    definitions: DefinitionIndex<'p>,
    found: Vec<LocatedDefinition>,
    tools: HashMap<String, Vec<ToolDefinition>>,
    errors: Vec<(usize, DefinitionError)>,
}

impl Reader<'_> {
    // Recursion is safe because the parser limits the nesting of elements.
    fn visit(&mut self, text: usize, pattern: &Pattern, path: &mut Vec<usize>) {
        let mut report = |errors: Vec<DefinitionError>, path: &[usize]| {
            self.errors.extend(errors.into_iter().map(|error| {
                let path = path.iter().chain(&error.path).copied().collect();
                (text, DefinitionError { path, ..error })
            }));
        };
        if is_agent(pattern) {
            match AgentBundle::compile(pattern, &self.definitions) {
                Ok(agent) => self.found.push(LocatedDefinition {
                    text,
                    path: path.clone(),
                    definition: ParsedDefinition::Agent(Box::new(agent.definition)),
                }),
                // The errors of the agent include the errors of its tools, so the tools are not visited separately.
                Err(errors) => return report(errors, path),
            }
        } else if is_tool(pattern) {
            match read_tool(pattern) {
                Ok(tool) => self.tool(text, path, tool),
                Err(errors) => report(errors, path),
            }
            return;
        }
        for (index, element) in pattern.elements.iter().enumerate() {
            path.push(index);
            self.visit(text, element, path);
            path.pop();
        }
    }

    fn tool(&mut self, text: usize, path: &[usize], tool: ToolDefinition) {
        let known = self.tools.entry(tool.ref_name.key()).or_default();
        if !known.contains(&tool) {
            known.push(tool.clone());
            self.found.push(LocatedDefinition {
                text,
                path: path.to_vec(),
                definition: ParsedDefinition::Tool(Box::new(tool)),
            });
        }
    }
}
