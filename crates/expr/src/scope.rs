//! The names that an expression can use, and their values. A scope borrows the values and does not copy them.

use serde_json::Value;

/// Names and their values.
///
/// A name is looked up in this order: `param` and `input`; the names added by [`with`](Scope::with), latest first; the
/// fields of the input, which can be used without a prefix (bare names).
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    param: &'a Value,
    input: &'a Value,
    named: Vec<(&'a str, &'a Value)>,
    bare: Vec<&'a Value>,
}

impl<'a> Scope<'a> {
    /// Creates a scope for an input. The names `param` and `input` refer to the whole input, and its fields are bare
    /// names.
    pub fn new(input: &'a Value) -> Self {
        Self { param: input, input, named: Vec::new(), bare: vec![input] }
    }

    /// Adds a name.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: &'a Value) -> Self {
        self.named.push((name, value));
        self
    }

    /// Creates a scope from an object whose keys are the names.
    ///
    /// If the object has a key `input` or `param`, the value of this key is the input, and the fields of the input are
    /// bare names. Otherwise the whole object is the input.
    pub fn from_names(names: &'a Value) -> Self {
        let (param, input) = (names.get("param"), names.get("input"));
        Self {
            param: param.or(input).unwrap_or(names),
            input: input.or(param).unwrap_or(names),
            named: Vec::new(),
            bare: [Some(names), input, param].into_iter().flatten().collect(),
        }
    }

    /// Returns a copy of the scope in which each of `names` refers to `value`. The fields of `value` are bare names too
    /// and are looked up before all other bare names.
    pub(crate) fn with_value(&self, names: &[&'a str], value: &'a Value) -> Scope<'a> {
        let mut scope = self.clone();
        scope.named.extend(names.iter().map(|name| (*name, value)));
        scope.bare.insert(0, value);
        scope
    }

    /// Returns the value of `name`.
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
    fn added_name_hides_the_input_field_of_the_same_name() {
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
    fn name_added_twice_has_the_later_value() {
        let (one, two, none) = (json!(1), json!(2), json!({}));
        let scope = Scope::new(&none).with("a", &one).with("a", &two);
        assert_eq!(scope.lookup("a"), Some(&two));
    }

    #[test]
    fn scope_from_an_object_uses_its_input_key_or_the_whole_object_as_input() {
        let names = json!({"input": {"orderId": 7}, "step": {"ok": true}});
        let scope = Scope::from_names(&names);
        assert_eq!(scope.lookup("orderId"), Some(&json!(7)));
        assert_eq!(scope.lookup("param"), Some(&json!({"orderId": 7})));
        assert_eq!(scope.lookup("step"), Some(&json!({"ok": true})));

        let flat = json!({"orderId": 8});
        assert_eq!(Scope::from_names(&flat).lookup("input"), Some(&flat));
    }
}
