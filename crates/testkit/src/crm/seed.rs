//! The initial data of the CRM. Tests and the demo depend on its ids, stages and amounts. Add new rows, but do not
//! change existing rows.

use std::collections::BTreeSet;

use jiff::civil::{Date, date};

use super::model::Stage::{
    AppointmentScheduled as Appointment, ClosedLost as Lost, ClosedWon as Won, DecisionMakerBoughtIn as BoughtIn,
    Negotiation, PresentationScheduled as Presentation, QualifiedToBuy as Qualified,
};
use super::model::{Company, Deal, Field, Property, Records, Stage};
use crate::record_store::seeded_at;

impl Records {
    pub(super) fn seeded() -> Self {
        Self {
            companies: COMPANIES.into_iter().map(company).collect(),
            deals: DEALS.into_iter().map(deal).collect(),
            next_deal: 201,
            locked: BTreeSet::new(),
            notes: Vec::new(),
            emails: 0,
        }
    }

    /// Adds deals of a company in the first stage of the pipeline.
    pub(super) fn add_deals(&mut self, company: &str, count: u64) {
        for number in 1..=count {
            let properties = [
                (Property::Dealname, Field::Text(format!("{company} - Branch {number}"))),
                (Property::Company, Field::Text(company.to_owned())),
                (Property::Dealstage, Field::Stage(Appointment)),
                (Property::Amount, Field::Amount((5_000 + 100 * number).into())),
                (Property::Closedate, Field::Date(date(2027, 6, 30))),
                (Property::Owner, Field::Text("sales-west".to_owned())),
            ];
            let id = self.next_deal;
            self.next_deal += 1;
            self.deals.insert(id, Deal { id, properties: properties.into(), updated_at: seeded_at() });
        }
    }
}

/// Id, name, domain, industry, city.
type CompanyRow = (u64, &'static str, &'static str, &'static str, &'static str);

/// Id, name, company, stage, amount, close date, owner.
type DealRow = (u64, &'static str, &'static str, Stage, i64, Date, &'static str);

fn company((id, name, domain, industry, city): CompanyRow) -> (u64, Company) {
    let company = Company { id, name, domain, industry, city };
    (id, company)
}

fn deal((id, name, company, stage, amount, closes, owner): DealRow) -> (u64, Deal) {
    let properties = [
        (Property::Dealname, Field::Text(name.to_owned())),
        (Property::Company, Field::Text(company.to_owned())),
        (Property::Dealstage, Field::Stage(stage)),
        (Property::Amount, Field::Amount(amount.into())),
        (Property::Closedate, Field::Date(closes)),
        (Property::Owner, Field::Text(owner.to_owned())),
    ];
    let deal = Deal { id, properties: properties.into(), updated_at: seeded_at() };
    (id, deal)
}

#[rustfmt::skip]
const COMPANIES: [CompanyRow; 12] = [
    (501, "Acme Corp", "acme.example", "Manufacturing", "Chicago"),
    (502, "TechCo", "techco.example", "Software", "Austin"),
    (503, "Globex", "globex.example", "Energy", "Houston"),
    (504, "Initech", "initech.example", "Software", "Dallas"),
    (505, "Umbrella Health", "umbrella.example", "Healthcare", "Boston"),
    (506, "Stark Industries", "stark.example", "Aerospace", "New York"),
    (507, "Wayne Enterprises", "wayne.example", "Conglomerate", "Newark"),
    (508, "Hooli", "hooli.example", "Software", "San Jose"),
    (509, "Soylent Foods", "soylent.example", "Food", "Portland"),
    (510, "Vandelay Imports", "vandelay.example", "Logistics", "New York"),
    (511, "Wonka Sweets", "wonka.example", "Food", "Denver"),
    (512, "Cyberdyne Systems", "cyberdyne.example", "Robotics", "Sunnyvale"),
];

#[rustfmt::skip]
const DEALS: [DealRow; 30] = [
    (101, "Acme Corp - Platform License", "Acme Corp", Appointment, 48_000, date(2026, 12, 15), "sales-north"),
    (102, "Acme Corp - Support Renewal", "Acme Corp", Qualified, 12_500, date(2026, 11, 30), "sales-north"),
    (103, "Acme Corp - Plant Rollout", "Acme Corp", Presentation, 120_000, date(2027, 2, 28), "sales-east"),
    (104, "Acme Corp - Training Package", "Acme Corp", BoughtIn, 8_200, date(2026, 12, 5), "sales-north"),
    (105, "Acme Corp - Sensor Pilot", "Acme Corp", Lost, 25_000, date(2026, 9, 30), "sales-east"),
    (106, "TechCo - Data Warehouse", "TechCo", Negotiation, 95_000, date(2026, 12, 18), "sales-south"),
    (107, "TechCo - Analytics Seats", "TechCo", Qualified, 32_000, date(2027, 1, 31), "sales-south"),
    (108, "TechCo - Migration Services", "TechCo", Won, 54_000, date(2026, 10, 12), "sales-south"),
    (109, "Globex - Grid Monitoring", "Globex", Presentation, 210_000, date(2027, 3, 31), "sales-east"),
    (110, "Globex - Field Tablets", "Globex", Appointment, 18_750, date(2026, 12, 20), "sales-west"),
    (111, "Globex - Safety Audit", "Globex", Won, 41_300, date(2026, 8, 14), "sales-west"),
    (112, "Initech - Report Automation", "Initech", Negotiation, 27_400, date(2026, 11, 28), "sales-north"),
    (113, "Initech - Printer Fleet", "Initech", Lost, 6_900, date(2026, 7, 1), "sales-west"),
    (114, "Umbrella Health - Lab Portal", "Umbrella Health", BoughtIn, 88_000, date(2026, 12, 22), "sales-south"),
    (115, "Umbrella Health - Compliance Suite", "Umbrella Health", Qualified, 64_500, date(2027, 1, 15), "sales-south"),
    (116, "Stark Industries - Telemetry", "Stark Industries", Negotiation, 310_000, date(2026, 12, 30), "sales-east"),
    (117, "Stark Industries - Hangar Network", "Stark Industries", Appointment, 72_000, date(2027, 4, 30), "sales-east"),
    (118, "Stark Industries - Prototype Lab", "Stark Industries", Won, 150_000, date(2026, 6, 19), "sales-north"),
    (119, "Wayne Enterprises - Fleet Tracking", "Wayne Enterprises", Presentation, 134_000, date(2027, 1, 29), "sales-west"),
    (120, "Wayne Enterprises - Night Shift App", "Wayne Enterprises", Qualified, 22_000, date(2026, 12, 11), "sales-west"),
    (121, "Hooli - Search Appliance", "Hooli", Lost, 99_000, date(2026, 5, 22), "sales-south"),
    (122, "Hooli - Storage Expansion", "Hooli", Negotiation, 47_800, date(2026, 12, 9), "sales-south"),
    (123, "Hooli - Campus Wi-Fi", "Hooli", Appointment, 15_600, date(2027, 2, 12), "sales-north"),
    (124, "Soylent Foods - Cold Chain", "Soylent Foods", BoughtIn, 58_900, date(2026, 12, 17), "sales-west"),
    (125, "Soylent Foods - Label Printing", "Soylent Foods", Won, 9_400, date(2026, 10, 30), "sales-west"),
    (126, "Vandelay Imports - Customs Desk", "Vandelay Imports", Presentation, 36_200, date(2027, 1, 20), "sales-east"),
    (127, "Vandelay Imports - Latex Inventory", "Vandelay Imports", Qualified, 11_000, date(2026, 12, 2), "sales-east"),
    (128, "Wonka Sweets - Recipe Vault", "Wonka Sweets", Negotiation, 29_900, date(2026, 12, 24), "sales-north"),
    (129, "Wonka Sweets - River Sensors", "Wonka Sweets", Appointment, 17_300, date(2027, 3, 14), "sales-north"),
    (130, "Cyberdyne Systems - Safety Review", "Cyberdyne Systems", Presentation, 250_000, date(2027, 2, 5), "sales-south"),
];
