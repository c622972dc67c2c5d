//! Maps errors of the engine to problem documents. The causes of an error are logged and are never part of the
//! response.

use toolwright_agents::conversations::ConversationError;
use toolwright_agents::{
    BindingError, ForkError, IrreversibleCall, RepeatedWrite, RerunError, StartError, TrialError, UndoError,
};
use toolwright_catalog::Denied;
use toolwright_catalog::Unavailable;
use toolwright_catalog::identity::{AuthenticationError, ManageError};
use toolwright_catalog::registry::RegistryError;
use toolwright_engine::VaultError;
use toolwright_engine::imports::ImportError;
use toolwright_machine::agent::EventError;
use toolwright_machine::workflow::WorkflowIssue;
use toolwright_query::Position;
use toolwright_records::{RecordError, RequestPart};
use toolwright_runs::{CommandError, EffectError, ExportError};
use toolwright_tools::{DefinitionIssue, Violation};
use toolwright_triggers::{DeliveryError, FireError, ReceiveError};
use toolwright_types::ErrorCode;

use crate::problem::{Code, Problem, TextSpan};

impl From<Denied> for Problem {
    fn from(error: Denied) -> Self {
        Problem::new(Code::Forbidden, error.to_string())
    }
}

impl From<Unavailable> for Problem {
    fn from(error: Unavailable) -> Self {
        tracing::error!(%error, cause = ?std::error::Error::source(&error), "request failed");
        if error.is_disk_full() {
            let detail = "the server's disk is full; free space on it, then repeat the request";
            return Problem::new(Code::DiskFull, detail);
        }
        Problem::new(Code::Unavailable, format!("{error}; the cause is in the server's log"))
    }
}

impl From<AuthenticationError> for Problem {
    fn from(error: AuthenticationError) -> Self {
        match error {
            AuthenticationError::UnknownKey => Problem::new(Code::Unauthenticated, error.to_string()),
            AuthenticationError::Realm(_) => Problem::new(Code::Forbidden, error.to_string()),
            AuthenticationError::Unavailable(inner) => inner.into(),
        }
    }
}

impl From<ManageError> for Problem {
    fn from(error: ManageError) -> Self {
        let text = error.to_string();
        match error {
            ManageError::Denied(inner) => inner.into(),
            ManageError::Unavailable(inner) => inner.into(),
            ManageError::UnknownKey(_) | ManageError::UnknownRealm(_) => Problem::new(Code::NotFound, text),
            ManageError::DuplicateRealm(_) | ManageError::OtherPrincipal(_) => Problem::new(Code::Duplicate, text),
            ManageError::Label(_) => Problem::invalid("/label", text),
        }
    }
}

impl From<VaultError> for Problem {
    fn from(error: VaultError) -> Self {
        let text = error.to_string();
        match error {
            VaultError::Denied(inner) => inner.into(),
            VaultError::Unavailable(inner) => inner.into(),
            VaultError::NotFound { .. } => Problem::new(Code::NotFound, text),
            VaultError::Size => Problem::invalid("/value", text),
            VaultError::Owner(_) => Problem::invalid("/scope", text),
            VaultError::TooMany(_) => Problem::new(Code::LimitReached, text),
        }
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        let text = error.to_string();
        match error {
            StartError::Denied(inner) => inner.into(),
            StartError::Unavailable(inner) => inner.into(),
            StartError::UnknownAgent { .. }
            | StartError::NoVersion { .. }
            | StartError::UnknownWorkflow { .. }
            | StartError::UnknownConversation(_) => Problem::new(Code::NotFound, text),
            StartError::Disabled(_) | StartError::Blocked { .. } => Problem::new(Code::AgentDisabled, text),
            StartError::WorkflowDisabled(_) | StartError::WorkflowBlocked { .. } => {
                Problem::new(Code::WorkflowDisabled, text)
            }
            StartError::UnknownStep { .. } => Problem::invalid("/onlyStep", text),
            StartError::InvalidWorkflow(issues) => {
                let issues = issues.into_iter().filter(WorkflowIssue::is_error);
                issues.fold(Problem::new(Code::InvalidDefinition, text), |problem, issue| {
                    problem.with_field(&issue.path, issue.message)
                })
            }
            StartError::WorkflowInput(violations) => {
                let problem = Problem::new(Code::InvalidRequest, text);
                violations.iter().fold(problem, |problem, violation| {
                    problem.with_field(&format!("/input{}", violation.path), violation.message.clone())
                })
            }
            StartError::Realm { .. } => Problem::new(Code::Forbidden, text),
            StartError::UnknownPrincipal(_) => Problem::invalid("/principalId", text),
            StartError::OtherAgent { .. } => Problem::invalid("/conversationId", text),
            StartError::ConversationBusy { .. } => Problem::new(Code::ConversationBusy, text),
            StartError::ConversationClosed(..) => Problem::new(Code::ConversationClosed, text),
            StartError::Prompt(_) => Problem::invalid("/context", text),
            StartError::Model(_) | StartError::NoTools(_) => Problem::new(Code::InvalidDefinition, text),
            StartError::Input(_) => Problem::invalid("/params", text),
            StartError::Plan(_) => Problem::invalid("/executionPlan", text),
            StartError::Pattern(_) => Problem::new(Code::InvalidDefinition, text),
            StartError::TooManyRuns(_) => Problem::new(Code::TooManyRuns, text),
        }
    }
}

impl From<FireError> for Problem {
    fn from(error: FireError) -> Self {
        let text = error.to_string();
        match error {
            FireError::Registry(inner) => inner.into(),
            FireError::Start(inner) => inner.into(),
            FireError::Unavailable(inner) => inner.into(),
            FireError::Invalid(issues) => Problem::new(Code::InvalidDefinition, text).with_issues(issues.0),
            FireError::UnknownPrincipal(_) => {
                Problem::new(Code::InvalidDefinition, text.clone()).with_field("/principalRef", text)
            }
            FireError::Realm { .. } => Problem::new(Code::Forbidden, text),
            FireError::Input(_) => Problem::new(Code::InvalidDefinition, text.clone()).with_field("/input", text),
        }
    }
}

impl From<ReceiveError> for Problem {
    fn from(error: ReceiveError) -> Self {
        let text = error.to_string();
        match error {
            ReceiveError::Fire(inner) => inner.into(),
            ReceiveError::Unknown(_) => Problem::new(Code::NotFound, text),
            ReceiveError::NotAuthentic(_) => Problem::new(Code::WebhookNotAuthentic, text),
            ReceiveError::Paused => Problem::new(Code::TriggerPaused, text),
            ReceiveError::Body => Problem::new(Code::InvalidRequest, text),
            ReceiveError::Secret | ReceiveError::InProgress => Problem::new(Code::Unavailable, text),
        }
    }
}

impl From<DeliveryError> for Problem {
    fn from(error: DeliveryError) -> Self {
        let text = error.to_string();
        match error {
            DeliveryError::Registry(inner) => inner.into(),
            DeliveryError::Unavailable(inner) => inner.into(),
            DeliveryError::Unknown { .. } => Problem::new(Code::NotFound, text),
        }
    }
}

impl From<RerunError> for Problem {
    fn from(error: RerunError) -> Self {
        let text = error.to_string();
        match error {
            RerunError::Run(inner) => inner.into(),
            RerunError::Start(StartError::UnknownStep { .. }) => Problem::invalid("/fromStep", text),
            RerunError::Start(inner) => inner.into(),
            RerunError::NoWorkflow(_) => Problem::new(Code::NotFound, text),
            RerunError::NotEnded(_) => Problem::new(Code::RunUnderWay, text),
            RerunError::NothingFailed(_) => Problem::invalid("/fromStep", text),
        }
    }
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Run(inner) => inner.into(),
            ExportError::Journal(inner) => Problem::new(Code::InvalidBundle, inner.to_string()),
        }
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Self {
        let text = error.to_string();
        match error {
            ForkError::Run(inner) => inner.into(),
            ForkError::Start(inner) => inner.into(),
            ForkError::Unavailable(inner) => inner.into(),
            ForkError::NoEntry { .. } => Problem::invalid("/at", text),
            ForkError::WritesAgain { writes, after_writes, .. } => {
                let later = after_writes.map(|n| format!(", or fork at entry {n}")).unwrap_or_default();
                let text = format!("{text}; set `sendWrites` (`--send-writes`) to allow this{later}");
                Problem::new(Code::CannotFork, text).with_issues(writes.iter().map(repeated_write))
            }
            ForkError::NotForkable { .. } | ForkError::InvalidChange(_) => Problem::new(Code::CannotFork, text),
        }
    }
}

/// Describes a write that a fork would send again. A long input is cut off.
fn repeated_write(write: &RepeatedWrite) -> DefinitionIssue {
    const MAX_CHARS: usize = 1_000;
    let mut input: String = write.input.to_string();
    if let Some((end, _)) = input.char_indices().nth(MAX_CHARS) {
        input.truncate(end);
        input.push('…');
    }
    let message = format!("`{}` ({}) may be sent again: {input}", write.tool, write.call_id);
    DefinitionIssue { path: "/sendWrites".to_owned(), message }
}

impl From<TrialError> for Problem {
    fn from(error: TrialError) -> Self {
        let text = error.to_string();
        match error {
            TrialError::Run(inner) => inner.into(),
            TrialError::Start(inner) => inner.into(),
            TrialError::Unavailable(inner) => inner.into(),
            TrialError::Bundle(_) | TrialError::Journal(_) => Problem::new(Code::InvalidBundle, text),
            TrialError::PredefinedCalls => Problem::new(Code::InvalidTrial, text),
            TrialError::Binding(inner) => binding_problem("/with", inner),
            TrialError::Model(why) => Problem::new(Code::InvalidTrial, text).with_field("/with/model", why),
            TrialError::Prompt(why) => Problem::new(Code::InvalidTrial, text).with_field("/with/prompt", why),
        }
    }
}

/// Returns the problem for a library that cannot be bound. `pointer` is the JSON pointer of the field with the library.
pub(crate) fn binding_problem(pointer: &str, error: BindingError) -> Problem {
    let text = error.to_string();
    match error {
        BindingError::Denied(inner) => inner.into(),
        BindingError::Unavailable(inner) => inner.into(),
        BindingError::Unknown { .. } => Problem::new(Code::InvalidTrial, text.clone()).with_field(pointer, text),
        BindingError::Tool { tool, why } => {
            let tool = tool.replace('~', "~0").replace('/', "~1");
            Problem::new(Code::InvalidTrial, text).with_field(&format!("{pointer}/tools/{tool}"), why)
        }
    }
}

impl From<UndoError> for Problem {
    fn from(error: UndoError) -> Self {
        let text = error.to_string();
        match error {
            UndoError::Run(inner) => inner.into(),
            UndoError::Start(inner) => inner.into(),
            UndoError::Unavailable(inner) => inner.into(),
            UndoError::NothingToUndo | UndoError::TooManyCalls { .. } => Problem::new(Code::CannotUndo, text),
            UndoError::Partial(undo) => undo.irreversible.into_iter().fold(
                Problem::new(Code::CannotUndo, text),
                |all, IrreversibleCall { run, call_id, tool, reason }| {
                    all.with_field(&format!("/{run}/{call_id}"), format!("tool `{tool}` cannot be undone: {reason}"))
                },
            ),
        }
    }
}

impl From<EffectError> for Problem {
    fn from(error: EffectError) -> Self {
        let text = error.to_string();
        match error {
            EffectError::Run(inner) => inner.into(),
            EffectError::Unavailable(inner) => inner.into(),
            EffectError::NotFound(_) => Problem::new(Code::NotFound, text),
            EffectError::OutcomeKnown { .. } => Problem::new(Code::OutcomeKnown, text),
            EffectError::DecisionPending(_) => Problem::new(Code::RunUnderWay, text),
        }
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        let text = error.to_string();
        match error {
            CommandError::Denied(inner) => inner.into(),
            CommandError::Unavailable(inner) => inner.into(),
            CommandError::UnknownRun(_) | CommandError::Rejected(EventError::UnknownCall(_)) => {
                Problem::new(Code::NotFound, text)
            }
            CommandError::Ended(_) => Problem::new(Code::RunEnded, text),
            CommandError::Deleted(_) => Problem::new(Code::RunDeleted, text),
            CommandError::Broken { .. } => Problem::new(Code::CannotFork, text),
            CommandError::NotEnded(_) => Problem::new(Code::RunUnderWay, text),
            CommandError::DrivenElsewhere(_) => Problem::new(Code::RunElsewhere, text),
            CommandError::NoScheduler(_) => Problem::new(Code::Unavailable, text),
            CommandError::Disabled(_) => Problem::new(Code::AgentDisabled, text),
            CommandError::InvalidInput { violations, .. } => {
                let issues = violations.into_iter().map(|found| (found.path, found.message));
                invalid_edit(text, issues)
            }
            CommandError::Rejected(EventError::InvalidPlan { issues, .. }) => {
                invalid_edit(text, issues.into_iter().map(|issue| (issue.path, issue.message)))
            }
            CommandError::Rejected(EventError::TooManySignals) => Problem::new(Code::LimitReached, text),
            CommandError::Rejected(_) => Problem::new(Code::NotWaiting, text),
            CommandError::Results(problems) => problems
                .into_iter()
                .fold(Problem::new(Code::NotWaiting, text), |all, one| all.with_field("/results", one.to_string())),
        }
    }
}

/// The problem of an edited input, with the paths of its mistakes.
fn invalid_edit(text: String, issues: impl Iterator<Item = (String, String)>) -> Problem {
    let issue = |(path, message)| DefinitionIssue { path: format!("/input{path}"), message };
    Problem::new(Code::InvalidRequest, text).with_issues(issues.map(issue))
}

impl From<ConversationError> for Problem {
    fn from(error: ConversationError) -> Self {
        let text = error.to_string();
        match error {
            ConversationError::Denied(inner) => inner.into(),
            ConversationError::Unavailable(inner) => inner.into(),
            ConversationError::Unknown(_) => Problem::new(Code::NotFound, text),
            ConversationError::Busy(_) => Problem::new(Code::ConversationBusy, text),
            ConversationError::Invalid(_) => Problem::invalid("/title", text),
        }
    }
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        let text = error.to_string();
        match error {
            RecordError::Denied(inner) => inner.into(),
            RecordError::Unavailable(inner) => inner.into(),
            RecordError::UnknownType { .. } | RecordError::UnknownRecord { .. } => Problem::new(Code::NotFound, text),
            RecordError::Duplicate { .. } => Problem::new(Code::Duplicate, text),
            RecordError::Conflict { .. } => Problem::new(Code::VersionConflict, text),
            RecordError::Forbidden(_) => Problem::new(Code::Forbidden, text),
            RecordError::ExternalSource { .. } => Problem::new(Code::UpstreamFailed, text),
            RecordError::Tool { error, .. } if error.code == ErrorCode::PolicyDenied => {
                Problem::new(Code::Forbidden, text)
            }
            RecordError::Tool { .. } => Problem::new(Code::UpstreamFailed, text),
            RecordError::MissingFilter(_) => Problem::invalid("/all", text),
            RecordError::InvalidRequest { part, message, position } => {
                let path = match part {
                    // The body is CSV text without JSON fields, so the path is the empty JSON pointer, which refers to
                    // the whole body.
                    RequestPart::Text => String::new(),
                    other => format!("/{}", other.as_str()),
                };
                let problem = Problem::new(Code::InvalidQuery, text);
                match position {
                    Some(Position { line, column, offset }) => {
                        problem.with_span(&path, message, TextSpan { line, column, start: offset, end: offset })
                    }
                    None => problem.with_field(&path, message),
                }
            }
            RecordError::Invalid { violations, .. } => violations
                .into_iter()
                .fold(Problem::new(Code::InvalidRecord, text), |all, Violation { path, message }| {
                    all.with_field(&format!("/entity{path}"), message)
                }),
        }
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let text = error.to_string();
        match error {
            RegistryError::Denied(inner) => inner.into(),
            RegistryError::Unavailable(inner) => inner.into(),
            RegistryError::NotFound { .. } | RegistryError::NoVersion { .. } | RegistryError::NoRevision { .. } => {
                Problem::new(Code::NotFound, text)
            }
            RegistryError::Duplicate { .. } => Problem::new(Code::Duplicate, text),
            RegistryError::Stale { .. } => Problem::new(Code::StaleRevision, text),
            RegistryError::OtherSet { .. } => Problem::new(Code::OtherApplySet, text),
            RegistryError::HasRecords(_) => Problem::new(Code::TypeInUse, text),
            RegistryError::Invalid(issues) => Problem::new(Code::InvalidDefinition, text).with_issues(issues.0),
            RegistryError::List(_) => Problem::new(Code::InvalidRequest, text),
        }
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        let text = error.to_string();
        match error {
            ImportError::Registry(inner) => inner.into(),
            ImportError::Document(refused) => Problem::new(Code::CannotImport, text)
                .with_field(&format!("/document{}", refused.pointer), refused.message),
            ImportError::Fetch(failure) => Problem::new(Code::CannotImport, text).with_field("/url", failure.message),
            ImportError::Descriptors(why) => {
                Problem::new(Code::CannotImport, text).with_field("/descriptorSet", why.to_string())
            }
            ImportError::DescriptorSetConflict(_) => Problem::invalid("/descriptorSet", text),
            ImportError::Server(failure) => {
                Problem::new(Code::CannotImport, text).with_field("/providerRef", failure.message)
            }
            ImportError::NoMethods { from_descriptor_set, .. } => {
                let pointer = if from_descriptor_set { "/descriptorSet" } else { "/providerRef" };
                let message = text.clone();
                Problem::new(Code::CannotImport, text).with_field(pointer, message)
            }
            ImportError::UnknownService { .. } => Problem::invalid("/services", text),
            ImportError::NotGrpc(_) => Problem::invalid("/providerRef", text),
            ImportError::UnknownProvider(_) => Problem::invalid("/baseUrl", text),
            ImportError::Database(message) => Problem::new(Code::CannotImport, text).with_field("/secretRef", message),
            ImportError::TooManyTypes(_) => Problem::new(Code::CannotImport, text),
            ImportError::NoProviderName => Problem::invalid("/providerRef", text),
        }
    }
}
