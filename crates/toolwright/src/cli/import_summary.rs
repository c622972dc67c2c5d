//! Prints the result of an import as text.

use toolwright_api::wire::{ImportView, McpImportView, TypeImportView, WorkflowImportView};

use super::Context;
use super::failure::Failure;
use super::output::sanitize_line;

/// The options that decide whether an import writes. Without `--apply`, it only shows what it would write.
#[derive(clap::Args)]
pub(super) struct WriteArgs {
    /// Write the definitions instead of only showing what would be imported
    #[arg(long)]
    apply: bool,
    /// Only show what would be imported, as without --apply
    #[arg(long, conflicts_with = "apply", hide = true)]
    dry_run: bool,
}

impl WriteArgs {
    /// Whether the import only shows what it would write.
    pub(super) fn is_preview(&self) -> bool {
        !self.apply || self.dry_run
    }
}

/// Returns the remark that follows the totals of an import: for a preview, how to write the definitions.
pub(super) fn preview_remark(is_preview: bool) -> &'static str {
    if is_preview { " (nothing was written; use --apply to write)" } else { "" }
}

/// The parts that all import responses have in common.
pub(super) struct ImportSummary<'a> {
    imported: Vec<&'a str>,
    updated: Vec<&'a str>,
    unchanged: usize,
    /// The name of each skipped item, with the reason.
    skipped: Vec<(&'a str, &'a str)>,
    warnings: &'a [String],
}

impl<'a> From<&'a ImportView> for ImportSummary<'a> {
    fn from(view: &'a ImportView) -> Self {
        Self {
            imported: view.imported.iter().map(|tool| tool.ref_name.as_str()).collect(),
            updated: view.updated.iter().map(|tool| tool.ref_name.as_str()).collect(),
            unchanged: view.unchanged.len(),
            skipped: view.skipped.iter().map(|skipped| (&*skipped.operation, &*skipped.reason)).collect(),
            warnings: &view.warnings,
        }
    }
}

impl<'a> From<&'a TypeImportView> for ImportSummary<'a> {
    fn from(view: &'a TypeImportView) -> Self {
        Self {
            imported: view.imported.iter().map(|imported| imported.ref_name.as_str()).collect(),
            updated: view.updated.iter().map(|updated| updated.ref_name.as_str()).collect(),
            unchanged: view.unchanged.len(),
            skipped: view.skipped.iter().map(|skipped| (&*skipped.name, &*skipped.reason)).collect(),
            warnings: &view.warnings,
        }
    }
}

impl<'a> From<&'a McpImportView> for ImportSummary<'a> {
    fn from(view: &'a McpImportView) -> Self {
        Self {
            imported: view.imported.iter().map(|tool| tool.ref_name.as_str()).collect(),
            updated: Vec::new(),
            unchanged: 0,
            skipped: view.skipped.iter().map(|skipped| (&*skipped.ref_name, &*skipped.reason)).collect(),
            warnings: &[],
        }
    }
}

impl<'a> From<&'a WorkflowImportView> for ImportSummary<'a> {
    fn from(view: &'a WorkflowImportView) -> Self {
        Self {
            imported: view.imported.iter().map(|workflow| workflow.ref_name.as_str()).collect(),
            updated: view.updated.iter().map(|workflow| workflow.ref_name.as_str()).collect(),
            unchanged: view.unchanged.len(),
            skipped: Vec::new(),
            warnings: &view.warnings,
        }
    }
}

impl ImportSummary<'_> {
    /// Prints one line for each imported, updated or skipped item. `kind` precedes the names of imported and updated
    /// items. Then prints the totals, followed by `remark`. Prints warnings to stderr.
    pub(super) fn show(&self, cx: &Context, kind: &str, remark: &str) -> Result<(), Failure> {
        let paint = cx.output.out;
        let lists = [(paint.good("+ imported "), &self.imported), (paint.good("~ updated  "), &self.updated)];
        for (word, names) in lists {
            cx.output.lines(names.iter().map(|name| format!("{word}  {kind}{}", sanitize_line(name))))?;
        }
        let skipped = self.skipped.iter();
        cx.output.lines(skipped.map(|(name, reason)| {
            format!("{}  {}: {}", paint.warn("- skipped  "), sanitize_line(name), sanitize_line(reason))
        }))?;
        for warning in self.warnings {
            cx.output.note(cx.output.err.warn(format!("! {}", sanitize_line(warning))));
        }
        cx.output.line(format!(
            "{} imported, {} updated, {} unchanged, {} skipped{remark}",
            self.imported.len(),
            self.updated.len(),
            self.unchanged,
            self.skipped.len()
        ))?;
        Ok(())
    }
}
