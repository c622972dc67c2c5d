//! The definitions that gram files hold, for `apply`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use toolwright_gram::syntax::{TokenKind, Tree};
use toolwright_gram::{Code, Diagnostic, Pattern};
use toolwright_notation::{Definition as Defined, read_all};

use super::texts::{self, Parsed, Text};
use crate::cli::definitions::{Definition, Kind, Place};

/// Whether a text that does not say so is gram: nothing that JSON or YAML could mean by a definition begins like this.
///
/// A definition there is an object. Gram begins with a comment, a node or an annotation, as no field is called; or with
/// `[name:Label`, which without a blank behind the colon is a list of texts in YAML.
pub fn is_gram(text: &str) -> bool {
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

/// Every agent and tool of these texts, which know each other's names, or everything that is wrong.
pub fn definitions(texts: Vec<(PathBuf, String)>) -> Result<Vec<Definition>, Vec<String>> {
    let texts = texts::parse_all(texts.into_iter().map(|(file, source)| Text { file, source: Ok(source) }))?;
    let patterns: Vec<Pattern> = texts.iter().map(|text| text.pattern.clone()).collect();
    let found = read_all(&patterns).map_err(|problems| {
        problems
            .into_iter()
            .map(|(text, problem)| told(texts.get(text), &problem.path, &problem.message))
            .collect::<Vec<_>>()
    })?;
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let definitions = found.into_iter().map(|defined| {
        let document = counts.entry(defined.text).or_default();
        *document += 1;
        let file = texts.get(defined.text).map(|text| text.file.clone()).unwrap_or_default();
        let place = Place { file, document: *document };
        let (kind, name, body) = match &defined.definition {
            Defined::Agent(agent) => (Kind::Agent, agent.ref_name.to_string(), serde_json::to_value(agent)),
            Defined::Tool(tool) => (Kind::Tool, tool.ref_name.to_string(), serde_json::to_value(tool)),
        };
        let body: Value = body.map_err(|error| vec![format!("{place}: {error}")])?;
        Ok(Definition { kind, name, body, place })
    });
    definitions.collect()
}

fn told(text: Option<&Parsed>, path: &[usize], message: &str) -> String {
    match text {
        Some(Parsed { file, source, .. }) => {
            texts::line(file, &Diagnostic::of_element(source, path, Code::InvalidTool, message))
        }
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gram_is_told_from_json_and_yaml_by_how_it_begins() {
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
