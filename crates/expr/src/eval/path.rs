//! Names, fields and indexes. What is not there is null, with a warning that names the path.

use std::borrow::Cow;

use serde_json::Value;

use super::value::{has_size, key_text, size, weigh};
use super::{Fault, Machine, Outcome, Session, Val, type_name};
use crate::syntax::{Kind, Node, Step};

/// One step of a path, its index already evaluated.
enum Key<'v> {
    Field(&'v str),
    Index(usize, Val<'v>),
}

/// How far a path led.
enum Walk<'x> {
    Found(&'x Value),
    /// `.length` of a value without such a key.
    Length(&'x Value),
    /// Nothing after this number of steps.
    Missing(usize),
}

/// The value at the end of a path, or what is missing.
type Resolved<'v> = Result<Val<'v>, Missing>;

enum Missing {
    Name,
    Step(usize),
}

impl<'v> Machine<'v, '_> {
    pub(super) fn path(&mut self, root: &'v Node, steps: &'v [Step]) -> Outcome<Val<'v>> {
        let keys = self.keys(steps)?;
        match self.resolve(root, &keys)? {
            Ok(value) => Ok(value),
            Err(missing) => {
                self.session.warn(warning(root, &keys, &missing));
                Ok(Cow::Owned(Value::Null))
            }
        }
    }

    /// `has(of.field)`: whether the field is there. Missing parts before it are not worth a warning.
    pub(super) fn has(&mut self, of: &'v Node, field: &'v str) -> Outcome<Val<'v>> {
        let (root, steps) = match &of.kind {
            Kind::Path { root, steps } => (root.as_ref(), steps.as_slice()),
            _ => (of, [].as_slice()),
        };
        let mut keys = self.keys(steps)?;
        keys.push(Key::Field(field));
        let found = self.resolve(root, &keys)?.is_ok();
        Ok(Cow::Owned(Value::Bool(found)))
    }

    fn keys(&mut self, steps: &'v [Step]) -> Outcome<Vec<Key<'v>>> {
        let mut keys = Vec::with_capacity(steps.len());
        for step in steps {
            keys.push(match step {
                Step::Field(name) => Key::Field(name),
                Step::Index(node) => Key::Index(node.at, self.eval(node)?),
            });
        }
        Ok(keys)
    }

    fn resolve(&mut self, root: &'v Node, keys: &[Key<'v>]) -> Outcome<Resolved<'v>> {
        let at = root.at;
        self.spend(at, u32::try_from(keys.len()).unwrap_or(u32::MAX))?;
        let Kind::Name(name) = &root.kind else {
            return match self.eval(root)? {
                Cow::Borrowed(value) => borrowed(at, walk(value, keys)?, self.session),
                Cow::Owned(value) if keys.is_empty() => Ok(Ok(Cow::Owned(value))),
                Cow::Owned(value) => copied(at, walk(&value, keys)?, self.session),
            };
        };
        let local = self.locals.iter().rev().find(|(known, _)| *known == &**name);
        match local.map(|(_, value)| value) {
            Some(Cow::Borrowed(value)) => borrowed(at, walk(value, keys)?, self.session),
            Some(Cow::Owned(value)) => copied(at, walk(value, keys)?, self.session),
            None => match self.scope.lookup(name) {
                Some(value) => borrowed(at, walk(value, keys)?, self.session),
                None => Ok(Err(Missing::Name)),
            },
        }
    }
}

fn walk<'x>(base: &'x Value, keys: &[Key<'_>]) -> Outcome<Walk<'x>> {
    let mut value = base;
    for (taken, key) in keys.iter().enumerate() {
        let next = match key {
            Key::Field(name) => value.get(name),
            Key::Index(at, index) => indexed(*at, value, index)?,
        };
        match next {
            Some(next) => value = next,
            None if ends_in_length(keys, taken) && has_size(value) => {
                return Ok(Walk::Length(value));
            }
            None => return Ok(Walk::Missing(taken)),
        }
    }
    Ok(Walk::Found(value))
}

fn ends_in_length(keys: &[Key<'_>], taken: usize) -> bool {
    matches!(keys.get(taken..), Some([Key::Field("length")]))
}

/// A walk over data that outlives the evaluation ends in a borrow of it.
fn borrowed<'v>(at: usize, walk: Walk<'v>, session: &mut Session) -> Outcome<Resolved<'v>> {
    match walk {
        Walk::Found(value) => Ok(Ok(Cow::Borrowed(value))),
        other => copied(at, other, session),
    }
}

/// A walk over data made on the way ends in a copy, of the end only.
fn copied<'v>(at: usize, walk: Walk<'_>, session: &mut Session) -> Outcome<Resolved<'v>> {
    let meter = &mut session.meter;
    let value = match walk {
        Walk::Found(value) => weigh(value, meter).map(|()| Ok(value.clone())),
        Walk::Length(value) => size(value, meter).map(|size| Ok(Value::from(size))),
        Walk::Missing(steps) => Ok(Err(Missing::Step(steps))),
    };
    Ok(value.map_err(|error| error.at(at))?.map(Cow::Owned))
}

fn indexed<'x>(at: usize, value: &'x Value, index: &Value) -> Outcome<Option<&'x Value>> {
    match value {
        Value::Null => Ok(None),
        Value::Array(items) => {
            let number = whole(index).ok_or_else(|| {
                let found = type_name(index);
                Fault::wrong_type(at, format!("a list index is an integer, not {found}"))
            })?;
            Ok(usize::try_from(number).ok().and_then(|number| items.get(number)))
        }
        Value::Object(fields) => {
            let key = key_text(index).ok_or_else(|| {
                let found = type_name(index);
                Fault::wrong_type(at, format!("a map key is a string, not {found}"))
            })?;
            Ok(fields.get(key.as_ref()))
        }
        other => {
            let found = type_name(other);
            Err(Fault::wrong_type(at, format!("{found} has no items; `[…]` takes a list or a map")))
        }
    }
}

/// An index: an integer, or a double without fraction.
fn whole(index: &Value) -> Option<i64> {
    let double = || index.as_f64().filter(|double| double.fract() == 0.0);
    index.as_i64().or_else(|| double().map(|double| double as i64))
}

fn warning(root: &Node, keys: &[Key<'_>], missing: &Missing) -> String {
    let name = match &root.kind {
        Kind::Name(name) => name,
        _ => "(…)",
    };
    let reached = match missing {
        Missing::Name => 0,
        Missing::Step(steps) => steps + 1,
    };
    let whole = text(name, keys);
    let part = text(name, keys.get(..reached).unwrap_or(keys));
    if part == whole {
        format!("`{whole}` is missing; it was taken as null")
    } else {
        format!("`{whole}` was taken as null: `{part}` is missing")
    }
}

fn text(name: &str, keys: &[Key<'_>]) -> String {
    const LONGEST: usize = 200;
    let mut text = name.to_owned();
    for key in keys {
        match key {
            Key::Field(field) => text.extend([".", field]),
            Key::Index(_, index) => text.push_str(&format!("[{index}]")),
        }
    }
    if text.len() > LONGEST {
        text = text.chars().take(LONGEST).chain(['…']).collect();
    }
    text
}
