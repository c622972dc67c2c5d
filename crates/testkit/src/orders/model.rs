//! Orders and customers. A request is parsed into a [`NewOrder`] or an [`OrderQuery`]. If it is invalid, the error
//! lists all invalid fields.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::InvalidField;

/// All data of the orders API.
pub(super) struct Records {
    pub(super) customers: BTreeMap<&'static str, Customer>,
    /// The orders by number: `ord-1001` has the number 1001.
    pub(super) orders: BTreeMap<u64, Order>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Customer {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) email: &'static str,
    pub(super) country: &'static str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Order {
    pub(super) id: String,
    pub(super) customer_id: String,
    pub(super) status: Status,
    pub(super) items: Vec<Item>,
    pub(super) total_cents: u64,
    pub(super) currency: &'static str,
    pub(super) note: Option<String>,
    pub(super) cancel_reason: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    pub(super) sku: String,
    pub(super) quantity: u64,
    pub(super) unit_price_cents: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Pending,
    Paid,
    Shipped,
    Delivered,
    Cancelled,
}

/// A validated new order.
pub(super) struct NewOrder {
    pub(super) customer_id: String,
    pub(super) items: Vec<Item>,
    pub(super) note: Option<String>,
}

/// A validated query of the order list.
pub(super) struct OrderQuery {
    pub(super) status: Option<Status>,
    pub(super) customer_id: Option<String>,
    pub(super) limit: usize,
    /// Only orders with a number greater than this one match. The cursor of a page contains this number.
    pub(super) after: u64,
}

/// A new order before validation. A field may be missing or have a wrong type, so that one error can report all invalid
/// fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewOrderWire {
    #[serde(default)]
    customer_id: Value,
    #[serde(default)]
    items: Value,
    #[serde(default)]
    note: Value,
}

impl Order {
    pub(super) fn new(number: u64, new: NewOrder, at: Timestamp) -> Self {
        let line_total = |item: &Item| item.quantity.saturating_mul(item.unit_price_cents);
        Self {
            id: order_id(number),
            customer_id: new.customer_id,
            status: Status::Pending,
            total_cents: new.items.iter().map(line_total).fold(0, u64::saturating_add),
            items: new.items,
            currency: "EUR",
            note: new.note,
            cancel_reason: None,
            created_at: at,
            updated_at: at,
        }
    }
}

impl Status {
    const ALL: [Self; 5] = [Self::Pending, Self::Paid, Self::Shipped, Self::Delivered, Self::Cancelled];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Paid => "paid",
            Self::Shipped => "shipped",
            Self::Delivered => "delivered",
            Self::Cancelled => "cancelled",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl NewOrderWire {
    pub(super) fn check(&self, records: &Records) -> Result<NewOrder, Vec<InvalidField>> {
        let mut invalid = Vec::new();
        let customer_id = self.customer_id.as_str().unwrap_or_default().to_owned();
        if !records.customers.contains_key(customer_id.as_str()) {
            invalid.push(InvalidField::new("customerId", "must be the id of a customer"));
        }
        let items = match self.items.as_array() {
            Some(items) if (1..=50).contains(&items.len()) => check_items(items, &mut invalid),
            _ => {
                invalid.push(InvalidField::new("items", "must be an array of 1 to 50 items"));
                Vec::new()
            }
        };
        let note = self.note.as_str().map(str::to_owned);
        if note.is_none() && !self.note.is_null() {
            invalid.push(InvalidField::new("note", "must be a string"));
        }
        if !invalid.is_empty() {
            return Err(invalid);
        }
        Ok(NewOrder { customer_id, items, note })
    }
}

fn check_items(items: &[Value], invalid: &mut Vec<InvalidField>) -> Vec<Item> {
    let mut checked = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        let number = |name: &str| item.get(name).and_then(Value::as_u64);
        let sku = item.get("sku").and_then(Value::as_str);
        let sku = sku.filter(|sku| !sku.is_empty());
        let quantity = number("quantity").filter(|n| (1..=1000).contains(n));
        let price = number("unitPriceCents").filter(|cents| *cents <= 100_000_000);
        let mut require = |name: &str, present: bool, message: &str| {
            if !present {
                invalid.push(InvalidField::new(format!("items[{n}].{name}"), message));
            }
        };
        require("sku", sku.is_some(), "must be a non-empty string");
        let range = "must be an integer between 1 and 1000";
        require("quantity", quantity.is_some(), range);
        let range = "must be an integer between 0 and 100000000";
        require("unitPriceCents", price.is_some(), range);
        if let (Some(sku), Some(quantity), Some(unit_price_cents)) = (sku, quantity, price) {
            checked.push(Item { sku: sku.to_owned(), quantity, unit_price_cents });
        }
    }
    checked
}

impl OrderQuery {
    pub(super) fn parse(mut query: HashMap<String, String>) -> Result<Self, Vec<InvalidField>> {
        let mut invalid = Vec::new();
        let status = query.remove("status").and_then(|name| {
            let status = Status::parse(&name);
            if status.is_none() {
                let valid = Status::ALL.map(Status::name).join(", ");
                invalid.push(InvalidField::new("status", format!("must be one of {valid}")));
            }
            status
        });
        let limit = query.remove("limit").map_or(Some(10), |text| text.parse().ok());
        let limit = limit.filter(|limit| (1..=50).contains(limit));
        if limit.is_none() {
            invalid.push(InvalidField::new("limit", "must be an integer between 1 and 50"));
        }
        let cursor = query.remove("cursor");
        let after = cursor.map_or(Some(0), |id| order_number(&id));
        if after.is_none() {
            invalid.push(InvalidField::new("cursor", "must be a `nextCursor` of this list"));
        }
        let customer_id = query.remove("customerId");
        invalid.extend(query.keys().map(|name| InvalidField::new(name, "is not a known parameter")));
        match (limit, after) {
            (Some(limit), Some(after)) if invalid.is_empty() => Ok(Self { status, customer_id, limit, after }),
            _ => Err(invalid),
        }
    }

    pub(super) fn matches(&self, order: &Order) -> bool {
        self.status.is_none_or(|status| status == order.status)
            && self.customer_id.as_ref().is_none_or(|id| *id == order.customer_id)
    }
}

pub(super) fn order_id(number: u64) -> String {
    format!("ord-{number}")
}

pub(super) fn order_number(id: &str) -> Option<u64> {
    id.strip_prefix("ord-")?.parse().ok()
}
