//! `gram check`: reports all errors in files, for people and for editors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use toolwright_gram::{DefinitionIndex, Diagnostic, DiagnosticCode, Pattern, check, is_agent, parse};
use toolwright_notation::read_all;

use super::sources::{self, SourceFile};
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::follow::pluralize;
use crate::cli::output::sanitize;

/// Arguments of `gram check`.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// Files or directories, or `-` for standard input; directories are searched for *.gram
    #[arg(value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
}

/// A diagnostic in a file.
#[derive(Serialize)]
struct Finding {
    file: PathBuf,
    severity: Severity,
    #[serde(flatten)]
    diagnostic: Diagnostic,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Error,
    Warning,
}

/// Checks syntax, names, agents and tools, and whether `apply` would accept the files. Files may refer to each other's
/// names.
pub(super) fn run(cx: &Context, args: CheckArgs) -> Result<Exit, Failure> {
    let sources = sources::read(&args.files)?;
    let findings = check_sources(&sources);
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if cx.output.json {
        cx.output.document(json!({ "ok": errors == 0, "diagnostics": findings }))?;
    } else {
        for finding in &findings {
            cx.output.line(show(finding, &sources))?;
        }
        if errors == 0 {
            let files = pluralize(sources.len() as u64, "file");
            cx.output.line(cx.output.out.good(format!("✓ {files} OK")))?;
        }
    }
    Ok(if errors == 0 { Exit::Ok } else { Exit::Invalid })
}

fn check_sources(sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let patterns: Vec<Option<Pattern>> =
        sources.iter().map(|text| text.source.as_ref().ok().and_then(|source| parse(source).ok())).collect();
    for (index, SourceFile { file, source }) in sources.iter().enumerate() {
        let others = patterns.iter().enumerate().filter(|(other, _)| *other != index);
        let others = DefinitionIndex::from_patterns(others.filter_map(|(_, pattern)| pattern.as_ref()));
        let late_bound = patterns.get(index).and_then(Option::as_ref).map(tool_references).unwrap_or_default();
        let diagnostics = match source {
            Ok(source) => check(source, &others),
            Err(diagnostics) => diagnostics.as_slice().to_vec(),
        };
        findings.extend(diagnostics.into_iter().map(|mut diagnostic| {
            let name = source.as_deref().map(|source| diagnostic.span.slice(source)).unwrap_or_default();
            // Tools are bound at run time: a name that no file defines may exist on the server.
            let is_late_bound =
                diagnostic.code == DiagnosticCode::UndefinedReference && late_bound.contains(name.trim_matches('`'));
            if is_late_bound {
                diagnostic.hint = Some("the server must have a tool with this name when the agent runs".to_owned());
            }
            let severity = if is_late_bound { Severity::Warning } else { Severity::Error };
            Finding { file: file.clone(), severity, diagnostic }
        }));
    }
    if findings.iter().all(|finding| finding.severity == Severity::Warning) {
        let patterns: Vec<Pattern> = patterns.into_iter().flatten().collect();
        findings.extend(rejected_definitions(sources, &patterns));
    }
    findings
}

/// Finds definitions that are valid gram but that `apply` would reject.
fn rejected_definitions<'p>(sources: &[SourceFile], patterns: &'p [Pattern]) -> Vec<Finding> {
    let problems = read_all(patterns).err().unwrap_or_default();
    let findings = problems.into_iter().filter_map(|(index, problem)| {
        let SourceFile { file, source } = sources.get(index)?;
        let descend = |pattern: &'p Pattern, index: &usize| pattern.elements.get(*index);
        let element = problem.path.iter().try_fold(patterns.get(index)?, descend)?;
        let code = if is_agent(element) { DiagnosticCode::InvalidAgent } else { DiagnosticCode::InvalidTool };
        let diagnostic = Diagnostic::for_element(source.as_ref().ok()?, &problem.path, code, problem.message);
        Some(Finding { file: file.clone(), severity: Severity::Error, diagnostic })
    });
    findings.collect()
}

fn tool_references(text: &Pattern) -> BTreeSet<&str> {
    let agents = text.members().iter().filter(|member| is_agent(member));
    agents.flat_map(|agent| &agent.elements).filter(|tool| tool.is_reference()).map(Pattern::identity).collect()
}

fn show(finding: &Finding, sources: &[SourceFile]) -> String {
    let source = sources.iter().find(|text| text.file == finding.file).and_then(|text| text.source.as_deref().ok());
    let rendered = finding.diagnostic.render(source.unwrap_or_default());
    let rendered = rendered.replacen("--> ", &format!("--> {}:", display(&finding.file)), 1);
    sanitize(&match finding.severity {
        Severity::Error => rendered,
        Severity::Warning => rendered.replacen("error[", "warning[", 1),
    })
}

fn display(file: &Path) -> String {
    file.display().to_string()
}
