//! The properties of a pattern and the fields of a definition: one to one, except for groups, whose fields have a dot.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use toolwright_gram::Pattern;

use crate::{Problem, value};

/// Carries fields as they are, over what the rest of the pattern says; null takes one away.
const EXACT: &str = "exact";

/// What the fields of one kind of definition are called.
pub(crate) struct Form {
    /// What people call it.
    pub noun: &'static str,
    /// All fields.
    pub fields: &'static [&'static str],
    /// Fields whose own fields are properties.
    pub groups: &'static [Group],
    /// Fields that the pattern says in another way.
    pub said_otherwise: &'static [&'static str],
    /// Properties that are no fields.
    pub own: &'static [&'static str],
}

/// A field and the names of the fields in it.
pub(crate) type Group = (&'static str, fn() -> &'static [&'static str]);

/// What was read of a pattern.
pub(crate) struct Fields {
    /// The fields by name.
    pub named: Map<String, Json>,
    /// The fields of groups.
    groups: BTreeMap<String, Map<String, Json>>,
    /// What replaces all of them in the end.
    exact: Map<String, Json>,
    /// Properties that no field is called like.
    unknown: Vec<String>,
    /// Properties that cannot be read.
    problems: Vec<Problem>,
    what: String,
}

impl Form {
    /// The fields that the properties of `pattern` give.
    pub fn read(&self, pattern: &Pattern) -> Fields {
        let what = format!("{} `{}`", self.noun, pattern.identity());
        let mut fields = Fields {
            named: Map::new(),
            groups: BTreeMap::new(),
            exact: Map::new(),
            unknown: Vec::new(),
            problems: Vec::new(),
            what,
        };
        let properties = pattern.subject.properties.iter();
        for (key, value) in properties.filter(|(key, _)| !self.own.contains(&key.as_str())) {
            match value::to_json(value) {
                Err(why) => fields.wrong(key, &why),
                Ok(json) if key == EXACT => self.read_exact(&mut fields, json),
                Ok(json) => self.read_field(&mut fields, key, json),
            }
        }
        fields
    }

    /// `pattern` with a property for each of `fields` that the pattern does not say in another way.
    pub fn write(&self, mut pattern: Pattern, fields: &Map<String, Json>) -> Pattern {
        for (name, json) in fields.iter().filter(|(name, _)| !self.said_otherwise.contains(&name.as_str())) {
            match (self.group(name), json) {
                (Some(_), Json::Object(inner)) => {
                    for (inner, json) in inner {
                        pattern = pattern.property(format!("{name}.{inner}"), value::of_json(json));
                    }
                }
                _ => pattern = pattern.property(name, value::of_json(json)),
            }
        }
        pattern
    }

    fn read_field(&self, fields: &mut Fields, key: &str, json: Json) {
        let grouped = key.split_once('.').and_then(|(name, inner)| Some((name, inner, self.group(name)?)));
        match grouped {
            Some((name, inner, known)) if known.contains(&inner) => {
                fields.group(name).insert(inner.to_owned(), json);
            }
            Some(_) => fields.unknown.push(key.to_owned()),
            None if !self.has(key) => fields.unknown.push(key.to_owned()),
            None => match (self.group(key), json) {
                (Some(_), Json::Object(inner)) => fields.group(key).extend(inner),
                (_, json) => drop(fields.named.insert(key.to_owned(), json)),
            },
        }
    }

    fn read_exact(&self, fields: &mut Fields, json: Json) {
        let Json::Object(exact) = json else {
            return fields.wrong(EXACT, "is a JSON object with fields");
        };
        for (name, json) in exact {
            // The identifier is the name; it is nowhere else.
            if self.fields.contains(&name.as_str()) && name != "refName" {
                fields.exact.insert(name, json);
            } else {
                fields.unknown.push(format!("{EXACT}.{name}"));
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.fields.contains(&name) && !self.said_otherwise.contains(&name)
    }

    fn group(&self, name: &str) -> Option<&'static [&'static str]> {
        self.groups.iter().find(|(group, _)| *group == name).map(|(_, names)| names())
    }
}

impl Fields {
    /// The fields of a group, as far as they are known.
    pub fn group(&mut self, name: &str) -> &mut Map<String, Json> {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// Says that a property cannot be read.
    pub fn wrong(&mut self, key: &str, why: &str) {
        self.problems.push(Problem::here(format!("property `{key}` of {} {why}", self.what)));
    }

    /// The definition, or everything that is wrong with it.
    pub fn finish<T: DeserializeOwned>(mut self) -> Result<T, Vec<Problem>> {
        self.named
            .extend(std::mem::take(&mut self.groups).into_iter().map(|(name, inner)| (name, Json::Object(inner))));
        for (name, json) in std::mem::take(&mut self.exact) {
            if json.is_null() {
                self.named.shift_remove(&name);
            } else {
                self.named.insert(name, json);
            }
        }
        let read = serde_path_to_error::deserialize(Json::Object(std::mem::take(&mut self.named)));
        match read {
            Ok(definition) if self.problems.is_empty() => Ok(definition),
            Ok(_) => Err(self.problems),
            Err(error) => {
                self.wrong(&error.path().to_string(), &format!("cannot be used: {}", error.inner()));
                Err(self.problems)
            }
        }
    }

    /// Makes problems of the unknown properties.
    pub fn refuse_unknown(&mut self) {
        let unknown = self.take_unknown().into_iter();
        self.problems.extend(unknown.map(|what| Problem::here(format!("{what} is not known"))));
    }

    /// Leaves the unknown properties out, and says which.
    pub fn take_unknown(&mut self) -> Vec<String> {
        let unknown = std::mem::take(&mut self.unknown).into_iter();
        unknown.map(|key| format!("property `{key}` of {}", self.what)).collect()
    }
}

/// `pattern` with whatever of `wanted` it does not say when it is read again.
pub(crate) fn with_exact(pattern: Pattern, wanted: &Map<String, Json>, read: &Map<String, Json>) -> Pattern {
    let differing = wanted.iter().filter(|(name, json)| read.get(*name) != Some(*json));
    let gone = read.keys().filter(|name| !wanted.contains_key(*name));
    let exact: Map<String, Json> = differing
        .map(|(name, json)| (name.clone(), json.clone()))
        .chain(gone.map(|name| (name.clone(), Json::Null)))
        .collect();
    if exact.is_empty() { pattern } else { pattern.property(EXACT, value::in_string(&Json::Object(exact))) }
}
