//! Search over deals: parse the request into a [`Query`] that cannot be wrong, then answer it without failing.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{DIRECTIONS, Error};
use super::model::{Deal, Field, Property};
use crate::submission::Submission;

/// A search that is known to make sense.
pub(super) struct Query {
    filters: Vec<Filter>,
    sorts: Vec<Sort>,
    page: Page,
}

/// Which part of a list to show.
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
    test: Test,
}

enum Test {
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
    pub(super) fn parse(request: &Submission) -> Result<Self, Error> {
        let wire: QueryWire = request.json()?;
        let filters = wire.filters.unwrap_or_default().into_iter();
        let sorts = wire.sorts.unwrap_or_default().into_iter();
        Ok(Self {
            filters: filters.map(Filter::parse).collect::<Result<_, _>>()?,
            sorts: sorts.map(Sort::parse).collect::<Result<_, _>>()?,
            page: Page::parse(wire.limit.as_ref(), wire.after.as_ref())?,
        })
    }

    pub(super) fn answer(&self, deals: &BTreeMap<u64, Deal>) -> Value {
        let mut found: Vec<&Deal> =
            deals.values().filter(|deal| self.filters.iter().all(|filter| filter.matches(deal))).collect();
        // A stable sort: deals that compare as equal stay in the order of their ids.
        found.sort_by(|a, b| {
            let orders = self.sorts.iter().map(|sort| sort.compare(a, b));
            orders.fold(Ordering::Equal, Ordering::then)
        });
        self.page.of(&found, |deal| deal.view())
    }
}

impl Page {
    /// Both values may be absent, null, or a number in either JSON form.
    pub(super) fn parse(limit: Option<&Value>, after: Option<&Value>) -> Result<Self, Error> {
        let limit = whole(limit, 10).ok_or(Error::InvalidLimit)?;
        if !(1..=100).contains(&limit) {
            return Err(Error::InvalidLimit);
        }
        let after = whole(after, 0).ok_or(Error::InvalidCursor)?;
        Ok(Self { limit, after })
    }

    pub(super) fn of<T>(self, all: &[T], view: impl Fn(&T) -> Value) -> Value {
        let shown = all.iter().skip(self.after).take(self.limit);
        let results: Vec<Value> = shown.map(view).collect();
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
        let test = match operator {
            Operator::Eq => Test::Eq(wire.field(property)?),
            Operator::Neq => Test::Neq(wire.field(property)?),
            Operator::In => Test::In(wire.fields(property)?),
            Operator::ContainsToken => Test::Tokens(tokens(&wire.text()?).collect()),
            Operator::Gt => Test::Order(Ordering::is_gt, wire.field(property)?),
            Operator::Gte => Test::Order(Ordering::is_ge, wire.field(property)?),
            Operator::Lt => Test::Order(Ordering::is_lt, wire.field(property)?),
            Operator::Lte => Test::Order(Ordering::is_le, wire.field(property)?),
        };
        Ok(Self { property, test })
    }

    /// A property without a value is not equal to anything, and not smaller or greater either.
    fn matches(&self, deal: &Deal) -> bool {
        let Some(field) = deal.properties.get(&self.property) else {
            return matches!(self.test, Test::Neq(_));
        };
        let equals = |other: &Field| field.compare(other) == Some(Ordering::Equal);
        match &self.test {
            Test::Eq(value) => equals(value),
            Test::Neq(value) => !equals(value),
            Test::In(values) => values.iter().any(equals),
            Test::Order(holds, value) => field.compare(value).is_some_and(holds),
            Test::Tokens(wanted) => match field {
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

    /// Deals without a value come last, in both directions.
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

    /// Order is for amounts and dates, tokens are for text; equality is for everything.
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
        let missing = || Error::Body(format!("operator `{}` needs a `value`", self.operator));
        self.value.as_ref().ok_or_else(missing)
    }

    fn field(&self, property: Property) -> Result<Field, Error> {
        property.field(self.value()?)
    }

    fn fields(&self, property: Property) -> Result<Vec<Field>, Error> {
        let missing = || Error::Body(format!("operator `{}` needs `values`", self.operator));
        let values = self.values.as_ref().ok_or_else(missing)?;
        values.iter().map(|value| property.field(value)).collect()
    }

    fn text(&self) -> Result<String, Error> {
        match self.value()? {
            Value::String(text) if !text.trim().is_empty() => Ok(text.clone()),
            _ => Err(Error::Body(format!("operator `{}` needs a text that is not empty", self.operator))),
        }
    }
}

/// A number, or text that holds one; `absent` when there is neither.
fn whole(value: Option<&Value>, absent: usize) -> Option<usize> {
    match value {
        None | Some(Value::Null) => Some(absent),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64()?.try_into().ok(),
    }
}

/// Words in lower case; a `*` at either end of a word stands for anything.
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
    fn tokens_match_whole_words_unless_starred() {
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
