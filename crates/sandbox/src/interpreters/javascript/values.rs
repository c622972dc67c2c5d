//! Conversion between JSON and JavaScript values, without loss.
//!
//! Integers beyond 2^53 become BigInts, because a JavaScript number cannot represent them exactly.

use std::{mem, ops::Range, vec};

use rquickjs::{
    Array, Atom, BigInt, Coerced, Ctx, FromJs, Function, Object, Type, Value as JsValue,
    function::This,
    object::{Filter, Property},
};
use serde_json::{Map, Number, Value};

use crate::interpreters::values::{MAX_DEPTH, MAX_SAFE_INTEGER, nesting_error};

pub(super) fn from_json<'js>(ctx: &Ctx<'js>, value: &Value) -> rquickjs::Result<JsValue<'js>> {
    Ok(match value {
        Value::Null => JsValue::new_null(ctx.clone()),
        Value::Bool(bool) => JsValue::new_bool(ctx.clone(), *bool),
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
                // Defines the property instead of assigning it, because a field may have the name `__proto__`.
                let property = Property::from(from_json(ctx, field)?).writable().configurable().enumerable();
                object.prop(key.as_str(), property)?;
            }
            object.into_value()
        }
    })
}

fn from_number<'js>(ctx: &Ctx<'js>, number: &Number) -> rquickjs::Result<JsValue<'js>> {
    Ok(match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), ..) if integer.unsigned_abs() > MAX_SAFE_INTEGER => {
            BigInt::from_i64(ctx.clone(), integer)?.into_value()
        }
        (None, Some(integer), _) => BigInt::from_u64(ctx.clone(), integer)?.into_value(),
        // `new_number` would convert negative zero to the integer 0, so `new_float` is used.
        (None, None, float) => JsValue::new_float(ctx.clone(), float.unwrap_or(f64::NAN)),
        (.., float) => JsValue::new_number(ctx.clone(), float.unwrap_or(f64::NAN)),
    })
}

/// The reason why a value cannot be converted to JSON.
pub(super) enum ToJsonError {
    /// JSON cannot represent the value.
    Unsupported(String),
    /// The value exceeds the size limit.
    TooLarge,
    /// A getter, `toJSON` or similar code of the value threw an exception.
    Thrown(rquickjs::Error),
}

impl ToJsonError {
    /// Throws the error as an exception that the code may catch.
    pub(super) fn throw(self, ctx: &Ctx<'_>) -> rquickjs::Error {
        match self {
            Self::Unsupported(message) => rquickjs::Exception::throw_type(ctx, &message),
            Self::TooLarge => rquickjs::Exception::throw_range(ctx, "the value is too large"),
            Self::Thrown(error) => error,
        }
    }
}

impl From<rquickjs::Error> for ToJsonError {
    fn from(error: rquickjs::Error) -> Self {
        match error {
            rquickjs::Error::Utf8(_) => {
                Self::Unsupported("a string with a lone surrogate cannot be converted to JSON".to_owned())
            }
            error => Self::Thrown(error),
        }
    }
}

/// Converts values to JSON. The conversion calls getters, `toJSON` and other methods of the values. These run as part
/// of the code.
pub(super) struct JsonConverter<'js> {
    /// The original `Object.prototype.toString`, which returns the type of an object even if the code replaces the
    /// method later.
    tag: Function<'js>,
    limit: u64,
}

impl<'js> JsonConverter<'js> {
    pub(super) fn new(ctx: &Ctx<'js>, limit: u64) -> rquickjs::Result<Self> {
        let tag = ctx.eval("Function.prototype.call.bind(Object.prototype.toString)")?;
        Ok(Self { tag, limit })
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Converts a value to JSON. Does not recurse, because the code may have used up most of the stack.
    pub(super) fn convert(&self, value: JsValue<'js>) -> Result<Value, ToJsonError> {
        let mut size = SizeBudget { remaining: self.limit };
        let mut open: Vec<Container<'js>> = Vec::new();
        let mut node = self.node(value, open.len(), &mut size)?;
        loop {
            let complete = match node {
                Node::Container(container) => {
                    open.push(container);
                    None
                }
                Node::Leaf(json) => Some(json),
            };
            let Some(inner) = open.last_mut() else { return Ok(complete.unwrap_or_default()) };
            if let Some(json) = complete {
                inner.push(json);
            }
            node = match inner.next(&mut size)? {
                Some(value) => self.node(value, open.len(), &mut size)?,
                None => Node::Leaf(open.pop().map(Container::into_json).unwrap_or_default()),
            };
        }
    }

    /// Converts a scalar, or opens an array or object.
    fn node(&self, value: JsValue<'js>, depth: usize, size: &mut SizeBudget) -> Result<Node<'js>, ToJsonError> {
        size.spend(1)?;
        let value = apply_to_json(value)?;
        match value.type_of() {
            Type::Undefined | Type::Null | Type::Uninitialized => Ok(Node::Leaf(Value::Null)),
            Type::Bool => Ok(Node::Leaf(Value::Bool(value.as_bool().unwrap_or_default()))),
            Type::Int | Type::Float => to_number(value.as_number().unwrap_or(f64::NAN)).map(Node::Leaf),
            Type::BigInt => to_integer(value).map(Node::Leaf),
            Type::String => {
                let text = value.as_string().map(rquickjs::String::to_string).transpose()?.unwrap_or_default();
                size.spend(text.len())?;
                Ok(Node::Leaf(Value::String(text)))
            }
            Type::Symbol => {
                Err(ToJsonError::Unsupported("a symbol cannot be converted to JSON; use its description".to_owned()))
            }
            Type::Function | Type::Constructor => {
                Err(ToJsonError::Unsupported("a function cannot be converted to JSON; call it".to_owned()))
            }
            Type::Proxy => {
                Err(ToJsonError::Unsupported("a Proxy cannot be converted to JSON; copy it into an object".to_owned()))
            }
            _ if depth >= MAX_DEPTH => Err(ToJsonError::Unsupported(nesting_error())),
            _ => self.container(&value),
        }
    }

    fn container(&self, value: &JsValue<'js>) -> Result<Node<'js>, ToJsonError> {
        let Some(object) = value.as_object().cloned() else {
            return Err(ToJsonError::Unsupported(format!(
                "a value of type `{}` cannot be converted to JSON",
                value.type_name()
            )));
        };
        if value.is_array() {
            let length: f64 = object.get("length")?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an array length fits in 32 bits"
            )]
            let rest = 0..length as u32;
            return Ok(Node::Container(Container::Array { object, rest, items: Vec::new() }));
        }
        let tag: String = self.tag.call((object.clone(),))?;
        if let Some(remedy) = remedy(&tag) {
            let name = tag.trim_start_matches("[object ").trim_end_matches(']');
            return Err(ToJsonError::Unsupported(format!(
                "a value of type `{name}` cannot be converted to JSON; {remedy}"
            )));
        }
        let keys: Vec<Atom> = object.own_keys(Filter::new().string().enum_only()).collect::<rquickjs::Result<_>>()?;
        let (rest, key) = (keys.into_iter(), String::new());
        Ok(Node::Container(Container::Object { object, rest, key, fields: Map::new() }))
    }
}

/// Calls `toJSON` until the value has no such method. The number of calls is limited, because each `toJSON` may return
/// another object with a `toJSON` method.
fn apply_to_json(mut value: JsValue<'_>) -> Result<JsValue<'_>, ToJsonError> {
    for _ in 0..MAX_DEPTH {
        let object = value.as_object().filter(|_| !value.is_proxy() && !value.is_function());
        let Some(object) = object else { return Ok(value) };
        let to_json: JsValue = object.get("toJSON")?;
        let Some(to_json) = to_json.as_function() else { return Ok(value) };
        value = to_json.call((This(object.clone()),))?;
    }
    Err(ToJsonError::Unsupported(nesting_error()))
}

enum Node<'js> {
    Leaf(Value),
    Container(Container<'js>),
}

/// An array or object whose elements are being converted.
enum Container<'js> {
    Array { object: Object<'js>, rest: Range<u32>, items: Vec<Value> },
    Object { object: Object<'js>, rest: vec::IntoIter<Atom<'js>>, key: String, fields: Map<String, Value> },
}

impl<'js> Container<'js> {
    /// Returns the next element.
    fn next(&mut self, size: &mut SizeBudget) -> Result<Option<JsValue<'js>>, ToJsonError> {
        match self {
            Self::Array { object, rest, .. } => Ok(rest.next().map(|index| object.get(index)).transpose()?),
            Self::Object { object, rest, key, .. } => {
                for name in rest {
                    let value: JsValue = object.get(name.clone())?;
                    // Undefined fields are omitted, as in `JSON.stringify`.
                    if !value.is_undefined() {
                        // Converts the key through a JavaScript string. The text that QuickJS stores for a key (an
                        // atom) ends at a NUL and may be invalid.
                        *key = name.to_js_string()?.to_string()?;
                        size.spend(key.len())?;
                        return Ok(Some(value));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Adds the JSON of the element that `next` returned last.
    fn push(&mut self, json: Value) {
        match self {
            Self::Array { items, .. } => items.push(json),
            Self::Object { key, fields, .. } => {
                fields.insert(mem::take(key), json);
            }
        }
    }

    fn into_json(self) -> Value {
        match self {
            Self::Array { items, .. } => Value::Array(items),
            Self::Object { fields, .. } => Value::Object(fields),
        }
    }
}

/// The number of bytes that the output may still use. Each value counts with a lower bound of its size, so that the
/// conversion of an endless structure stops early. The exact size is measured later.
struct SizeBudget {
    remaining: u64,
}

impl SizeBudget {
    fn spend(&mut self, bytes: usize) -> Result<(), ToJsonError> {
        self.remaining =
            self.remaining.checked_sub(u64::try_from(bytes).unwrap_or(u64::MAX)).ok_or(ToJsonError::TooLarge)?;
        Ok(())
    }
}

fn to_number(number: f64) -> Result<Value, ToJsonError> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "an integer small enough to be exact"
    )]
    let integer = (number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64).then_some(number as i64);
    match integer {
        // Negative zero stays a float, because integers cannot represent it.
        Some(integer) if integer != 0 || number.is_sign_positive() => Ok(integer.into()),
        _ => Number::from_f64(number).map(Value::Number).ok_or_else(|| {
            ToJsonError::Unsupported(format!("`{number}` cannot be converted to JSON; check with `Number.isFinite`"))
        }),
    }
}

fn to_integer(value: JsValue<'_>) -> Result<Value, ToJsonError> {
    let ctx = value.ctx().clone();
    let digits = Coerced::<String>::from_js(&ctx, value)?.0;
    let number = digits.parse::<i64>().map(Value::from).or_else(|_| digits.parse::<u64>().map(Value::from));
    number.map_err(|_| {
        ToJsonError::Unsupported("a BigInt of more than 64 bits cannot be converted to JSON; use `String`".to_owned())
    })
}

/// Returns advice for objects whose properties do not represent their content, such as a `Map`.
fn remedy(tag: &str) -> Option<&'static str> {
    match tag {
        "[object Map]" => Some("use `Object.fromEntries`"),
        "[object Set]" => Some("use `Array.from`"),
        "[object Promise]" => Some("await it"),
        "[object Error]" => Some("use its `message`"),
        "[object RegExp]" => Some("use its `source`"),
        "[object ArrayBuffer]" | "[object DataView]" => Some("use `Array.from(new Uint8Array(…))`"),
        "[object WeakMap]" | "[object WeakSet]" | "[object WeakRef]" | "[object Generator]" => Some("copy its content"),
        _ if tag.ends_with("Array]") && tag != "[object Array]" => Some("use `Array.from`"),
        _ => None,
    }
}
