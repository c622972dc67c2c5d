//! Implements `toolwright keys`. `keys create` prints only the new key to stdout, so that scripts can read it. The
//! details are printed to stderr.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolwright_api::wire::{IssuedKeyView, KeyView, PageView};
use toolwright_types::{Clock, SystemClock, Timestamp};

use super::Context;
use super::client::{KEYS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::table::Table;
use super::time::{format_minute, parse_duration};

/// Subcommands of `keys`.
#[derive(clap::Subcommand)]
pub(crate) enum KeysCommand {
    /// Create an API key and print it; it is not shown again
    ///
    /// A principal that does not exist is created in the realm of --realm, or in your home realm.
    Create(CreateArgs),
    /// List the API keys of the organization
    List,
    /// Revoke an API key
    #[command(visible_alias = "delete")]
    Revoke(RevokeArgs),
}

/// Arguments of `keys create`.
#[derive(clap::Args)]
pub(crate) struct CreateArgs {
    /// Label that describes the purpose of the key
    #[arg(long)]
    label: Option<String>,
    /// Principal that owns the key [default: you]
    #[arg(long)]
    principal: Option<String>,
    /// Role of a principal that is created; may be repeated [default: member]
    #[arg(long = "role", value_name = "ROLE", value_enum, requires = "principal")]
    roles: Vec<PrincipalRole>,
    /// Lifetime of the key, such as 12h, 30d or 2w [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expires_in: Option<Duration>,
}

/// Arguments of `keys revoke`.
#[derive(clap::Args)]
pub(crate) struct RevokeArgs {
    /// Key ID, such as key_01J…
    #[arg(value_parser = parse_name)]
    id: String,
}

/// The role of a principal.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum PrincipalRole {
    /// Full access to every realm of the organization
    Admin,
    /// Read definitions and call tools in the home realm
    Member,
}

/// Runs a `keys` subcommand.
pub(super) async fn run(cx: &Context, command: KeysCommand) -> Result<Exit, Failure> {
    match command {
        KeysCommand::Create(args) => create(cx, args).await,
        KeysCommand::List => list(cx).await,
        KeysCommand::Revoke(args) => revoke(cx, args).await,
    }
}

async fn create(cx: &Context, args: CreateArgs) -> Result<Exit, Failure> {
    let response = cx.client.post(KEYS, &args.body(SystemClock.now())).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let issued: IssuedKeyView = response.read()?;
    cx.output.line(&issued.key)?;
    let owner = args.principal.as_deref().unwrap_or("you");
    let expiry = issued.view.expires_at.map(|at| format!(", expires {} UTC", format_minute(at))).unwrap_or_default();
    cx.output.note(format!("created {} for {owner}{expiry}; the key is not shown again", issued.view.id));
    Ok(Exit::Ok)
}

async fn list(cx: &Context) -> Result<Exit, Failure> {
    let response = cx.client.get(KEYS, &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let page: PageView<KeyView> = response.read()?;
    if page.items.is_empty() {
        cx.output.note("no keys found; the key in TOOLWRIGHT_ADMIN_KEY is not listed");
        return Ok(Exit::Ok);
    }
    let now = SystemClock.now();
    let mut table = Table::new(["ID", "PRINCIPAL", "STATE", "CREATED", "EXPIRES", "LABEL"]);
    for key in &page.items {
        let expires = key.expires_at.map_or_else(|| "never".to_owned(), format_minute);
        table.row([&key.id, &key.principal, state(key, now), &format_minute(key.created_at), &expires, &key.label]);
    }
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    Ok(Exit::Ok)
}

async fn revoke(cx: &Context, args: RevokeArgs) -> Result<Exit, Failure> {
    cx.client.delete(&path(KEYS, &args.id), &[]).await?;
    if !cx.output.json {
        cx.output.line(format!("{} {} revoked", cx.output.out.good('✓'), args.id))?;
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
        put("expiresAt", self.expires_in.map(|duration| json!(now.saturating_add(duration))));
        Value::Object(body)
    }
}

impl PrincipalRole {
    fn as_str(self) -> &'static str {
        match self {
            PrincipalRole::Admin => "admin",
            PrincipalRole::Member => "member",
        }
    }
}

fn state(key: &KeyView, now: Timestamp) -> &'static str {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if at <= now => "expired",
        _ => "active",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_of_the_keys_create_command_omits_unset_options() {
        let nothing = CreateArgs { label: None, principal: None, roles: Vec::new(), expires_in: None };
        let now: Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        assert_eq!(nothing.body(now), json!({}));
        let all = CreateArgs {
            label: Some("ci".into()),
            principal: Some("bot".into()),
            roles: vec![PrincipalRole::Member],
            expires_in: Some(Duration::from_secs(86_400)),
        };
        let expected =
            json!({ "label": "ci", "principal": "bot", "roles": ["member"], "expiresAt": "2026-11-16T00:00:00Z" });
        assert_eq!(all.body(now), expected);
    }
}
