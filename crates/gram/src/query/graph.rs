//! Texts as things and the ways between them.

use std::borrow::Cow;
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
    by_label: HashMap<Cow<'p, str>, Vec<Item>>,
    names: Names<'p>,
    elements: Lists<Item>,
    parents: Lists<Item>,
    outgoing: Lists<Way>,
    incoming: Lists<Way>,
}

/// The number of a thing in its graph.
pub(crate) type Item = u32;

/// A relation and the thing at its other end.
pub(super) type Way = (Item, Item);

/// What the names of some texts stand for.
#[derive(Debug, Default)]
struct Names<'p> {
    /// Names that mean the same everywhere.
    shared: HashMap<Cow<'p, str>, Item>,
    /// Names inside of tools: each tool has its own parameters.
    inner: HashMap<Cow<'p, str>, Vec<Item>>,
}

#[derive(Debug)]
pub(crate) struct Thing<'p> {
    said: Said<'p>,
    /// Which occurrence, in the order of the texts, parents first, defines it.
    pub occurrence: u32,
}

/// What a thing is defined to be.
#[derive(Debug)]
enum Said<'p> {
    In(&'p Pattern),
    /// Boxed, because most graphs only refer to their texts.
    Kept(Box<Pattern>),
}

impl<'p> Thing<'p> {
    fn of(pattern: &'p Pattern, occurrence: u32) -> Self {
        Self { said: Said::In(pattern), occurrence }
    }

    /// What it is defined to be.
    pub fn pattern(&self) -> &Pattern {
        match &self.said {
            Said::In(pattern) => pattern,
            Said::Kept(pattern) => pattern,
        }
    }
}

impl<'p> Graph<'p> {
    /// The things of all `texts` together: a name means the same in each.
    pub fn of(texts: impl IntoIterator<Item = &'p Pattern>) -> Self {
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

    /// The same graph with a copy of what it needs from its texts, to be kept for many queries.
    pub fn into_owned(self) -> Graph<'static> {
        let keep = |thing: Thing| {
            let said = match thing.said {
                Said::In(pattern) => Box::new(pattern.clone()),
                Said::Kept(pattern) => pattern,
            };
            Thing { said: Said::Kept(said), occurrence: thing.occurrence }
        };
        Graph {
            things: self.things.into_iter().map(keep).collect(),
            by_label: owned(self.by_label),
            names: Names { shared: owned(self.names.shared), inner: owned(self.names.inner) },
            elements: self.elements,
            parents: self.parents,
            outgoing: self.outgoing,
            incoming: self.incoming,
        }
    }

    /// How many things there are.
    pub fn len(&self) -> usize {
        self.things.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    pub(crate) fn thing(&self, item: Item) -> Option<&Thing<'p>> {
        self.things.get(item as usize)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Item> + use<> {
        0..number(self.things.len())
    }

    /// All things with a label. One that has labels in several places may be there twice, also if the place that defines
    /// it has not this one: whoever asks tests what is found.
    pub(super) fn of_label(&self, label: &str) -> &[Item] {
        self.by_label.get(label).map_or(&[], Vec::as_slice)
    }

    /// The things of a name, in their order.
    pub(super) fn of_name(&self, name: &str) -> Vec<Item> {
        let inner = self.names.inner.get(name).map_or(&[][..], Vec::as_slice);
        let mut items: Vec<Item> = self.names.shared.get(name).into_iter().chain(inner).copied().collect();
        items.sort_unstable();
        items
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

fn owned<V>(map: HashMap<Cow<'_, str>, V>) -> HashMap<Cow<'static, str>, V> {
    map.into_iter().map(|(name, value)| (Cow::Owned(name.into_owned()), value)).collect()
}

#[derive(Default)]
struct Builder<'p> {
    things: Vec<Thing<'p>>,
    names: Names<'p>,
    by_label: HashMap<Cow<'p, str>, Vec<Item>>,
    contains: Vec<(Item, Item)>,
    relations: Vec<(Item, Item, Item)>,
    occurrences: u32,
}

/// The names inside of one tool.
type Inner<'p> = HashMap<&'p str, Item>;

impl<'p> Builder<'p> {
    /// Adds an occurrence and what is in it. Recursion follows elements, whose depth is bounded.
    fn add(&mut self, pattern: &'p Pattern, mut inner: Option<&mut Inner<'p>>) -> Item {
        let item = self.item(pattern, inner.as_deref_mut());
        self.occurrences += 1;
        if pattern.elements.is_empty() {
            return item;
        }
        let mut own = (inner.is_none() && view::is_tool(pattern)).then(Inner::new);
        let mut inner = own.as_mut().or(inner);
        let mut ends = [None, None];
        for (index, element) in pattern.elements.iter().enumerate() {
            let part = self.add(element, inner.as_deref_mut());
            self.contains.push((item, part));
            if let Some(end) = ends.get_mut(index) {
                *end = Some(part);
            }
        }
        if let ([Some(from), Some(to)], true) = (ends, inner.is_none() && is_relation(pattern)) {
            self.relations.push((item, from, to));
        }
        item
    }

    /// The thing that an occurrence belongs to.
    fn item(&mut self, pattern: &'p Pattern, inner: Option<&mut Inner<'p>>) -> Item {
        let next = number(self.things.len());
        let name = pattern.identity();
        let item = match inner {
            _ if name.is_empty() => next,
            None => *self.names.shared.entry(Cow::Borrowed(name)).or_insert(next),
            Some(inner) => *inner.entry(name).or_insert_with(|| {
                self.names.inner.entry(Cow::Borrowed(name)).or_default().push(next);
                next
            }),
        };
        match self.things.get_mut(item as usize) {
            Some(known) => {
                // The first occurrence that says more than a name defines the thing; one with elements says most.
                let said = |pattern: &Pattern| (!pattern.elements.is_empty(), !pattern.is_reference());
                if said(pattern) > said(known.pattern()) {
                    *known = Thing::of(pattern, self.occurrences);
                    self.label(pattern, item);
                }
            }
            None => {
                self.things.push(Thing::of(pattern, self.occurrences));
                self.label(pattern, item);
            }
        }
        item
    }

    /// Labels are taken down here, while the pattern is at hand: visiting all of them again costs more than the rest.
    fn label(&mut self, pattern: &'p Pattern, item: Item) {
        for label in &pattern.subject.labels {
            self.by_label.entry(Cow::Borrowed(canonical_label(label))).or_default().push(item);
        }
    }

    fn finish(self) -> Graph<'p> {
        let count = self.things.len();
        Graph {
            by_label: self.by_label,
            names: self.names,
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
