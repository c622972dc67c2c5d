//! Determines the field names of a struct from its `Deserialize` implementation, and suggests a name for a mistyped one.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Returns the serialized field names of a struct, or an empty slice for other types.
pub fn field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(FieldNameProbe) {
        Err(ProbedFields(names)) => names,
        Ok(_) => &[],
    }
}

/// Returns the name that is most similar to `wanted`, ignoring case, or `None` if no name is similar.
pub fn closest_name<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let wanted = wanted.to_lowercase();
    let limit = wanted.chars().count().div_ceil(3).min(4);
    let distance = |name: &str| strsim::damerau_levenshtein(&wanted, &name.to_lowercase());
    let similar = names.into_iter().map(|name| (distance(name), name)).filter(|(distance, _)| *distance <= limit);
    similar.min().map(|(_, name)| name)
}

/// A deserializer without data. When a struct requests its fields, the deserializer fails, and the error contains the
/// names of the fields.
struct FieldNameProbe;

#[derive(Debug)]
struct ProbedFields(&'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNameProbe {
    type Error = ProbedFields;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, ProbedFields> {
        Err(ProbedFields(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, ProbedFields> {
        Err(ProbedFields(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl fmt::Display for ProbedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for ProbedFields {}

impl de::Error for ProbedFields {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        ProbedFields(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_returns_the_serialized_names_for_a_struct_and_nothing_for_other_types() {
        let names = field_names::<crate::ToolDefinition>();
        assert!(names.contains(&"refName") && names.contains(&"onOutputMismatch"), "{names:?}");
        assert_eq!(field_names::<crate::RateLimit>(), ["perSecond", "burst"]);
        assert!(field_names::<String>().is_empty());
    }

    #[test]
    fn closest_name_is_similar_or_absent() {
        let names = ["instruction", "model", "toolRefs"];
        assert_eq!(closest_name("instructions", names), Some("instruction"));
        assert_eq!(closest_name("toolrefs", names), Some("toolRefs"));
        assert_eq!(closest_name("modle", names), Some("model"));
        assert_eq!(closest_name("temperature", names), None);
        assert_eq!(closest_name("", names), None);
    }
}
