//! Implements `workflow-instances get`, which is also called `workflow-instances show`.

use toolwright_api::wire::WorkflowInstanceView;

use super::InstanceArg;
use super::live::{fetch, show};
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::fields;
use crate::cli::output::sanitize_line;
use crate::cli::time::format_minute;

/// Shows a workflow run with its steps.
pub(super) async fn run(cx: &Context, target: &InstanceArg) -> Result<Exit, Failure> {
    let response = fetch(cx, &target.run).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let instance: WorkflowInstanceView = response.read()?;
    let (origin, state) = (&instance.origin, &instance.state);
    let version = state.version.as_deref().map(|version| format!("@{version}")).unwrap_or_default();
    let forked_from = origin.forked_from.as_ref().map(|fork| sanitize_line(&fork.run_id));
    let labeled = [
        ("workflow", sanitize_line(&format!("{}{version}", state.workflow_ref))),
        ("started", format_minute(origin.started_at)),
        ("durable", if origin.durable { "yes" } else { "no" }.to_owned()),
        ("repeats", forked_from.unwrap_or_default()),
        ("called by", origin.parent_run_id.as_deref().map(sanitize_line).unwrap_or_default()),
    ];
    fields::print_labeled(&cx.output, &labeled)?;
    cx.output.line("")?;
    show(cx, &target.run, &instance).await?;
    Ok(Exit::Ok)
}
