//! Builds the graph that queries search.

use std::borrow::Cow;
use std::collections::HashMap;

use super::filter::canonical_label;
use crate::labels::{is_container, is_tool};
use crate::model::Pattern;

/// A graph of the items of one or more documents. Edges connect each item with its elements. Edges also connect the two
/// ends of each relation with each other.
///
/// All patterns with the same identity are occurrences of one item. Each pattern without an identity is a separate
/// item.
#[derive(Debug, Default)]
pub struct Graph<'p> {
    items: Vec<Item<'p>>,
    by_label: HashMap<Cow<'p, str>, Vec<ItemId>>,
    names: NameIndex<'p>,
    elements: AdjacencyLists<ItemId>,
    parents: AdjacencyLists<ItemId>,
    outgoing: AdjacencyLists<Edge>,
    incoming: AdjacencyLists<Edge>,
}

/// The index of an item in its graph.
pub(crate) type ItemId = u32;

/// An edge of an item: the relation, and the item at the other end of the relation.
pub(super) type Edge = (ItemId, ItemId);

/// An index from names to items.
#[derive(Debug, Default)]
struct NameIndex<'p> {
    /// Names that occur outside of tools. Such a name refers to the same item in all documents.
    shared: HashMap<Cow<'p, str>, ItemId>,
    /// Names that occur inside of tools, such as parameters. Each tool has its own parameters, so a name may refer to
    /// several items.
    local: HashMap<Cow<'p, str>, Vec<ItemId>>,
}

#[derive(Debug)]
pub(crate) struct Item<'p> {
    definition: ItemPattern<'p>,
    /// The index of the occurrence that defines the item. Occurrences are counted in document order; a pattern comes
    /// before its elements.
    pub occurrence: u32,
}

/// The pattern that defines an item.
#[derive(Debug)]
enum ItemPattern<'p> {
    Borrowed(&'p Pattern),
    /// Boxed to keep the enum small, because most graphs only borrow their patterns.
    Owned(Box<Pattern>),
}

impl<'p> Item<'p> {
    fn borrowed(pattern: &'p Pattern, occurrence: u32) -> Self {
        Self { definition: ItemPattern::Borrowed(pattern), occurrence }
    }

    /// Returns the pattern that defines the item.
    pub(crate) fn pattern(&self) -> &Pattern {
        match &self.definition {
            ItemPattern::Borrowed(pattern) => pattern,
            ItemPattern::Owned(pattern) => pattern,
        }
    }
}

impl<'p> Graph<'p> {
    /// Builds one graph from all documents. A name refers to the same item in every document.
    pub fn from_patterns(texts: impl IntoIterator<Item = &'p Pattern>) -> Self {
        let mut builder = Builder::default();
        for text in texts {
            if text.is_root() {
                builder.occurrences += 1;
                for member in &text.elements {
                    builder.add(member, None);
                }
            } else {
                builder.add(text, None);
            }
        }
        builder.finish()
    }

    /// Clones the borrowed patterns, so that the graph can outlive its documents.
    pub fn into_owned(self) -> Graph<'static> {
        let into_owned = |item: Item| {
            let definition = match item.definition {
                ItemPattern::Borrowed(pattern) => Box::new(pattern.clone()),
                ItemPattern::Owned(pattern) => pattern,
            };
            Item { definition: ItemPattern::Owned(definition), occurrence: item.occurrence }
        };
        Graph {
            items: self.items.into_iter().map(into_owned).collect(),
            by_label: owned(self.by_label),
            names: NameIndex { shared: owned(self.names.shared), local: owned(self.names.local) },
            elements: self.elements,
            parents: self.parents,
            outgoing: self.outgoing,
            incoming: self.incoming,
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the graph has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn item(&self, id: ItemId) -> Option<&Item<'p>> {
        self.items.get(id as usize)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = ItemId> + use<> {
        0..to_item_id(self.items.len())
    }

    /// Returns all items whose definition has the label. The list may contain an item twice. It may also contain an
    /// item whose definition lacks the label, if another occurrence of the item has the label. So callers must check
    /// the labels of each item.
    pub(super) fn with_label(&self, label: &str) -> &[ItemId] {
        self.by_label.get(label).map_or(&[], Vec::as_slice)
    }

    /// Returns the items with this name, sorted by item id.
    pub(super) fn with_name(&self, name: &str) -> Vec<ItemId> {
        let local = self.names.local.get(name).map_or(&[][..], Vec::as_slice);
        let mut ids: Vec<ItemId> = self.names.shared.get(name).into_iter().chain(local).copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn elements(&self, id: ItemId) -> &[ItemId] {
        self.elements.list(id)
    }

    /// Returns the items that have this item as an element.
    pub(super) fn parents(&self, id: ItemId) -> &[ItemId] {
        self.parents.list(id)
    }

    /// Returns the relations that start at the item.
    pub(super) fn outgoing(&self, id: ItemId) -> &[Edge] {
        self.outgoing.list(id)
    }

    /// Returns the relations that end at the item.
    pub(super) fn incoming(&self, id: ItemId) -> &[Edge] {
        self.incoming.list(id)
    }
}

fn owned<V>(map: HashMap<Cow<'_, str>, V>) -> HashMap<Cow<'static, str>, V> {
    map.into_iter().map(|(name, value)| (Cow::Owned(name.into_owned()), value)).collect()
}

#[derive(Default)]
struct Builder<'p> {
    items: Vec<Item<'p>>,
    names: NameIndex<'p>,
    by_label: HashMap<Cow<'p, str>, Vec<ItemId>>,
    contains: Vec<(ItemId, ItemId)>,
    relations: Vec<(ItemId, ItemId, ItemId)>,
    occurrences: u32,
}

/// The items inside one tool, by name.
type LocalNames<'p> = HashMap<&'p str, ItemId>;

impl<'p> Builder<'p> {
    /// Adds an occurrence of an item, and the occurrences inside of it. Recursion cannot overflow the stack, because
    /// the nesting of elements is limited.
    fn add(&mut self, pattern: &'p Pattern, mut local: Option<&mut LocalNames<'p>>) -> ItemId {
        let id = self.item_id(pattern, local.as_deref_mut());
        self.occurrences += 1;
        if pattern.elements.is_empty() {
            return id;
        }
        let mut own = (local.is_none() && is_tool(pattern)).then(LocalNames::new);
        let mut local = own.as_mut().or(local);
        let mut ends = [None, None];
        for (index, element) in pattern.elements.iter().enumerate() {
            let child = self.add(element, local.as_deref_mut());
            self.contains.push((id, child));
            if let Some(end) = ends.get_mut(index) {
                *end = Some(child);
            }
        }
        if let ([Some(from), Some(to)], true) = (ends, local.is_none() && is_relation(pattern)) {
            self.relations.push((id, from, to));
        }
        id
    }

    /// Returns the item that an occurrence belongs to. Adds the item if it is new.
    fn item_id(&mut self, pattern: &'p Pattern, local: Option<&mut LocalNames<'p>>) -> ItemId {
        let next = to_item_id(self.items.len());
        let name = pattern.identity();
        let id = match local {
            _ if name.is_empty() => next,
            None => *self.names.shared.entry(Cow::Borrowed(name)).or_insert(next),
            Some(local) => *local.entry(name).or_insert_with(|| {
                self.names.local.entry(Cow::Borrowed(name)).or_default().push(next);
                next
            }),
        };
        match self.items.get_mut(id as usize) {
            Some(known) => {
                // An item is defined by its first occurrence with elements. If no occurrence has elements, the item is
                // defined by its first occurrence with more than a name.
                let detail = |pattern: &Pattern| (!pattern.elements.is_empty(), !pattern.is_reference());
                if detail(pattern) > detail(known.pattern()) {
                    *known = Item::borrowed(pattern, self.occurrences);
                    self.index_labels(pattern, id);
                }
            }
            None => {
                self.items.push(Item::borrowed(pattern, self.occurrences));
                self.index_labels(pattern, id);
            }
        }
        id
    }

    /// Adds the labels of an occurrence to the label index. The index is filled while the graph is built, because a
    /// second pass over all patterns would take longer than building the graph.
    fn index_labels(&mut self, pattern: &'p Pattern, id: ItemId) {
        for label in &pattern.subject.labels {
            self.by_label.entry(Cow::Borrowed(canonical_label(label))).or_default().push(id);
        }
    }

    fn finish(self) -> Graph<'p> {
        let count = self.items.len();
        Graph {
            by_label: self.by_label,
            names: self.names,
            elements: AdjacencyLists::build(count, &self.contains, |(parent, child)| (*parent, *child)),
            parents: AdjacencyLists::build(count, &self.contains, |(parent, child)| (*child, *parent)),
            outgoing: AdjacencyLists::build(count, &self.relations, |(relation, from, to)| (*from, (*relation, *to))),
            incoming: AdjacencyLists::build(count, &self.relations, |(relation, from, to)| (*to, (*relation, *from))),
            items: self.items,
        }
    }
}

/// One list per item. All lists are stored in one contiguous vector.
#[derive(Debug)]
struct AdjacencyLists<T> {
    /// The end offset of each item's list. A list starts where the previous list ends.
    ends: Vec<u32>,
    entries: Vec<T>,
}

impl<T> Default for AdjacencyLists<T> {
    fn default() -> Self {
        Self { ends: Vec::new(), entries: Vec::new() }
    }
}

impl<T: Copy> AdjacencyLists<T> {
    /// Builds the lists of `count` items. For each value in `from`, `entry` returns an item and the entry to add to the
    /// list of that item. Each list preserves the order of `from`.
    fn build<S>(count: usize, from: &[S], entry: impl Fn(&S) -> (ItemId, T)) -> Self {
        let mut ends = vec![0; count + 1];
        let Some((_, filler)) = from.first().map(&entry) else { return Self { ends, entries: Vec::new() } };
        for (owner, _) in from.iter().map(&entry) {
            if let Some(length) = ends.get_mut(owner as usize + 1) {
                *length += 1;
            }
        }
        // `ends` contains the lengths, shifted by one position. Summing them up gives start offsets. Filling a list
        // then advances its start offset to its end.
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let mut entries = vec![filler; from.len()];
        for (owner, entry) in from.iter().map(&entry) {
            let Some(end) = ends.get_mut(owner as usize) else { continue };
            if let Some(slot) = entries.get_mut(*end as usize) {
                *slot = entry;
            }
            *end += 1;
        }
        Self { ends, entries }
    }

    fn list(&self, id: ItemId) -> &[T] {
        let end = |id: Option<u32>| id.and_then(|id| self.ends.get(id as usize)).map_or(0, |end| *end as usize);
        self.entries.get(end(id.checked_sub(1))..end(Some(id))).unwrap_or_default()
    }
}

/// Returns whether a pattern is a relation between two nodes. An agent or tool with two elements is a container, not a
/// relation.
fn is_relation(pattern: &Pattern) -> bool {
    let are_nodes = pattern.elements.iter().all(|element| element.elements.is_empty());
    pattern.elements.len() == 2 && are_nodes && !is_container(pattern)
}

/// Converts an index to an id. A document has fewer than 2³² items.
fn to_item_id(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
