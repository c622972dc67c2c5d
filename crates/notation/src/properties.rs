//! Maps the properties of a pattern to the fields of a definition. The fields of a group have dotted property names.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use toolwright_gram::Pattern;
use toolwright_types::closest_name;

use crate::{DefinitionError, value};

/// The name of the property that contains fields as JSON. These fields override the fields from other parts of the
/// pattern. Null removes a field.
const EXACT: &str = "exact";

/// The mapping between properties and the fields of one kind of definition.
pub(crate) struct PropertyMapping {
    /// The kind of definition, for error messages.
    pub kind_name: &'static str,
    /// The names of all fields.
    pub fields: &'static [&'static str],
    /// The groups: fields that are objects, and whose fields become properties with dotted names.
    pub groups: &'static [Group],
    /// Fields that are not written as a property of the same name.
    pub non_property_fields: &'static [&'static str],
    /// Properties that do not correspond to fields of the same name.
    pub non_field_properties: &'static [&'static str],
}

/// The name of a group and a function that returns the names of its fields.
pub(crate) type Group = (&'static str, fn() -> &'static [&'static str]);

/// The fields read from a pattern.
pub(crate) struct DefinitionFields {
    /// The fields outside of groups, by name.
    pub named: Map<String, Json>,
    /// The fields of each group.
    groups: BTreeMap<String, Map<String, Json>>,
    /// The fields in the property `exact`, which override all other fields.
    exact: Map<String, Json>,
    /// The properties that do not correspond to a field, each with the most similar known property.
    unknown: Vec<(String, Option<String>)>,
    /// The errors about invalid properties.
    errors: Vec<DefinitionError>,
    what: String,
}

impl PropertyMapping {
    /// Reads the fields from the properties of `pattern`.
    pub(crate) fn read(&self, pattern: &Pattern) -> DefinitionFields {
        let what = format!("{} `{}`", self.kind_name, pattern.identity());
        let mut fields = DefinitionFields {
            named: Map::new(),
            groups: BTreeMap::new(),
            exact: Map::new(),
            unknown: Vec::new(),
            errors: Vec::new(),
            what,
        };
        let properties = pattern.subject.properties.iter();
        for (key, value) in properties.filter(|(key, _)| !self.non_field_properties.contains(&key.as_str())) {
            match value::to_json(value) {
                Err(why) => fields.reject_property(key, &why),
                Ok(json) if key == EXACT => self.read_exact(&mut fields, json),
                Ok(json) => self.read_field(&mut fields, key, json),
            }
        }
        fields
    }

    /// Adds a property to `pattern` for each field that is expressed as a property.
    pub(crate) fn write(&self, mut pattern: Pattern, fields: &Map<String, Json>) -> Pattern {
        for (name, json) in fields.iter().filter(|(name, _)| !self.non_property_fields.contains(&name.as_str())) {
            match (self.group(name), json) {
                (Some(_), Json::Object(inner)) => {
                    for (inner, json) in inner {
                        pattern = pattern.property(format!("{name}.{inner}"), value::from_json(json));
                    }
                }
                _ => pattern = pattern.property(name, value::from_json(json)),
            }
        }
        pattern
    }

    fn read_field(&self, fields: &mut DefinitionFields, key: &str, json: Json) {
        let grouped = key.split_once('.').and_then(|(name, inner)| Some((name, inner, self.group(name)?)));
        match grouped {
            Some((name, inner, known)) if known.contains(&inner) => {
                fields.group(name).insert(inner.to_owned(), json);
            }
            Some(_) => fields.unknown.push((key.to_owned(), self.closest(key))),
            None if !self.has(key) => fields.unknown.push((key.to_owned(), self.closest(key))),
            None => match (self.group(key), json) {
                (Some(_), Json::Object(inner)) => fields.group(key).extend(inner),
                (_, json) => drop(fields.named.insert(key.to_owned(), json)),
            },
        }
    }

    fn read_exact(&self, fields: &mut DefinitionFields, json: Json) {
        let Json::Object(exact) = json else {
            return fields.reject_property(EXACT, "must be a JSON object");
        };
        for (name, json) in exact {
            // Only the identifier of the pattern sets `refName`.
            if self.fields.contains(&name.as_str()) && name != "refName" {
                fields.exact.insert(name, json);
            } else {
                let similar = closest_name(&name, self.fields.iter().copied());
                fields.unknown.push((format!("{EXACT}.{name}"), similar.map(|field| format!("{EXACT}.{field}"))));
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.fields.contains(&name) && !self.non_property_fields.contains(&name)
    }

    /// Returns the known property that is most similar to `key`.
    fn closest(&self, key: &str) -> Option<String> {
        if let Some((name, inner)) = key.split_once('.')
            && let Some(known) = self.group(name)
        {
            return closest_name(inner, known.iter().copied()).map(|inner| format!("{name}.{inner}"));
        }
        let fields = self.fields.iter().copied().filter(|name| self.has(name));
        closest_name(key, fields.chain(self.non_field_properties.iter().copied())).map(str::to_owned)
    }

    fn group(&self, name: &str) -> Option<&'static [&'static str]> {
        self.groups.iter().find(|(group, _)| *group == name).map(|(_, names)| names())
    }
}

impl DefinitionFields {
    /// Returns the fields of a group.
    pub(crate) fn group(&mut self, name: &str) -> &mut Map<String, Json> {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// Sets the name of the definition. A definition without a name gets a valid one, because the missing name is
    /// reported separately.
    pub(crate) fn set_name(&mut self, name: &str) {
        let name = if name.is_empty() { "unnamed" } else { name };
        self.named.insert("refName".to_owned(), Json::from(name));
    }

    /// Adds an error for a property.
    pub(crate) fn reject_property(&mut self, key: &str, why: &str) {
        self.errors.push(DefinitionError::at_root(format!("property `{key}` of {} {why}", self.what)));
    }

    /// Deserializes the definition. Returns all errors if there are any.
    pub(crate) fn finish<T: DeserializeOwned>(mut self) -> Result<T, Vec<DefinitionError>> {
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
            Ok(definition) if self.errors.is_empty() => Ok(definition),
            Ok(_) => Err(self.errors),
            Err(error) => {
                self.reject_property(&error.path().to_string(), &format!("is invalid: {}", error.inner()));
                Err(self.errors)
            }
        }
    }

    /// Turns the unknown properties into errors.
    pub(crate) fn reject_unknown(&mut self) {
        for (key, similar) in std::mem::take(&mut self.unknown) {
            let hint = similar.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            self.reject_property(&key, &format!("is unknown{hint}"));
        }
    }

    /// Removes the unknown properties and returns descriptions of them.
    pub(crate) fn take_unknown(&mut self) -> Vec<String> {
        let unknown = std::mem::take(&mut self.unknown).into_iter();
        unknown.map(|(key, _)| format!("property `{key}` of {}", self.what)).collect()
    }
}

/// Adds the property `exact` with the fields of `expected` that differ from `read`. `read` contains the fields that
/// were read back from `pattern`.
pub(crate) fn with_exact(pattern: Pattern, expected: &Map<String, Json>, read: &Map<String, Json>) -> Pattern {
    let differing = expected.iter().filter(|(name, json)| read.get(*name) != Some(*json));
    let removed = read.keys().filter(|name| !expected.contains_key(*name));
    let exact: Map<String, Json> = differing
        .map(|(name, json)| (name.clone(), json.clone()))
        .chain(removed.map(|name| (name.clone(), Json::Null)))
        .collect();
    if exact.is_empty() { pattern } else { pattern.property(EXACT, value::tagged_json(&Json::Object(exact))) }
}
