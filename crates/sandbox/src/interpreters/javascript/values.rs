//! JSON as JavaScript's values, and back without loss.
//!
//! Whole numbers beyond 2^53 are BigInts in the code, because a number would not be the same any more.

use std::{mem, ops::Range, vec};

use rquickjs::{
    Array, Atom, BigInt, Coerced, Ctx, FromJs, Function, Object, Type, Value as Js,
    function::This,
    object::{Filter, Property},
};
use serde_json::{Map, Number, Value};

use crate::interpreters::values::{DEPTH, EXACT, too_deep};

pub(super) fn from_json<'js>(ctx: &Ctx<'js>, value: &Value) -> rquickjs::Result<Js<'js>> {
    Ok(match value {
        Value::Null => Js::new_null(ctx.clone()),
        Value::Bool(bool) => Js::new_bool(ctx.clone(), *bool),
        Value::Number(number) => from_number(ctx, number)?,
        Value::String(text) => rquickjs::String::from_str(ctx.clone(), text)?.into_value(),
        Value::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.iter().enumerate() {
                array.set(index, from_json(ctx, item)?)?;
            }
            array.into_value()
        }
        Value::Object(fields) => {
            let object = Object::new(ctx.clone())?;
            for (key, field) in fields {
                // Defined rather than set: a field may be called `__proto__`.
                let property = Property::from(from_json(ctx, field)?).writable().configurable().enumerable();
                object.prop(key.as_str(), property)?;
            }
            object.into_value()
        }
    })
}

fn from_number<'js>(ctx: &Ctx<'js>, number: &Number) -> rquickjs::Result<Js<'js>> {
    Ok(match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), ..) if integer.unsigned_abs() > EXACT => BigInt::from_i64(ctx.clone(), integer)?.into_value(),
        (None, Some(integer), _) => BigInt::from_u64(ctx.clone(), integer)?.into_value(),
        // As a float even when it is whole: minus zero would not survive otherwise.
        (None, None, float) => Js::new_float(ctx.clone(), float.unwrap_or(f64::NAN)),
        (.., float) => Js::new_number(ctx.clone(), float.unwrap_or(f64::NAN)),
    })
}

/// Why a value is not JSON.
pub(super) enum NotJson {
    /// JSON has no word for it.
    Why(String),
    /// It is larger than it may be.
    Large,
    /// Its own code failed, while it was asked.
    Thrown(rquickjs::Error),
}

impl NotJson {
    /// As an exception that the code may catch.
    pub(super) fn throw(self, ctx: &Ctx<'_>) -> rquickjs::Error {
        match self {
            Self::Why(why) => rquickjs::Exception::throw_type(ctx, &why),
            Self::Large => rquickjs::Exception::throw_range(ctx, "the value is too large"),
            Self::Thrown(error) => error,
        }
    }
}

impl From<rquickjs::Error> for NotJson {
    fn from(error: rquickjs::Error) -> Self {
        match error {
            rquickjs::Error::Utf8(_) => Self::Why("text with half a surrogate pair cannot be JSON".to_owned()),
            error => Self::Thrown(error),
        }
    }
}

/// Makes JSON of values. Getters, `toJSON` and the like run as part of the code.
pub(super) struct ToJson<'js> {
    /// Tells what kind of object something is, whatever the code does to the language from now on.
    tag: Function<'js>,
    limit: u64,
}

impl<'js> ToJson<'js> {
    pub(super) fn new(ctx: &Ctx<'js>, limit: u64) -> rquickjs::Result<Self> {
        let tag = ctx.eval("Function.prototype.call.bind(Object.prototype.toString)")?;
        Ok(Self { tag, limit })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The value as JSON. Walks without recursion: how much stack is left is the code's business, not that of its result.
    pub(super) fn convert(&self, value: Js<'js>) -> Result<Value, NotJson> {
        let mut room = Room { left: self.limit };
        let mut open: Vec<Structure<'js>> = Vec::new();
        let mut part = self.part(value, open.len(), &mut room)?;
        loop {
            let whole = match part {
                Part::Structure(structure) => {
                    open.push(structure);
                    None
                }
                Part::Leaf(json) => Some(json),
            };
            let Some(inner) = open.last_mut() else { return Ok(whole.unwrap_or_default()) };
            if let Some(json) = whole {
                inner.put(json);
            }
            part = match inner.next(&mut room)? {
                Some(value) => self.part(value, open.len(), &mut room)?,
                None => Part::Leaf(open.pop().map(Structure::close).unwrap_or_default()),
            };
        }
    }

    /// A value that is done, or one that has others in it.
    fn part(&self, value: Js<'js>, depth: usize, room: &mut Room) -> Result<Part<'js>, NotJson> {
        room.spend(1)?;
        let value = own_form(value)?;
        match value.type_of() {
            Type::Undefined | Type::Null | Type::Uninitialized => Ok(Part::Leaf(Value::Null)),
            Type::Bool => Ok(Part::Leaf(Value::Bool(value.as_bool().unwrap_or_default()))),
            Type::Int | Type::Float => to_number(value.as_number().unwrap_or(f64::NAN)).map(Part::Leaf),
            Type::BigInt => to_integer(value).map(Part::Leaf),
            Type::String => {
                let text = value.as_string().map(rquickjs::String::to_string).transpose()?.unwrap_or_default();
                room.spend(text.len())?;
                Ok(Part::Leaf(Value::String(text)))
            }
            Type::Symbol => Err(NotJson::Why("a symbol cannot be JSON: use its description".to_owned())),
            Type::Function | Type::Constructor => Err(NotJson::Why("a function cannot be JSON: call it".to_owned())),
            Type::Proxy => Err(NotJson::Why("a Proxy cannot be JSON: copy it into an object".to_owned())),
            _ if depth >= DEPTH => Err(NotJson::Why(too_deep())),
            _ => self.structure(&value),
        }
    }

    fn structure(&self, value: &Js<'js>) -> Result<Part<'js>, NotJson> {
        let Some(object) = value.as_object().cloned() else {
            return Err(NotJson::Why(format!("a value of type `{}` cannot be JSON", value.type_name())));
        };
        if value.is_array() {
            let length: f64 = object.get("length")?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length has 32 bits")]
            let rest = 0..length as u32;
            return Ok(Part::Structure(Structure::Items { object, rest, items: Vec::new() }));
        }
        let tag: String = self.tag.call((object.clone(),))?;
        if let Some(remedy) = remedy(&tag) {
            let name = tag.trim_start_matches("[object ").trim_end_matches(']');
            return Err(NotJson::Why(format!("a value of type `{name}` cannot be JSON: {remedy}")));
        }
        let keys: Vec<Atom> = object.own_keys(Filter::new().string().enum_only()).collect::<rquickjs::Result<_>>()?;
        let (rest, key) = (keys.into_iter(), String::new());
        Ok(Part::Structure(Structure::Fields { object, rest, key, fields: Map::new() }))
    }
}

/// What `toJSON` makes of a value. One that gives another like itself comes to an end.
fn own_form(mut value: Js<'_>) -> Result<Js<'_>, NotJson> {
    for _ in 0..DEPTH {
        let object = value.as_object().filter(|_| !value.is_proxy() && !value.is_function());
        let Some(object) = object else { return Ok(value) };
        let to_json: Js = object.get("toJSON")?;
        let Some(to_json) = to_json.as_function() else { return Ok(value) };
        value = to_json.call((This(object.clone()),))?;
    }
    Err(NotJson::Why(too_deep()))
}

enum Part<'js> {
    Leaf(Value),
    Structure(Structure<'js>),
}

/// A structure that is being walked through.
enum Structure<'js> {
    Items { object: Object<'js>, rest: Range<u32>, items: Vec<Value> },
    Fields { object: Object<'js>, rest: vec::IntoIter<Atom<'js>>, key: String, fields: Map<String, Value> },
}

impl<'js> Structure<'js> {
    /// The next value in it.
    fn next(&mut self, room: &mut Room) -> Result<Option<Js<'js>>, NotJson> {
        match self {
            Self::Items { object, rest, .. } => Ok(rest.next().map(|index| object.get(index)).transpose()?),
            Self::Fields { object, rest, key, .. } => {
                for name in rest {
                    let value: Js = object.get(name.clone())?;
                    // As everywhere in JavaScript: a field that is undefined is none.
                    if !value.is_undefined() {
                        // By way of a string, because atoms as text end at a NUL and may not even be text.
                        *key = name.to_js_string()?.to_string()?;
                        room.spend(key.len())?;
                        return Ok(Some(value));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Takes what became of the value that came last.
    fn put(&mut self, json: Value) {
        match self {
            Self::Items { items, .. } => items.push(json),
            Self::Fields { key, fields, .. } => {
                fields.insert(mem::take(key), json);
            }
        }
    }

    fn close(self) -> Value {
        match self {
            Self::Items { items, .. } => Value::Array(items),
            Self::Fields { fields, .. } => Value::Object(fields),
        }
    }
}

/// Counts what will be written, so that an endless structure ends early. The exact size is measured later.
struct Room {
    left: u64,
}

impl Room {
    fn spend(&mut self, bytes: usize) -> Result<(), NotJson> {
        self.left = self.left.checked_sub(u64::try_from(bytes).unwrap_or(u64::MAX)).ok_or(NotJson::Large)?;
        Ok(())
    }
}

fn to_number(number: f64) -> Result<Value, NotJson> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "whole, and small enough to be exact"
    )]
    let whole = (number.fract() == 0.0 && number.abs() <= EXACT as f64).then_some(number as i64);
    match whole {
        // Minus zero is a number of its own, which no integer is.
        Some(integer) if integer != 0 || number.is_sign_positive() => Ok(integer.into()),
        _ => Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| NotJson::Why(format!("`{number}` cannot be JSON: test with `Number.isFinite`"))),
    }
}

fn to_integer(value: Js<'_>) -> Result<Value, NotJson> {
    let ctx = value.ctx().clone();
    let digits = Coerced::<String>::from_js(&ctx, value)?.0;
    let number = digits.parse::<i64>().map(Value::from).or_else(|_| digits.parse::<u64>().map(Value::from));
    number.map_err(|_| NotJson::Why("a BigInt beyond 64 bits cannot be JSON: use `String`".to_owned()))
}

/// What to do about objects whose fields do not say what they hold.
fn remedy(tag: &str) -> Option<&'static str> {
    match tag {
        "[object Map]" => Some("use `Object.fromEntries`"),
        "[object Set]" => Some("use `Array.from`"),
        "[object Promise]" => Some("await it"),
        "[object Error]" => Some("use its `message`"),
        "[object RegExp]" => Some("use its `source`"),
        "[object ArrayBuffer]" | "[object DataView]" => Some("use `Array.from(new Uint8Array(…))`"),
        "[object WeakMap]" | "[object WeakSet]" | "[object WeakRef]" | "[object Generator]" => {
            Some("copy what it holds")
        }
        _ if tag.ends_with("Array]") && tag != "[object Array]" => Some("use `Array.from`"),
        _ => None,
    }
}
