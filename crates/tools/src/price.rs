//! The price of a call, compiled with its tool.

use serde_json::Value;
use toolwright_expr::{Mapping, Scope};
use toolwright_types::{ToolPrice, round_usd};

use crate::Issues;

#[derive(Debug)]
pub(crate) struct CompiledPrice {
    per_call_usd: f64,
    /// The price of a unit, and the mapping that counts the units of a response.
    per_unit: Option<(f64, Mapping)>,
}

/// The cost of one call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallCost {
    pub usd: f64,
    /// The reason why the cost does not include the units of the call.
    pub warning: Option<String>,
}

impl CompiledPrice {
    pub(crate) fn compile(price: &ToolPrice, issues: &mut Issues) -> Option<Self> {
        for (field, amount) in [("perCallUsd", price.per_call_usd), ("perUnitUsd", price.per_unit_usd)] {
            if let Some(amount) = amount.filter(|amount| !(amount.is_finite() && *amount >= 0.0)) {
                issues.add(format!("/price/{field}"), format!("must be at least 0, got {amount}"));
            }
        }
        let units = price.units.as_deref().map(Mapping::parse).transpose();
        let units = issues.check("/price/units", units).flatten();
        let per_unit = match (price.per_unit_usd, &price.units) {
            (Some(_), None) => {
                issues.add("/price/units", "is required with `perUnitUsd`; for example `$.results`");
                None
            }
            (None, Some(_)) => {
                issues.add("/price/perUnitUsd", "is required with `units`");
                None
            }
            (amount, _) => amount.zip(units),
        };
        if price.per_call_usd.is_none() && price.per_unit_usd.is_none() && price.units.is_none() {
            issues.add("/price", "must have `perCallUsd`, or `perUnitUsd` with `units`");
        }
        Some(Self { per_call_usd: price.per_call_usd.unwrap_or(0.0), per_unit })
    }

    /// Computes the cost of a call from its input and the response of its tool.
    pub(crate) fn cost(&self, input: &Value, response: &Value) -> CallCost {
        let (units_usd, warning) = match &self.per_unit {
            None => (0.0, None),
            Some((usd, units)) => match count_units(units, input, response) {
                Ok(count) => (usd * count, None),
                Err(why) => (0.0, Some(format!("price.units {why}; the units of this call count as 0"))),
            },
        };
        CallCost { usd: round_usd(self.per_call_usd + units_usd), warning }
    }

    /// The highest cost of one call; `None` if it depends on the response.
    pub(crate) fn highest_usd(&self) -> Option<f64> {
        self.per_unit.is_none().then_some(self.per_call_usd)
    }
}

fn count_units(units: &Mapping, input: &Value, response: &Value) -> Result<f64, String> {
    let found = units.apply(response, &Scope::new(input)).map_err(|error| format!("failed: {error}"))?;
    match found.value {
        Value::Array(items) => Ok(items.len() as f64),
        Value::Number(number) => match number.as_f64().filter(|count| count.is_finite() && *count >= 0.0) {
            Some(count) => Ok(count),
            None => Err(format!("must be at least 0, got {number}")),
        },
        Value::Null => Err("found nothing in the response".to_owned()),
        _ => Err("must be a number or a list".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compile(price: Value) -> Result<CompiledPrice, Issues> {
        let mut issues = Issues::default();
        let price = CompiledPrice::compile(&serde_json::from_value(price).unwrap(), &mut issues);
        if issues.0.is_empty() { Ok(price.unwrap()) } else { Err(issues) }
    }

    #[test]
    fn cost_is_the_price_of_the_call_plus_the_price_of_its_units() {
        let response = json!({ "results": [1, 2, 3], "credits": 2.5, "name": "x", "debt": -1 });
        for (price, usd, warns) in [
            (json!({ "perCallUsd": 0.01 }), 0.01, false),
            (json!({ "perUnitUsd": 0.001, "units": "$.results" }), 0.003, false),
            (json!({ "perUnitUsd": 0.001, "units": "$.results[*]" }), 0.003, false),
            (json!({ "perCallUsd": 0.01, "perUnitUsd": 0.002, "units": "credits" }), 0.015, false),
            (json!({ "perUnitUsd": 0.001, "units": "pages * 2" }), 0.008, false),
            (json!({ "perCallUsd": 0.01, "perUnitUsd": 0.002, "units": "$.missing" }), 0.01, true),
            (json!({ "perCallUsd": 0.01, "perUnitUsd": 0.002, "units": "$.name" }), 0.01, true),
            (json!({ "perCallUsd": 0.01, "perUnitUsd": 0.002, "units": "$.debt" }), 0.01, true),
        ] {
            let cost = compile(price.clone()).unwrap().cost(&json!({ "pages": 4 }), &response);
            assert_eq!((cost.usd, cost.warning.is_some()), (usd, warns), "{price}: {:?}", cost.warning);
        }
    }

    #[test]
    fn invalid_price_is_rejected_with_its_path() {
        for (price, path) in [
            (json!({}), "/price"),
            (json!({ "perCallUsd": -1 }), "/price/perCallUsd"),
            (json!({ "perUnitUsd": 1 }), "/price/units"),
            (json!({ "units": "$.results" }), "/price/perUnitUsd"),
            (json!({ "perUnitUsd": 1, "units": "$.[" }), "/price/units"),
        ] {
            let issues = compile(price.clone()).unwrap_err();
            assert_eq!(issues.0.iter().map(|issue| issue.path.as_str()).collect::<Vec<_>>(), [path], "{price}");
        }
    }
}
