//! Implements `agents cost`, which estimates the worst-case cost of one run.

use toolwright_api::wire::CostEstimateView;

use crate::cli::Context;
use crate::cli::client::{AGENTS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize_line;
use crate::cli::table::Table;

/// Arguments of `agents cost`.
#[derive(clap::Args)]
pub(crate) struct CostArgs {
    /// refName or ID of the agent
    #[arg(value_name = "REF", value_parser = parse_name)]
    reference: String,
}

/// Prints the worst-case cost of one run of an agent.
pub(super) async fn run(cx: &Context, args: CostArgs) -> Result<Exit, Failure> {
    let response = cx.client.get(&format!("{}/cost-estimate", path(AGENTS, &args.reference)), &[]).await?;
    if cx.output.json {
        cx.output.document(response.text.trim_end())?;
        return Ok(Exit::Ok);
    }
    let estimate: CostEstimateView = response.read()?;
    let name = format!("{}@{}", sanitize_line(&estimate.agent_ref), sanitize_line(&estimate.version));
    let worst = match (estimate.worst_case_usd, &estimate.binding_limit) {
        (Some(usd), Some(limit)) => format!("at most ${usd} per run, because of {}", sanitize_line(limit)),
        _ => "the worst case is not known".to_owned(),
    };
    cx.output.line(format!("{}  {worst}\n", cx.output.out.good(name)))?;
    let mut table = Table::new(["LIMIT", "VALUE", "AT MOST", "FORMULA"]);
    for bound in &estimate.bounds {
        let usd = bound.usd.map_or_else(|| "unknown".to_owned(), |usd| format!("${usd}"));
        table.row([&bound.limit, &bound.value.to_string(), &usd, &bound.formula]);
    }
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    for (title, texts) in [("not known", &estimate.unknown), ("assumptions", &estimate.assumptions)] {
        if !texts.is_empty() {
            cx.output.line(format!("\n{title}:"))?;
            cx.output.lines(texts.iter().map(|text| format!("- {}", sanitize_line(text))))?;
        }
    }
    Ok(Exit::Ok)
}
