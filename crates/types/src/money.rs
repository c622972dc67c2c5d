//! Amounts of money.

/// Rounds an amount in US dollars to nine decimals. One unit of the last decimal is less than any model charges for a
/// token.
///
/// Every cost is rounded where it arises and where it is added to other costs. So all views of a run show the same
/// amount, without the error of binary fractions: 0.0008 instead of 0.0007999999999999999.
pub fn round_usd(amount: f64) -> f64 {
    const UNITS: f64 = 1e9;
    let units = amount * UNITS;
    // A larger amount needs no rounding, because a double of this size has at most nine decimals.
    if units.abs() < 2f64.powi(53) { units.round() / UNITS } else { amount }
}

#[cfg(test)]
mod tests {
    use super::round_usd;

    #[test]
    fn amounts_are_rounded_to_nine_decimals() {
        for (amount, text) in [
            (0.000_799_999_999_999_999_9, "0.0008"),
            (0.1 + 0.2, "0.3"),
            (0.000_000_000_4, "0.0"),
            (0.000_000_000_6, "1e-9"),
            (12.345_678_901_2, "12.345678901"),
            (f64::MAX, serde_json::json!(f64::MAX).to_string().as_str()),
        ] {
            assert_eq!(serde_json::json!(round_usd(amount)).to_string(), text);
        }
    }
}
