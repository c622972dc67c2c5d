//! Finds the lines of the documents and fields of a JSON or YAML text, for error messages.
//!
//! The YAML parser does not report where a value begins. This scan finds the keys of block mappings and the items of
//! block lists by their indentation, and the members of JSON and of flow collections by their brackets. If the scan
//! does not find a field, the result is the line of the nearest field that contains the field.

use std::collections::BTreeMap;

/// The line numbers of a document's fields, starting at 1, by JSON pointer.
#[derive(Debug, Clone, Default)]
pub(super) struct DocumentLines(BTreeMap<String, usize>);

impl DocumentLines {
    /// Returns the line of a field, or of the nearest field that contains it.
    pub(super) fn line(&self, pointer: &str) -> Option<usize> {
        let mut pointer = pointer;
        loop {
            if let Some(line) = self.0.get(pointer) {
                return Some(*line);
            }
            pointer = pointer.rsplit_once('/')?.0;
        }
    }

    /// Returns the line numbers of one element, if the document is a list. The pointers of the result are relative to
    /// the element.
    pub(super) fn element(&self, index: usize) -> Self {
        let prefix = format!("/{index}");
        let fields = self.0.iter().filter_map(|(pointer, line)| {
            let rest = pointer.strip_prefix(&prefix)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (rest.to_owned(), *line))
        });
        Self(fields.collect())
    }
}

/// Scans the documents of a text, which are separated by `---`. Documents without content are left out of the result.
pub(super) fn scan(text: &str) -> Vec<DocumentLines> {
    let mut documents = vec![Scan::default()];
    for (index, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            documents.push(Scan::default());
        } else if let Some(scan) = documents.last_mut() {
            scan.line(line, index + 1);
        }
    }
    documents.into_iter().map(|scan| DocumentLines(scan.lines)).filter(|lines| !lines.0.is_empty()).collect()
}

/// A mapping or list that contains the current position of the scan.
struct Level {
    /// The column where the keys of a block mapping or the dashes of a block list start. `None` for a flow collection.
    indent: Option<usize>,
    pointer: String,
    /// For a list: the number of items so far.
    items: Option<usize>,
}

#[derive(Default)]
struct Scan {
    lines: BTreeMap<String, usize>,
    levels: Vec<Level>,
    /// The indentation of the key before a multi-line text. Lines that are indented more belong to the text.
    text_indent: Option<usize>,
    /// The open flow collections, innermost last.
    flow: Vec<Level>,
    /// The quotation mark of a quoted text that continues on the next line.
    quote: Option<char>,
    /// The last text in a flow collection, which is a key if a colon follows.
    pending: String,
}

impl Scan {
    fn line(&mut self, line: &str, number: usize) {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if !self.flow.is_empty() || self.quote.is_some() {
            return self.flow(content, number);
        }
        if content.is_empty() || content.starts_with('#') {
            return;
        }
        if self.text_indent.is_some_and(|text| indent > text) {
            return;
        }
        self.text_indent = None;
        self.lines.entry(String::new()).or_insert(number);
        self.block(content, indent, number);
    }

    /// Scans a line of a block mapping or list.
    fn block(&mut self, content: &str, indent: usize, number: usize) {
        while self.levels.last().is_some_and(|level| level.indent.is_some_and(|column| column > indent)) {
            self.levels.pop();
        }
        if content == "-" || content.starts_with("- ") {
            // The dashes of a list may have the same indentation as the key of the list.
            let is_same = |level: &Level| level.indent == Some(indent) && level.items.is_some();
            if !self.levels.last().is_some_and(is_same) {
                let pointer = self.value_pointer();
                self.levels.push(Level { indent: Some(indent), pointer, items: Some(0) });
            }
            let pointer = self.next_item();
            self.lines.insert(pointer, number);
            let rest = content[1..].trim_start_matches(' ');
            if !rest.is_empty() {
                self.block(rest, indent + content.len() - rest.len(), number);
            }
            return;
        }
        if self.levels.last().is_some_and(|level| level.indent == Some(indent) && level.items.is_some()) {
            self.levels.pop();
        }
        match split_key(content) {
            Some((key, value)) => self.key(&key, value, indent, number),
            None => self.flow(content, number),
        }
    }

    fn key(&mut self, key: &str, value: &str, indent: usize, number: usize) {
        if self.levels.last().is_some_and(|level| level.indent == Some(indent)) {
            let parent = self.levels.pop().map(|level| level.pointer).unwrap_or_default();
            let parent = parent.rsplit_once('/').map(|(parent, _)| parent.to_owned()).unwrap_or_default();
            self.levels.push(Level { indent: Some(indent), pointer: join(&parent, key), items: None });
        } else {
            let pointer = join(&self.value_pointer(), key);
            self.levels.push(Level { indent: Some(indent), pointer, items: None });
        }
        let pointer = self.levels.last().map(|level| level.pointer.clone()).unwrap_or_default();
        self.lines.insert(pointer, number);
        if value.starts_with(['|', '>']) {
            self.text_indent = Some(indent);
        } else if value.starts_with(['{', '[', '"', '\'']) {
            self.flow(value, number);
        }
    }

    /// Returns the pointer of the value that begins at the current position.
    fn value_pointer(&self) -> String {
        match self.levels.last() {
            Some(Level { pointer, items: Some(count), .. }) => join(pointer, &count.saturating_sub(1).to_string()),
            Some(level) => level.pointer.clone(),
            None => String::new(),
        }
    }

    fn next_item(&mut self) -> String {
        let Some(level) = self.levels.last_mut() else { return String::new() };
        let count = level.items.unwrap_or_default();
        level.items = Some(count + 1);
        join(&level.pointer, &count.to_string())
    }

    /// Scans a part of a flow collection or of a quoted text.
    fn flow(&mut self, content: &str, number: usize) {
        let mut characters = content.chars().peekable();
        while let Some(c) = characters.next() {
            if let Some(quote) = self.quote {
                match c {
                    '\\' if quote == '"' => self.pending.extend(characters.next()),
                    _ if c == quote => self.quote = None,
                    _ => self.pending.push(c),
                }
                continue;
            }
            match c {
                '"' | '\'' => {
                    self.pending.clear();
                    self.quote = Some(c);
                }
                '#' if self.pending.is_empty() => return,
                '{' | '[' => self.open(c, number),
                '}' | ']' => {
                    self.item(number);
                    self.flow.pop();
                }
                ':' if self.flow.last().is_some_and(|level| level.items.is_none()) => self.member(number),
                ',' => self.item(number),
                _ => self.pending.push(c),
            }
        }
    }

    fn open(&mut self, bracket: char, number: usize) {
        self.pending.clear();
        let pointer = match self.flow.last() {
            Some(Level { pointer, items: Some(count), .. }) => join(pointer, &count.to_string()),
            Some(level) => level.pointer.clone(),
            None => self.value_pointer(),
        };
        self.lines.entry(pointer.clone()).or_insert(number);
        self.flow.push(Level { indent: None, pointer, items: (bracket == '[').then_some(0) });
        if bracket == '{' {
            // While a flow mapping is scanned, its pointer is the pointer of its current member.
            if let Some(level) = self.flow.last_mut() {
                level.pointer.push('/');
            }
        }
    }

    fn member(&mut self, number: usize) {
        let key = std::mem::take(&mut self.pending);
        if let Some(level) = self.flow.last_mut() {
            let parent = level.pointer.rsplit_once('/').map(|(parent, _)| parent.to_owned()).unwrap_or_default();
            level.pointer = join(&parent, key.trim());
            self.lines.insert(level.pointer.clone(), number);
        }
    }

    fn item(&mut self, number: usize) {
        self.pending.clear();
        if let Some(level) = self.flow.last_mut()
            && let Some(count) = &mut level.items
        {
            self.lines.entry(join(&level.pointer, &count.to_string())).or_insert(number);
            *count += 1;
        }
    }
}

/// Splits `key: value`. Returns `None` for other content.
fn split_key(content: &str) -> Option<(String, &str)> {
    if content.starts_with(['{', '[']) {
        return None;
    }
    if let Some(quote) = content.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (key, rest) = content[1..].split_once(quote)?;
        return Some((key.to_owned(), rest.strip_prefix(':')?.trim_start()));
    }
    if let Some(key) = content.strip_suffix(':') {
        return Some((key.to_owned(), ""));
    }
    content.split_once(": ").map(|(key, value)| (key.to_owned(), value.trim_start()))
}

fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_of_yaml_fields_list_items_and_block_texts_are_found() {
        let text = "# a tool\nrefName: t\ninvocation:\n  path: echo\n  headers: { a: 1, b: [1, 2] }\ntags:\n- x\n- y\n\
                    description: |\n  path: no\n    key: no\nexamples:\n  - input: 1\n    output: 2\n  - input: 3\nlast: 'it: is'\n---\n---\nrefName: u\n";
        let documents = scan(text);
        let lines: Vec<(&str, usize)> = [
            ("", 2),
            ("/refName", 2),
            ("/invocation", 3),
            ("/invocation/path", 4),
            ("/invocation/headers/b", 5),
            ("/tags", 6),
            ("/tags/1", 8),
            ("/description", 9),
            ("/examples/0/output", 14),
            ("/examples/1/input", 15),
            ("/last", 16),
            ("/invocation/none", 3),
            ("/none", 2),
        ]
        .to_vec();
        for (pointer, line) in lines {
            assert_eq!(documents[0].line(pointer), Some(line), "{pointer}");
        }
        assert_eq!((documents.len(), documents[1].line("/refName")), (2, Some(19)));
    }

    #[test]
    fn line_numbers_of_json_members_and_elements_are_found() {
        let text = "[\n  {\n    \"refName\": \"a, {b}: \\\"c\",\n    \"tags\": [\n      \"x\",\n      { \"k\": 1 }\n    ]\n  },\n  {\n    \"a/b\": {\n      \"c\": 2\n    }\n  }\n]\n";
        let lines = &scan(text)[0];
        assert_eq!(lines.line("/0/refName"), Some(3), "{lines:?}");
        assert_eq!(lines.line("/0/tags/1/k"), Some(6), "{lines:?}");
        assert_eq!(lines.element(1).line("/a~1b/c"), Some(11), "{lines:?}");
        assert_eq!(lines.element(1).line(""), Some(9), "{lines:?}");
    }
}
