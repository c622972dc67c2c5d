//! Deserializers for fields that accept `null`: on the wire, `null` means absent.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer};

/// Deserializes `null` as the default, for `deserialize_with`.
pub fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

pub(crate) fn null_as_true<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or(true))
}

/// Deserializes a map and drops entries whose value is null.
pub(crate) fn skip_null_entries<'de, D: Deserializer<'de>>(d: D) -> Result<IndexMap<String, String>, D::Error> {
    let entries: Option<IndexMap<String, Option<String>>> = Option::deserialize(d)?;
    Ok(entries.unwrap_or_default().into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}
