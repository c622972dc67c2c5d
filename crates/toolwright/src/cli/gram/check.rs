//! `gram check`: everything that is wrong with files, for people and for editors.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use toolwright_gram::{Code, Definitions, Diagnostic, Pattern, check, is_agent, parse};
use toolwright_notation::read_all;

use super::texts::{self, Text};
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::printable;

/// Which files.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// Files or folders, or `-` for standard input; folders are searched through for *.gram
    #[arg(value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
}

/// A mistake in a file.
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

/// Checks files, which know each other's names: notation, names, agents and tools, and whether `apply` would take them.
pub fn run(cx: &Context, args: CheckArgs) -> Result<Exit, Failure> {
    let texts = texts::read(&args.files)?;
    let findings = find(&texts);
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if cx.output.json {
        cx.output.line(json!({ "ok": errors == 0, "diagnostics": findings }))?;
    } else {
        for finding in &findings {
            cx.output.line(show(finding, &texts))?;
        }
        if errors == 0 {
            let files = if texts.len() == 1 { "1 file is" } else { &format!("{} files are", texts.len()) };
            cx.output.line(cx.output.out.good(format!("✓ {files} well")))?;
        }
    }
    Ok(if errors == 0 { Exit::Ok } else { Exit::Invalid })
}

fn find(texts: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let patterns: Vec<Option<Pattern>> =
        texts.iter().map(|text| text.source.as_ref().ok().and_then(|source| parse(source).ok())).collect();
    for (index, Text { file, source }) in texts.iter().enumerate() {
        let others = patterns.iter().enumerate().filter(|(other, _)| *other != index);
        let others = Definitions::of(others.filter_map(|(_, pattern)| pattern.as_ref()));
        let late = patterns.get(index).and_then(Option::as_ref).map(named_by_agents).unwrap_or_default();
        let mistakes = match source {
            Ok(source) => check(source, &others),
            Err(mistakes) => mistakes.as_slice().to_vec(),
        };
        findings.extend(mistakes.into_iter().map(|mut diagnostic| {
            let name = source.as_deref().map(|source| diagnostic.span.of(source)).unwrap_or_default();
            // Tools are bound late: a name that no file defines may be one that the server has.
            let is_late = diagnostic.code == Code::UndefinedReference && late.contains(name.trim_matches('`'));
            if is_late {
                diagnostic.hint = Some("the server must have a tool of this name when the agent runs".to_owned());
            }
            let severity = if is_late { Severity::Warning } else { Severity::Error };
            Finding { file: file.clone(), severity, diagnostic }
        }));
    }
    if findings.iter().all(|finding| finding.severity == Severity::Warning) {
        let patterns: Vec<Pattern> = patterns.into_iter().flatten().collect();
        findings.extend(refused(texts, &patterns));
    }
    findings
}

/// What is gram and a definition, but none that the platform takes.
fn refused<'p>(texts: &[Text], patterns: &'p [Pattern]) -> Vec<Finding> {
    let problems = read_all(patterns).err().unwrap_or_default();
    let findings = problems.into_iter().filter_map(|(index, problem)| {
        let Text { file, source } = texts.get(index)?;
        let below = |pattern: &'p Pattern, index: &usize| pattern.elements.get(*index);
        let blamed = problem.path.iter().try_fold(patterns.get(index)?, below)?;
        let code = if is_agent(blamed) { Code::InvalidAgent } else { Code::InvalidTool };
        let diagnostic = Diagnostic::of_element(source.as_ref().ok()?, &problem.path, code, problem.message);
        Some(Finding { file: file.clone(), severity: Severity::Error, diagnostic })
    });
    findings.collect()
}

fn named_by_agents(text: &Pattern) -> BTreeSet<&str> {
    let agents = text.members().iter().filter(|member| is_agent(member));
    agents.flat_map(|agent| &agent.elements).filter(|tool| tool.is_reference()).map(Pattern::identity).collect()
}

fn show(finding: &Finding, texts: &[Text]) -> String {
    let source = texts.iter().find(|text| text.file == finding.file).and_then(|text| text.source.as_deref().ok());
    let rendered = finding.diagnostic.render(source.unwrap_or_default());
    let rendered = rendered.replacen("--> ", &format!("--> {}:", display(&finding.file)), 1);
    printable(&match finding.severity {
        Severity::Error => rendered,
        Severity::Warning => rendered.replacen("error[", "warning[", 1),
    })
}

fn display(file: &Path) -> String {
    file.display().to_string()
}
