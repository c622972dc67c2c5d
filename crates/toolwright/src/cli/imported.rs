//! What an import did, as a person reads it.

use serde::Deserialize;

use super::Context;
use super::failure::Failure;
use super::output::plain;

/// What all imports report.
#[derive(Deserialize)]
pub struct Imported {
    imported: Vec<Named>,
    updated: Vec<Named>,
    unchanged: Vec<Named>,
    skipped: Vec<Skipped>,
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    ref_name: String,
}

#[derive(Deserialize)]
struct Skipped {
    #[serde(alias = "operation")]
    name: String,
    reason: String,
}

impl Imported {
    /// Shows it: a line for each that is not what it was, with `kind` before its name, and how many there are. Warnings go
    /// to stderr; `remark` comes last.
    pub fn show(&self, cx: &Context, kind: &str, remark: &str) -> Result<(), Failure> {
        let paint = cx.output.out;
        let lists = [(paint.good("+ imported "), &self.imported), (paint.good("~ updated  "), &self.updated)];
        for (word, named) in lists {
            cx.output.lines(named.iter().map(|one| format!("{word}  {kind}{}", plain(&one.ref_name))))?;
        }
        let skipped = self.skipped.iter();
        cx.output.lines(
            skipped.map(|one| format!("{}  {}: {}", paint.warn("- skipped  "), plain(&one.name), plain(&one.reason))),
        )?;
        for warning in &self.warnings {
            cx.output.note(cx.output.err.warn(format!("! {}", plain(warning))));
        }
        cx.output.line(format!(
            "{} imported, {} updated, {} unchanged, {} skipped{remark}",
            self.imported.len(),
            self.updated.len(),
            self.unchanged.len(),
            self.skipped.len()
        ))?;
        Ok(())
    }
}
