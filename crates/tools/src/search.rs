//! Finds tools by what they are called and what they say they do: BM25 over their texts, the name counting most.

use std::collections::HashMap;

use crate::CompiledTool;

/// How fast a repeated word stops counting.
const SATURATION: f64 = 1.2;
/// How much a long text is held against a word in it.
const LENGTH_PENALTY: f64 = 0.75;
/// What a word counts where it stands.
const IN_NAME: f64 = 4.0;
const IN_LABELS: f64 = 2.0;
const IN_DESCRIPTION: f64 = 1.0;
const IN_PARAMETERS: f64 = 0.5;
/// Words that say nothing about a tool.
const NOISE: [&str; 32] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i", "in", "is", "it", "me",
    "my", "of", "on", "or", "please", "that", "the", "this", "to", "use", "we", "what", "with", "you",
];

/// Texts that can be searched, by their position.
#[derive(Debug, Default)]
pub struct SearchIndex {
    /// Where each word stands, and how much it counts there.
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
    average: f64,
}

impl SearchIndex {
    /// An index of these tools, in this order.
    pub fn of<'a>(tools: impl IntoIterator<Item = &'a CompiledTool>) -> Self {
        let mut index = Self::default();
        for tool in tools {
            index.add(&weighted_words(tool));
        }
        index.average = index.lengths.iter().sum::<f64>() / index.lengths.len().max(1) as f64;
        index
    }

    /// The positions of the texts that fit `query`, the best first; texts that fit equally well keep their order.
    pub fn rank(&self, query: &str) -> Vec<usize> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut asked: Vec<String> = words(query).collect();
        asked.sort_unstable();
        asked.dedup();
        for places in asked.iter().filter_map(|word| self.postings.get(word)) {
            let rarity = self.rarity(places.len());
            for &(position, weight) in places {
                let length = self.lengths.get(position).copied().unwrap_or_default();
                let fairness = 1.0 - LENGTH_PENALTY + LENGTH_PENALTY * length / self.average.max(1.0);
                *scores.entry(position).or_default() +=
                    rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * fairness);
            }
        }
        let mut ranked: Vec<(usize, f64)> = scores.into_iter().collect();
        ranked.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        ranked.into_iter().map(|(position, _)| position).collect()
    }

    fn add(&mut self, words: &HashMap<String, f64>) {
        let position = self.lengths.len();
        self.lengths.push(words.values().sum());
        for (word, weight) in words {
            self.postings.entry(word.clone()).or_default().push((position, *weight));
        }
    }

    fn rarity(&self, found: usize) -> f64 {
        let (all, found) = (self.lengths.len() as f64, found as f64);
        (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
    }
}

fn weighted_words(tool: &CompiledTool) -> HashMap<String, f64> {
    let definition = &tool.definition;
    let mut all = HashMap::new();
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            *all.entry(word).or_insert(0.0) += weight;
        }
    };
    add(definition.ref_name.as_str(), IN_NAME);
    definition.name.iter().for_each(|name| add(name, IN_NAME));
    definition.category.iter().chain(&definition.tags).for_each(|label| add(label, IN_LABELS));
    let described = definition.description.iter().chain(&definition.long_description);
    described.for_each(|text| add(text, IN_DESCRIPTION));
    if let Some(parameters) = tool.input.source().get("properties").and_then(|properties| properties.as_object()) {
        for (name, schema) in parameters {
            add(name, IN_PARAMETERS);
            schema
                .get("description")
                .and_then(|text| text.as_str())
                .into_iter()
                .for_each(|text| add(text, IN_PARAMETERS));
        }
    }
    all
}

/// The words of a text in their plain form: `searchDeals`, `search_deals` and "Searching for a deal" share two.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .flat_map(humps)
        .map(str::to_lowercase)
        .map(stem)
        .filter(|word| !word.is_empty() && !NOISE.contains(&word.as_str()))
}

/// `camelCase` cut before its capitals; `HTTPServer` is left whole up to the last capital.
fn humps(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, letter) in word.char_indices() {
        if letter.is_uppercase() && before.is_some_and(char::is_lowercase) {
            parts.push(word.get(start..at).unwrap_or_default());
            start = at;
        }
        before = Some(letter);
    }
    parts.push(word.get(start..).unwrap_or_default());
    parts
}

/// Endings that English adds to a word without changing what it is about. Only asked to be consistent.
fn stem(mut word: String) -> String {
    const ENDINGS: [(&str, &str); 7] =
        [("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("ss", "ss"), ("s", "")];
    if let Some((ending, instead)) = ENDINGS.iter().find(|(ending, _)| word.ends_with(ending))
        && word.chars().count() > ending.len() + 2
    {
        word.truncate(word.len() - ending.len());
        word.push_str(instead);
    }
    if word.chars().count() > 4 && word.ends_with('e') {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_in_many_forms_is_one_word() {
        let plain = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(plain("searchDeals"), plain("Searching for the deals"));
        assert_eq!(plain("create_invoices"), plain("creates an invoice"));
        assert_eq!(plain("list-companies"), plain("listed company"));
        assert_eq!(plain("Straße löschen").len(), 2);
        assert!(plain("how do I use the").is_empty());
    }
}
