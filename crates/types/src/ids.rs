//! Typed identifiers with a readable prefix. Each kind of id is a separate type, so a run id cannot be passed as a tool
//! id.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

/// The error for a text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("id must have the form `{prefix}_<ULID>`, got `{text}`")]
pub struct InvalidId {
    text: String,
    prefix: &'static str,
}

/// The operations that all id types have in common.
pub trait DocumentId: Copy + fmt::Display + FromStr<Err = InvalidId> + Send + Sync + 'static {
    /// The prefix, without the underscore.
    const PREFIX: &'static str;

    /// Generates a unique id, ordered by creation time.
    fn generate() -> Self;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Ulid);

        impl $name {
            /// Creates an id from 128 bits. Used for ids that are computed from other data.
            pub fn from_bits(bits: u128) -> Self {
                Self(Ulid(bits))
            }
        }

        impl DocumentId for $name {
            const PREFIX: &'static str = $prefix;

            fn generate() -> Self {
                Self(Ulid::new())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(|ulid| Ulid::from_string(ulid).ok())
                    .map(Self)
                    .ok_or_else(|| InvalidId { text: text.to_owned(), prefix: $prefix })
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }
    )*};
}

ids! {
    /// An org. It contains realms.
    OrgId = "org";
    /// A realm: the unit of isolation.
    RealmId = "realm";
    /// A user or service account.
    PrincipalId = "user";
    /// An API key (not its secret part).
    KeyId = "key";
    /// A stored secret (not its value).
    SecretId = "secret";
    /// A drift finding.
    DriftId = "drift";
    /// A tool definition.
    ToolId = "tool";
    /// A tool provider.
    ProviderId = "prov";
    /// An agent.
    AgentId = "agt";
    /// A prompt fragment.
    FragmentId = "frag";
    /// An entity type.
    TypeId = "type";
    /// A workflow.
    WorkflowId = "wf";
    /// A step registration.
    StepRegistrationId = "step";
    /// A condition binding.
    ConditionBindingId = "cond";
    /// A trigger.
    TriggerId = "trig";
    /// A firing of a trigger.
    FiringId = "fire";
    /// A webhook that reports events.
    WebhookId = "hook";
    /// A delivery of an event to a webhook.
    DeliveryId = "msg";
    /// A run.
    RunId = "run";
    /// A trial: a set of runs that are compared.
    TrialId = "trial";
    /// A conversation.
    ConversationId = "conv";
    /// One message of a conversation.
    TurnId = "turn";
}

/// The id of one call, derived from the tool, the version, the input and a sequence number. The same values always give
/// the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// Derives the id of a call: `call_` and 26 characters. These are the start of the SHA-256 hash of `[name, version,
    /// input, seq]` as canonical JSON, in lower-case base32.
    pub fn derive(name: &str, version: &str, input: &serde_json::Value, seq: u64) -> Self {
        let mut hasher = crate::json::Hasher::default();
        hasher.sequence(|items| {
            items.string(name);
            items.string(version);
            items.value(input);
            items.integer(seq);
        });
        let digest = hasher.finish();
        let mut text = data_encoding::BASE32_NOPAD.encode(&digest);
        text.truncate(26);
        text.make_ascii_lowercase();
        Self(format!("call_{text}"))
    }

    /// The id as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_parses_from_its_text_and_is_rejected_as_tool_id() {
        let run = RunId::generate();
        assert_eq!(run.to_string().parse::<RunId>().unwrap(), run);
        assert!(run.to_string().starts_with("run_"));
        let error = run.to_string().parse::<ToolId>().unwrap_err();
        assert!(error.to_string().contains("tool_<ULID>"), "{error}");
    }
}
