//! Prints trials and reports as tables with one column for each of the two compared libraries.

use std::collections::BTreeMap;

use toolwright_api::wire::{LiveReportView, TrialView};
use toolwright_machine::trial::stats::Estimate;
use toolwright_machine::trial::{Agreement, ArmReport, Measure, Report};

use crate::cli::Context;
use crate::cli::failure::Failure;
use crate::cli::follow::format_usd;
use crate::cli::output::sanitize_line;
use crate::cli::table::Table;

/// Returns whether all runs of the trial have ended.
pub(super) fn is_complete(trial: &TrialView) -> bool {
    [&trial.report.a, &trial.report.b].iter().all(|arm| arm.runs == trial.runs as usize)
}

/// Prints a trial.
pub(super) fn show_trial(cx: &Context, trial: &TrialView) -> Result<(), Failure> {
    let state = if trial.under_way { " (running)" } else { "" };
    cx.output.line(format!("{} of {}{state}", sanitize_line(&trial.trial_id), sanitize_line(&trial.agent_ref)))?;
    show_report(cx, &trial.report, Some(trial.runs))
}

/// Prints the report on live runs.
pub(super) fn show_live_report(cx: &Context, agent: &str, found: &LiveReportView) -> Result<(), Failure> {
    for (title, reports) in [("live split", &found.split), ("shadow", &found.shadow)] {
        for report in reports {
            cx.output.line(format!("{title} of {}", sanitize_line(agent)))?;
            show_report(cx, report, None)?;
        }
    }
    if found.split.is_empty() && found.shadow.is_empty() {
        cx.output.note("no trial runs found for this agent");
    }
    Ok(())
}

fn show_report(cx: &Context, report: &Report, expected: Option<u32>) -> Result<(), Failure> {
    let Report { a, b, difference, agreement } = report;
    let mut table = Table::new(["", "A", "B", "A − B"]);
    table.row(["library", &a.arm, &b.arm, ""]);
    let runs = |arm: &ArmReport| {
        expected.map_or_else(|| arm.runs.to_string(), |expected| format!("{} of {expected}", arm.runs))
    };
    let pairs = difference
        .pairs
        .map(|pairs| format!("{pairs} {}", if pairs == 1 { "pair" } else { "pairs" }))
        .unwrap_or_default();
    table.row(["runs", &runs(a), &runs(b), &pairs]);
    let row = |table: &mut Table,
               name: &str,
               of: fn(&ArmReport) -> Option<&Estimate>,
               less: &Option<Estimate>,
               format_number: NumberFormat| {
        let cell = |estimate: Option<&Estimate>, signed| {
            estimate.map(|it| format_estimate(it, format_number, signed)).unwrap_or_default()
        };
        table.row([name, &cell(of(a), false), &cell(of(b), false), &cell(less.as_ref(), true)]);
    };
    row(&mut table, "completed", |arm| arm.completion.as_ref(), &difference.completion, percent);
    table.row(["other outcomes", &format_counts(&a.endings), &format_counts(&b.endings), ""]);
    table.row(["tool errors", &format_counts(&a.tool_errors), &format_counts(&b.tool_errors), ""]);
    row(&mut table, "latency", |arm| arm.latency_ms.mean.as_ref(), &difference.latency_ms, millis);
    let spread = |measure: &Measure| match (measure.p50, measure.p95) {
        (Some(p50), Some(p95)) => format!("{}, {}", millis(p50), millis(p95)),
        _ => String::new(),
    };
    table.row(["  p50, p95", &spread(&a.latency_ms), &spread(&b.latency_ms), ""]);
    row(&mut table, "cost", |arm| arm.cost_usd.mean.as_ref(), &difference.cost_usd, money);
    row(&mut table, "tokens", |arm| arm.tokens.mean.as_ref(), &difference.tokens, integer);
    cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
    if let Some(Agreement { status: Some(status), answer: Some(answer) }) = agreement {
        let (status, answer) = (format_estimate(status, percent, false), format_estimate(answer, percent, false));
        cx.output.line(format!("same status in {status} of the pairs, same reply in {answer}"))?;
    }
    cx.output.note("means and proportions with 95 % confidence intervals");
    Ok(())
}

type NumberFormat = fn(f64) -> String;

/// Formats a value and its interval. If `signed` is set, positive numbers have a plus sign, as is usual for
/// differences.
fn format_estimate(estimate: &Estimate, format_number: NumberFormat, signed: bool) -> String {
    let format_one = |value: f64| match value {
        value if value < 0.0 => format!("−{}", format_number(-value)),
        value if signed && value > 0.0 => format!("+{}", format_number(value)),
        value => format_number(value.abs()),
    };
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => {
            format!("{} ({} to {})", format_one(estimate.value), format_one(low), format_one(high))
        }
        _ => format_one(estimate.value),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn millis(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ms") } else { format!("{value:.0} ms") }
}

fn money(value: f64) -> String {
    if value == 0.0 { "$0".to_owned() } else { format_usd(value) }
}

fn integer(value: f64) -> String {
    format!("{value:.0}")
}

fn format_counts(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_is_formatted_with_its_confidence_interval() {
        let estimate = Estimate { value: 0.5, low: Some(-0.25), high: Some(1.0) };
        assert_eq!(format_estimate(&estimate, percent, false), "50 % (−25 % to 100 %)");
        assert_eq!(format_estimate(&estimate, percent, true), "+50 % (−25 % to +100 %)");
        assert_eq!(format_estimate(&Estimate { value: 0.0, low: None, high: None }, money, true), "$0");
    }
}
