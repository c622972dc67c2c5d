//! A few things that were used last, by the text they were made of.

/// Keeps the last few, and forgets the one that was not used for longest.
pub(super) struct Recent<T> {
    kept: Vec<(String, T)>,
    most: usize,
}

impl<T> Recent<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Vec::with_capacity(most), most }
    }

    /// What was kept for a text. It counts as used now.
    pub(super) fn get(&mut self, text: &str) -> Option<&T> {
        let place = self.kept.iter().position(|(known, _)| known == text)?;
        self.kept.get_mut(..=place)?.rotate_right(1);
        self.kept.first().map(|(_, thing)| thing)
    }

    /// Keeps a thing that was not kept yet.
    pub(super) fn keep(&mut self, text: &str, thing: T) {
        self.kept.truncate(self.most.saturating_sub(1));
        self.kept.insert(0, (text.to_owned(), thing));
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn the_one_that_was_not_used_for_longest_is_forgotten() {
        let mut recent = Recent::new(2);
        recent.keep("a", 1);
        recent.keep("b", 2);
        assert_eq!(recent.get("a"), Some(&1));
        recent.keep("c", 3);
        assert_eq!(recent.get("b"), None);
        assert_eq!((recent.get("a").copied(), recent.get("c").copied()), (Some(1), Some(3)));
    }
}
