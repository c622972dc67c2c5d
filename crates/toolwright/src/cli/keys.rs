//! `toolwright keys …`. A new key goes to stdout alone, so that a script can take it; everything about it to stderr.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolwright_types::{Clock, SystemClock, Timestamp};

use super::Context;
use super::client::{KEYS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::table::Table;
use super::time::{minute, parse_duration};

/// What can be done with keys.
#[derive(clap::Subcommand)]
pub enum KeysCommand {
    /// Make a key and print it, this once
    ///
    /// A principal that does not exist is made; its home is the realm that --realm names, else your own.
    Create(CreateArgs),
    /// List the keys of the org
    List,
    /// Make a key useless
    Revoke(RevokeArgs),
}

/// What the key is for.
#[derive(clap::Args)]
pub struct CreateArgs {
    /// What it is for
    #[arg(long)]
    label: Option<String>,
    /// Whose it is; yours when absent
    #[arg(long)]
    principal: Option<String>,
    /// A role of the principal, if it is made; may be given twice [default: member]
    #[arg(long = "role", value_name = "ROLE", value_enum, requires = "principal")]
    roles: Vec<Role>,
    /// How long it works, such as 12h, 30d or 2w; for ever when absent
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expires_in: Option<Duration>,
}

/// Which key.
#[derive(clap::Args)]
pub struct RevokeArgs {
    /// Its id, such as key_01J…
    #[arg(value_parser = parse_name)]
    id: String,
}

/// What a principal may do.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Role {
    /// Everything in every realm of the org
    Admin,
    /// Read definitions and call tools in the own realm
    Member,
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Key {
    id: String,
    label: String,
    principal: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Issued {
    #[serde(flatten)]
    about: Key,
    key: String,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: KeysCommand) -> Result<Exit, Failure> {
    match command {
        KeysCommand::Create(args) => create(cx, args).await,
        KeysCommand::List => list(cx).await,
        KeysCommand::Revoke(args) => revoke(cx, args).await,
    }
}

async fn create(cx: &Context, args: CreateArgs) -> Result<Exit, Failure> {
    let answer = cx.client.post(KEYS, &args.body(SystemClock.now())).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let issued: Issued = answer.read()?;
    cx.output.line(&issued.key)?;
    let owner = args.principal.as_deref().map_or_else(|| "your key".to_owned(), |name| format!("a key of {name}"));
    let until = issued.about.expires_at.map(|at| format!(" until {} UTC", minute(at))).unwrap_or_default();
    cx.output.note(format!("{} is {owner}{until}; it is not shown again", issued.about.id));
    Ok(Exit::Ok)
}

async fn list(cx: &Context) -> Result<Exit, Failure> {
    let answer = cx.client.get(KEYS, &[]).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let listed: Listed = answer.read()?;
    if listed.items.is_empty() {
        cx.output.note("there are no keys but the one of TOOLWRIGHT_ADMIN_KEY, if that is set");
        return Ok(Exit::Ok);
    }
    let now = SystemClock.now();
    let mut table = Table::new(["ID", "PRINCIPAL", "STATE", "CREATED", "EXPIRES", "LABEL"]);
    for key in &listed.items {
        let expires = key.expires_at.map_or_else(|| "never".to_owned(), minute);
        table.row([&key.id, &key.principal, key.state(now), &minute(key.created_at), &expires, &key.label]);
    }
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    Ok(Exit::Ok)
}

async fn revoke(cx: &Context, args: RevokeArgs) -> Result<Exit, Failure> {
    cx.client.delete(&path(KEYS, &args.id), &[]).await?;
    if !cx.output.json {
        cx.output.line(format!("{} {} is revoked", cx.output.out.good('✓'), args.id))?;
    }
    Ok(Exit::Ok)
}

impl CreateArgs {
    fn body(&self, now: Timestamp) -> Value {
        let mut body = Map::new();
        let mut put = |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
        put("label", self.label.as_ref().map(|label| json!(label)));
        put("principal", self.principal.as_ref().map(|principal| json!(principal)));
        let roles = self.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>();
        put("roles", (!roles.is_empty()).then(|| json!(roles)));
        put("expiresAt", self.expires_in.map(|duration| json!(now.later(duration))));
        Value::Object(body)
    }
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Member => "member",
        }
    }
}

impl Key {
    fn state(&self, now: Timestamp) -> &'static str {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => "revoked",
            (None, Some(at)) if at <= now => "expired",
            _ => "active",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_only_what_was_asked_for() {
        let nothing = CreateArgs { label: None, principal: None, roles: Vec::new(), expires_in: None };
        let now: Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        assert_eq!(nothing.body(now), json!({}));
        let all = CreateArgs {
            label: Some("ci".into()),
            principal: Some("bot".into()),
            roles: vec![Role::Member],
            expires_in: Some(Duration::from_secs(86_400)),
        };
        let expected =
            json!({ "label": "ci", "principal": "bot", "roles": ["member"], "expiresAt": "2026-11-16T00:00:00Z" });
        assert_eq!(all.body(now), expected);
    }
}
