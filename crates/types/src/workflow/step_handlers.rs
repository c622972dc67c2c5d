//! The built-in step handlers: the names that a step can have as `handlerRef` without a tool or a step registration.

/// The prefix of the names of all built-in handlers.
pub const PREFIX: &str = "quantum.";
/// Runs an agent.
pub const INVOKE_AGENT: &str = "quantum.ai.invokeAgent";
/// Runs another workflow.
pub const EXECUTE_WORKFLOW: &str = "quantum.workflows.execute";
/// Asks a person for approval.
pub const REQUEST_APPROVAL: &str = "quantum.flow.approval";
/// Asks a client to fill in a form.
pub const FORM: &str = "quantum.flow.form";
/// Returns its input.
pub const TRANSFORM: &str = "quantum.flow.transform";
/// Selects one of several cases.
pub const BRANCH: &str = "quantum.flow.branch";
/// Collects the outputs of the steps that it depends on.
pub const JOIN: &str = "quantum.flow.join";
/// Waits for a time.
pub const SLEEP: &str = "quantum.flow.sleep";
/// Waits for a signal.
pub const WAIT_FOR_SIGNAL: &str = "quantum.flow.waitForSignal";

/// All built-in handlers.
pub const ALL: [&str; 9] =
    [INVOKE_AGENT, EXECUTE_WORKFLOW, REQUEST_APPROVAL, FORM, TRANSFORM, BRANCH, JOIN, SLEEP, WAIT_FOR_SIGNAL];
