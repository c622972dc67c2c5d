//! JSON as JavaScript's values, and back without loss.
//!
//! Whole numbers beyond 2^53 are BigInts in the code, because a number would not be the same any more.

use rquickjs::{
    Array, BigInt, Coerced, Ctx, FromJs, Function, Object, Type, Value as Js, object::Filter, object::Property,
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

/// The value as JSON of at most so many bytes, about. Getters, `toJSON` and the like run as part of the code.
pub(super) fn to_json<'js>(ctx: &Ctx<'js>, value: Js<'js>, limit: u64) -> Result<Value, NotJson> {
    let tag: Function = ctx.eval("Object.prototype.toString.call.bind(Object.prototype.toString)")?;
    Walk { tag, left: limit }.convert(value, DEPTH)
}

struct Walk<'js> {
    tag: Function<'js>,
    left: u64,
}

impl<'js> Walk<'js> {
    fn convert(&mut self, value: Js<'js>, levels: usize) -> Result<Value, NotJson> {
        self.spend(1)?;
        match value.type_of() {
            Type::Undefined | Type::Null | Type::Uninitialized => Ok(Value::Null),
            Type::Bool => Ok(Value::Bool(value.as_bool().unwrap_or_default())),
            Type::Int | Type::Float => to_number(value.as_number().unwrap_or(f64::NAN)),
            Type::BigInt => to_integer(value),
            Type::String => self.text(&value).map(Value::String),
            Type::Symbol => Err(NotJson::Why("a symbol cannot be JSON: use its description".to_owned())),
            Type::Function | Type::Constructor => Err(NotJson::Why("a function cannot be JSON: call it".to_owned())),
            Type::Proxy => Err(NotJson::Why("a Proxy cannot be JSON: copy it into an object".to_owned())),
            _ => self.structure(value, levels),
        }
    }

    fn structure(&mut self, value: Js<'js>, levels: usize) -> Result<Value, NotJson> {
        let levels = levels.checked_sub(1).ok_or_else(|| NotJson::Why(too_deep()))?;
        if let Some(array) = value.as_array() {
            return (0..array.len()).map(|index| self.convert(array.get(index)?, levels)).collect();
        }
        let Some(object) = value.as_object() else {
            return Err(NotJson::Why(format!("a value of type `{}` cannot be JSON", value.type_name())));
        };
        if let Some(own) = object.get::<_, Js>("toJSON")?.as_function() {
            return self.convert(own.call((rquickjs::function::This(object.clone()),))?, levels);
        }
        let tag: String = self.tag.call((object.clone(),))?;
        if let Some(remedy) = remedy(&tag) {
            let name = tag.trim_start_matches("[object ").trim_end_matches(']');
            return Err(NotJson::Why(format!("a value of type `{name}` cannot be JSON: {remedy}")));
        }
        self.fields(object, levels)
    }

    fn fields(&mut self, object: &Object<'js>, levels: usize) -> Result<Value, NotJson> {
        let mut fields = Map::new();
        for key in object.own_keys::<String>(Filter::new().string().enum_only()) {
            let key = key?;
            let value: Js = object.get(key.as_str())?;
            // As everywhere in JavaScript: a field that is undefined is none.
            if !value.is_undefined() {
                self.spend(key.len())?;
                fields.insert(key, self.convert(value, levels)?);
            }
        }
        Ok(Value::Object(fields))
    }

    fn text(&mut self, value: &Js<'js>) -> Result<String, NotJson> {
        let text = value.as_string().map(rquickjs::String::to_string).transpose()?.unwrap_or_default();
        self.spend(text.len())?;
        Ok(text)
    }

    /// Counts what will be written, so that an endless structure ends early. The exact size is measured later.
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
