//! The little statistics that a comparison needs: means and shares with 95 % confidence intervals, and their differences.

use serde::Serialize;

/// The 97.5th percentile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A number with the interval that holds the true one, 95 times of a hundred. Without an interval there are too few values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Where the interval begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl Estimate {
    fn around(value: f64, margin: Option<f64>) -> Self {
        Self { value, low: margin.map(|margin| value - margin), high: margin.map(|margin| value + margin) }
    }
}

/// The mean of these values, with Student's interval; none without values.
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let Moments { mean, variance, n } = Moments::of(values)?;
    let margin = variance.map(|variance| t(n - 1.0) * (variance / n).sqrt());
    Some(Estimate::around(mean, margin))
}

/// The mean of the first values less that of the second, with Welch's interval: the two need not vary alike.
pub fn difference_of_means(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let (a, b) = (Moments::of(a)?, Moments::of(b)?);
    let margin = a.variance.zip(b.variance).map(|(of_a, of_b)| {
        let (of_a, of_b) = (of_a / a.n, of_b / b.n);
        let both = of_a + of_b;
        if both == 0.0 {
            return 0.0;
        }
        let freedom = both * both / (of_a * of_a / (a.n - 1.0) + of_b * of_b / (b.n - 1.0));
        t(freedom) * both.sqrt()
    });
    Some(Estimate::around(a.mean - b.mean, margin))
}

/// How many of `n` that is, with Wilson's interval; none of nothing.
pub fn share(count: usize, n: usize) -> Option<Estimate> {
    if n == 0 {
        return None;
    }
    let (n, p) = (number(n), number(count) / number(n));
    let (z2, scale) = (Z * Z, 1.0 + Z * Z / n);
    let middle = (p + z2 / (2.0 * n)) / scale;
    let margin = Z / scale * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    Some(Estimate { value: p, low: Some((middle - margin).max(0.0)), high: Some((middle + margin).min(1.0)) })
}

/// The first share less the second, with Newcombe's interval, which is made of Wilson's.
pub fn difference_of_shares(a: (usize, usize), b: (usize, usize)) -> Option<Estimate> {
    let (a, b) = (share(a.0, a.1)?, share(b.0, b.1)?);
    let reach = |one: Option<f64>, of: f64| one.map_or(0.0, |one| one - of);
    let value = a.value - b.value;
    let below = reach(a.low, a.value).hypot(reach(b.high, b.value));
    let above = reach(a.high, a.value).hypot(reach(b.low, b.value));
    Some(Estimate { value, low: Some(value - below), high: Some(value + above) })
}

/// How many pairs of runs had what in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fourfold {
    /// Both did.
    pub both: usize,
    /// Only the first did.
    pub first: usize,
    /// Only the second did.
    pub second: usize,
    /// Neither did.
    pub neither: usize,
}

/// The share of the first of each pair less that of the second, with Newcombe's interval for pairs: that pairs which agree
/// prove little is in it too.
pub fn difference_of_paired_shares(pairs: Fourfold) -> Option<Estimate> {
    let Fourfold { both, first, second, neither } = pairs;
    let n = both + first + second + neither;
    let (a, b) = (share(both + first, n)?, share(both + second, n)?);
    let margins = [both + first, second + neither, both + second, first + neither].map(number).iter().product::<f64>();
    let excess = number(both) * number(neither) - number(first) * number(second);
    let excess = if excess > 0.0 { (excess - number(n) / 2.0).max(0.0) } else { excess };
    let correlation = if margins == 0.0 { 0.0 } else { excess / margins.sqrt() };
    let reach = |one: Option<f64>, of: f64| one.map_or(0.0, |one| (one - of).abs());
    let joined = |one: f64, other: f64| (one * one - 2.0 * correlation * one * other + other * other).max(0.0).sqrt();
    let value = a.value - b.value;
    let below = joined(reach(a.low, a.value), reach(b.high, b.value));
    let above = joined(reach(a.high, a.value), reach(b.low, b.value));
    Some(Estimate { value, low: Some(value - below), high: Some(value + above) })
}

/// The value below which this share of them lies, with the way between two neighbours divided evenly.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * number(sorted.len().checked_sub(1)?);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let below = place.floor() as usize;
    let (low, high) = (*sorted.get(below)?, *sorted.get(below + 1).or(sorted.last())?);
    Some(low + (high - low) * place.fract())
}

struct Moments {
    mean: f64,
    /// None for a single value, which does not vary.
    variance: Option<f64>,
    n: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = number(values.len());
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { mean, variance: (values.len() > 1).then(|| squares / (n - 1.0)), n })
    }
}

/// The 97.5th percentile of Student's distribution.
///
/// With x = √ν·tan θ its density becomes cosᵛ⁻¹ θ, so that the percentile is where 95 % of that area lies between 0 and θ.
fn t(freedom: f64) -> f64 {
    const STEPS: u32 = 20_000;
    if freedom > 200.0 {
        // Cornish and Fisher's expansion, beyond which nothing is left to see.
        let (z3, z5) = (Z.powi(3), Z.powi(5));
        return Z + (z3 + Z) / (4.0 * freedom) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * freedom * freedom);
    }
    let width = std::f64::consts::FRAC_PI_2 / f64::from(STEPS);
    // Heights in the middle of each step: at the end, tan θ is infinite.
    let slice = |step: u32| (width * (f64::from(step) + 0.5)).cos().powf(freedom - 1.0);
    let mut wanted = 0.95 * (0..STEPS).map(slice).sum::<f64>();
    for step in 0..STEPS {
        let area = slice(step);
        if wanted <= area {
            return freedom.sqrt() * (width * (f64::from(step) + wanted / area)).tan();
        }
        wanted -= area;
    }
    f64::INFINITY
}

fn number(count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "nobody has that many runs")]
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
            assert!((got - expected).abs() < 5e-4, "{got} is not {expected}: {found:?}");
        }
    }

    #[test]
    fn students_percentiles_are_those_of_the_tables() {
        for (freedom, expected) in [
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
            let got = t(freedom);
            assert!((got - expected).abs() < 2e-5 * expected, "{freedom}: {got} is not {expected}");
        }
    }

    #[test]
    fn means_have_students_interval() {
        close(mean(&[1.0, 2.0, 3.0, 4.0]), 2.5, 0.445_74, 4.554_26);
        assert_eq!(mean(&[7.0]), Some(Estimate { value: 7.0, low: None, high: None }), "one value does not vary");
        assert_eq!(mean(&[]), None);
        close(mean(&[3.0, 3.0]), 3.0, 3.0, 3.0);
    }

    #[test]
    fn means_that_vary_differently_are_compared_by_welch() {
        close(difference_of_means(&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0, 8.0]), -2.5, -6.364_17, 1.364_17);
        close(difference_of_means(&[2.0, 2.0], &[1.0, 1.0]), 1.0, 1.0, 1.0);
    }

    /// The examples of Newcombe (1998), Statistics in Medicine 17, 857–872 and 873–890.
    #[test]
    fn shares_have_wilsons_interval_and_differences_newcombes() {
        close(share(81, 263), 0.307_98, 0.2553, 0.3662);
        close(share(15, 148), 0.101_35, 0.0624, 0.1605);
        close(share(0, 20), 0.0, 0.0, 0.1611);
        close(share(1, 29), 0.034_48, 0.0061, 0.1718);
        assert_eq!(share(0, 0), None);
        close(difference_of_shares((56, 70), (48, 80)), 0.2, 0.0524, 0.3339);
        close(difference_of_shares((9, 10), (3, 10)), 0.6, 0.1705, 0.8090);
    }

    /// The example of Newcombe (1998), Statistics in Medicine 17, 2635–2650, method 10.
    #[test]
    fn shares_of_pairs_have_newcombes_interval_for_pairs() {
        let pairs = Fourfold { both: 36, first: 12, second: 2, neither: 0 };
        close(difference_of_paired_shares(pairs), 0.2, 0.0569, 0.3404);
        let agreeing = Fourfold { both: 30, ..Fourfold::default() };
        close(difference_of_paired_shares(agreeing), 0.0, -0.1135, 0.1135);
        assert_eq!(difference_of_paired_shares(Fourfold::default()), None);
    }

    #[test]
    fn percentiles_lie_between_neighbours() {
        let values = [40.0, 10.0, 20.0, 30.0];
        for (share, expected) in [(0.0, 10.0), (0.5, 25.0), (0.95, 38.5), (1.0, 40.0)] {
            assert_eq!(percentile(&values, share), Some(expected), "{share}");
        }
        assert_eq!((percentile(&[], 0.5), percentile(&[5.0], 0.95)), (None, Some(5.0)));
    }

    proptest! {
        #[test]
        fn an_interval_holds_its_value_and_turns_with_its_sides(
            a in prop::collection::vec(-1e6..1e6f64, 2..20), b in prop::collection::vec(-1e6..1e6f64, 2..20),
        ) {
            let (there, back) = (difference_of_means(&a, &b).unwrap(), difference_of_means(&b, &a).unwrap());
            prop_assert!(there.low.unwrap() <= there.value && there.value <= there.high.unwrap());
            prop_assert!((there.low.unwrap() + back.high.unwrap()).abs() < 1e-3);
        }

        #[test]
        fn a_share_lies_within_its_interval_and_between_none_and_all(count in 0usize..200, more in 0usize..200) {
            prop_assume!(count + more > 0);
            let found = share(count, count + more).unwrap();
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            prop_assert!(0.0 <= low && low <= found.value + 1e-12 && found.value <= high + 1e-12 && high <= 1.0);
        }
    }
}
