//! Records as CSV: rows in, rows out.

mod cell;
mod export;
mod import;
mod quotes;

pub use export::{Export, ExportRequest};
pub use import::{FailedRow, Import, Progress};
