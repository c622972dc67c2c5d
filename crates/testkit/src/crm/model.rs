//! Deals, companies and the types of their properties. The property values of requests are parsed into [`Field`]s here.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Map, Number, Value, json};

use super::error::Error;

/// All data of the CRM.
pub(super) struct Records {
    pub(super) companies: BTreeMap<u64, Company>,
    pub(super) deals: BTreeMap<u64, Deal>,
    pub(super) next_deal: u64,
    /// The ids of the deals that cannot be changed.
    pub(super) locked: BTreeSet<u64>,
    pub(super) notes: Vec<Note>,
    /// The number of sent e-mails. Their content is not stored.
    pub(super) emails: u64,
}

pub(super) struct Company {
    pub(super) id: u64,
    pub(super) name: &'static str,
    pub(super) domain: &'static str,
    pub(super) industry: &'static str,
    pub(super) city: &'static str,
}

#[derive(Clone, Debug)]
pub(super) struct Deal {
    pub(super) id: u64,
    pub(super) properties: BTreeMap<Property, Field>,
    pub(super) updated_at: Timestamp,
}

/// A note on a deal.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) id: u64,
    pub(super) deal: u64,
    pub(super) text: String,
    /// The idempotency key of the request that created the note.
    pub(super) reference: Option<String>,
    pub(super) written_at: Timestamp,
}

/// A stage of the pipeline. The variants are in pipeline order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    AppointmentScheduled,
    QualifiedToBuy,
    PresentationScheduled,
    DecisionMakerBoughtIn,
    Negotiation,
    ClosedWon,
    ClosedLost,
}

/// A property of a deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Property {
    Dealname,
    Company,
    Dealstage,
    Amount,
    Closedate,
    Owner,
}

/// A parsed property value.
#[derive(Clone, Debug)]
pub(super) enum Field {
    Text(String),
    Stage(Stage),
    Amount(Number),
    Date(Date),
}

/// Validated changes to a deal. `None` clears a property.
pub(super) struct Changes(Vec<(Property, Option<Field>)>);

impl Company {
    pub(super) fn view(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "properties": {"name": self.name, "domain": self.domain, "industry": self.industry, "city": self.city},
        })
    }
}

impl Deal {
    pub(super) fn apply(&mut self, changes: Changes, at: Timestamp) {
        for (property, field) in changes.0 {
            match field {
                Some(field) => self.properties.insert(property, field),
                None => self.properties.remove(&property),
            };
        }
        self.updated_at = at;
    }

    /// Returns the deal as JSON with all properties. A property without a value is null.
    pub(super) fn view(&self) -> Value {
        let field = |property| self.properties.get(&property).map_or(Value::Null, Field::view);
        let properties: Map<String, Value> =
            Property::ALL.into_iter().map(|property| (property.name().to_owned(), field(property))).collect();
        json!({
            "id": self.id.to_string(),
            "properties": properties,
            "updatedAt": self.updated_at.to_string(),
        })
    }
}

impl Note {
    pub(super) fn view(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "dealId": self.deal.to_string(),
            "text": self.text,
            "reference": self.reference,
            "writtenAt": self.written_at.to_string(),
        })
    }
}

impl Changes {
    /// Parses the changes to an existing deal.
    pub(super) fn parse(properties: Map<String, Value>) -> Result<Self, Error> {
        let changes = properties.into_iter().map(|(name, value)| {
            let property = Property::parse(&name)?;
            let field = match value {
                Value::Null if property.is_required() => return Err(Error::Required(property)),
                Value::Null => None,
                value => Some(property.field(&value)?),
            };
            Ok((property, field))
        });
        changes.collect::<Result<_, _>>().map(Self)
    }

    /// Parses the properties of a new deal. The name is required. The default stage is the first stage of the pipeline.
    pub(super) fn parse_new(properties: Map<String, Value>) -> Result<Self, Error> {
        let mut changes = Self::parse(properties)?;
        if !changes.sets(Property::Dealname) {
            return Err(Error::Required(Property::Dealname));
        }
        if !changes.sets(Property::Dealstage) {
            let first = Field::Stage(Stage::AppointmentScheduled);
            changes.0.push((Property::Dealstage, Some(first)));
        }
        Ok(changes)
    }

    fn sets(&self, property: Property) -> bool {
        self.0.iter().any(|(changed, _)| *changed == property)
    }
}

impl Stage {
    pub(super) const ALL: [Self; 7] = [
        Self::AppointmentScheduled,
        Self::QualifiedToBuy,
        Self::PresentationScheduled,
        Self::DecisionMakerBoughtIn,
        Self::Negotiation,
        Self::ClosedWon,
        Self::ClosedLost,
    ];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::AppointmentScheduled => "appointmentscheduled",
            Self::QualifiedToBuy => "qualifiedtobuy",
            Self::PresentationScheduled => "presentationscheduled",
            Self::DecisionMakerBoughtIn => "decisionmakerboughtin",
            Self::Negotiation => "negotiation",
            Self::ClosedWon => "closedwon",
            Self::ClosedLost => "closedlost",
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::AppointmentScheduled => "Appointment Scheduled",
            Self::QualifiedToBuy => "Qualified To Buy",
            Self::PresentationScheduled => "Presentation Scheduled",
            Self::DecisionMakerBoughtIn => "Decision Maker Bought-In",
            Self::Negotiation => "Negotiation",
            Self::ClosedWon => "Closed Won",
            Self::ClosedLost => "Closed Lost",
        }
    }

    fn parse(id: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|stage| stage.id() == id);
        found.ok_or_else(|| Error::InvalidStage(id.to_owned()))
    }
}

impl Property {
    pub(super) const ALL: [Self; 6] =
        [Self::Dealname, Self::Company, Self::Dealstage, Self::Amount, Self::Closedate, Self::Owner];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dealname => "dealname",
            Self::Company => "company",
            Self::Dealstage => "dealstage",
            Self::Amount => "amount",
            Self::Closedate => "closedate",
            Self::Owner => "owner",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|property| property.name() == name);
        found.ok_or_else(|| Error::UnknownProperty(name.to_owned()))
    }

    /// Parses a value of this property. Amounts may be strings, because HubSpot sends amounts as strings.
    pub(super) fn field(self, value: &Value) -> Result<Field, Error> {
        let invalid = |expected| Error::InvalidValue { property: self, expected, found: to_text(value) };
        match (self, value) {
            (Self::Dealstage, value) => Stage::parse(&to_text(value)).map(Field::Stage),
            (Self::Amount, value) => amount(value).map(Field::Amount).ok_or_else(|| invalid("a number")),
            (Self::Closedate, Value::String(text)) => {
                text.parse().map(Field::Date).map_err(|_| invalid("a date like 2026-12-31"))
            }
            (Self::Closedate, _) => Err(invalid("a date like 2026-12-31")),
            (_, Value::String(text)) if !text.trim().is_empty() => Ok(Field::Text(text.clone())),
            _ => Err(invalid("a non-empty string")),
        }
    }

    fn is_required(self) -> bool {
        matches!(self, Self::Dealname | Self::Dealstage)
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Field {
    fn view(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Stage(stage) => Value::from(stage.id()),
            Self::Amount(amount) => Value::Number(amount.clone()),
            Self::Date(date) => Value::from(date.to_string()),
        }
    }

    /// Compares fields of the same type: text case-insensitively, stages in pipeline order. Returns `None` if the
    /// types differ.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Some(a.to_lowercase().cmp(&b.to_lowercase())),
            (Self::Stage(a), Self::Stage(b)) => Some(a.cmp(b)),
            (Self::Amount(a), Self::Amount(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
            (Self::Date(a), Self::Date(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

fn amount(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => {
            let integer = text.trim().parse::<i64>().ok().map(Number::from);
            integer.or_else(|| Number::from_f64(text.trim().parse().ok()?))
        }
        _ => None,
    }
}

/// Formats a value for a message. Strings have no quotes.
fn to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
