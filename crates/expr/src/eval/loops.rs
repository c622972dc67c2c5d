//! `all`, `exists`, `exists_one`, `filter` and `map`: loops over a list or over the keys of a map.

use std::borrow::Cow;

use serde_json::Value;

use super::{Fault, Machine, Outcome, Val, type_name};
use crate::EvalErrorKind;
use crate::syntax::{Loop, Macro, Node};

impl<'v> Machine<'v, '_> {
    pub(super) fn looping(&mut self, at: usize, parts: &'v Loop) -> Outcome<Val<'v>> {
        let over = self.eval(&parts.over)?;
        let items = self.items(at, parts.kind, over)?;
        match parts.kind {
            Macro::All => self.decide(parts, items, false),
            Macro::Exists => self.decide(parts, items, true),
            Macro::ExistsOne => self.exactly_one(parts, items),
            Macro::Filter => self.filter(parts, items),
            Macro::Map => self.mapped(parts, items),
        }
    }

    fn items(&mut self, at: usize, kind: Macro, over: Val<'v>) -> Outcome<Vec<Val<'v>>> {
        let count = match over.as_ref() {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            other => {
                let (name, found) = (kind.name(), type_name(other));
                return Err(Fault::wrong_type(at, format!("`{name}` goes over a list or a map, not over {found}")));
            }
        };
        self.spend(at, u32::try_from(count / 8).unwrap_or(u32::MAX))?;
        Ok(match over {
            Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
            Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
            other => self.keys_of(at, &other)?,
        })
    }

    fn keys_of(&mut self, at: usize, map: &Value) -> Outcome<Vec<Val<'v>>> {
        let keys = map.as_object().into_iter().flat_map(|fields| fields.keys());
        keys.map(|key| self.made(at, key.as_str(), key.len())).collect()
    }

    /// `all` (decided by false) and `exists` (decided by true); errors weigh as in `&&` and `||`.
    fn decide(&mut self, parts: &'v Loop, items: Vec<Val<'v>>, decisive: bool) -> Outcome<Val<'v>> {
        let mut first_fault = None;
        for item in items {
            match self.within(parts, item, |machine| machine.truth(&parts.body)) {
                Ok(truth) if truth == decisive => return Ok(Cow::Owned(Value::Bool(decisive))),
                Ok(_) => {}
                Err(fault) if fault.kind == EvalErrorKind::Budget => return Err(fault),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        match first_fault {
            Some(fault) => Err(fault),
            None => Ok(Cow::Owned(Value::Bool(!decisive))),
        }
    }

    fn exactly_one(&mut self, parts: &'v Loop, items: Vec<Val<'v>>) -> Outcome<Val<'v>> {
        let mut count = 0;
        for item in items {
            let counts = self.within(parts, item, |machine| machine.truth(&parts.body))?;
            count += usize::from(counts);
        }
        Ok(Cow::Owned(Value::Bool(count == 1)))
    }

    fn filter(&mut self, parts: &'v Loop, items: Vec<Val<'v>>) -> Outcome<Val<'v>> {
        let mut kept = Vec::new();
        for item in items {
            self.locals.push((&parts.variable, item));
            let keep = self.iteration(&parts.body);
            let item = self.locals.pop();
            if let (true, Some((_, item))) = (keep?, item) {
                kept.push(self.own(parts.body.at, item)?);
            }
        }
        Ok(Cow::Owned(Value::Array(kept)))
    }

    fn mapped(&mut self, parts: &'v Loop, items: Vec<Val<'v>>) -> Outcome<Val<'v>> {
        let mut results = Vec::new();
        for item in items {
            let result = self.within(parts, item, |machine| machine.transformed(parts))?;
            results.extend(result);
        }
        Ok(Cow::Owned(Value::Array(results)))
    }

    fn transformed(&mut self, parts: &'v Loop) -> Outcome<Option<Value>> {
        if let Some(condition) = &parts.condition
            && !self.truth(condition)?
        {
            return Ok(None);
        }
        let value = self.eval(&parts.body)?;
        self.own(parts.body.at, value).map(Some)
    }

    fn iteration(&mut self, body: &'v Node) -> Outcome<bool> {
        self.spend(body.at, 1)?;
        self.truth(body)
    }

    /// Runs one iteration with the loop's variable set.
    fn within<T>(&mut self, parts: &'v Loop, item: Val<'v>, run: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        self.spend(parts.body.at, 1)?;
        self.locals.push((&parts.variable, item));
        let result = run(self);
        self.locals.pop();
        result
    }
}
