//! The initial data of the orders API. Tests and the demo depend on its ids and states. Add new rows, but do not change
//! existing rows.

use super::model::Status::{self, Cancelled, Delivered, Paid, Pending, Shipped};
use super::model::{Customer, Item, NewOrder, Order, Records};
use crate::record_store::seeded_at;

impl Records {
    pub(super) fn seeded() -> Self {
        Self {
            customers: CUSTOMERS.into_iter().map(customer).collect(),
            orders: ORDERS.into_iter().map(order).collect(),
        }
    }
}

/// Id, name, e-mail, country.
type CustomerRow = (&'static str, &'static str, &'static str, &'static str);

/// Number, customer, status, and the items, each with SKU, quantity and price in cents.
type OrderRow = (u64, &'static str, Status, &'static [(&'static str, u64, u64)]);

fn customer((id, name, email, country): CustomerRow) -> (&'static str, Customer) {
    let customer = Customer { id, name, email, country };
    (id, customer)
}

fn order((number, customer_id, status, items): OrderRow) -> (u64, Order) {
    let item = |&(sku, quantity, unit_price_cents): &(&str, u64, u64)| Item {
        sku: sku.to_owned(),
        quantity,
        unit_price_cents,
    };
    let new = NewOrder { customer_id: customer_id.to_owned(), items: items.iter().map(item).collect(), note: None };
    let mut order = Order::new(number, new, seeded_at());
    order.status = status;
    (number, order)
}

#[rustfmt::skip]
const CUSTOMERS: [CustomerRow; 6] = [
    ("cus-1", "Corner Bookshop", "orders@bookshop.example", "DE"),
    ("cus-2", "Harbour Cafe", "orders@cafe.example", "PT"),
    ("cus-3", "City Library", "orders@library.example", "IT"),
    ("cus-4", "Canal Bikes", "orders@bikes.example", "NL"),
    ("cus-5", "Hill School", "orders@school.example", "SE"),
    ("cus-6", "River Market", "orders@market.example", "FR"),
];

#[rustfmt::skip]
const ORDERS: [OrderRow; 20] = [
    (1001, "cus-1", Pending, &[("KB-200", 1, 8_900), ("MS-110", 1, 3_500)]),
    (1002, "cus-1", Shipped, &[("MN-270", 2, 31_900)]),
    (1003, "cus-2", Paid, &[("DS-400", 1, 44_900)]),
    (1004, "cus-2", Delivered, &[("CB-005", 10, 700)]),
    (1005, "cus-3", Cancelled, &[("KB-200", 2, 8_900)]),
    (1006, "cus-3", Pending, &[("HB-030", 4, 2_400)]),
    (1007, "cus-3", Paid, &[("WC-080", 1, 6_900), ("CB-005", 2, 700)]),
    (1008, "cus-4", Shipped, &[("CH-500", 6, 23_900)]),
    (1009, "cus-4", Delivered, &[("DS-400", 2, 44_900)]),
    (1010, "cus-1", Delivered, &[("CB-005", 3, 700)]),
    (1011, "cus-5", Pending, &[("MN-270", 1, 31_900)]),
    (1012, "cus-5", Paid, &[("MS-110", 12, 3_500)]),
    (1013, "cus-5", Shipped, &[("HB-030", 1, 2_400), ("CB-005", 4, 700)]),
    (1014, "cus-6", Cancelled, &[("CH-500", 1, 23_900)]),
    (1015, "cus-6", Pending, &[("KB-200", 5, 8_900)]),
    (1016, "cus-2", Shipped, &[("WC-080", 3, 6_900)]),
    (1017, "cus-1", Paid, &[("CH-500", 1, 23_900), ("DS-400", 1, 44_900)]),
    (1018, "cus-4", Pending, &[("MS-110", 2, 3_500)]),
    (1019, "cus-6", Delivered, &[("HB-030", 2, 2_400)]),
    (1020, "cus-3", Shipped, &[("KB-200", 1, 8_900)]),
];
