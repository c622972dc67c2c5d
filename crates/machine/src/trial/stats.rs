//! Statistics for comparisons: means and proportions with 95 % confidence intervals, and their differences.

use serde::{Deserialize, Serialize};

/// The 97.5th percentile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A value with its 95 % confidence interval. The interval is absent if there are too few values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The lower bound of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper bound of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl Estimate {
    fn with_margin(value: f64, margin: Option<f64>) -> Self {
        Self { value, low: margin.map(|margin| value - margin), high: margin.map(|margin| value + margin) }
    }
}

/// The mean of the values, with a Student interval; `None` without values.
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let Moments { mean, variance, n } = Moments::of(values)?;
    let margin = variance.map(|variance| student_t(n - 1.0) * (variance / n).sqrt());
    Some(Estimate::with_margin(mean, margin))
}

/// The difference of two means, with a Welch interval, which allows for unequal variances.
pub fn difference_of_means(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let (a, b) = (Moments::of(a)?, Moments::of(b)?);
    let margin = a.variance.zip(b.variance).map(|(of_a, of_b)| {
        let (of_a, of_b) = (of_a / a.n, of_b / b.n);
        let both = of_a + of_b;
        if both == 0.0 {
            return 0.0;
        }
        let degrees_of_freedom = both * both / (of_a * of_a / (a.n - 1.0) + of_b * of_b / (b.n - 1.0));
        student_t(degrees_of_freedom) * both.sqrt()
    });
    Some(Estimate::with_margin(a.mean - b.mean, margin))
}

/// The proportion of `count` in `n`, with a Wilson interval; `None` if `n` is 0.
pub fn proportion(count: usize, n: usize) -> Option<Estimate> {
    if n == 0 {
        return None;
    }
    let (n, p) = (to_f64(n), to_f64(count) / to_f64(n));
    let (z2, scale) = (Z * Z, 1.0 + Z * Z / n);
    let middle = (p + z2 / (2.0 * n)) / scale;
    let margin = Z / scale * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    Some(Estimate { value: p, low: Some((middle - margin).max(0.0)), high: Some((middle + margin).min(1.0)) })
}

/// The difference of two proportions, with a Newcombe interval built from their Wilson intervals.
pub fn difference_of_proportions(a: (usize, usize), b: (usize, usize)) -> Option<Estimate> {
    let (a, b) = (proportion(a.0, a.1)?, proportion(b.0, b.1)?);
    let distance = |one: Option<f64>, of: f64| one.map_or(0.0, |one| one - of);
    let value = a.value - b.value;
    let below = distance(a.low, a.value).hypot(distance(b.high, b.value));
    let above = distance(a.high, a.value).hypot(distance(b.low, b.value));
    Some(Estimate { value, low: Some(value - below), high: Some(value + above) })
}

/// The number of pairs of runs for each combination of success and failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairedCounts {
    /// Both succeeded.
    pub both: usize,
    /// Only the first succeeded.
    pub first: usize,
    /// Only the second succeeded.
    pub second: usize,
    /// Neither succeeded.
    pub neither: usize,
}

/// The difference of two proportions over pairs, with Newcombe's interval for paired data, which accounts for the
/// correlation within pairs.
pub fn difference_of_paired_proportions(pairs: PairedCounts) -> Option<Estimate> {
    let PairedCounts { both, first, second, neither } = pairs;
    let n = both + first + second + neither;
    let (a, b) = (proportion(both + first, n)?, proportion(both + second, n)?);
    let margins = [both + first, second + neither, both + second, first + neither].map(to_f64).iter().product::<f64>();
    let excess = to_f64(both) * to_f64(neither) - to_f64(first) * to_f64(second);
    let excess = if excess > 0.0 { (excess - to_f64(n) / 2.0).max(0.0) } else { excess };
    let correlation = if margins == 0.0 { 0.0 } else { excess / margins.sqrt() };
    let distance = |one: Option<f64>, of: f64| one.map_or(0.0, |one| (one - of).abs());
    let joined = |one: f64, other: f64| (one * one - 2.0 * correlation * one * other + other * other).max(0.0).sqrt();
    let value = a.value - b.value;
    let below = joined(distance(a.low, a.value), distance(b.high, b.value));
    let above = joined(distance(a.high, a.value), distance(b.low, b.value));
    Some(Estimate { value, low: Some(value - below), high: Some(value + above) })
}

/// The value below which the proportion `share` of the values lies. Interpolates linearly between neighbouring values.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = share.clamp(0.0, 1.0) * to_f64(sorted.len().checked_sub(1)?);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a non-negative position in the list")]
    let below = position.floor() as usize;
    let (low, high) = (*sorted.get(below)?, *sorted.get(below + 1).or(sorted.last())?);
    Some(low + (high - low) * position.fract())
}

struct Moments {
    mean: f64,
    /// `None` for a single value, because its variance is undefined.
    variance: Option<f64>,
    n: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = to_f64(values.len());
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { mean, variance: (values.len() > 1).then(|| squares / (n - 1.0)), n })
    }
}

/// The 97.5th percentile of Student's t-distribution.
///
/// Substituting x = √ν·tan θ (ν: degrees of freedom) turns the density into a multiple of cosᵛ⁻¹ θ. The function
/// integrates numerically from θ = 0 until 95 % of the area up to π/2 is covered.
fn student_t(degrees_of_freedom: f64) -> f64 {
    const STEPS: u32 = 20_000;
    if degrees_of_freedom > 200.0 {
        // The Cornish–Fisher expansion is accurate enough for so many degrees of freedom.
        let (z3, z5) = (Z.powi(3), Z.powi(5));
        return Z
            + (z3 + Z) / (4.0 * degrees_of_freedom)
            + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * degrees_of_freedom * degrees_of_freedom);
    }
    let width = std::f64::consts::FRAC_PI_2 / f64::from(STEPS);
    // The midpoint rule: the function is evaluated at the middle of each step.
    let slice = |step: u32| (width * (f64::from(step) + 0.5)).cos().powf(degrees_of_freedom - 1.0);
    let mut wanted = 0.95 * (0..STEPS).map(slice).sum::<f64>();
    for step in 0..STEPS {
        let area = slice(step);
        if wanted <= area {
            return degrees_of_freedom.sqrt() * (width * (f64::from(step) + wanted / area)).tan();
        }
        wanted -= area;
    }
    f64::INFINITY
}

fn to_f64(count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of runs are far below 2^53")]
    let number = count as f64;
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn close(estimate: Option<Estimate>, value: f64, low: f64, high: f64) {
        let found = estimate.unwrap();
        for (got, expected) in [(found.value, value), (found.low.unwrap(), low), (found.high.unwrap(), high)] {
            assert!((got - expected).abs() < 5e-4, "got {got}, expected {expected}: {found:?}");
        }
    }

    #[test]
    fn student_t_percentiles_match_published_tables() {
        for (degrees_of_freedom, expected) in [
            (1.0, 12.706_2),
            (2.0, 4.302_65),
            (3.0, 3.182_45),
            (4.411_764_7, 2.677_17),
            (5.0, 2.570_58),
            (10.0, 2.228_14),
            (30.0, 2.042_27),
            (200.0, 1.971_90),
            (201.0, 1.971_84),
            (1000.0, 1.962_34),
        ] {
            let got = student_t(degrees_of_freedom);
            assert!((got - expected).abs() < 2e-5 * expected, "{degrees_of_freedom}: got {got}, expected {expected}");
        }
    }

    #[test]
    fn mean_of_two_or_more_values_has_a_student_interval() {
        close(mean(&[1.0, 2.0, 3.0, 4.0]), 2.5, 0.445_74, 4.554_26);
        assert_eq!(
            mean(&[7.0]),
            Some(Estimate { value: 7.0, low: None, high: None }),
            "a single value has no interval"
        );
        assert_eq!(mean(&[]), None);
        close(mean(&[3.0, 3.0]), 3.0, 3.0, 3.0);
    }

    #[test]
    fn difference_of_means_with_unequal_variances_has_a_welch_interval() {
        close(difference_of_means(&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0, 8.0]), -2.5, -6.364_17, 1.364_17);
        close(difference_of_means(&[2.0, 2.0], &[1.0, 1.0]), 1.0, 1.0, 1.0);
    }

    /// The examples of Newcombe (1998), Statistics in Medicine 17, 857–872 and 873–890.
    #[test]
    fn intervals_of_proportions_and_their_differences_match_published_values() {
        close(proportion(81, 263), 0.307_98, 0.2553, 0.3662);
        close(proportion(15, 148), 0.101_35, 0.0624, 0.1605);
        close(proportion(0, 20), 0.0, 0.0, 0.1611);
        close(proportion(1, 29), 0.034_48, 0.0061, 0.1718);
        assert_eq!(proportion(0, 0), None);
        close(difference_of_proportions((56, 70), (48, 80)), 0.2, 0.0524, 0.3339);
        close(difference_of_proportions((9, 10), (3, 10)), 0.6, 0.1705, 0.8090);
    }

    /// The example of Newcombe (1998), Statistics in Medicine 17, 2635–2650, method 10.
    #[test]
    fn difference_of_paired_proportions_has_a_newcombe_interval() {
        let pairs = PairedCounts { both: 36, first: 12, second: 2, neither: 0 };
        close(difference_of_paired_proportions(pairs), 0.2, 0.0569, 0.3404);
        let agreeing = PairedCounts { both: 30, ..PairedCounts::default() };
        close(difference_of_paired_proportions(agreeing), 0.0, -0.1135, 0.1135);
        assert_eq!(difference_of_paired_proportions(PairedCounts::default()), None);
    }

    #[test]
    fn percentile_interpolates_between_neighbouring_values() {
        let values = [40.0, 10.0, 20.0, 30.0];
        for (share, expected) in [(0.0, 10.0), (0.5, 25.0), (0.95, 38.5), (1.0, 40.0)] {
            assert_eq!(percentile(&values, share), Some(expected), "{share}");
        }
        assert_eq!((percentile(&[], 0.5), percentile(&[5.0], 0.95)), (None, Some(5.0)));
    }

    proptest! {
        #[test]
        fn difference_of_means_lies_in_its_interval_and_swapping_samples_negates_the_interval(
            a in prop::collection::vec(-1e6..1e6f64, 2..20), b in prop::collection::vec(-1e6..1e6f64, 2..20),
        ) {
            let (there, back) = (difference_of_means(&a, &b).unwrap(), difference_of_means(&b, &a).unwrap());
            prop_assert!(there.low.unwrap() <= there.value && there.value <= there.high.unwrap());
            prop_assert!((there.low.unwrap() + back.high.unwrap()).abs() < 1e-3);
        }

        #[test]
        fn proportion_lies_in_its_interval_which_lies_between_zero_and_one(count in 0usize..200, more in 0usize..200) {
            prop_assume!(count + more > 0);
            let found = proportion(count, count + more).unwrap();
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            prop_assert!(0.0 <= low && low <= found.value + 1e-12 && found.value <= high + 1e-12 && high <= 1.0);
        }
    }
}
