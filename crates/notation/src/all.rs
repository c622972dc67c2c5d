//! Everything that some texts define.

use std::collections::HashMap;

use toolwright_gram::{Definitions, Pattern, is_agent, is_tool};
use toolwright_types::{AgentDefinition, ToolDefinition};

use crate::{Agent, Problem, read_tool};

/// A definition that a text holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    /// An agent.
    Agent(Box<AgentDefinition>),
    /// A tool.
    Tool(Box<ToolDefinition>),
}

/// A definition and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Defined {
    /// Which of the texts, from 0.
    pub text: usize,
    /// Leads from the text to the pattern, one index for each level.
    pub path: Vec<usize>,
    /// What is defined.
    pub definition: Definition,
}

/// The agents and tools of some texts that know each other's names, tools inside of agents included. A tool that several
/// texts define in the same way is one.
///
/// Fails with everything that is wrong, each with the number of its text.
pub fn read_all(texts: &[Pattern]) -> Result<Vec<Defined>, Vec<(usize, Problem)>> {
    let definitions = Definitions::of(texts);
    let mut reader = Reader { definitions, found: Vec::new(), tools: HashMap::new(), problems: Vec::new() };
    for (number, text) in texts.iter().enumerate() {
        reader.visit(number, text, &mut Vec::new());
    }
    if reader.problems.is_empty() { Ok(reader.found) } else { Err(reader.problems) }
}

struct Reader<'p> {
    definitions: Definitions<'p>,
    found: Vec<Defined>,
    tools: HashMap<String, Vec<ToolDefinition>>,
    problems: Vec<(usize, Problem)>,
}

impl Reader<'_> {
    /// Recursion follows elements, whose depth is bounded.
    fn visit(&mut self, text: usize, pattern: &Pattern, path: &mut Vec<usize>) {
        let mut wrong = |problems: Vec<Problem>, path: &[usize]| {
            self.problems.extend(problems.into_iter().map(|problem| {
                let path = path.iter().chain(&problem.path).copied().collect();
                (text, Problem { path, ..problem })
            }));
        };
        if is_agent(pattern) {
            match Agent::compile(pattern, &self.definitions) {
                Ok(agent) => self.found.push(Defined {
                    text,
                    path: path.clone(),
                    definition: Definition::Agent(Box::new(agent.definition)),
                }),
                // What is wrong with its tools is said with it.
                Err(problems) => return wrong(problems, path),
            }
        } else if is_tool(pattern) {
            match read_tool(pattern) {
                Ok(tool) => self.tool(text, path, tool),
                Err(problems) => wrong(problems, path),
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
            self.found.push(Defined { text, path: path.to_vec(), definition: Definition::Tool(Box::new(tool)) });
        }
    }
}
