//! Filters: queries whose variables are bound and whose patterns are compiled.

use std::sync::Arc;

use aho_corasick::AhoCorasick;
use regex::Regex;

use crate::{Case, CompareOp, Field, RecordId, WildcardPattern};

/// A predicate on documents, with the same semantics in memory and as SQL.
///
/// Cloning is cheap, because clones share the compiled filter.
#[derive(Debug, Clone)]
pub struct Filter {
    pub(crate) root: Arc<Predicate>,
}

impl Filter {
    /// A filter that matches every document.
    pub fn match_all() -> Self {
        Self::from_root(Predicate::And(Vec::new()))
    }

    /// Combines filters with AND, for example to limit a search to the documents that a principal may read.
    pub fn all<'f>(filters: impl IntoIterator<Item = &'f Filter>) -> Self {
        Self::from_root(Predicate::And(shared(filters)))
    }

    /// Combines filters with OR. Matches nothing if there are no filters.
    pub fn any<'f>(filters: impl IntoIterator<Item = &'f Filter>) -> Self {
        Self::from_root(Predicate::Or(shared(filters)))
    }

    /// Matches the documents with these ids. In SQL, this compares the id column.
    pub fn ids(ids: impl IntoIterator<Item = String>) -> Self {
        let mut ids: Vec<String> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        Self::from_root(Predicate::Ids(ids))
    }

    /// Matches the documents whose field equals one of these texts, or is an array with one of them. The comparison is
    /// case-sensitive.
    pub fn text_in(field: Field, texts: impl IntoIterator<Item = String>) -> Self {
        let values = ValueSet { exact: texts.into_iter().collect(), ..ValueSet::default() };
        Self::from_root(Predicate::Value { field, value_test: ValueTest::In(values.sorted()) })
    }

    /// Matches the documents whose field references one of these records. A reference is the id of the record, or an
    /// object with this `id`. The comparison is case-sensitive.
    pub fn references(field: Field, ids: impl IntoIterator<Item = String>) -> Self {
        let exact: Vec<String> = ids.into_iter().collect();
        let values = ValueSet { ids: exact.clone(), exact, ..ValueSet::default() };
        Self::from_root(Predicate::Value { field, value_test: ValueTest::In(values.sorted()) })
    }

    pub(crate) fn from_root(root: Predicate) -> Self {
        Self { root: Arc::new(root) }
    }
}

fn shared<'f>(filters: impl IntoIterator<Item = &'f Filter>) -> Vec<Predicate> {
    filters.into_iter().map(|filter| Predicate::Shared(filter.root.clone())).collect()
}

/// A node in the tree of a filter.
#[derive(Debug)]
pub(crate) enum Predicate {
    /// All parts match. An empty list matches every document.
    And(Vec<Predicate>),
    Or(Vec<Predicate>),
    Not(Box<Predicate>),
    /// Another filter, shared without copying.
    Shared(Arc<Predicate>),
    Present(Field),
    /// A value at the field passes the test.
    Value {
        field: Field,
        value_test: ValueTest,
    },
    Element {
        field: Field,
        inner: Box<Predicate>,
    },
    /// The id of the document is in the list.
    Ids(Vec<String>),
    Words(Words),
}

/// A test of one value.
#[derive(Debug)]
pub(crate) enum ValueTest {
    Bool(bool),
    In(ValueSet),
    Compare(CompareOp, Bound),
    Like(Like),
}

/// A set of values for equality tests. Each vector is sorted and has no duplicates.
#[derive(Debug, Default)]
pub(crate) struct ValueSet {
    /// Strings that are compared case-sensitively.
    pub exact: Vec<String>,
    /// Strings in lower case that are compared case-insensitively.
    pub folded: Vec<String>,
    pub numbers: Vec<f64>,
    pub timestamps: Vec<i64>,
    pub bools: Vec<bool>,
    /// Ids that are compared with the `id` of an object, case-sensitively.
    pub ids: Vec<String>,
    /// Ids in lower case that are compared with the `id` of an object, case-insensitively.
    pub folded_ids: Vec<String>,
}

impl ValueSet {
    pub(crate) fn sorted(mut self) -> Self {
        for texts in [&mut self.exact, &mut self.folded, &mut self.ids, &mut self.folded_ids] {
            texts.sort_unstable();
            texts.dedup();
        }
        self.numbers.sort_unstable_by(f64::total_cmp);
        self.numbers.dedup();
        self.timestamps.sort_unstable();
        self.timestamps.dedup();
        self.bools.sort_unstable();
        self.bools.dedup();
        self
    }

    pub(crate) fn insert_text(&mut self, text: &str, case: Case) {
        match case {
            Case::Sensitive => self.exact.push(text.to_owned()),
            Case::Insensitive => self.folded.push(text.to_ascii_lowercase()),
        }
    }

    /// Adds the id of a referenced record. Both the id as a text and an object with this `id` match.
    pub(crate) fn insert_reference(&mut self, id: &RecordId) {
        self.insert_text(id.as_str(), id.case());
        match id.case() {
            Case::Sensitive => self.ids.push(id.as_str().to_owned()),
            Case::Insensitive => self.folded_ids.push(id.as_str().to_owned()),
        }
    }

    pub(crate) fn insert_number(&mut self, number: f64) {
        // Negative zero is stored as zero, because the binary search uses `total_cmp`, which treats the two as
        // different.
        self.numbers.push(if number == 0.0 { 0.0 } else { number });
    }
}

/// The bound of an order comparison, for each type of value. At least one of the bounds is set.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// The bound for texts. It is in lower case if the comparison is case-insensitive.
    pub text: Option<(String, Case)>,
    pub number: Option<f64>,
    pub timestamp: Option<i64>,
}

#[derive(Debug)]
pub(crate) struct Like {
    pub pattern: WildcardPattern,
    pub case: Case,
    pub regex: Regex,
}

/// Words to search for in the strings of a document.
#[derive(Debug)]
pub(crate) struct Words {
    /// The words, in lower case.
    pub list: Vec<String>,
    pub finder: AhoCorasick,
}
