//! The grammar for editors, `editors/gram.tmLanguage.json`, against [`tokens`]: what a text editor colours by patterns must
//! be what the parser says. The rules are applied here as editors do, line by line.

use fancy_regex::Regex;
use serde_json::Value;
use toolwright_gram::{Class, Tree, tokens};

use crate::accepted::ACCEPTED;
use crate::generate::{self, Random};

const GRAMMAR: &str = include_str!("../../../../editors/gram.tmLanguage.json");

/// A rule of the grammar, with the rules that apply inside of it by their numbers.
struct Rule {
    begin: Regex,
    scope: Option<Class>,
    /// For what spans more than one match: its end, what that is, and what may stand before it.
    inside: Option<(Regex, Option<Class>, Vec<usize>)>,
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

    /// The rules of a list of patterns. `known` keeps those that were read, because they refer to each other in circles.
    fn list<'j>(&mut self, list: &'j Value, repository: &'j Value, known: &mut Vec<(&'j Value, usize)>) -> Vec<usize> {
        let mut numbers = Vec::new();
        for pattern in list.as_array().unwrap() {
            let pattern = match pattern["include"].as_str() {
                Some(name) => &repository[name.strip_prefix('#').unwrap()],
                None => pattern,
            };
            assert!(pattern.is_object(), "an include leads nowhere");
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

    /// The class of each byte of a text; none for blanks and for what no rule matches.
    fn classes(&self, text: &str) -> Vec<Option<Class>> {
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
                // The first in the line wins, then the end, then the first rule of the list.
                let begin = begins.min_by_key(|(found, _)| found.start());
                let (found, class, step) = match (ending, begin) {
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
                match step {
                    None => drop(open.pop()),
                    Some(number) if self.rules[number].inside.is_some() => open.push(number),
                    Some(_) => assert!(found.end() > at, "a match of nothing would go on for ever"),
                }
                at = found.end();
            }
            start += line.len();
        }
        classes
    }

    /// Text between matches has the class of a rule that has no other rules inside: comments and fences.
    fn fill(&self, open: &[usize], classes: &mut [Option<Class>]) {
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

/// The class of a scope, which is one of those that the library names.
fn class(name: &Value) -> Option<Class> {
    let scope = name.as_str()?.strip_suffix(".gram").unwrap();
    let known = Class::SCOPES.iter().find(|(_, known)| *known == scope);
    Some(known.unwrap_or_else(|| panic!("`{scope}` is the scope of no class")).0)
}

fn compare(grammar: &Grammar, text: &str) {
    let mut wanted = vec![None; text.len()];
    for (span, class) in tokens(text) {
        // Editors look at one line at a time: a tag whose string follows on another line is a symbol to them.
        let is_apart = !text[span.end..].trim_start_matches([' ', '\t']).starts_with('`');
        let class = if class == Class::Tag && is_apart { Class::Symbol } else { class };
        wanted[span.start..span.end].fill(Some(class));
    }
    let found = grammar.classes(text);
    for (at, c) in text.char_indices().filter(|(_, c)| !c.is_whitespace() && *c != '\u{feff}') {
        assert_eq!(found[at], wanted[at], "`{c}` at {at} of {text:?}");
    }
}

#[test]
fn editors_colour_the_corpus_as_the_parser_does() {
    let grammar = Grammar::read();
    for (_, texts) in ACCEPTED {
        texts.iter().for_each(|text| compare(&grammar, text));
    }
    compare(&grammar, include_str!("../../../../examples/hello_world.gram"));
}

#[test]
fn editors_colour_generated_documents_as_the_parser_does() {
    let (grammar, mut random) = (Grammar::read(), Random::new(3));
    for _ in 0..2_000 {
        let text = generate::document(&mut random);
        assert!(Tree::parse(&text).mistakes().is_empty());
        compare(&grammar, &text);
    }
}

#[test]
fn every_class_but_that_of_mistakes_is_used() {
    for (class, scope) in Class::SCOPES.iter().filter(|(class, _)| *class != Class::Error) {
        assert!(GRAMMAR.contains(&format!("\"{scope}.gram\"")), "{class:?}");
    }
}
