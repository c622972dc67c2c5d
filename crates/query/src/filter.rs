//! A query whose variables are known. Everything that can be compiled is.

use std::sync::Arc;

use aho_corasick::AhoCorasick;
use regex::Regex;

use crate::{Case, Field, Order, Pattern, RecordId};

/// What a document is asked. It has one meaning, in memory and as SQL.
///
/// Cheap to clone and to send to other threads.
#[derive(Debug, Clone)]
pub struct Filter {
    pub(crate) root: Arc<Test>,
}

impl Filter {
    /// Every document passes.
    pub fn everything() -> Self {
        Self::of(Test::All(Vec::new()))
    }

    /// What passes all of them, as when permissions narrow a search.
    pub fn all<'f>(filters: impl IntoIterator<Item = &'f Filter>) -> Self {
        Self::of(Test::All(shared(filters)))
    }

    /// What passes at least one of them; nothing if there is none.
    pub fn any<'f>(filters: impl IntoIterator<Item = &'f Filter>) -> Self {
        Self::of(Test::Any(shared(filters)))
    }

    /// The documents with these ids. In SQL this asks the column of the id.
    pub fn ids(ids: impl IntoIterator<Item = String>) -> Self {
        let mut ids: Vec<String> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        Self::of(Test::Ids(ids))
    }

    /// The documents that hold one of these texts at the field, exactly.
    pub fn holds(field: Field, texts: impl IntoIterator<Item = String>) -> Self {
        let among = Among { exact: texts.into_iter().collect(), ..Among::default() };
        Self::of(Test::Value { field, probe: Probe::Among(among.sorted()) })
    }

    /// The documents whose field refers to one of these records: it holds the id, or an object that has it, exactly.
    pub fn refers(field: Field, ids: impl IntoIterator<Item = String>) -> Self {
        let exact: Vec<String> = ids.into_iter().collect();
        let among = Among { ids: exact.clone(), exact, ..Among::default() };
        Self::of(Test::Value { field, probe: Probe::Among(among.sorted()) })
    }

    pub(crate) fn of(root: Test) -> Self {
        Self { root: Arc::new(root) }
    }
}

fn shared<'f>(filters: impl IntoIterator<Item = &'f Filter>) -> Vec<Test> {
    filters.into_iter().map(|filter| Test::Shared(filter.root.clone())).collect()
}

#[derive(Debug)]
pub(crate) enum Test {
    /// All of none is true.
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    /// Part of another filter.
    Shared(Arc<Test>),
    Present(Field),
    /// Some value at the field passes.
    Value {
        field: Field,
        probe: Probe,
    },
    Element {
        field: Field,
        inner: Box<Test>,
    },
    /// The document is one of these.
    Ids(Vec<String>),
    Words(Words),
}

/// What is asked of one value.
#[derive(Debug)]
pub(crate) enum Probe {
    Truth(bool),
    Among(Among),
    Order(Order, Limit),
    Like(Like),
}

/// A set of values to be equal to. Each vector is sorted and without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Among {
    /// Strings as they are.
    pub exact: Vec<String>,
    /// Strings in lower case, to be found in any.
    pub folded: Vec<String>,
    pub numbers: Vec<f64>,
    pub moments: Vec<i64>,
    pub truths: Vec<bool>,
    /// The `id` of an object that refers to a record, as it is.
    pub ids: Vec<String>,
    /// The same in lower case, to be found in any.
    pub folded_ids: Vec<String>,
}

impl Among {
    pub fn sorted(mut self) -> Self {
        for texts in [&mut self.exact, &mut self.folded, &mut self.ids, &mut self.folded_ids] {
            texts.sort_unstable();
            texts.dedup();
        }
        self.numbers.sort_unstable_by(f64::total_cmp);
        self.numbers.dedup();
        self.moments.sort_unstable();
        self.moments.dedup();
        self.truths.sort_unstable();
        self.truths.dedup();
        self
    }

    pub fn text(&mut self, text: &str, case: Case) {
        match case {
            Case::Sensitive => self.exact.push(text.to_owned()),
            Case::Insensitive => self.folded.push(text.to_ascii_lowercase()),
        }
    }

    /// A record is referred to by its id, or by an object that has it.
    pub fn reference(&mut self, id: &RecordId) {
        self.text(id.as_str(), id.case());
        match id.case() {
            Case::Sensitive => self.ids.push(id.as_str().to_owned()),
            Case::Insensitive => self.folded_ids.push(id.as_str().to_owned()),
        }
    }

    pub fn number(&mut self, number: f64) {
        // There are two zeros, which are equal; sets are searched bit by bit.
        self.numbers.push(if number == 0.0 { 0.0 } else { number });
    }
}

/// What a value is ordered against, by the kind of the value. Never empty.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    /// In lower case if case does not count.
    pub text: Option<(String, Case)>,
    pub number: Option<f64>,
    pub moment: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct Like {
    pub pattern: Pattern,
    pub case: Case,
    pub regex: Regex,
}

/// Words to be found in any string of a document.
#[derive(Debug)]
pub(crate) struct Words {
    /// In lower case.
    pub list: Vec<String>,
    pub finder: AhoCorasick,
}
