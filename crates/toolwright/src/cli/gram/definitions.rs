//! The definitions in gram files, for `apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use toolwright_gram::syntax::{TokenKind, Tree};
use toolwright_gram::{Diagnostic, DiagnosticCode, Pattern};
use toolwright_notation::{ParsedDefinition, read_all};

use super::sources::{self, ParsedFile, SourceFile};
use crate::cli::definitions::{FileDefinition, ResourceKind, SourceLocation};
use crate::cli::source_lines::DocumentLines;

/// Returns whether a text is gram, judged by its first tokens. No definition in JSON or YAML starts with these tokens.
///
/// A definition in JSON or YAML is an object. A gram text starts with a comment, a node or an annotation, and none of
/// these can be a field name. A gram text can also start with `[name:Label`. YAML parses that as a list of strings,
/// because no space follows the colon.
pub(crate) fn is_gram(text: &str) -> bool {
    use TokenKind as K;
    let tree = Tree::parse(text);
    let mut kinds = tree.tokens().map(|token| token.kind).skip_while(|kind| *kind == K::Whitespace);
    match kinds.next() {
        Some(K::LineComment | K::DocComment | K::OpenNode | K::At | K::DoubleAt) => true,
        Some(K::OpenBracket) => {
            let inside: Vec<K> = kinds.skip_while(|kind| *kind == K::Whitespace).take(3).collect();
            let labelled = match inside.as_slice() {
                [K::Symbol | K::Backticked, rest @ ..] => rest,
                rest => rest,
            };
            matches!(labelled, [K::Colon | K::DoubleColon, K::Symbol | K::Backticked, ..])
        }
        _ => false,
    }
}

/// Returns all agents and tools of the texts, or all errors. The texts may refer to each other's names.
pub(crate) fn definitions(sources: Vec<(PathBuf, String)>) -> Result<Vec<FileDefinition>, Vec<String>> {
    let sources =
        sources::parse_all(sources.into_iter().map(|(file, source)| SourceFile { file, source: Ok(source) }))?;
    let patterns: Vec<Pattern> = sources.iter().map(|text| text.pattern.clone()).collect();
    let found = read_all(&patterns).map_err(|problems| {
        problems
            .into_iter()
            .map(|(text, problem)| problem_line(sources.get(text), &problem.path, &problem.message))
            .collect::<Vec<_>>()
    })?;
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let definitions = found.into_iter().map(|defined| {
        let document = counts.entry(defined.text).or_default();
        *document += 1;
        let file = sources.get(defined.text).map(|text| text.file.clone()).unwrap_or_default();
        let location = SourceLocation { file, document: *document, line: None };
        let (kind, name, body) = match &defined.definition {
            ParsedDefinition::Agent(agent) => {
                (ResourceKind::Agent, agent.ref_name.to_string(), serde_json::to_value(agent))
            }
            ParsedDefinition::Tool(tool) => (ResourceKind::Tool, tool.ref_name.to_string(), serde_json::to_value(tool)),
        };
        let body: Value = body.map_err(|error| vec![format!("{location}: {error}")])?;
        Ok(FileDefinition { kind, name, body, location, lines: DocumentLines::default() })
    });
    definitions.collect()
}

fn problem_line(text: Option<&ParsedFile>, path: &[usize], message: &str) -> String {
    match text {
        Some(ParsedFile { file, source, .. }) => {
            sources::diagnostic_line(file, &Diagnostic::for_element(source, path, DiagnosticCode::InvalidTool, message))
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gram_is_recognized_by_its_first_tokens() {
        for gram in [
            "[a:Agent {}]",
            " \n[`crm/get`::Tool | ()==>(::Text)]",
            "[:Agent]",
            "// c\n{k: 1}",
            "/** c */ x",
            "\u{feff}(a)",
            "@k(1) (a)",
            "[a:Agent {",
        ] {
            assert!(is_gram(gram), "{gram:?}");
        }
        for other in [
            "",
            "refName: a",
            "{\"refName\": \"a\"}",
            "[{\"refName\": \"a\"}]",
            "[{refName: a}]",
            "[refName: a]",
            "[a, b]",
            "[]",
            "- refName: a",
            "---\nrefName: a",
            "# (a)\nrefName: a",
            "'[a:Agent]'",
        ] {
            assert!(!is_gram(other), "{other:?}");
        }
    }
}
