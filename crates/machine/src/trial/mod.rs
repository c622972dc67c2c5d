//! Compares the two arms of a trial: runs that used one library and runs that used another. Each difference has a
//! confidence interval.
//!
//! A report is computed from samples, one for each run. Not here: selecting and loading the runs.

pub mod stats;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use toolwright_types::{ErrorCode, RunStatus, round_usd};

use self::stats::{
    Estimate, PairedCounts, difference_of_means, difference_of_paired_proportions, difference_of_proportions, mean,
    percentile, proportion,
};
use crate::AgentRun;

/// The measurements of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The number of the input. Two samples with the same number, one of each arm, are runs with the same input.
    pub number: Option<u32>,
    /// The final status.
    pub status: RunStatus,
    /// A stable reason code.
    pub reason: Option<String>,
    /// The answer.
    pub answer: String,
    /// The active time in milliseconds.
    pub latency_ms: f64,
    /// The cost in US dollars.
    pub cost_usd: f64,
    /// The number of tokens.
    pub tokens: f64,
    /// The error codes of failed calls.
    pub failures: Vec<ErrorCode>,
}

impl Sample {
    /// Creates the sample of a run.
    pub fn from_run(run: &AgentRun, number: Option<u32>) -> Self {
        let (outputs, resource_usage) = (run.outputs(), run.resource_usage());
        let failures = outputs.in_order().filter_map(|envelope| envelope.error.as_ref()).map(|error| error.code);
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens and microseconds are far below 2^53")]
        let to_f64 = |count: u64| count as f64;
        Self {
            number,
            status: run.status(),
            reason: run.ending().and_then(|ending| ending.reason.clone()),
            latency_ms: to_f64(resource_usage.active_us) / 1000.0,
            cost_usd: resource_usage.cost_usd,
            tokens: to_f64(resource_usage.usage.total()),
            failures: failures.collect(),
            answer: outputs.response,
        }
    }

    fn completed(&self) -> bool {
        self.status == RunStatus::Completed
    }
}

/// A comparison of the two arms of a trial. An arm consists of the runs that used one library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The baseline arm.
    pub a: ArmReport,
    /// The other arm.
    pub b: ArmReport,
    /// The differences: arm A minus arm B.
    pub difference: Differences,
    /// How often paired runs of the two arms agreed; absent if the runs are not paired by input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

/// The results of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ArmReport {
    /// The name of the library that the runs used.
    pub arm: String,
    /// The number of ended runs.
    pub runs: usize,
    /// The number of completed runs.
    pub completed: usize,
    /// The proportion of completed runs, with a Wilson interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Estimate>,
    /// The number of runs that did not complete, by reason, or by status if there is no reason.
    pub endings: BTreeMap<String, usize>,
    /// The number of failed calls, by error code.
    pub tool_errors: BTreeMap<String, usize>,
    /// The active time of a run in milliseconds.
    pub latency_ms: Measure,
    /// The cost of a run in US dollars, as far as prices are known.
    pub cost_usd: Measure,
    /// The tokens of a run.
    pub tokens: Measure,
}

/// A quantity measured over the runs of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Measure {
    /// The mean, with a Student interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<Estimate>,
    /// The median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// The 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// The sum.
    pub total: f64,
}

/// The differences A minus B. If the runs are paired by input, a difference is the mean over all pairs. Otherwise it is
/// the difference of the means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Differences {
    /// The number of pairs of runs with the same input; absent if the runs are not paired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// The difference in the proportion of completed runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Estimate>,
    /// The difference in active time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Estimate>,
    /// The difference in cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Estimate>,
    /// The difference in the number of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Estimate>,
}

/// How often two runs with the same input agreed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agreement {
    /// The proportion with the same status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Estimate>,
    /// The proportion with exactly the same answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Estimate>,
}

impl Report {
    /// Compares the runs of two arms. If any sample has a number, only samples with the same number are compared, as
    /// pairs.
    pub fn compare(a: (&str, &[Sample]), b: (&str, &[Sample])) -> Self {
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
                true => difference_of_paired_proportions(paired_counts(&pairs)),
                false => difference_of_proportions(completed(a.1), completed(b.1)),
            },
            latency_ms: compare(|sample| sample.latency_ms),
            cost_usd: compare(|sample| sample.cost_usd),
            tokens: compare(|sample| sample.tokens),
        };
        let same = |same: fn(&Sample, &Sample) -> bool| {
            proportion(pairs.iter().filter(|(a, b)| same(a, b)).count(), pairs.len())
        };
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
        let cost_usd = Measure::of(&values(samples, |sample| sample.cost_usd));
        Self {
            arm: arm.to_owned(),
            runs: samples.len(),
            completed,
            completion: proportion(completed, samples.len()),
            endings,
            tool_errors,
            latency_ms: Measure::of(&values(samples, |sample| sample.latency_ms)),
            cost_usd: Measure { total: round_usd(cost_usd.total), ..cost_usd },
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

fn paired_counts(pairs: &[(&Sample, &Sample)]) -> PairedCounts {
    let mut found = PairedCounts::default();
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
    fn runs_with_the_same_input_are_compared_pairwise() {
        let ok = RunStatus::Completed;
        let a = [sample(Some(0), ok, 110.0, "x"), sample(Some(1), ok, 210.0, "y"), sample(Some(2), ok, 999.0, "z")];
        let b = [sample(Some(1), RunStatus::Error, 200.0, ""), sample(Some(0), ok, 100.0, "x")];
        let report = Report::compare(("default", &a), ("new", &b));
        assert_eq!((report.a.runs, report.a.completed, report.b.completed), (3, 3, 1));
        assert_eq!(report.b.endings, [("model_timeout".to_owned(), 1)].into());
        assert_eq!(report.a.tool_errors, [("TIMEOUT".to_owned(), 3)].into());
        assert_eq!(report.difference.pairs, Some(2), "the third sample has no partner");
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
    fn runs_that_are_not_paired_by_input_are_compared_by_their_means() {
        let ok = RunStatus::Completed;
        let a: Vec<Sample> = [1.0, 2.0, 3.0, 4.0].map(|latency| sample(None, ok, latency, "")).into();
        let b: Vec<Sample> = [2.0, 4.0, 6.0, 8.0].map(|latency| sample(None, ok, latency, "")).into();
        let report = Report::compare(("default", &a), ("new", &b));
        assert_eq!((report.difference.pairs, report.agreement), (None, None));
        assert_eq!(report.difference.latency_ms.unwrap().value, -2.5);
        let nothing = Report::compare(("default", &[]), ("new", &b));
        assert_eq!((nothing.a.completion, nothing.difference.latency_ms), (None, None));
    }
}
