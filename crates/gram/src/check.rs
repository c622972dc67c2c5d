//! Everything that can be said against a text, with positions.

use crate::diagnostic::{Code, Diagnostic, MAX_MISTAKES, Mistake, locate};
use crate::model::{self, Definitions, Pattern};
use crate::syntax::Tree;
use crate::view::{self, Flaw, Problem};

/// All mistakes of a text: of its notation, of its names, and of the agents and tools in it.
///
/// A text that breaks the grammar is not looked at further. Names may be defined in `others`.
pub fn check(source: &str, others: &Definitions) -> Vec<Diagnostic> {
    let tree = match Tree::parse(source).valid() {
        Ok(tree) => tree,
        Err(mistakes) => return mistakes.into_vec(),
    };
    let pattern = match model::lower(&tree) {
        Ok(pattern) => pattern,
        Err(mistakes) => return mistakes.into_vec(),
    };
    let mut mistakes = model::names(&tree, others);
    // More would not be listed, and each costs a walk from the top of the text.
    for (path, problem) in problems(&pattern, others).into_iter().take(MAX_MISTAKES + 1) {
        let span = model::locate_element(&tree, &path);
        mistakes.push(Mistake::new(code(&problem.flaw), span, problem.to_string()));
    }
    locate(source, mistakes)
}

/// The problems of each agent and tool, with the path from the text to what is wrong.
fn problems(text: &Pattern, others: &Definitions) -> Vec<(Vec<usize>, Problem)> {
    let mut found = Vec::new();
    let definitions = others.with(text);
    visit(text, &definitions, &mut Vec::new(), &mut found);
    found
}

fn visit(pattern: &Pattern, definitions: &Definitions, path: &mut Vec<usize>, found: &mut Vec<(Vec<usize>, Problem)>) {
    let (problems, is_whole) = if view::is_agent(pattern) {
        (view::validate_agent(pattern, definitions), true)
    } else if view::is_tool(pattern) {
        (view::validate_tool(pattern), true)
    } else {
        (Vec::new(), false)
    };
    found.extend(problems.into_iter().map(|problem| {
        let whole: Vec<usize> = path.iter().chain(&problem.path).copied().collect();
        (whole, problem)
    }));
    // The tools of an agent were looked at with it.
    if is_whole {
        return;
    }
    for (index, element) in pattern.elements.iter().enumerate() {
        path.push(index);
        visit(element, definitions, path, found);
        path.pop();
    }
}

fn code(flaw: &Flaw) -> Code {
    match flaw {
        Flaw::Signature { .. } => Code::InvalidSignature,
        Flaw::NoToolLabel | Flaw::NoToolName | Flaw::NoDescription { .. } | Flaw::NotOneSignature { .. } => {
            Code::InvalidTool
        }
        _ => Code::InvalidAgent,
    }
}
