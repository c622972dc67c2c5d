//! Search over deals. A request is parsed into a valid [`Query`], whose execution cannot fail.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{DIRECTIONS, Error};
use super::model::{Deal, Field, Property};
use crate::keyed_request::KeyedRequest;

/// A validated search.
pub(super) struct Query {
    filters: Vec<Filter>,
    sorts: Vec<Sort>,
    page: Page,
}

/// A page of a list.
#[derive(Clone, Copy)]
pub(super) struct Page {
    limit: usize,
    after: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Eq,
    Neq,
    ContainsToken,
    Gt,
    Gte,
    Lt,
    Lte,
    In,
}

struct Filter {
    property: Property,
    predicate: Predicate,
}

enum Predicate {
    Eq(Field),
    Neq(Field),
    In(Vec<Field>),
    Tokens(Vec<String>),
    Order(fn(Ordering) -> bool, Field),
}

struct Sort {
    property: Property,
    descending: bool,
}

impl Query {
    pub(super) fn parse(request: &KeyedRequest) -> Result<Self, Error> {
        let wire: QueryWire = request.json()?;
        let filters = wire.filters.unwrap_or_default().into_iter();
        let sorts = wire.sorts.unwrap_or_default().into_iter();
        Ok(Self {
            filters: filters.map(Filter::parse).collect::<Result<_, _>>()?,
            sorts: sorts.map(Sort::parse).collect::<Result<_, _>>()?,
            page: Page::parse(wire.limit.as_ref(), wire.after.as_ref())?,
        })
    }

    pub(super) fn run(&self, deals: &BTreeMap<u64, Deal>) -> Value {
        let mut found: Vec<&Deal> =
            deals.values().filter(|deal| self.filters.iter().all(|filter| filter.matches(deal))).collect();
        // The sort is stable, so deals that compare equal remain in the order of their ids.
        found.sort_by(|a, b| {
            let orders = self.sorts.iter().map(|sort| sort.compare(a, b));
            orders.fold(Ordering::Equal, Ordering::then)
        });
        self.page.render(&found, |deal| deal.view())
    }
}

impl Page {
    /// Parses `limit` and `after`. Each may be absent, null, a number, or a string that contains a number.
    pub(super) fn parse(limit: Option<&Value>, after: Option<&Value>) -> Result<Self, Error> {
        let limit = parse_integer(limit, 10).ok_or(Error::InvalidLimit)?;
        if !(1..=100).contains(&limit) {
            return Err(Error::InvalidLimit);
        }
        let after = parse_integer(after, 0).ok_or(Error::InvalidCursor)?;
        Ok(Self { limit, after })
    }

    pub(super) fn render<T>(self, all: &[T], view: impl Fn(&T) -> Value) -> Value {
        let items = all.iter().skip(self.after).take(self.limit);
        let results: Vec<Value> = items.map(view).collect();
        let next = self.after.saturating_add(self.limit);
        if next < all.len() {
            let paging = json!({"next": {"after": next.to_string()}});
            json!({"total": all.len(), "results": results, "paging": paging})
        } else {
            json!({"total": all.len(), "results": results})
        }
    }
}

impl Filter {
    fn parse(wire: FilterWire) -> Result<Self, Error> {
        let property = Property::parse(&wire.property_name)?;
        let operator = Operator::parse(&wire.operator)?;
        if !operator.applies_to(property) {
            return Err(Error::WrongOperator { operator, property });
        }
        let predicate = match operator {
            Operator::Eq => Predicate::Eq(wire.field(property)?),
            Operator::Neq => Predicate::Neq(wire.field(property)?),
            Operator::In => Predicate::In(wire.fields(property)?),
            Operator::ContainsToken => Predicate::Tokens(tokens(&wire.text()?).collect()),
            Operator::Gt => Predicate::Order(Ordering::is_gt, wire.field(property)?),
            Operator::Gte => Predicate::Order(Ordering::is_ge, wire.field(property)?),
            Operator::Lt => Predicate::Order(Ordering::is_lt, wire.field(property)?),
            Operator::Lte => Predicate::Order(Ordering::is_le, wire.field(property)?),
        };
        Ok(Self { property, predicate })
    }

    /// Returns whether a deal matches. A property without a value matches only `NEQ`.
    fn matches(&self, deal: &Deal) -> bool {
        let Some(field) = deal.properties.get(&self.property) else {
            return matches!(self.predicate, Predicate::Neq(_));
        };
        let equals = |other: &Field| field.compare(other) == Some(Ordering::Equal);
        match &self.predicate {
            Predicate::Eq(value) => equals(value),
            Predicate::Neq(value) => !equals(value),
            Predicate::In(values) => values.iter().any(equals),
            Predicate::Order(holds, value) => field.compare(value).is_some_and(holds),
            Predicate::Tokens(wanted) => match field {
                Field::Text(text) => contains_tokens(text, wanted),
                _ => false,
            },
        }
    }
}

impl Sort {
    fn parse(wire: SortWire) -> Result<Self, Error> {
        let property = Property::parse(&wire.property_name)?;
        let [ascending, descending] = DIRECTIONS;
        let direction = wire.direction.unwrap_or_else(|| ascending.to_owned());
        if direction != ascending && direction != descending {
            return Err(Error::UnknownDirection(direction));
        }
        Ok(Self { property, descending: direction == descending })
    }

    /// Compares two deals by this sort. Deals without a value for the sorted property come last in both directions.
    fn compare(&self, a: &Deal, b: &Deal) -> Ordering {
        let (a, b) = (a.properties.get(&self.property), b.properties.get(&self.property));
        match (a, b) {
            (Some(a), Some(b)) => {
                let order = a.compare(b).unwrap_or(Ordering::Equal);
                if self.descending { order.reverse() } else { order }
            }
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

impl Operator {
    pub(super) const ALL: [Self; 8] =
        [Self::Eq, Self::Neq, Self::ContainsToken, Self::Gt, Self::Gte, Self::Lt, Self::Lte, Self::In];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Eq => "EQ",
            Self::Neq => "NEQ",
            Self::ContainsToken => "CONTAINS_TOKEN",
            Self::Gt => "GT",
            Self::Gte => "GTE",
            Self::Lt => "LT",
            Self::Lte => "LTE",
            Self::In => "IN",
        }
    }

    /// Returns whether the operator applies to a property. Comparisons such as `GT` apply to amounts and dates,
    /// `CONTAINS_TOKEN` applies to text, and equality applies to all properties.
    pub(super) fn applies_to(self, property: Property) -> bool {
        let ordered = matches!(property, Property::Amount | Property::Closedate);
        match self {
            Self::Eq | Self::Neq | Self::In => true,
            Self::Gt | Self::Gte | Self::Lt | Self::Lte => ordered,
            Self::ContainsToken => !ordered && property != Property::Dealstage,
        }
    }

    fn parse(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|operator| operator.name() == name);
        found.ok_or_else(|| Error::UnknownOperator(name.to_owned()))
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryWire {
    filters: Option<Vec<FilterWire>>,
    sorts: Option<Vec<SortWire>>,
    limit: Option<Value>,
    after: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FilterWire {
    property_name: String,
    operator: String,
    value: Option<Value>,
    values: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SortWire {
    property_name: String,
    direction: Option<String>,
}

impl FilterWire {
    fn value(&self) -> Result<&Value, Error> {
        let missing = || Error::Body(format!("operator `{}` requires a `value`", self.operator));
        self.value.as_ref().ok_or_else(missing)
    }

    fn field(&self, property: Property) -> Result<Field, Error> {
        property.field(self.value()?)
    }

    fn fields(&self, property: Property) -> Result<Vec<Field>, Error> {
        let missing = || Error::Body(format!("operator `{}` requires `values`", self.operator));
        let values = self.values.as_ref().ok_or_else(missing)?;
        values.iter().map(|value| property.field(value)).collect()
    }

    fn text(&self) -> Result<String, Error> {
        match self.value()? {
            Value::String(text) if !text.trim().is_empty() => Ok(text.clone()),
            _ => Err(Error::Body(format!("operator `{}` requires a non-empty string", self.operator))),
        }
    }
}

/// Parses a number or a string that contains a number. Returns `default` if the value is absent or null.
fn parse_integer(value: Option<&Value>, default: usize) -> Option<usize> {
    match value {
        None | Some(Value::Null) => Some(default),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64()?.try_into().ok(),
    }
}

/// Splits text into lower-case words. A `*` at either end of a word is a wildcard.
fn tokens(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '*').filter(|token| !token.is_empty()).map(str::to_lowercase)
}

fn contains_tokens(text: &str, wanted: &[String]) -> bool {
    let present: Vec<String> = tokens(text).collect();
    wanted.iter().all(|pattern| present.iter().any(|token| token_matches(pattern, token)))
}

fn token_matches(pattern: &str, token: &str) -> bool {
    let open_start = pattern.strip_prefix('*');
    let rest = open_start.unwrap_or(pattern);
    let open_end = rest.strip_suffix('*');
    let core = open_end.unwrap_or(rest);
    match (open_start, open_end) {
        (None, None) => token == core,
        (Some(_), None) => token.ends_with(core),
        (None, Some(_)) => token.starts_with(core),
        (Some(_), Some(_)) => token.contains(core),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_token_matches_only_whole_words_unless_the_token_has_a_wildcard() {
        let wanted = |text: &str| tokens(text).collect::<Vec<_>>();
        for (text, pattern, expected) in [
            ("Acme Corp", "acme", true),
            ("Acme Corp", "Corp Acme", true),
            ("Acme Corp", "acm", false),
            ("Acme Corp", "acm*", true),
            ("Acme Corp", "*cme", true),
            ("Acme Corp", "*cm*", true),
            ("Acme Corp", "acme globex", false),
            ("Acme Corp", "*", true),
        ] {
            assert_eq!(contains_tokens(text, &wanted(pattern)), expected, "{pattern}");
        }
    }
}
