//! The data an expression sees. Everything is borrowed: making a scope copies nothing.

use serde_json::Value;

/// Names and the values behind them.
///
/// Looked up in this order: `param` and `input`, then the names given by [`with`](Scope::with)
/// (steps and the like, the latest first), then bare names: the fields of the input.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    param: &'a Value,
    input: &'a Value,
    named: Vec<(&'a str, &'a Value)>,
    bare: Vec<&'a Value>,
}

impl<'a> Scope<'a> {
    /// A scope over `input`: `param` and `input` are the whole of it, bare names are its fields.
    pub fn new(input: &'a Value) -> Self {
        Self { param: input, input, named: Vec::new(), bare: vec![input] }
    }

    /// Adds a name, such as that of a finished step.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &'a Value) -> Self {
        self.named.push((name, value));
        self
    }

    /// A scope from an object whose keys are both the names and the bare names.
    ///
    /// The object's own `input` or `param` is the input when it has one, and then lends its fields
    /// as bare names too; otherwise the whole object is.
    pub fn of_names(names: &'a Value) -> Self {
        let (param, input) = (names.get("param"), names.get("input"));
        Self {
            param: param.or(input).unwrap_or(names),
            input: input.or(param).unwrap_or(names),
            named: Vec::new(),
            bare: [Some(names), input, param].into_iter().flatten().collect(),
        }
    }

    /// The same names, and `value` under each of `names`; its fields come before all other bare names.
    pub(crate) fn over(&self, names: &[&'a str], value: &'a Value) -> Scope<'a> {
        let mut scope = self.clone();
        scope.named.extend(names.iter().map(|name| (*name, value)));
        scope.bare.insert(0, value);
        scope
    }

    /// The value of `name`.
    pub fn lookup(&self, name: &str) -> Option<&'a Value> {
        match name {
            "param" => Some(self.param),
            "input" => Some(self.input),
            _ => self.named(name).or_else(|| self.bare(name)),
        }
    }

    fn named(&self, name: &str) -> Option<&'a Value> {
        let found = self.named.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    fn bare(&self, name: &str) -> Option<&'a Value> {
        self.bare.iter().find_map(|fields| fields.get(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_found_in_the_documented_order() {
        let input = json!({"input": 1, "validate": 2, "orderId": 3});
        let step = json!({"ok": true});
        let scope = Scope::new(&input).with("validate", &step);
        assert_eq!(scope.lookup("input"), Some(&input));
        assert_eq!(scope.lookup("param"), Some(&input));
        assert_eq!(scope.lookup("validate"), Some(&step));
        assert_eq!(scope.lookup("orderId"), Some(&json!(3)));
        assert_eq!(scope.lookup("other"), None);
    }

    #[test]
    fn the_latest_of_two_equal_names_wins() {
        let (one, two, none) = (json!(1), json!(2), json!({}));
        let scope = Scope::new(&none).with("a", &one).with("a", &two);
        assert_eq!(scope.lookup("a"), Some(&two));
    }

    #[test]
    fn a_scope_of_names_finds_the_input_by_any_spelling() {
        let names = json!({"input": {"orderId": 7}, "step": {"ok": true}});
        let scope = Scope::of_names(&names);
        assert_eq!(scope.lookup("orderId"), Some(&json!(7)));
        assert_eq!(scope.lookup("param"), Some(&json!({"orderId": 7})));
        assert_eq!(scope.lookup("step"), Some(&json!({"ok": true})));

        let flat = json!({"orderId": 8});
        assert_eq!(Scope::of_names(&flat).lookup("input"), Some(&flat));
    }
}
