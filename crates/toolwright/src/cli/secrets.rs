//! Implements `toolwright secrets`. Values are never passed as arguments, because arguments are visible to other users
//! and stored in shell histories.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use toolwright_api::wire::{PageView, SecretView};

use super::Context;
use super::client::{SECRETS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::table::Table;
use super::time::format_minute;

/// Subcommands of `secrets`.
#[derive(clap::Subcommand)]
pub(crate) enum SecretsCommand {
    /// Set the value of a secret, read from standard input or a prompt
    Set(SetArgs),
    /// List the secrets that apply to you, without values
    List,
    /// Remove a secret
    #[command(visible_alias = "remove")]
    Delete(RemoveArgs),
}

/// Arguments of `secrets set`.
#[derive(clap::Args)]
pub(crate) struct SetArgs {
    /// Name of the secret, as used in definitions
    #[arg(value_parser = parse_name)]
    name: String,
    /// Owner of the secret
    #[arg(long, value_enum, default_value_t = SecretScopeArg::Realm)]
    scope: SecretScopeArg,
    /// Read the value from an environment variable
    #[arg(long, value_name = "VARIABLE", conflicts_with = "from_file")]
    from_env: Option<String>,
    /// Read the value from a file; one trailing line break is removed
    #[arg(long, value_name = "PATH")]
    from_file: Option<PathBuf>,
}

/// Arguments of `secrets delete`.
#[derive(clap::Args)]
pub(crate) struct RemoveArgs {
    /// Name of the secret
    #[arg(value_parser = parse_name)]
    name: String,
    /// Owner of the secret
    #[arg(long, value_enum, default_value_t = SecretScopeArg::Realm)]
    scope: SecretScopeArg,
}

/// The owner of a secret.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum SecretScopeArg {
    /// You
    User,
    /// Everyone in the realm
    Realm,
    /// Everyone in the organization
    Org,
}

impl SecretScopeArg {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            SecretScopeArg::User => "user",
            SecretScopeArg::Realm => "realm",
            SecretScopeArg::Org => "org",
        }
    }
}

/// Runs a `secrets` subcommand.
pub(super) async fn run(cx: &Context, command: SecretsCommand) -> Result<Exit, Failure> {
    match command {
        SecretsCommand::Set(args) => set(cx, args).await,
        SecretsCommand::List => list(cx).await,
        SecretsCommand::Delete(args) => remove(cx, args).await,
    }
}

async fn set(cx: &Context, args: SetArgs) -> Result<Exit, Failure> {
    let value = args.value()?;
    if value.expose_secret().is_empty() {
        return Err(Failure::Usage(format!("the value of secret `{}` must not be empty", args.name)));
    }
    let body = json!({ "name": args.name, "scope": args.scope.as_str(), "value": value.expose_secret() });
    let response = cx.client.post(SECRETS, &body).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        let secret: SecretView = response.read()?;
        let done = cx.output.out.good('✓');
        cx.output
            .line(format!("{done} secret {} set  scope {}  revision {}", secret.name, secret.scope, secret.revision))?;
    }
    Ok(Exit::Ok)
}

async fn list(cx: &Context) -> Result<Exit, Failure> {
    let response = cx.client.get(SECRETS, &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let page: PageView<SecretView> = response.read()?;
    if page.items.is_empty() {
        cx.output.note("no secrets found");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["NAME", "SCOPE", "REVISION", "UPDATED", "UPDATED BY"]);
    for secret in &page.items {
        table.row([
            &secret.name,
            &secret.scope,
            &secret.revision.to_string(),
            &format_minute(secret.updated_at),
            &secret.updated_by,
        ]);
    }
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    Ok(Exit::Ok)
}

async fn remove(cx: &Context, args: RemoveArgs) -> Result<Exit, Failure> {
    cx.client.delete(&path(SECRETS, &args.name), &[("scope", args.scope.as_str().to_owned())]).await?;
    if !cx.output.json {
        cx.output.line(format!("{} secret {} removed", cx.output.out.good('✓'), args.name))?;
    }
    Ok(Exit::Ok)
}

impl SetArgs {
    fn value(&self) -> Result<SecretString, Failure> {
        if let Some(variable) = &self.from_env {
            let value = std::env::var(variable)
                .map_err(|_| Failure::Usage(format!("environment variable `{variable}` is not set")))?;
            return Ok(value.into());
        }
        if let Some(file) = &self.from_file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::Usage(format!("cannot read `{}`: {error}", file.display())))?;
            return Ok(strip_line_ending(&text));
        }
        let unreadable = |error: std::io::Error| Failure::Usage(format!("cannot read the value: {error}"));
        if std::io::stdin().is_terminal() {
            let value = rpassword::prompt_password(format!("Value of secret {}: ", self.name)).map_err(unreadable)?;
            return Ok(value.into());
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        Ok(strip_line_ending(&text))
    }
}

/// Removes the line ending that editors and `echo` append.
fn strip_line_ending(text: &str) -> SecretString {
    let value = text.strip_suffix('\n').unwrap_or(text);
    value.strip_suffix('\r').unwrap_or(value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trailing_line_ending_is_stripped() {
        for (text, value) in [("s\n", "s"), ("s\r\n", "s"), ("s", "s"), ("a\nb\n\n", "a\nb\n"), (" s ", " s ")] {
            assert_eq!(strip_line_ending(text).expose_secret(), value, "{text:?}");
        }
    }
}
