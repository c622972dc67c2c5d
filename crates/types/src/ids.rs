//! Identifiers with a prefix one can read in a log; a run's id cannot be passed where a tool's is meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

/// Text that is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id of the form `{prefix}_<ULID>`")]
pub struct InvalidId {
    text: String,
    prefix: &'static str,
}

/// What the ids of stored documents have in common.
pub trait DocumentId: Copy + fmt::Display + FromStr<Err = InvalidId> + Send + Sync + 'static {
    /// The readable prefix, without the underscore.
    const PREFIX: &'static str;

    /// A new id, unique and ordered by creation time.
    fn generate() -> Self;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Ulid);

        impl $name {
            /// The id made of these 128 bits, for ids that are derived rather than drawn.
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
    /// An organisation: the outermost tenant.
    OrgId = "org";
    /// A realm: the boundary that data never crosses.
    RealmId = "realm";
    /// A user or service account.
    PrincipalId = "user";
    /// An API key, not its secret.
    KeyId = "key";
    /// A stored secret, not its value.
    SecretId = "secret";
    /// A finding of drift.
    DriftId = "drift";
    /// A tool definition.
    ToolId = "tool";
    /// A tool provider.
    ProviderId = "prov";
    /// An agent.
    AgentId = "agt";
    /// A prompt fragment.
    FragmentId = "frag";
    /// A type of records.
    TypeId = "type";
    /// One execution of anything; owns one journal.
    RunId = "run";
    /// Runs that are compared with each other.
    TrialId = "trial";
    /// What a user and an agent said, across runs.
    ConversationId = "conv";
    /// One message of a conversation.
    TurnId = "turn";
}

/// The deterministic identity of one call: the same tool, version, input and repetition give the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(String);

impl CallId {
    /// `call_` and the first 26 characters of lower-case base32 of SHA-256 of canonical `[name, version, input, seq]`.
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

    /// The id as it is written on the wire.
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
    fn an_id_reads_back_and_refuses_another_kind() {
        let run = RunId::generate();
        assert_eq!(run.to_string().parse::<RunId>().unwrap(), run);
        assert!(run.to_string().starts_with("run_"));
        let error = run.to_string().parse::<ToolId>().unwrap_err();
        assert!(error.to_string().contains("tool_<ULID>"), "{error}");
    }
}
