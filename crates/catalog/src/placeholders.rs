//! The placeholders that the server fills in in the prompts of agents and agentic tools.

/// The schemas of the tools.
pub const INTEGRATION_SCHEMA: &str = "integration_schema";
/// Reference data: all types, or one type as in `reference_data.users`.
pub const REFERENCE_DATA: &str = "reference_data";
/// The task.
pub const USER_TASK: &str = "user_task";
/// The names and descriptions of the tools.
pub const AVAILABLE_TOOLS: &str = "available_tools";
/// The steps that were executed earlier.
pub const EXECUTION_HISTORY: &str = "execution_history";

/// All placeholders.
pub const ALL: [&str; 5] = [INTEGRATION_SCHEMA, REFERENCE_DATA, USER_TASK, AVAILABLE_TOOLS, EXECUTION_HISTORY];

/// Whether the server fills in the placeholder with this dotted path.
pub fn is_known(path: &str) -> bool {
    match path.split_once('.') {
        Some((name, _)) => name == REFERENCE_DATA,
        None => ALL.contains(&path),
    }
}
