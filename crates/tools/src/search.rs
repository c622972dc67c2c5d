//! Full-text search over tools: BM25 over names, labels, descriptions and parameters, with the highest weight on names.

use std::collections::HashMap;

use crate::CompiledTool;

/// BM25 `k1`: how fast repeated words stop adding to the score.
const SATURATION: f64 = 1.2;
/// BM25 `b`: how strongly long texts are penalized.
const LENGTH_NORMALIZATION: f64 = 0.75;
/// The weight of a word in each field.
const NAME_WEIGHT: f64 = 4.0;
const LABEL_WEIGHT: f64 = 2.0;
const DESCRIPTION_WEIGHT: f64 = 1.0;
const PARAMETER_WEIGHT: f64 = 0.5;
/// Words that are ignored in queries and texts.
const STOP_WORDS: [&str; 32] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i", "in", "is", "it", "me",
    "my", "of", "on", "or", "please", "that", "the", "this", "to", "use", "we", "what", "with", "you",
];

/// A search index over the texts of tools. A text is identified by its position in the indexed list.
#[derive(Debug, Default)]
pub struct SearchIndex {
    /// The positions of the texts that contain a word, with the word's weight in each.
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
    average_length: f64,
}

impl SearchIndex {
    /// Builds an index of these tools, in this order.
    pub fn new<'a>(tools: impl IntoIterator<Item = &'a CompiledTool>) -> Self {
        let mut index = Self::default();
        for tool in tools {
            index.add(&weighted_words(tool));
        }
        index.average_length = index.lengths.iter().sum::<f64>() / index.lengths.len().max(1) as f64;
        index
    }

    /// Returns the positions of the texts that match `query`, best first. Texts with equal scores keep their order.
    pub fn rank(&self, query: &str) -> Vec<usize> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        let mut terms: Vec<String> = words(query).collect();
        terms.sort_unstable();
        terms.dedup();
        for postings in terms.iter().filter_map(|word| self.postings.get(word)) {
            let inverse_document_frequency = self.inverse_document_frequency(postings.len());
            for &(position, weight) in postings {
                let length = self.lengths.get(position).copied().unwrap_or_default();
                let length_norm =
                    1.0 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * length / self.average_length.max(1.0);
                *scores.entry(position).or_default() +=
                    inverse_document_frequency * weight * (SATURATION + 1.0) / (weight + SATURATION * length_norm);
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

    fn inverse_document_frequency(&self, found: usize) -> f64 {
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
    add(definition.ref_name.as_str(), NAME_WEIGHT);
    definition.name.iter().for_each(|name| add(name, NAME_WEIGHT));
    definition.category.iter().chain(&definition.tags).for_each(|label| add(label, LABEL_WEIGHT));
    let descriptions = definition.description.iter().chain(&definition.long_description);
    descriptions.for_each(|text| add(text, DESCRIPTION_WEIGHT));
    if let Some(parameters) = tool.input.source().get("properties").and_then(|properties| properties.as_object()) {
        for (name, schema) in parameters {
            add(name, PARAMETER_WEIGHT);
            schema
                .get("description")
                .and_then(|text| text.as_str())
                .into_iter()
                .for_each(|text| add(text, PARAMETER_WEIGHT));
        }
    }
    all
}

/// Splits a text into stemmed words: `searchDeals`, `search_deals` and "Searching for a deal" contain the same two
/// stems, of `search` and `deal`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .flat_map(split_camel_case)
        .map(str::to_lowercase)
        .map(stem)
        .filter(|word| !word.is_empty() && !STOP_WORDS.contains(&word.as_str()))
}

/// Splits `camelCase` before its capitals. Consecutive capitals, as in `HTTPServer`, are not split.
fn split_camel_case(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut previous = None;
    for (index, letter) in word.char_indices() {
        if letter.is_uppercase() && previous.is_some_and(char::is_lowercase) {
            parts.push(word.get(start..index).unwrap_or_default());
            start = index;
        }
        previous = Some(letter);
    }
    parts.push(word.get(start..).unwrap_or_default());
    parts
}

/// Removes common English endings. All forms of a word should get the same stem; the stem itself need not be a word.
fn stem(mut word: String) -> String {
    const ENDINGS: [(&str, &str); 7] =
        [("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("ss", "ss"), ("s", "")];
    if let Some((ending, replacement)) = ENDINGS.iter().find(|(ending, _)| word.ends_with(ending))
        && word.chars().count() > ending.len() + 2
    {
        word.truncate(word.len() - ending.len());
        word.push_str(replacement);
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
    fn inflected_forms_share_one_stem() {
        let plain = |text: &str| words(text).collect::<Vec<_>>();
        assert_eq!(plain("searchDeals"), plain("Searching for the deals"));
        assert_eq!(plain("create_invoices"), plain("creates an invoice"));
        assert_eq!(plain("list-companies"), plain("listed company"));
        assert_eq!(plain("Straße löschen").len(), 2);
        assert!(plain("how do I use the").is_empty());
    }
}
