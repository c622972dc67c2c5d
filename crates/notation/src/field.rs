//! The names of the fields that a definition has, asked from the type itself.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;

/// The fields of a struct as they are written; none for a type that is no struct.
pub(crate) fn names_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(Asking) {
        Err(Answer(names)) => names,
        Ok(_) => &[],
    }
}

/// A source of nothing: whoever reads a struct from it tells the names of its fields on the way to the error.
struct Asking;

#[derive(Debug)]
struct Answer(&'static [&'static str]);

impl<'de> Deserializer<'de> for Asking {
    type Error = Answer;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Answer> {
        Err(Answer(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Answer> {
        Err(Answer(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Answer {}

impl de::Error for Answer {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Answer(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_tells_its_fields() {
        let names = names_of::<toolwright_types::ToolDefinition>();
        assert!(names.contains(&"refName") && names.contains(&"onOutputMismatch"), "{names:?}");
        assert_eq!(names_of::<toolwright_types::RateLimit>(), ["perSecond", "burst"]);
        assert!(names_of::<String>().is_empty());
    }
}
