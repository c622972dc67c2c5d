//! `tools validate`: validates an input against a tool's schema.

use toolwright_api::wire::ValidationView;

use crate::cli::Context;
use crate::cli::client::{TOOLS, path};
use crate::cli::exit::Exit;
use crate::cli::failure::{Failure, field_error_line};
use crate::cli::output::sanitize_line;

use super::call::Target;

/// Arguments of `tools validate`.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    target: Target,
}

/// Validates an input.
pub(super) async fn run(cx: &Context, args: ValidateArgs) -> Result<Exit, Failure> {
    let body = args.target.body(cx).await?;
    let response = cx.client.post(&format!("{}/validate", path(TOOLS, &args.target.reference)), &body).await?;
    let validation: ValidationView = response.read()?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        show(cx, &args.target.reference, &validation)?;
    }
    Ok(if validation.valid { Exit::Ok } else { Exit::Failed })
}

fn show(cx: &Context, reference: &str, validation: &ValidationView) -> Result<(), Failure> {
    if validation.valid {
        cx.output.line(cx.output.out.good(format!("✓ {reference}  input is valid")))?;
        return Ok(());
    }
    cx.output.line(cx.output.out.bad(format!("✗ {reference}  input is invalid")))?;
    cx.output.lines(validation.errors.iter().map(|error| format!("  {}", sanitize_line(&field_error_line(error)))))?;
    Ok(())
}
