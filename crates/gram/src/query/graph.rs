//! Texts as things and the ways between them.

use std::collections::HashMap;

use super::test::canonical_label;
use crate::model::Pattern;
use crate::view;

/// The things of some texts: what there is, what it is made of, and what leads where.
///
/// A thing is whatever has an identity, once for all its occurrences, and each pattern without one.
#[derive(Debug, Default)]
pub struct Graph<'p> {
    things: Vec<Thing<'p>>,
    by_label: HashMap<&'p str, Vec<Item>>,
    elements: Lists<Item>,
    parents: Lists<Item>,
    outgoing: Lists<Way>,
    incoming: Lists<Way>,
}

/// The number of a thing in its graph.
pub(crate) type Item = u32;

/// A relation and the thing at its other end.
pub(super) type Way = (Item, Item);

#[derive(Debug)]
pub(crate) struct Thing<'p> {
    /// What it is defined to be.
    pub pattern: &'p Pattern,
    /// Which occurrence, in the order of the texts, parents first, defines it.
    pub occurrence: u32,
}

impl<'p> Graph<'p> {
    /// The things of all `texts` together: a name means the same in each.
    pub fn of(texts: impl IntoIterator<Item = &'p Pattern>) -> Self {
        let mut builder = Builder::default();
        for text in texts {
            if text.is_root() {
                builder.occurrences += 1;
                for member in &text.elements {
                    builder.add(member, SHARED);
                }
            } else {
                builder.add(text, SHARED);
            }
        }
        builder.finish()
    }

    pub(crate) fn thing(&self, item: Item) -> Option<&Thing<'p>> {
        self.things.get(item as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Item> + use<> {
        0..number(self.things.len())
    }

    pub(super) fn of_label(&self, label: &str) -> &[Item] {
        self.by_label.get(label).map_or(&[], Vec::as_slice)
    }

    pub(super) fn elements(&self, item: Item) -> &[Item] {
        self.elements.list(item)
    }

    /// The things that an item is an element of.
    pub(super) fn parents(&self, item: Item) -> &[Item] {
        self.parents.list(item)
    }

    /// The relations that begin at an item.
    pub(super) fn outgoing(&self, item: Item) -> &[Way] {
        self.outgoing.list(item)
    }

    /// The relations that end at an item.
    pub(super) fn incoming(&self, item: Item) -> &[Way] {
        self.incoming.list(item)
    }
}

/// The scope of names that mean the same everywhere. Any other scope is a tool: its parameters are its own.
const SHARED: Item = Item::MAX;

#[derive(Default)]
struct Builder<'p> {
    things: Vec<Thing<'p>>,
    names: HashMap<(Item, &'p str), Item>,
    contains: Vec<(Item, Item)>,
    relations: Vec<(Item, Item, Item)>,
    occurrences: u32,
}

impl<'p> Builder<'p> {
    /// Adds an occurrence and what is in it. Recursion follows elements, whose depth is bounded.
    fn add(&mut self, pattern: &'p Pattern, scope: Item) -> Item {
        let item = self.item(pattern, scope);
        self.occurrences += 1;
        let inner = if scope == SHARED && view::is_tool(pattern) { item } else { scope };
        let mut ends = [None, None];
        for (index, element) in pattern.elements.iter().enumerate() {
            let part = self.add(element, inner);
            self.contains.push((item, part));
            if let Some(end) = ends.get_mut(index) {
                *end = Some(part);
            }
        }
        if let ([Some(from), Some(to)], true) = (ends, inner == SHARED && is_relation(pattern)) {
            self.relations.push((item, from, to));
        }
        item
    }

    /// The thing that an occurrence belongs to.
    fn item(&mut self, pattern: &'p Pattern, scope: Item) -> Item {
        let next = number(self.things.len());
        if !pattern.identity().is_empty() {
            let item = *self.names.entry((scope, pattern.identity())).or_insert(next);
            if let Some(known) = self.things.get_mut(item as usize) {
                // The first occurrence that says more than a name defines the thing; one with elements says most.
                let said = |pattern: &Pattern| (!pattern.elements.is_empty(), !pattern.is_reference());
                if said(pattern) > said(known.pattern) {
                    *known = Thing { pattern, occurrence: self.occurrences };
                }
                return item;
            }
        }
        self.things.push(Thing { pattern, occurrence: self.occurrences });
        next
    }

    fn finish(self) -> Graph<'p> {
        let mut by_label: HashMap<&str, Vec<Item>> = HashMap::new();
        for (item, thing) in (0..).zip(&self.things) {
            for label in &thing.pattern.subject.labels {
                by_label.entry(canonical_label(label)).or_default().push(item);
            }
        }
        let count = self.things.len();
        Graph {
            by_label,
            elements: Lists::of(count, &self.contains, |(whole, part)| (*whole, *part)),
            parents: Lists::of(count, &self.contains, |(whole, part)| (*part, *whole)),
            outgoing: Lists::of(count, &self.relations, |(relation, from, to)| (*from, (*relation, *to))),
            incoming: Lists::of(count, &self.relations, |(relation, from, to)| (*to, (*relation, *from))),
            things: self.things,
        }
    }
}

/// A list for each thing, all in one piece of memory.
#[derive(Debug)]
struct Lists<T> {
    /// Where the list of each thing ends; it begins where the one before ends.
    ends: Vec<u32>,
    entries: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { ends: Vec::new(), entries: Vec::new() }
    }
}

impl<T: Copy> Lists<T> {
    /// Lists for `count` things, of what `entry` makes of each of `from`: an owner and what belongs to it. What came first
    /// stays first.
    fn of<S>(count: usize, from: &[S], entry: impl Fn(&S) -> (Item, T)) -> Self {
        let mut ends = vec![0; count + 1];
        let Some((_, filler)) = from.first().map(&entry) else { return Self { ends, entries: Vec::new() } };
        for (owner, _) in from.iter().map(&entry) {
            if let Some(length) = ends.get_mut(owner as usize + 1) {
                *length += 1;
            }
        }
        // Lengths, one place further on, become beginnings; each beginning moves to the end while its list is filled.
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let mut entries = vec![filler; from.len()];
        for (owner, entry) in from.iter().map(&entry) {
            let Some(end) = ends.get_mut(owner as usize) else { continue };
            if let Some(place) = entries.get_mut(*end as usize) {
                *place = entry;
            }
            *end += 1;
        }
        Self { ends, entries }
    }

    fn list(&self, item: Item) -> &[T] {
        let end = |item: Option<u32>| item.and_then(|item| self.ends.get(item as usize)).map_or(0, |end| *end as usize);
        self.entries.get(end(item.checked_sub(1))..end(Some(item))).unwrap_or_default()
    }
}

/// Two nodes with something between them. Agents and tools hold their elements instead.
fn is_relation(pattern: &Pattern) -> bool {
    let are_nodes = pattern.elements.iter().all(|element| element.elements.is_empty());
    pattern.elements.len() == 2 && are_nodes && !view::is_container(pattern)
}

/// Things are counted in 32 bits: there are fewer than 4 Gi of them.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
