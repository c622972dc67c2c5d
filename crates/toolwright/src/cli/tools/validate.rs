//! `tools validate`: whether an input fits.

use serde::Deserialize;

use crate::cli::Context;
use crate::cli::client::{TOOLS, path};
use crate::cli::exit::Exit;
use crate::cli::failure::{Failure, FieldError};
use crate::cli::output::plain;

use super::call::Target;

/// Which tool, and with what.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub struct ValidateArgs {
    #[command(flatten)]
    target: Target,
}

#[derive(Deserialize)]
struct Validation {
    valid: bool,
    errors: Vec<FieldError>,
}

/// Checks an input.
pub async fn run(cx: &Context, args: ValidateArgs) -> Result<Exit, Failure> {
    let body = args.target.body(cx).await?;
    let answer = cx.client.post(&format!("{}/validate", path(TOOLS, &args.target.reference)), &body).await?;
    let validation: Validation = answer.read()?;
    if cx.output.json {
        cx.output.line(answer.text.trim_end())?;
    } else {
        show(cx, &args.target.reference, &validation)?;
    }
    Ok(if validation.valid { Exit::Ok } else { Exit::Failed })
}

fn show(cx: &Context, reference: &str, validation: &Validation) -> Result<(), Failure> {
    if validation.valid {
        cx.output.line(cx.output.out.good(format!("✓ {reference}  the input fits")))?;
        return Ok(());
    }
    cx.output.line(cx.output.out.bad(format!("✗ {reference}  the input does not fit")))?;
    cx.output.lines(validation.errors.iter().map(|error| format!("  {}", plain(&error.to_string()))))?;
    Ok(())
}
