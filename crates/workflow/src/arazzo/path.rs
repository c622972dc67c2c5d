//! Paths to values: the input of the workflow or the output of a step, and the keys below it.

use std::fmt::Write as _;

use toolwright_expr::Expression;

/// A path to a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ValuePath {
    pub root: PathRoot,
    pub keys: Vec<PathKey>,
}

/// Where a path begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PathRoot {
    /// The input of the workflow.
    Input,
    /// The output of a step.
    Output(String),
}

/// A key of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PathKey {
    Field(String),
    Index(u32),
}

impl PathKey {
    /// Reads a token of a JSON pointer. A token of digits is the index of a list.
    pub(crate) fn from_token(token: &str) -> Self {
        let is_index = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
        let is_index = is_index && (token == "0" || !token.starts_with('0'));
        match token.parse() {
            Ok(index) if is_index => PathKey::Index(index),
            _ => PathKey::Field(token.replace("~1", "/").replace("~0", "~")),
        }
    }
}

/// Reads the keys of a JSON pointer without its `#`.
pub(super) fn pointer_keys(pointer: &str) -> Result<Vec<PathKey>, String> {
    match pointer.strip_prefix('/') {
        None if pointer.is_empty() => Ok(Vec::new()),
        None => Err(format!("`{pointer}` is not a JSON pointer; it must begin with `/`")),
        Some(tokens) => Ok(tokens.split('/').map(PathKey::from_token).collect()),
    }
}

/// Reads the keys in `.a.b[0]`.
pub(super) fn accessor_keys(text: &str) -> Option<Vec<PathKey>> {
    let mut keys = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (name, after) = after.split_at_checked(end)?;
            (PathKey::Field(name.to_owned()), after)
        } else {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            (PathKey::from_token(index), after)
        };
        let is_field = rest.starts_with('.');
        let is_valid = match &key {
            PathKey::Field(name) => is_field && !name.is_empty() && !name.contains(['*', '?', ']', ' ']),
            PathKey::Index(_) => !is_field,
        };
        is_valid.then(|| keys.push(key))?;
        rest = after;
    }
    Some(keys)
}

/// Writes a JSON pointer. An error if a field would be read as an index.
pub(super) fn pointer(keys: &[PathKey]) -> Result<String, String> {
    let mut out = String::new();
    for key in keys {
        let token = match key {
            PathKey::Index(index) => index.to_string(),
            PathKey::Field(name) => {
                let token = name.replace('~', "~0").replace('/', "~1");
                if PathKey::from_token(&token) != *key || token.contains(['{', '}']) {
                    return Err(format!("the field `{name}` cannot be written as a JSON pointer of Arazzo"));
                }
                token
            }
        };
        out.push('/');
        out.push_str(&token);
    }
    Ok(out)
}

impl ValuePath {
    pub(crate) fn input(keys: Vec<PathKey>) -> Self {
        Self { root: PathRoot::Input, keys }
    }

    pub(crate) fn output(step: &str, keys: Vec<PathKey>) -> Self {
        Self { root: PathRoot::Output(step.to_owned()), keys }
    }

    /// Writes the path as an expression.
    pub(crate) fn to_expression(&self) -> String {
        let mut out = match &self.root {
            PathRoot::Input => "input".to_owned(),
            PathRoot::Output(step) if Expression::is_name(step) => step.clone(),
            PathRoot::Output(step) => format!("`{step}`"),
        };
        for key in &self.keys {
            let written = match key {
                PathKey::Index(index) => write!(out, "[{index}]"),
                PathKey::Field(name) if Expression::is_name(name) => write!(out, ".{name}"),
                PathKey::Field(name) if is_quotable(name) => write!(out, ".`{name}`"),
                PathKey::Field(name) => write!(out, "[{}]", string_literal(name)),
            };
            // Writing to a text does not fail.
            debug_assert!(written.is_ok());
        }
        out
    }

    /// Reads an expression that is only a path. `step_of` finds the step with a name or an `outputAs`.
    pub(crate) fn parse(expression: &str, step_of: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let mut reader = Reader { rest: expression.trim() };
        let root = reader.name()?;
        let mut keys = Vec::new();
        while !reader.rest.is_empty() {
            keys.push(reader.key()?);
        }
        match root.as_str() {
            "input" | "param" => Some(Self::input(keys)),
            "steps" => match keys.as_slice() {
                [PathKey::Field(step), PathKey::Field(output), rest @ ..] if output == "output" => Some(Self {
                    root: PathRoot::Output(step_of(step).filter(|name| name == step)?),
                    keys: rest.to_vec(),
                }),
                _ => None,
            },
            "item" | "index" => None,
            name => Some(match step_of(name) {
                Some(step) => Self { root: PathRoot::Output(step), keys },
                None => {
                    keys.insert(0, PathKey::Field(root));
                    Self::input(keys)
                }
            }),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Option<String> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken.to_owned())
    }

    /// Reads a name, or a name in backticks.
    fn name(&mut self) -> Option<String> {
        if let Some(quoted) = self.rest.strip_prefix('`') {
            let (name, rest) = quoted.split_once('`')?;
            self.rest = rest;
            return is_quotable(name).then(|| name.to_owned());
        }
        let length = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let name = self.take(length)?;
        Expression::is_name(&name).then_some(name)
    }

    fn key(&mut self) -> Option<PathKey> {
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            return self.name().map(PathKey::Field);
        }
        self.rest = self.rest.strip_prefix('[')?;
        if self.rest.starts_with('\'') {
            let (name, length) = read_string_literal(self.rest)?;
            self.rest = self.rest.get(length..)?.strip_prefix(']')?;
            return Some(PathKey::Field(name));
        }
        let length = self.rest.find(']')?;
        let index = self.take(length)?;
        self.rest = self.rest.strip_prefix(']')?;
        match PathKey::from_token(&index) {
            key @ PathKey::Index(_) => Some(key),
            PathKey::Field(_) => None,
        }
    }
}

fn is_quotable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c))
}

/// Writes a string literal of the expression language.
pub(super) fn string_literal(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Reads a string literal in single or double quotes at the start of a text. Returns it with its length in the text.
pub(super) fn read_string_literal(text: &str) -> Option<(String, usize)> {
    let mut chars = text.char_indices();
    let (_, quote @ ('\'' | '"')) = chars.next()? else { return None };
    let mut out = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => out.push(match chars.next()?.1 {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                same @ ('\\' | '\'' | '"') => same,
                _ => return None,
            }),
            c if c == quote => return Some((out, at + 1)),
            c => out.push(c),
        }
    }
    None
}
