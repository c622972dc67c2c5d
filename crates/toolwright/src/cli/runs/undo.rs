//! `runs undo`: undoes the writes of a run.

use serde_json::json;
use toolwright_api::wire::{AcceptedView, KeptCallView, UndoView, UndoneCallView};

use crate::cli::Context;
use crate::cli::client::{RUNS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;

use super::watch;

/// Arguments of `runs undo`.
#[derive(clap::Args)]
pub(crate) struct UndoArgs {
    /// Run ID
    #[arg(value_name = "RUN", value_parser = parse_name)]
    run: String,
    /// Undo as much as possible, even if some calls cannot be undone
    #[arg(long)]
    partial: bool,
    /// Show what would be undone without doing it
    #[arg(long)]
    dry_run: bool,
    /// Return without waiting for the undo run
    #[arg(long)]
    no_wait: bool,
}

/// Undoes a run, or previews the undo.
pub(super) async fn run(cx: &Context, args: UndoArgs) -> Result<Exit, Failure> {
    let body = json!({ "partial": args.partial, "dryRun": args.dry_run });
    let undone = cx.client.call(&format!("{}/undo", path(RUNS, &args.run)), &body).await;
    let response = undone.map_err(name_partial_option)?;
    if args.dry_run {
        if cx.output.json {
            cx.output.document(response.text.trim_end())?;
        } else {
            show(cx, &response.read()?)?;
        }
        return Ok(Exit::Ok);
    }
    let run = response.read::<AcceptedView>()?.run_id;
    if !args.no_wait {
        return watch::run(cx, &run).await;
    }
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
    } else {
        cx.output.line(format!("{} undoing {} with {}", cx.output.out.good('✓'), args.run, sanitize_line(&run)))?;
        cx.output.note(format!("follow it with `toolwright runs watch {}`", sanitize_line(&run)));
    }
    Ok(Exit::Ok)
}

/// Names the option of this command in place of the field of the request.
fn name_partial_option(mut failure: Failure) -> Failure {
    if let Failure::Refused(refusal) = &mut failure {
        refusal.problem.detail = refusal.problem.detail.replace("`partial`", "`--partial`");
    }
    failure
}

fn show(cx: &Context, preview: &UndoView) -> Result<(), Failure> {
    for UndoneCallView { call_id, tool, with, .. } in &preview.steps {
        cx.output.line(format!(
            "{} {}  {}  with {}",
            cx.output.out.good('↩'),
            sanitize_line(tool),
            sanitize_line(call_id),
            sanitize_line(with)
        ))?;
    }
    for KeptCallView { call_id, tool, why, .. } in &preview.kept {
        cx.output.line(format!(
            "{} {}  {}  cannot be undone: {}",
            cx.output.out.bad('✗'),
            sanitize_line(tool),
            sanitize_line(call_id),
            sanitize_line(why)
        ))?;
    }
    if preview.steps.is_empty() && preview.kept.is_empty() {
        cx.output.line("nothing to undo")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::failure::Refusal;

    #[test]
    fn refused_undo_names_the_option_of_the_command() {
        let detail = "1 of 2 calls cannot be undone; undo the others with `partial`";
        let refusal = Refusal::new(422, "cannot-undo", detail.to_owned());
        let failure = name_partial_option(Failure::Refused(Box::new(refusal)));
        assert_eq!(failure.to_string(), "1 of 2 calls cannot be undone; undo the others with `--partial`");
    }
}
