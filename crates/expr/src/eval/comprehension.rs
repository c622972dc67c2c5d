//! Evaluates the macros `all`, `exists`, `exists_one`, `filter` and `map` over the items of a list or the keys of a
//! map.

use std::borrow::Cow;

use serde_json::Value;

use super::{CowValue, EvalResult, Evaluator, RuntimeError, type_name};
use crate::EvalErrorKind;
use crate::syntax::{Comprehension, Macro, Node};

impl<'v> Evaluator<'v, '_> {
    pub(super) fn comprehension(
        &mut self,
        offset: usize,
        comprehension: &'v Comprehension,
    ) -> EvalResult<CowValue<'v>> {
        let iterable = self.eval(&comprehension.iterable)?;
        let items = self.items(offset, comprehension.kind, iterable)?;
        match comprehension.kind {
            Macro::All => self.quantify(comprehension, items, false),
            Macro::Exists => self.quantify(comprehension, items, true),
            Macro::ExistsOne => self.exists_one(comprehension, items),
            Macro::Filter => self.filter(comprehension, items),
            Macro::Map => self.map_items(comprehension, items),
        }
    }

    fn items(&mut self, offset: usize, kind: Macro, iterable: CowValue<'v>) -> EvalResult<Vec<CowValue<'v>>> {
        let count = match iterable.as_ref() {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            other => {
                let (name, found) = (kind.name(), type_name(other));
                return Err(RuntimeError::wrong_type(offset, format!("`{name}` takes a list or a map, got {found}")));
            }
        };
        self.charge(offset, u32::try_from(count / 8).unwrap_or(u32::MAX))?;
        Ok(match iterable {
            Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
            Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
            other => self.keys_of(offset, &other)?,
        })
    }

    fn keys_of(&mut self, offset: usize, map: &Value) -> EvalResult<Vec<CowValue<'v>>> {
        let keys = map.as_object().into_iter().flat_map(|fields| fields.keys());
        keys.map(|key| self.new_value(offset, key.as_str(), key.len())).collect()
    }

    /// Evaluates `all` and `exists`. One false item decides `all`, and one true item decides `exists`. If an item
    /// decides the result, errors of other items are ignored, as with `&&` and `||`.
    fn quantify(
        &mut self,
        comprehension: &'v Comprehension,
        items: Vec<CowValue<'v>>,
        decisive: bool,
    ) -> EvalResult<CowValue<'v>> {
        let mut first_error = None;
        for item in items {
            match self.with_variable(comprehension, item, |evaluator| evaluator.eval_bool(&comprehension.body)) {
                Ok(result) if result == decisive => return Ok(Cow::Owned(Value::Bool(decisive))),
                Ok(_) => {}
                Err(error) if error.kind == EvalErrorKind::Budget => return Err(error),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(Cow::Owned(Value::Bool(!decisive))),
        }
    }

    fn exists_one(&mut self, comprehension: &'v Comprehension, items: Vec<CowValue<'v>>) -> EvalResult<CowValue<'v>> {
        let mut count = 0;
        for item in items {
            let holds =
                self.with_variable(comprehension, item, |evaluator| evaluator.eval_bool(&comprehension.body))?;
            count += usize::from(holds);
        }
        Ok(Cow::Owned(Value::Bool(count == 1)))
    }

    fn filter(&mut self, comprehension: &'v Comprehension, items: Vec<CowValue<'v>>) -> EvalResult<CowValue<'v>> {
        let mut kept = Vec::new();
        for item in items {
            self.locals.push((&comprehension.variable, item));
            let keep = self.eval_iteration(&comprehension.body);
            let item = self.locals.pop();
            if let (true, Some((_, item))) = (keep?, item) {
                kept.push(self.owned_value(comprehension.body.offset, item)?);
            }
        }
        Ok(Cow::Owned(Value::Array(kept)))
    }

    fn map_items(&mut self, comprehension: &'v Comprehension, items: Vec<CowValue<'v>>) -> EvalResult<CowValue<'v>> {
        let mut results = Vec::new();
        for item in items {
            let result = self.with_variable(comprehension, item, |evaluator| evaluator.map_item(comprehension))?;
            results.extend(result);
        }
        Ok(Cow::Owned(Value::Array(results)))
    }

    fn map_item(&mut self, comprehension: &'v Comprehension) -> EvalResult<Option<Value>> {
        if let Some(condition) = &comprehension.condition
            && !self.eval_bool(condition)?
        {
            return Ok(None);
        }
        let value = self.eval(&comprehension.body)?;
        self.owned_value(comprehension.body.offset, value).map(Some)
    }

    fn eval_iteration(&mut self, body: &'v Node) -> EvalResult<bool> {
        self.charge(body.offset, 1)?;
        self.eval_bool(body)
    }

    /// Evaluates one iteration with the variable bound to `item`.
    fn with_variable<T>(
        &mut self,
        comprehension: &'v Comprehension,
        item: CowValue<'v>,
        evaluate: impl FnOnce(&mut Self) -> EvalResult<T>,
    ) -> EvalResult<T> {
        self.charge(comprehension.body.offset, 1)?;
        self.locals.push((&comprehension.variable, item));
        let result = evaluate(self);
        self.locals.pop();
        result
    }
}
