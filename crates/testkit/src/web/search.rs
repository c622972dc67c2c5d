//! The index of the search API. The index is fixed, so it also lists a page that has moved and a page that fails.

/// The number of results on one page of a search.
pub(super) const PAGE_SIZE: usize = 5;

/// Words that are ignored in queries.
const STOP_WORDS: [&str; 26] = [
    "a", "about", "an", "and", "are", "do", "does", "find", "for", "in", "is", "me", "much", "of", "on", "search",
    "show", "tell", "the", "their", "they", "to", "top", "what", "which", "who",
];

/// A page in the index.
pub(super) struct Indexed {
    pub(super) url: &'static str,
    pub(super) title: &'static str,
    pub(super) snippet: &'static str,
}

/// Returns the words of a text: in lower case, without stop words and plural endings.
pub(super) fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| !word.is_empty() && !STOP_WORDS.contains(&word.as_str())).map(singular).collect()
}

/// Returns the pages that contain at least one of the words. Pages that contain more of the words come first. A word in
/// the title counts more than a word in the snippet.
pub(super) fn find(wanted: &[String]) -> Vec<&'static Indexed> {
    let mut found: Vec<(usize, &Indexed)> =
        INDEX.iter().map(|page| (page.score(wanted), page)).filter(|(score, _)| *score > 0).collect();
    // The sort is stable, so pages with equal scores remain in the order of the index.
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().map(|(_, page)| page).collect()
}

impl Indexed {
    fn score(&self, wanted: &[String]) -> usize {
        let (title, snippet) = (words(self.title), words(self.snippet));
        let score = |word| 3 * usize::from(title.contains(word)) + usize::from(snippet.contains(word));
        wanted.iter().map(score).sum()
    }
}

fn singular(word: String) -> String {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 3 && !stem.ends_with('s') => stem.to_owned(),
        _ => word,
    }
}

#[rustfmt::skip]
pub(super) const INDEX: [Indexed; 10] = [
    Indexed {
        url: "https://duskfield.example/comparison",
        title: "Competitors compared: the pricing of five tool platforms - Duskfield Press",
        snippet: "Brambleforge, Osprey Relay, Kitebridge, Lanternfold and Marrowstone: what they charge for.",
    },
    Indexed {
        url: "https://brambleforge.example/pricing",
        title: "Pricing - Brambleforge",
        snippet: "Plans and pricing of hosted tools for agents: Starter, Team and Business.",
    },
    Indexed {
        url: "https://osprey-relay.example/pricing",
        title: "Pricing - Osprey Relay",
        snippet: "Pricing per call, with free calls every month.",
    },
    Indexed {
        url: "https://kitebridge.example/prices",
        title: "Pricing - Kitebridge",
        snippet: "Pricing per user: one plan for everybody.",
    },
    Indexed {
        url: "https://lanternfold.example/pricing",
        title: "Pricing - Lanternfold",
        snippet: "Licenses and pricing of the Lanternfold platform.",
    },
    Indexed {
        url: "https://marrowstone.example/price-list.pdf",
        title: "Pricing (PDF) - Marrowstone Systems",
        snippet: "Price list with the pricing of Edge and Campus licenses.",
    },
    Indexed {
        url: "https://brambleforge.example/",
        title: "Brambleforge: hosted tools for agents",
        snippet: "Every call is reviewed by a person before it is sent.",
    },
    Indexed {
        url: "https://osprey-relay.example/",
        title: "Osprey Relay: a gateway for tool calls",
        snippet: "Connects models with business systems, with connectors for 40 products.",
    },
    Indexed {
        url: "https://pebblewright.example/reviews",
        title: "Reviews of Pebblewright",
        snippet: "What customers say about Pebblewright: 4.1 of 5 stars.",
    },
    Indexed {
        url: "https://harrowgate.example/approvals",
        title: "Why agents need approvals - Harrowgate Labs",
        snippet: "A study of 40 teams: approvals prevent most of the wrong writes of agents.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(query: &str) -> Vec<&'static str> {
        find(&words(query)).into_iter().map(|page| page.url.trim_start_matches("https://")).collect()
    }

    #[test]
    fn pages_with_more_of_the_words_come_first() {
        assert_eq!(
            urls("Find competitor pricing"),
            [
                "duskfield.example/comparison",
                "brambleforge.example/pricing",
                "osprey-relay.example/pricing",
                "kitebridge.example/prices",
                "lanternfold.example/pricing",
                "marrowstone.example/price-list.pdf",
            ]
        );
        assert_eq!(urls("pricing of kitebridge")[0], "kitebridge.example/prices");
        assert_eq!(urls("What is Pebblewright?"), ["pebblewright.example/reviews"]);
        assert_eq!(urls("quantum physics"), [""; 0]);
    }

    #[test]
    fn stop_words_and_plural_endings_are_removed() {
        assert_eq!(words("Find the competitors, and their PRICES!"), ["competitor", "price"]);
        assert_eq!(words("gas business the"), ["gas", "business"]);
    }
}
