//! Two implementations side by side: what became of the runs of each, and how sure one can be that they differ.
//!
//! A report is a function of what runs recorded. Which runs, and where they are kept, is not known here.

pub mod stats;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use toolwright_types::{ErrorCode, RunStatus};

use self::stats::{
    Estimate, Fourfold, difference_of_means, difference_of_paired_shares, difference_of_shares, mean, percentile, share,
};
use crate::AgentRun;

/// What a report wants to know of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Samples of both arms with the same number had the same input.
    pub number: Option<u32>,
    /// How the run ended.
    pub status: RunStatus,
    /// Why, as a word.
    pub reason: Option<String>,
    /// What it answered.
    pub answer: String,
    /// How long it was active.
    pub latency_ms: f64,
    /// What it cost.
    pub cost_usd: f64,
    /// What it used.
    pub tokens: f64,
    /// How its calls failed.
    pub failures: Vec<ErrorCode>,
}

impl Sample {
    /// What became of a run.
    pub fn of(run: &AgentRun, number: Option<u32>) -> Self {
        let (outputs, spent) = (run.outputs(), run.spent());
        let failures = outputs.in_order().filter_map(|envelope| envelope.error.as_ref()).map(|error| error.code);
        #[expect(clippy::cast_precision_loss, reason = "a run uses fewer tokens and less time than that")]
        let number_of = |count: u64| count as f64;
        Self {
            number,
            status: run.status(),
            reason: run.ending().and_then(|ending| ending.reason.clone()),
            latency_ms: number_of(spent.active_us) / 1000.0,
            cost_usd: spent.cost_usd,
            tokens: number_of(spent.usage.total()),
            failures: failures.collect(),
            answer: outputs.response,
        }
    }

    fn completed(&self) -> bool {
        self.status == RunStatus::Completed
    }
}

/// Two arms side by side.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What the other is held against.
    pub a: ArmReport,
    /// The other.
    pub b: ArmReport,
    /// A less B.
    pub difference: Differences,
    /// How often both came to the same, where they had the same inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

/// What became of the runs of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArmReport {
    /// The library.
    pub arm: String,
    /// How many runs have ended.
    pub runs: usize,
    /// How many of them with an answer.
    pub completed: usize,
    /// The share of those, with Wilson's interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Estimate>,
    /// How the others ended: how many, by reason or else by status.
    pub endings: BTreeMap<String, usize>,
    /// How calls failed: how many, by code.
    pub tool_errors: BTreeMap<String, usize>,
    /// Milliseconds that a run was active.
    pub latency_ms: Measure,
    /// Dollars of a run, as far as prices are known.
    pub cost_usd: Measure,
    /// Tokens of a run.
    pub tokens: Measure,
}

/// A quantity over the runs of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Measure {
    /// Its mean, with Student's interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<Estimate>,
    /// Half of the runs have less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 95 of a hundred have less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// All of it.
    pub total: f64,
}

/// A less B. Where both had the same inputs, the mean of the differences; else the difference of the means.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Differences {
    /// Over how many pairs of runs with the same input; none when they are not paired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Of the share that completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Estimate>,
    /// Of milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Estimate>,
    /// Of dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Estimate>,
    /// Of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Estimate>,
}

/// How often two runs with the same input came to the same.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Agreement {
    /// The same status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Estimate>,
    /// The same answer, word for word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Estimate>,
}

impl Report {
    /// The report on the runs of two arms. Where any are numbered, those with the same number are compared.
    pub fn of(a: (&str, &[Sample]), b: (&str, &[Sample])) -> Self {
        let pairs = pairs(a.1, b.1);
        let numbered = a.1.iter().chain(b.1).any(|sample| sample.number.is_some());
        let compare = |of: fn(&Sample) -> f64| match numbered {
            true => mean(&pairs.iter().map(|(a, b)| of(a) - of(b)).collect::<Vec<_>>()),
            false => difference_of_means(&values(a.1, of), &values(b.1, of)),
        };
        let completed =
            |samples: &[Sample]| (samples.iter().filter(|sample| sample.completed()).count(), samples.len());
        let difference = Differences {
            pairs: numbered.then_some(pairs.len()),
            completion: match numbered {
                true => difference_of_paired_shares(fourfold(&pairs)),
                false => difference_of_shares(completed(a.1), completed(b.1)),
            },
            latency_ms: compare(|sample| sample.latency_ms),
            cost_usd: compare(|sample| sample.cost_usd),
            tokens: compare(|sample| sample.tokens),
        };
        let same =
            |same: fn(&Sample, &Sample) -> bool| share(pairs.iter().filter(|(a, b)| same(a, b)).count(), pairs.len());
        let agreement = numbered.then(|| Agreement {
            status: same(|a, b| a.status == b.status),
            answer: same(|a, b| a.answer == b.answer),
        });
        Self { a: ArmReport::of(a.0, a.1), b: ArmReport::of(b.0, b.1), difference, agreement }
    }
}

impl ArmReport {
    fn of(arm: &str, samples: &[Sample]) -> Self {
        let completed = samples.iter().filter(|sample| sample.completed()).count();
        let (mut endings, mut tool_errors) = (BTreeMap::new(), BTreeMap::new());
        for sample in samples {
            if !sample.completed() {
                let word = sample.reason.clone().unwrap_or_else(|| sample.status.to_string());
                *endings.entry(word).or_default() += 1;
            }
            for code in &sample.failures {
                *tool_errors.entry(code.to_string()).or_default() += 1;
            }
        }
        Self {
            arm: arm.to_owned(),
            runs: samples.len(),
            completed,
            completion: share(completed, samples.len()),
            endings,
            tool_errors,
            latency_ms: Measure::of(&values(samples, |sample| sample.latency_ms)),
            cost_usd: Measure::of(&values(samples, |sample| sample.cost_usd)),
            tokens: Measure::of(&values(samples, |sample| sample.tokens)),
        }
    }
}

impl Measure {
    fn of(values: &[f64]) -> Self {
        Self {
            mean: mean(values),
            p50: percentile(values, 0.5),
            p95: percentile(values, 0.95),
            total: values.iter().sum(),
        }
    }
}

fn values(samples: &[Sample], of: fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(of).collect()
}

fn fourfold(pairs: &[(&Sample, &Sample)]) -> Fourfold {
    let mut found = Fourfold::default();
    for (a, b) in pairs {
        *match (a.completed(), b.completed()) {
            (true, true) => &mut found.both,
            (true, false) => &mut found.first,
            (false, true) => &mut found.second,
            (false, false) => &mut found.neither,
        } += 1;
    }
    found
}

fn pairs<'a>(a: &'a [Sample], b: &'a [Sample]) -> Vec<(&'a Sample, &'a Sample)> {
    let others: HashMap<u32, &Sample> = b.iter().filter_map(|sample| Some((sample.number?, sample))).collect();
    a.iter().filter_map(|sample| Some((sample, *others.get(&sample.number?)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: Option<u32>, status: RunStatus, latency_ms: f64, answer: &str) -> Sample {
        Sample {
            number,
            status,
            reason: (status == RunStatus::Error).then(|| "model_timeout".to_owned()),
            answer: answer.to_owned(),
            latency_ms,
            cost_usd: 0.5,
            tokens: 10.0,
            failures: vec![ErrorCode::Timeout],
        }
    }

    #[test]
    fn runs_with_the_same_input_are_compared_with_each_other() {
        let ok = RunStatus::Completed;
        let a = [sample(Some(0), ok, 110.0, "x"), sample(Some(1), ok, 210.0, "y"), sample(Some(2), ok, 999.0, "z")];
        let b = [sample(Some(1), RunStatus::Error, 200.0, ""), sample(Some(0), ok, 100.0, "x")];
        let report = Report::of(("default", &a), ("new", &b));
        assert_eq!((report.a.runs, report.a.completed, report.b.completed), (3, 3, 1));
        assert_eq!(report.b.endings, [("model_timeout".to_owned(), 1)].into());
        assert_eq!(report.a.tool_errors, [("TIMEOUT".to_owned(), 3)].into());
        assert_eq!(report.difference.pairs, Some(2), "the third has nothing to be held against");
        let latency = report.difference.latency_ms.unwrap();
        assert_eq!(
            (latency.value, latency.low, latency.high),
            (10.0, Some(10.0), Some(10.0)),
            "each pair differs by 10"
        );
        let agreement = report.agreement.unwrap();
        assert_eq!((agreement.status.unwrap().value, agreement.answer.unwrap().value), (0.5, 0.5));
        assert_eq!((report.a.cost_usd.total, report.a.latency_ms.p50), (1.5, Some(210.0)));
    }

    #[test]
    fn runs_with_inputs_of_their_own_are_compared_by_their_means() {
        let ok = RunStatus::Completed;
        let a: Vec<Sample> = [1.0, 2.0, 3.0, 4.0].map(|latency| sample(None, ok, latency, "")).into();
        let b: Vec<Sample> = [2.0, 4.0, 6.0, 8.0].map(|latency| sample(None, ok, latency, "")).into();
        let report = Report::of(("default", &a), ("new", &b));
        assert_eq!((report.difference.pairs, report.agreement), (None, None));
        assert_eq!(report.difference.latency_ms.unwrap().value, -2.5);
        let nothing = Report::of(("default", &[]), ("new", &b));
        assert_eq!((nothing.a.completion, nothing.difference.latency_ms), (None, None));
    }
}
