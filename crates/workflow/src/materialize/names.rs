//! Names of steps, inputs and workflows.

use std::collections::BTreeSet;

use toolwright_expr::Expression;
use toolwright_types::{InvalidRefName, RefName, is_valid_step_name};

use super::source::{Selected, SourceRun};

/// The maximum length of a derived name.
const MAX_NAME: usize = 60;

/// Names that must not be the name of a step: expressions of the workflow use them for other values.
const AVOIDED: [&str; 2] = ["error", super::values::ITEM];

/// The names of the steps, which are unique.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// Returns a name that no other step has. A name that is taken gets a number.
    pub(super) fn add(&mut self, wanted: &str) -> String {
        let mut base = identifier(wanted);
        if !is_valid_step_name(&base) || AVOIDED.contains(&base.as_str()) {
            base.push_str("_step");
        }
        unique(&base, |name| self.0.insert(name.to_owned()))
    }
}

/// Returns `base`, or the first of `base_2`, `base_3`, … that `take` accepts.
pub(super) fn unique(base: &str, mut take: impl FnMut(&str) -> bool) -> String {
    let mut name = base.to_owned();
    let mut number = 2_u32;
    while !take(&name) {
        name = format!("{base}_{number}");
        number = number.saturating_add(1);
    }
    name
}

/// The last part of the name of a tool: `search-deals` for `hubspot/search-deals`.
pub(super) fn last_part(tool: &str) -> &str {
    tool.rsplit('/').next().unwrap_or(tool)
}

/// Converts a text to a name that expressions can use without brackets.
pub(super) fn identifier(text: &str) -> String {
    let mut name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(MAX_NAME).collect();
    if name.chars().all(|c| c == '_') {
        name = "value".to_owned();
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if !Expression::is_name(&name) {
        name.push_str("_value");
    }
    name
}

/// The default name of the workflow: the agent, tool or workflow of the run, or the tool of the only call, with the end
/// of the id of the run.
pub(super) fn workflow_name(source: &SourceRun, selected: &Selected<'_>) -> Result<RefName, InvalidRefName> {
    let subject = match selected.calls.as_slice() {
        [call] if !selected.whole_run => call.envelope.name.as_str(),
        _ => source.subject.as_str(),
    };
    let id = source.run.to_string().to_ascii_lowercase();
    let suffix = id.get(id.len().saturating_sub(8)..).unwrap_or(&id);
    let named = format!("{subject}-{suffix}").parse::<RefName>().ok();
    match named.filter(|name| !name.key().starts_with(toolwright_types::step_handlers::PREFIX)) {
        Some(name) => Ok(name),
        None => format!("run-{suffix}").parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_valid_unique_and_usable_in_expressions() {
        let mut names = Names::default();
        for (tool, name) in [
            ("hubspot/search-deals", "search_deals"),
            ("crm/search.deals", "search_deals_2"),
            ("2fa", "_2fa"),
            ("input", "input_step"),
            ("in", "in_value"),
            ("error", "error_step"),
            ("---", "value"),
        ] {
            let found = names.add(last_part(tool));
            assert_eq!(found, name, "{tool}");
            assert!(is_valid_step_name(&found) && Expression::is_name(&found), "{found}");
        }
    }
}
