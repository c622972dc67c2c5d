//! Evaluates names, fields and indexes. A missing path evaluates to null and adds a warning that names it.

use std::borrow::Cow;

use serde_json::Value;

use super::value::{charge_size, has_size, object_key, size};
use super::{CowValue, EvalContext, EvalResult, Evaluator, RuntimeError, type_name};
use crate::syntax::{Node, NodeKind, PathSegment};

/// A path segment with an evaluated index.
enum PathKey<'v> {
    Field(&'v str),
    Index(usize, CowValue<'v>),
}

/// The result of following a path.
enum Lookup<'j> {
    Found(&'j Value),
    /// `.length` of a value that has no key `length`.
    Length(&'j Value),
    /// The segment at this index does not exist.
    Missing(usize),
}

/// The value at the end of a path, or the part of the path that does not exist.
type Resolution<'v> = Result<CowValue<'v>, Missing>;

enum Missing {
    /// The first name of the path does not exist.
    Root,
    /// The segment of the path at this index does not exist.
    Segment(usize),
}

impl<'v> Evaluator<'v, '_> {
    pub(super) fn path(&mut self, root: &'v Node, segments: &'v [PathSegment]) -> EvalResult<CowValue<'v>> {
        let keys = self.keys(segments)?;
        match self.resolve(root, &keys)? {
            Ok(value) => Ok(value),
            Err(missing) => {
                self.context.warn(missing_warning(root, &keys, &missing));
                Ok(Cow::Owned(Value::Null))
            }
        }
    }

    /// Evaluates `has(operand.field)`: whether the field exists. A missing path does not add a warning.
    pub(super) fn has(&mut self, operand: &'v Node, field: &'v str) -> EvalResult<CowValue<'v>> {
        let (root, segments) = match &operand.kind {
            NodeKind::Path { root, segments } => (root.as_ref(), segments.as_slice()),
            _ => (operand, [].as_slice()),
        };
        let mut keys = self.keys(segments)?;
        keys.push(PathKey::Field(field));
        let found = self.resolve(root, &keys)?.is_ok();
        Ok(Cow::Owned(Value::Bool(found)))
    }

    fn keys(&mut self, segments: &'v [PathSegment]) -> EvalResult<Vec<PathKey<'v>>> {
        let mut keys = Vec::with_capacity(segments.len());
        for segment in segments {
            keys.push(match segment {
                PathSegment::Field(name) => PathKey::Field(name),
                PathSegment::Index(node) => PathKey::Index(node.offset, self.eval(node)?),
            });
        }
        Ok(keys)
    }

    fn resolve(&mut self, root: &'v Node, keys: &[PathKey<'v>]) -> EvalResult<Resolution<'v>> {
        let offset = root.offset;
        self.charge(offset, u32::try_from(keys.len()).unwrap_or(u32::MAX))?;
        let NodeKind::Ident(name) = &root.kind else {
            return match self.eval(root)? {
                Cow::Borrowed(value) => resolve_borrowed(offset, look_up(value, keys)?, self.context),
                Cow::Owned(value) if keys.is_empty() => Ok(Ok(Cow::Owned(value))),
                Cow::Owned(value) => resolve_copied(offset, look_up(&value, keys)?, self.context),
            };
        };
        let local = self.locals.iter().rev().find(|(known, _)| *known == &**name);
        match local.map(|(_, value)| value) {
            Some(Cow::Borrowed(value)) => resolve_borrowed(offset, look_up(value, keys)?, self.context),
            Some(Cow::Owned(value)) => resolve_copied(offset, look_up(value, keys)?, self.context),
            None => match self.scope.lookup(name) {
                Some(value) => resolve_borrowed(offset, look_up(value, keys)?, self.context),
                None => Ok(Err(Missing::Root)),
            },
        }
    }
}

/// Follows a path from `base`.
fn look_up<'j>(base: &'j Value, keys: &[PathKey<'_>]) -> EvalResult<Lookup<'j>> {
    let mut value = base;
    for (index, key) in keys.iter().enumerate() {
        let next = match key {
            PathKey::Field(name) => value.get(name),
            PathKey::Index(offset, index) => get_index(*offset, value, index)?,
        };
        match next {
            Some(next) => value = next,
            None if ends_in_length(keys, index) && has_size(value) => {
                return Ok(Lookup::Length(value));
            }
            None => return Ok(Lookup::Missing(index)),
        }
    }
    Ok(Lookup::Found(value))
}

fn ends_in_length(keys: &[PathKey<'_>], index: usize) -> bool {
    matches!(keys.get(index..), Some([PathKey::Field("length")]))
}

/// Resolves a lookup in data that outlives the evaluation. Borrows the value.
fn resolve_borrowed<'v>(offset: usize, lookup: Lookup<'v>, context: &mut EvalContext) -> EvalResult<Resolution<'v>> {
    match lookup {
        Lookup::Found(value) => Ok(Ok(Cow::Borrowed(value))),
        other => resolve_copied(offset, other, context),
    }
}

/// Resolves a lookup in a temporary value. Copies only the value at the end of the path.
fn resolve_copied<'v>(offset: usize, lookup: Lookup<'_>, context: &mut EvalContext) -> EvalResult<Resolution<'v>> {
    let budget = &mut context.budget;
    let value = match lookup {
        Lookup::Found(value) => charge_size(value, budget).map(|()| Ok(value.clone())),
        Lookup::Length(value) => size(value, budget).map(|size| Ok(Value::from(size))),
        Lookup::Missing(index) => Ok(Err(Missing::Segment(index))),
    };
    Ok(value.map_err(|error| error.into_error(offset))?.map(Cow::Owned))
}

fn get_index<'j>(offset: usize, value: &'j Value, index: &Value) -> EvalResult<Option<&'j Value>> {
    match value {
        Value::Null => Ok(None),
        Value::Array(items) => {
            let number = integer_index(index).ok_or_else(|| {
                let found = type_name(index);
                RuntimeError::wrong_type(offset, format!("a list index must be an integer, got {found}"))
            })?;
            Ok(usize::try_from(number).ok().and_then(|number| items.get(number)))
        }
        Value::Object(fields) => {
            let key = object_key(index).ok_or_else(|| {
                let found = type_name(index);
                RuntimeError::wrong_type(offset, format!("a map key must be a string, got {found}"))
            })?;
            Ok(fields.get(key.as_ref()))
        }
        other => {
            let found = type_name(other);
            Err(RuntimeError::wrong_type(offset, format!("`[…]` takes a list or a map, got {found}")))
        }
    }
}

/// Converts an index. It must be an integer or a double without a fraction.
fn integer_index(index: &Value) -> Option<i64> {
    let double = || index.as_f64().filter(|double| double.fract() == 0.0);
    index.as_i64().or_else(|| double().map(|double| double as i64))
}

fn missing_warning(root: &Node, keys: &[PathKey<'_>], missing: &Missing) -> String {
    let name = match &root.kind {
        NodeKind::Ident(name) => name,
        _ => "(…)",
    };
    let length = match missing {
        Missing::Root => 0,
        Missing::Segment(index) => index + 1,
    };
    let path = display_path(name, keys);
    let missing_part = display_path(name, keys.get(..length).unwrap_or(keys));
    if missing_part == path {
        format!("`{path}` is missing; using null")
    } else {
        format!("`{missing_part}` is missing; using null for `{path}`")
    }
}

fn display_path(name: &str, keys: &[PathKey<'_>]) -> String {
    const MAX_LENGTH: usize = 200;
    let mut text = name.to_owned();
    for key in keys {
        match key {
            PathKey::Field(field) => text.extend([".", field]),
            PathKey::Index(_, index) => text.push_str(&format!("[{index}]")),
        }
    }
    if text.len() > MAX_LENGTH {
        text = text.chars().take(MAX_LENGTH).chain(['…']).collect();
    }
    text
}
