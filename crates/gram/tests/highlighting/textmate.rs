//! Compares the TextMate grammar `editors/gram.tmLanguage.json` with [`highlight`]. Both must assign the same classes.
//! The test applies the rules of the grammar line by line, as editors do.

use fancy_regex::Regex;
use serde_json::Value;
use toolwright_gram::{TokenClass, Tree, highlight};

use crate::accepted::ACCEPTED;
use crate::generate::{self, Random};

const GRAMMAR: &str = include_str!("../../../../editors/gram.tmLanguage.json");

/// A rule of the grammar.
struct Rule {
    begin: Regex,
    scope: Option<TokenClass>,
    /// Only for a rule that matches a region: the expression that ends the region, the class of the end, and the
    /// indexes of the rules that apply inside the region.
    inside: Option<(Regex, Option<TokenClass>, Vec<usize>)>,
}

#[derive(Default)]
struct Grammar {
    rules: Vec<Rule>,
    top: Vec<usize>,
}

impl Grammar {
    fn read() -> Self {
        let json: Value = serde_json::from_str(GRAMMAR).unwrap();
        let mut grammar = Self::default();
        let mut known = Vec::new();
        grammar.top = grammar.list(&json["patterns"], &json["repository"], &mut known);
        grammar
    }

    /// Reads a list of patterns and returns the indexes of their rules. `known` contains the patterns that were already
    /// read, because patterns may include each other recursively.
    fn list<'j>(&mut self, list: &'j Value, repository: &'j Value, known: &mut Vec<(&'j Value, usize)>) -> Vec<usize> {
        let mut numbers = Vec::new();
        for pattern in list.as_array().unwrap() {
            let pattern = match pattern["include"].as_str() {
                Some(name) => &repository[name.strip_prefix('#').unwrap()],
                None => pattern,
            };
            assert!(pattern.is_object(), "the target of an include must exist");
            match pattern.get("match").or(pattern.get("begin")) {
                Some(begin) => numbers.push(self.rule(pattern, begin, repository, known)),
                None => numbers.extend(self.list(&pattern["patterns"], repository, known)),
            }
        }
        numbers
    }

    fn rule<'j>(
        &mut self,
        pattern: &'j Value,
        begin: &'j Value,
        repository: &'j Value,
        known: &mut Vec<(&'j Value, usize)>,
    ) -> usize {
        if let Some((_, number)) = known.iter().find(|(seen, _)| std::ptr::eq(*seen, pattern)) {
            return *number;
        }
        let number = self.rules.len();
        known.push((pattern, number));
        let own = class(&pattern["name"]);
        let scope = own.or(class(&pattern["beginCaptures"]["0"]["name"]));
        self.rules.push(Rule { begin: regex(begin), scope, inside: None });
        if let Some(end) = pattern.get("end") {
            let inner = pattern.get("patterns").map(|list| self.list(list, repository, known));
            let end_class = own.or(class(&pattern["endCaptures"]["0"]["name"]));
            self.rules[number].inside = Some((regex(end), end_class, inner.unwrap_or_default()));
        }
        number
    }

    /// Returns the class of each byte of a text, or `None` for blanks and unmatched text.
    fn classes(&self, text: &str) -> Vec<Option<TokenClass>> {
        let mut classes = vec![None; text.len()];
        let mut open: Vec<usize> = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let mut at = 0;
            while at <= line.len() {
                let inside = open.last().and_then(|rule| self.rules[*rule].inside.as_ref());
                let ending = inside.and_then(|(end, class, _)| Some((end.find_from_pos(line, at).unwrap()?, *class)));
                let rules = inside.map_or(&self.top, |(_, _, rules)| rules);
                let begins = rules.iter().filter_map(|number| {
                    let found = self.rules[*number].begin.find_from_pos(line, at).unwrap()?;
                    Some((found, *number))
                });
                // The leftmost match is used. If several matches start at the same position, the end of the region
                // takes precedence, then the first rule of the list.
                let begin = begins.min_by_key(|(found, _)| found.start());
                let (found, class, begun_rule) = match (ending, begin) {
                    (Some((end, class)), begin)
                        if begin.as_ref().is_none_or(|(begin, _)| end.start() <= begin.start()) =>
                    {
                        (end, class, None)
                    }
                    (_, Some((begin, number))) => (begin, self.rules[number].scope, Some(number)),
                    _ => {
                        self.fill(&open, &mut classes[start + at..start + line.len()]);
                        break;
                    }
                };
                self.fill(&open, &mut classes[start + at..start + found.start()]);
                classes[start + found.start()..start + found.end()].fill(class);
                match begun_rule {
                    None => drop(open.pop()),
                    Some(number) if self.rules[number].inside.is_some() => open.push(number),
                    Some(_) => assert!(found.end() > at, "an empty match would loop forever"),
                }
                at = found.end();
            }
            start += line.len();
        }
        classes
    }

    /// Sets the class of the text between matches. The text gets the class of the open rule if no other rules apply
    /// inside that rule, as in comments and fenced strings.
    fn fill(&self, open: &[usize], classes: &mut [Option<TokenClass>]) {
        let rule = open.last().map(|rule| &self.rules[*rule]);
        if let Some(Rule { scope, inside: Some((_, _, rules)), .. }) = rule
            && rules.is_empty()
        {
            classes.fill(*scope);
        }
    }
}

fn regex(pattern: &Value) -> Regex {
    Regex::new(pattern.as_str().unwrap()).unwrap()
}

/// Returns the class of a scope from `TokenClass::SCOPES`.
fn class(name: &Value) -> Option<TokenClass> {
    let scope = name.as_str()?.strip_suffix(".gram").unwrap();
    let known = TokenClass::SCOPES.iter().find(|(_, known)| *known == scope);
    Some(known.unwrap_or_else(|| panic!("no class has the scope `{scope}`")).0)
}

fn compare(grammar: &Grammar, text: &str) {
    let mut expected = vec![None; text.len()];
    for (span, class) in highlight(text) {
        // Editors match one line at a time. If a tag and its string are on different lines, an editor highlights the
        // tag as a symbol, which is an accepted difference.
        let is_apart = !text[span.end..].trim_start_matches([' ', '\t']).starts_with('`');
        let class = if class == TokenClass::Tag && is_apart { TokenClass::Symbol } else { class };
        expected[span.start..span.end].fill(Some(class));
    }
    let found = grammar.classes(text);
    for (at, c) in text.char_indices().filter(|(_, c)| !c.is_whitespace() && *c != '\u{feff}') {
        assert_eq!(found[at], expected[at], "`{c}` at {at} of {text:?}");
    }
}

#[test]
fn textmate_grammar_and_parser_assign_the_same_classes_on_the_corpus() {
    let grammar = Grammar::read();
    for (_, texts) in ACCEPTED {
        texts.iter().for_each(|text| compare(&grammar, text));
    }
    compare(&grammar, include_str!("../../../../examples/hello_world.gram"));
}

#[test]
fn textmate_grammar_and_parser_assign_the_same_classes_on_generated_documents() {
    let (grammar, mut random) = (Grammar::read(), Random::new(3));
    for _ in 0..2_000 {
        let text = generate::document(&mut random);
        assert!(Tree::parse(&text).errors().is_empty());
        compare(&grammar, &text);
    }
}

#[test]
fn textmate_grammar_uses_every_class_except_error() {
    for (class, scope) in TokenClass::SCOPES.iter().filter(|(class, _)| *class != TokenClass::Error) {
        assert!(GRAMMAR.contains(&format!("\"{scope}.gram\"")), "{class:?}");
    }
}
