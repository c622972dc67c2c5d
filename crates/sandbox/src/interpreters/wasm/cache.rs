//! A small cache of compiled modules, keyed by their source.

/// A cache that evicts the least recently used entry. The entries are in order of use, the most recent first.
pub(super) struct LruCache<T> {
    entries: Vec<(String, T)>,
    capacity: usize,
}

impl<T> LruCache<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), capacity }
    }

    /// Returns the entry of a key and marks it as the most recently used.
    pub(super) fn get(&mut self, key: &str) -> Option<&T> {
        let position = self.entries.iter().position(|(known, _)| known == key)?;
        self.entries.get_mut(..=position)?.rotate_right(1);
        self.entries.first().map(|(_, value)| value)
    }

    /// Inserts an entry whose key is not in the cache.
    pub(super) fn insert(&mut self, key: &str, value: T) {
        self.entries.truncate(self.capacity.saturating_sub(1));
        self.entries.insert(0, (key.to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::LruCache;

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let mut cache = LruCache::new(2);
        cache.insert("a", 1);
        cache.insert("b", 2);
        assert_eq!(cache.get("a"), Some(&1));
        cache.insert("c", 3);
        assert_eq!(cache.get("b"), None);
        assert_eq!((cache.get("a").copied(), cache.get("c").copied()), (Some(1), Some(3)));
    }
}
