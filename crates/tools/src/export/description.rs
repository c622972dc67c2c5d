//! Descriptions of agentic tools for their callers: what the tool is for, its inputs and its outputs. A description does
//! not mention the embedded model.

use serde_json::{Map, Value};
use toolwright_types::{AgenticConfig, ExecutionMode, ToolDefinition, ToolExample};

use super::names::words;
use super::{lower, root, truncate};

/// The maximum length of a description, in characters.
pub(crate) const MAX_DESCRIPTION_CHARS: usize = 2500;
/// The maximum length of the purpose of the tool, so that the inputs and outputs have enough space.
const MAX_PURPOSE_CHARS: usize = 800;
/// The maximum length of the description of one operation, input or output.
const MAX_ENTRY_CHARS: usize = 240;
/// The maximum number of operations that are listed.
const MAX_OPERATIONS: usize = 12;
/// The maximum number of examples of an input.
const MAX_EXAMPLES: usize = 3;

/// Verbs with which descriptions of tools start. The purpose of a tool continues the sentence "Use this tool to …" if it
/// starts with one of them.
const VERBS: [&str; 70] = [
    "add",
    "aggregate",
    "analyze",
    "answer",
    "approve",
    "archive",
    "assign",
    "book",
    "build",
    "calculate",
    "call",
    "cancel",
    "categorize",
    "change",
    "check",
    "classify",
    "collect",
    "compare",
    "compute",
    "convert",
    "count",
    "create",
    "delete",
    "detect",
    "draft",
    "edit",
    "enrich",
    "execute",
    "explain",
    "export",
    "extract",
    "fetch",
    "fill",
    "find",
    "format",
    "generate",
    "get",
    "handle",
    "import",
    "list",
    "look",
    "maintain",
    "make",
    "manage",
    "match",
    "merge",
    "monitor",
    "move",
    "organize",
    "perform",
    "plan",
    "post",
    "prepare",
    "process",
    "publish",
    "query",
    "read",
    "report",
    "research",
    "resolve",
    "retrieve",
    "return",
    "run",
    "schedule",
    "search",
    "send",
    "summarize",
    "sync",
    "translate",
    "update",
];

/// Returns the description of an agentic tool: the text of its author, or a generated one.
pub(crate) fn agentic_description(definition: &ToolDefinition, input: &Value, output: &Value) -> Option<String> {
    let config = definition.agentic.as_ref()?;
    let written = definition.long_description.as_deref().filter(|text| !text.trim().is_empty());
    let text = written.map_or_else(|| generated(definition, config, input, output), str::to_owned);
    Some(truncate(&text, MAX_DESCRIPTION_CHARS))
}

fn generated(definition: &ToolDefinition, config: &AgenticConfig, input: &Value, output: &Value) -> String {
    let parameters = lower::parameters(&root::lowered(input), lower::Dialect::Universal);
    let mut text = purpose(definition);
    if let Some(operations) = operations(config) {
        text.push(' ');
        text.push_str(&operations);
    }
    let (required, optional) = inputs(&parameters, &definition.examples);
    for (title, entries) in [
        ("# Required inputs (always include these):", required),
        ("# Optional inputs (include when the task needs them):", optional),
    ] {
        if !entries.is_empty() {
            text.push_str(&format!("\n\n{title}\n{}", entries.join("\n")));
        }
    }
    text.push_str(&format!("\n\n# What the tool outputs:\n{}", outputs(config.execution_mode, output)));
    text
}

/// Returns what the tool is for, as sentences that start with "Use this tool to".
fn purpose(definition: &ToolDefinition) -> String {
    let written = definition.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let Some(written) = written else {
        return format!("Use this tool to perform tasks of \"{}\" in natural language.", definition.display_name());
    };
    let written = sentence(&truncate(written, MAX_PURPOSE_CHARS));
    if written.to_lowercase().starts_with("use this tool") {
        return written;
    }
    let (first, rest) = written.split_once(char::is_whitespace).unwrap_or((&written, ""));
    match base_form(first) {
        Some(verb) if !rest.is_empty() => format!("Use this tool to {verb} {rest}"),
        _ => format!("Use this tool to do the following: {written}"),
    }
}

/// Returns the base form of a verb such as `manages` or `Manage`, if the verb is known.
fn base_form(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    VERBS.into_iter().find(|verb| word == *verb || word == third_person(verb))
}

fn third_person(verb: &str) -> String {
    let consonant_y = verb.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_y {
        Some(stem) => format!("{stem}ies"),
        None if ["s", "sh", "ch", "x", "z", "o"].iter().any(|ending| verb.ends_with(ending)) => format!("{verb}es"),
        None => format!("{verb}s"),
    }
}

/// Returns which operations the tool performs, in words. Their names are internal, because the caller cannot call them.
fn operations(config: &AgenticConfig) -> Option<String> {
    let allocation = &config.tool_allocation;
    let sequence = allocation.sequence.iter().map(|entry| (entry.purpose.as_deref(), entry.action_slug.as_deref()));
    let available = allocation.available_tools.iter().map(|entry| (None, entry.action_slug.as_deref()));
    let mut named: Vec<String> = Vec::new();
    for (purpose, slug) in sequence.chain(available) {
        let purpose = purpose.map(str::trim).filter(|purpose| !purpose.is_empty());
        let operation = purpose.map(operation).or_else(|| slug.map(operation_of_slug));
        if let Some(operation) = operation.filter(|operation| !operation.is_empty() && !named.contains(operation)) {
            named.push(operation);
        }
    }
    if named.is_empty() {
        return None;
    }
    let more = named.len().saturating_sub(MAX_OPERATIONS);
    named.truncate(MAX_OPERATIONS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let listed = named.join("; ");
    Some(match config.execution_mode {
        ExecutionMode::Deterministic => {
            format!("It performs the operations that the task needs, in this order: {listed}{more}.")
        }
        ExecutionMode::Agentic => {
            format!("It selects the operations that the task needs from these: {listed}{more}.")
        }
    })
}

/// Returns a purpose without its full stop, and without a capital letter at its start unless an abbreviation starts it.
fn operation(purpose: &str) -> String {
    let purpose = truncate(purpose.trim_end_matches('.'), MAX_ENTRY_CHARS);
    let mut letters = purpose.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(purpose.chars().skip(1)).collect()
        }
        _ => purpose,
    }
}

/// Returns the words in the last segment of a name: `search deals` for `hubspot/search-deals@^1.2`. Returns the words in
/// the whole name if the last segment is one word: `google search` for `google/search`.
fn operation_of_slug(slug: &str) -> String {
    let name = slug.split('@').next().unwrap_or_default();
    let mut operation = words(name.rsplit('/').next().unwrap_or_default());
    if operation.len() == 1 {
        operation = words(name);
        operation.dedup();
    }
    operation.join(" ")
}

/// Returns the lines for the required and the optional inputs.
fn inputs(parameters: &Value, examples: &[ToolExample]) -> (Vec<String>, Vec<String>) {
    let required = parameters.get("required").and_then(Value::as_array);
    let properties = parameters.get("properties").and_then(Value::as_object).into_iter().flatten();
    let (mut always, mut sometimes) = (Vec::new(), Vec::new());
    for (name, schema) in properties {
        let is_required = required.is_some_and(|names| names.iter().any(|required| required == name));
        let mut line = entry(name, schema);
        let shown = example_values(name, examples);
        if !shown.is_empty() {
            line.push_str(&format!(" Examples: {}.", shown.join(", ")));
        }
        if is_required { always.push(line) } else { sometimes.push(line) }
    }
    (always, sometimes)
}

/// Returns the values that the examples in the definition have for an input, as JSON strings.
fn example_values(name: &str, examples: &[ToolExample]) -> Vec<String> {
    let values = examples.iter().filter_map(|example| example.input.get(name)).filter(|value| value.is_string());
    let mut shown: Vec<String> = Vec::new();
    for value in values.map(Value::to_string).filter(|text| text.chars().count() <= MAX_ENTRY_CHARS) {
        if shown.len() < MAX_EXAMPLES && !shown.contains(&value) {
            shown.push(value);
        }
    }
    shown
}

/// Returns the line for one property of a lowered schema.
fn entry(name: &str, schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("- {name}: {}", sentence(&truncate(text.trim(), MAX_ENTRY_CHARS)));
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        line.push_str(&truncate(&format!(" One of: {}.", values.join(", ")), MAX_ENTRY_CHARS));
    }
    if let Some(default) = schema.get("default") {
        line.push_str(&truncate(&format!(" Default: {default}."), MAX_ENTRY_CHARS));
    }
    line
}

fn outputs(mode: ExecutionMode, output: &Value) -> String {
    let fields = output_fields(output);
    if !fields.is_empty() {
        let entries: Vec<String> = fields.iter().map(|(name, schema)| entry(name, schema)).collect();
        return format!("Returns an object with these fields:\n{}", entries.join("\n"));
    }
    match mode {
        ExecutionMode::Deterministic => {
            "Returns a summary of the actions taken, including the number of affected records, the operations executed \
             and any errors encountered."
        }
        ExecutionMode::Agentic => {
            "Returns the answer to the task, with a summary of the actions taken and any errors encountered."
        }
    }
    .to_owned()
}

/// Returns the fields of an output that is an object.
fn output_fields(output: &Value) -> Map<String, Value> {
    if root::is_wrapped(output) {
        return Map::new();
    }
    let lowered = lower::parameters(&root::lowered(output), lower::Dialect::Universal);
    match lowered {
        Value::Object(mut fields) => match fields.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}

/// Returns a text that ends like a sentence.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?', ':']) { text.to_owned() } else { format!("{text}.") }
}
