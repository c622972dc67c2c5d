//! CSV import and export of records.

mod cell;
mod export;
mod import;
mod quotes;

pub use export::{Export, ExportRequest};
pub use import::{FailedRow, Import, ImportProgress};
