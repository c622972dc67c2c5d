//! Two arms side by side, for people.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cli::Context;
use crate::cli::failure::Failure;
use crate::cli::live::dollars;
use crate::cli::output::plain;
use crate::cli::table::Table;

/// A trial.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trial {
    trial_id: String,
    agent_ref: String,
    /// Whether more is to come.
    pub under_way: bool,
    runs: usize,
    #[serde(flatten)]
    report: Report,
}

/// What became of live runs.
#[derive(Deserialize)]
pub struct LiveReport {
    split: Vec<Report>,
    shadow: Vec<Report>,
}

#[derive(Deserialize)]
struct Report {
    a: Arm,
    b: Arm,
    difference: Differences,
    agreement: Option<Agreement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arm {
    arm: String,
    runs: usize,
    completion: Option<Estimate>,
    endings: BTreeMap<String, usize>,
    tool_errors: BTreeMap<String, usize>,
    latency_ms: Measure,
    cost_usd: Measure,
    tokens: Measure,
}

#[derive(Deserialize)]
struct Measure {
    mean: Option<Estimate>,
    p50: Option<f64>,
    p95: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Differences {
    pairs: Option<usize>,
    completion: Option<Estimate>,
    latency_ms: Option<Estimate>,
    cost_usd: Option<Estimate>,
    tokens: Option<Estimate>,
}

#[derive(Deserialize)]
struct Agreement {
    status: Option<Estimate>,
    answer: Option<Estimate>,
}

#[derive(Deserialize)]
struct Estimate {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl Trial {
    /// Whether every run that was to be made was.
    pub fn is_whole(&self) -> bool {
        self.report.a.runs == self.runs && self.report.b.runs == self.runs
    }

    /// Shows it.
    pub fn show(&self, cx: &Context) -> Result<(), Failure> {
        let state = if self.under_way { ", under way" } else { "" };
        cx.output.line(format!("{} of {}{state}", plain(&self.trial_id), plain(&self.agent_ref)))?;
        self.report.show(cx, Some(self.runs))
    }
}

impl LiveReport {
    /// Shows it.
    pub fn show(&self, cx: &Context, agent: &str) -> Result<(), Failure> {
        for (title, reports) in [("live split", &self.split), ("shadow", &self.shadow)] {
            for report in reports {
                cx.output.line(format!("{title} of {}", plain(agent)))?;
                report.show(cx, None)?;
            }
        }
        if self.split.is_empty() && self.shadow.is_empty() {
            cx.output.note("no run of the agent was tried with a library");
        }
        Ok(())
    }
}

impl Report {
    fn show(&self, cx: &Context, wanted: Option<usize>) -> Result<(), Failure> {
        let Report { a, b, difference, agreement } = self;
        let mut table = Table::new(["", "A", "B", "A − B"]);
        table.row(["library", &a.arm, &b.arm, ""]);
        let runs =
            |arm: &Arm| wanted.map_or_else(|| arm.runs.to_string(), |wanted| format!("{} of {wanted}", arm.runs));
        let pairs = difference
            .pairs
            .map(|pairs| format!("{pairs} {}", if pairs == 1 { "pair" } else { "pairs" }))
            .unwrap_or_default();
        table.row(["runs", &runs(a), &runs(b), &pairs]);
        let row =
            |table: &mut Table, name: &str, of: fn(&Arm) -> Option<&Estimate>, less: &Option<Estimate>, say: Say| {
                let cell =
                    |estimate: Option<&Estimate>, sign| estimate.map(|it| it.told(say, sign)).unwrap_or_default();
                table.row([name, &cell(of(a), false), &cell(of(b), false), &cell(less.as_ref(), true)]);
            };
        row(&mut table, "completed", |arm| arm.completion.as_ref(), &difference.completion, percent);
        table.row(["ended otherwise", &counted(&a.endings), &counted(&b.endings), ""]);
        table.row(["tool errors", &counted(&a.tool_errors), &counted(&b.tool_errors), ""]);
        row(&mut table, "latency", |arm| arm.latency_ms.mean.as_ref(), &difference.latency_ms, millis);
        let spread = |measure: &Measure| match (measure.p50, measure.p95) {
            (Some(p50), Some(p95)) => format!("{}, {}", millis(p50), millis(p95)),
            _ => String::new(),
        };
        table.row(["  p50, p95", &spread(&a.latency_ms), &spread(&b.latency_ms), ""]);
        row(&mut table, "cost", |arm| arm.cost_usd.mean.as_ref(), &difference.cost_usd, money);
        row(&mut table, "tokens", |arm| arm.tokens.mean.as_ref(), &difference.tokens, whole);
        cx.output.lines(table.lines(cx.output.out, cx.output.width))?;
        if let Some(Agreement { status: Some(status), answer: Some(answer) }) = agreement {
            let (status, answer) = (status.told(percent, false), answer.told(percent, false));
            cx.output.line(format!("the same status in {status}, the same answer in {answer} of the pairs"))?;
        }
        cx.output.note("means and shares with 95 % confidence intervals");
        Ok(())
    }
}

type Say = fn(f64) -> String;

impl Estimate {
    /// The value and its interval; with a sign where it is a difference.
    fn told(&self, say: Say, sign: bool) -> String {
        let one = |value: f64| match value {
            value if value < 0.0 => format!("−{}", say(-value)),
            value if sign && value > 0.0 => format!("+{}", say(value)),
            value => say(value.abs()),
        };
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{} ({} to {})", one(self.value), one(low), one(high)),
            _ => one(self.value),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn millis(value: f64) -> String {
    if value < 10.0 { format!("{value:.1} ms") } else { format!("{value:.0} ms") }
}

fn money(value: f64) -> String {
    if value == 0.0 { "$0".to_owned() } else { dollars(value) }
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn counted(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_told_with_its_interval() {
        let estimate = Estimate { value: 0.5, low: Some(-0.25), high: Some(1.0) };
        assert_eq!(estimate.told(percent, false), "50 % (−25 % to 100 %)");
        assert_eq!(estimate.told(percent, true), "+50 % (−25 % to +100 %)");
        assert_eq!(Estimate { value: 0.0, low: None, high: None }.told(money, true), "$0");
    }
}
