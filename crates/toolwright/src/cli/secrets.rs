//! `toolwright secrets …`. A value is never an argument: those are seen by everyone on the machine and kept in histories.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use toolwright_types::Timestamp;

use super::Context;
use super::client::{SECRETS, parse_name, path};
use super::exit::Exit;
use super::failure::Failure;
use super::table::Table;
use super::time::minute;

/// What can be done with secrets.
#[derive(clap::Subcommand)]
pub enum SecretsCommand {
    /// Give a secret a value: from standard input, or asked for
    Set(SetArgs),
    /// List the secrets that apply to you, without their values
    List,
    /// Remove a secret
    Remove(RemoveArgs),
}

/// Which secret, and where its value is.
#[derive(clap::Args)]
pub struct SetArgs {
    /// How definitions refer to it
    #[arg(value_parser = parse_name)]
    name: String,
    /// Who it belongs to
    #[arg(long, value_enum, default_value_t = Scope::Realm)]
    scope: Scope,
    /// Take the value from this variable
    #[arg(long, value_name = "VARIABLE", conflicts_with = "from_file")]
    from_env: Option<String>,
    /// Take the value from this file, without the line end after it
    #[arg(long, value_name = "PATH")]
    from_file: Option<PathBuf>,
}

/// Which secret.
#[derive(clap::Args)]
pub struct RemoveArgs {
    /// Its name
    #[arg(value_parser = parse_name)]
    name: String,
    /// Who it belongs to
    #[arg(long, value_enum, default_value_t = Scope::Realm)]
    scope: Scope,
}

/// Who a secret belongs to.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Scope {
    /// You
    User,
    /// Everyone in the realm
    Realm,
    /// Everyone in the org
    Org,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::Realm => "realm",
            Scope::Org => "org",
        }
    }
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<Secret>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    name: String,
    scope: String,
    revision: i64,
    updated_by: String,
    updated_at: Timestamp,
}

/// Runs one of them.
pub async fn run(cx: &Context, command: SecretsCommand) -> Result<Exit, Failure> {
    match command {
        SecretsCommand::Set(args) => set(cx, args).await,
        SecretsCommand::List => list(cx).await,
        SecretsCommand::Remove(args) => remove(cx, args).await,
    }
}

async fn set(cx: &Context, args: SetArgs) -> Result<Exit, Failure> {
    let value = args.value()?;
    if value.expose_secret().is_empty() {
        return Err(Failure::Usage(format!("the value of secret `{}` is empty", args.name)));
    }
    let body = json!({ "name": args.name, "scope": args.scope.as_str(), "value": value.expose_secret() });
    let answer = cx.client.post(SECRETS, &body).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        let secret: Secret = answer.read()?;
        let done = cx.output.out.good('✓');
        cx.output.line(format!(
            "{done} secret {} is set  scope {}  revision {}",
            secret.name, secret.scope, secret.revision
        ))?;
    }
    Ok(Exit::Ok)
}

async fn list(cx: &Context) -> Result<Exit, Failure> {
    let answer = cx.client.get(SECRETS, &[]).await?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let listed: Listed = answer.read()?;
    if listed.items.is_empty() {
        cx.output.note("there are no secrets");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["NAME", "SCOPE", "REVISION", "UPDATED", "BY"]);
    for secret in &listed.items {
        table.row([
            &secret.name,
            &secret.scope,
            &secret.revision.to_string(),
            &minute(secret.updated_at),
            &secret.updated_by,
        ]);
    }
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    Ok(Exit::Ok)
}

async fn remove(cx: &Context, args: RemoveArgs) -> Result<Exit, Failure> {
    cx.client.delete(&path(SECRETS, &args.name), &[("scope", args.scope.as_str().to_owned())]).await?;
    if !cx.output.json {
        cx.output.line(format!("{} secret {} is removed", cx.output.out.good('✓'), args.name))?;
    }
    Ok(Exit::Ok)
}

impl SetArgs {
    fn value(&self) -> Result<SecretString, Failure> {
        if let Some(variable) = &self.from_env {
            let value =
                std::env::var(variable).map_err(|_| Failure::Usage(format!("the variable `{variable}` is not set")))?;
            return Ok(value.into());
        }
        if let Some(file) = &self.from_file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::Usage(format!("read `{}`: {error}", file.display())))?;
            return Ok(without_line_end(&text));
        }
        let unreadable = |error: std::io::Error| Failure::Usage(format!("read the value: {error}"));
        if std::io::stdin().is_terminal() {
            let value = rpassword::prompt_password(format!("Value of secret {}: ", self.name)).map_err(unreadable)?;
            return Ok(value.into());
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        Ok(without_line_end(&text))
    }
}

/// Editors and `echo` end a file with a line end that no secret has.
fn without_line_end(text: &str) -> SecretString {
    let value = text.strip_suffix('\n').unwrap_or(text);
    value.strip_suffix('\r').unwrap_or(value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_is_not_part_of_the_value() {
        for (text, value) in [("s\n", "s"), ("s\r\n", "s"), ("s", "s"), ("a\nb\n\n", "a\nb\n"), (" s ", " s ")] {
            assert_eq!(without_line_end(text).expose_secret(), value, "{text:?}");
        }
    }
}
