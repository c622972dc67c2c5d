//! What each failure of the engine is to a client. The cause goes to the log, never into the body.

use toolwright_engine::access::Denied;
use toolwright_engine::agents::{BindingError, ForkError, Kept, StartError, TrialError, UndoError};
use toolwright_engine::conversations::ConversationError;
use toolwright_engine::identity::{LoginError, ManageError};
use toolwright_engine::imports::ImportError;
use toolwright_engine::records::{Part, RecordError};
use toolwright_engine::registry::RegistryError;
use toolwright_engine::runs::{ExportError, SignalError};
use toolwright_engine::{Unavailable, VaultError};
use toolwright_machine::agent::EventError;
use toolwright_query::Position;
use toolwright_tools::Violation;
use toolwright_types::ErrorCode;

use crate::problem::{Code, Place, Problem};

impl From<Denied> for Problem {
    fn from(error: Denied) -> Self {
        Problem::new(Code::Forbidden, error.to_string())
    }
}

impl From<Unavailable> for Problem {
    fn from(error: Unavailable) -> Self {
        tracing::error!(%error, cause = ?std::error::Error::source(&error), "a request failed");
        Problem::new(Code::Unavailable, format!("{error}; the server's log has the cause"))
    }
}

impl From<LoginError> for Problem {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::UnknownKey => Problem::new(Code::Unauthenticated, error.to_string()),
            LoginError::Realm(_) => Problem::new(Code::Forbidden, error.to_string()),
            LoginError::Unavailable(inner) => inner.into(),
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
        }
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        let text = error.to_string();
        match error {
            StartError::Denied(inner) => inner.into(),
            StartError::Unavailable(inner) => inner.into(),
            StartError::UnknownAgent { .. } | StartError::UnknownConversation(_) => Problem::new(Code::NotFound, text),
            StartError::Disabled(_) => Problem::new(Code::AgentDisabled, text),
            StartError::Realm { .. } => Problem::new(Code::Forbidden, text),
            StartError::UnknownPrincipal(_) => Problem::invalid("/principalId", text),
            StartError::OtherAgent { .. } => Problem::invalid("/conversationId", text),
            StartError::Busy { .. } => Problem::new(Code::ConversationBusy, text),
            StartError::Closed(..) => Problem::new(Code::ConversationClosed, text),
            StartError::Prompt(_) => Problem::invalid("/context", text),
            StartError::Model(_) => Problem::new(Code::InvalidDefinition, text),
            StartError::Pattern(_) => Problem::new(Code::InvalidDefinition, text),
            StartError::TooMany(_) => Problem::new(Code::TooManyRuns, text),
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
            ForkError::Midst { .. } | ForkError::Change(_) => Problem::new(Code::CannotFork, text),
        }
    }
}

impl From<TrialError> for Problem {
    fn from(error: TrialError) -> Self {
        let text = error.to_string();
        match error {
            TrialError::Run(inner) => inner.into(),
            TrialError::Start(inner) => inner.into(),
            TrialError::Unavailable(inner) => inner.into(),
            TrialError::Bundle(_) | TrialError::Journal(_) => Problem::new(Code::InvalidBundle, text),
            TrialError::Planned => Problem::new(Code::InvalidTrial, text),
            TrialError::Binding(inner) => unbound("/with", inner),
            TrialError::Model(why) => Problem::new(Code::InvalidTrial, text).at_field("/with/model", why),
            TrialError::Prompt(why) => Problem::new(Code::InvalidTrial, text).at_field("/with/prompt", why),
        }
    }
}

/// What a library that cannot be used is to a client, at the place where it was named.
pub fn unbound(place: &str, error: BindingError) -> Problem {
    let text = error.to_string();
    match error {
        BindingError::Denied(inner) => inner.into(),
        BindingError::Unavailable(inner) => inner.into(),
        BindingError::Unknown { .. } => Problem::new(Code::InvalidTrial, text.clone()).at_field(place, text),
        BindingError::Tool { tool, why } => {
            let tool = tool.replace('~', "~0").replace('/', "~1");
            Problem::new(Code::InvalidTrial, text).at_field(&format!("{place}/tools/{tool}"), why)
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
            UndoError::Nothing | UndoError::TooLong { .. } => Problem::new(Code::CannotUndo, text),
            UndoError::Partial(undo) => undo.kept.into_iter().fold(
                Problem::new(Code::CannotUndo, text),
                |all, Kept { run, call_id, tool, why }| {
                    all.at_field(&format!("/{run}/{call_id}"), format!("{tool} stays: {why}"))
                },
            ),
        }
    }
}

impl From<SignalError> for Problem {
    fn from(error: SignalError) -> Self {
        let text = error.to_string();
        match error {
            SignalError::Denied(inner) => inner.into(),
            SignalError::Unavailable(inner) => inner.into(),
            SignalError::UnknownRun(_) | SignalError::Rejected(EventError::UnknownCall(_)) => {
                Problem::new(Code::NotFound, text)
            }
            SignalError::Ended(_) => Problem::new(Code::RunEnded, text),
            SignalError::Deleted(_) => Problem::new(Code::RunDeleted, text),
            SignalError::Broken { .. } => Problem::new(Code::CannotFork, text),
            SignalError::UnderWay(_) => Problem::new(Code::RunUnderWay, text),
            SignalError::Elsewhere(_) => Problem::new(Code::RunElsewhere, text),
            SignalError::NoConductor(_) => Problem::new(Code::Unavailable, text),
            SignalError::Disabled(_) => Problem::new(Code::AgentDisabled, text),
            SignalError::Rejected(_) => Problem::new(Code::NotWaiting, text),
            SignalError::Results(problems) => problems
                .into_iter()
                .fold(Problem::new(Code::NotWaiting, text), |all, one| all.at_field("/results", one.to_string())),
        }
    }
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
            RecordError::UnknownType { .. } | RecordError::NoRecord { .. } => Problem::new(Code::NotFound, text),
            RecordError::Duplicate { .. } => Problem::new(Code::Duplicate, text),
            RecordError::Conflict { .. } => Problem::new(Code::VersionConflict, text),
            RecordError::Refused(_) => Problem::new(Code::Forbidden, text),
            RecordError::Elsewhere { .. } => Problem::new(Code::UpstreamFailed, text),
            RecordError::Tool { error, .. } if error.code == ErrorCode::PolicyDenied => {
                Problem::new(Code::Forbidden, text)
            }
            RecordError::Tool { .. } => Problem::new(Code::UpstreamFailed, text),
            RecordError::Everything(_) => Problem::invalid("/all", text),
            RecordError::Asked { part, message, position } => {
                let path = match part {
                    // The body is not JSON; all of it is meant.
                    Part::Text => String::new(),
                    other => format!("/{}", other.noun()),
                };
                let problem = Problem::new(Code::InvalidQuery, text);
                match position {
                    Some(Position { line, column, offset }) => {
                        problem.at_place(&path, message, Place { line, column, start: offset, end: offset })
                    }
                    None => problem.at_field(&path, message),
                }
            }
            RecordError::Invalid { violations, .. } => violations
                .into_iter()
                .fold(Problem::new(Code::InvalidRecord, text), |all, Violation { path, message }| {
                    all.at_field(&format!("/entity{path}"), message)
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
            RegistryError::NotFound { .. } | RegistryError::NoVersion { .. } => Problem::new(Code::NotFound, text),
            RegistryError::Duplicate { .. } => Problem::new(Code::Duplicate, text),
            RegistryError::Stale { .. } => Problem::new(Code::StaleRevision, text),
            RegistryError::HasRecords(_) => Problem::new(Code::TypeInUse, text),
            RegistryError::Invalid(issues) => Problem::new(Code::InvalidDefinition, text).at(issues.0),
            RegistryError::List(_) => Problem::new(Code::InvalidRequest, text),
        }
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        let text = error.to_string();
        match error {
            ImportError::Registry(inner) => inner.into(),
            ImportError::Document(refused) => {
                Problem::new(Code::CannotImport, text).at_field(&format!("/document{}", refused.place), refused.message)
            }
            ImportError::Fetch(failure) => Problem::new(Code::CannotImport, text).at_field("/url", failure.message),
            ImportError::Descriptors(why) => {
                Problem::new(Code::CannotImport, text).at_field("/descriptorSet", why.to_string())
            }
            ImportError::Described(_) => Problem::invalid("/descriptorSet", text),
            ImportError::Server(failure) => {
                Problem::new(Code::CannotImport, text).at_field("/providerRef", failure.message)
            }
            ImportError::NoMethods { by_set, .. } => {
                let place = if by_set { "/descriptorSet" } else { "/providerRef" };
                let message = text.clone();
                Problem::new(Code::CannotImport, text).at_field(place, message)
            }
            ImportError::UnknownService { .. } => Problem::invalid("/services", text),
            ImportError::NotGrpc(_) => Problem::invalid("/providerRef", text),
            ImportError::NoProvider(_) => Problem::invalid("/baseUrl", text),
            ImportError::Database(message) => Problem::new(Code::CannotImport, text).at_field("/secretRef", message),
            ImportError::TooMany(_) => Problem::new(Code::CannotImport, text),
            ImportError::Nameless => Problem::invalid("/providerRef", text),
        }
    }
}
