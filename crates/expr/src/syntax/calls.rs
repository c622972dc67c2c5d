//! Calls: functions, `has` and the loops.

use serde_json::Value;

use super::cursor::Parsed;
use super::functions::{self, Style};
use super::parser::{node, path};
use super::{Function, Kind, Loop, Macro, Node, Step, SyntaxError};

pub(super) fn global(at: usize, name: &str, args: Vec<Node>) -> Parsed {
    if name == "has" {
        return has(at, args);
    }
    let function = functions::resolve(at, name, Style::Global, args.len())?;
    call(at, function, args)
}

pub(super) fn method(at: usize, name: &str, target: Node, mut args: Vec<Node>) -> Parsed {
    let kind = match name {
        "all" => Macro::All,
        "exists" => Macro::Exists,
        "exists_one" | "existsOne" => Macro::ExistsOne,
        "filter" => Macro::Filter,
        "map" => Macro::Map,
        _ => {
            args.insert(0, target);
            let function = functions::resolve(at, name, Style::Method, args.len())?;
            return call(at, function, args);
        }
    };
    looping(at, kind, target, args)
}

/// A call; a literal pattern of `matches` is compiled now, so that a wrong one fails now.
fn call(at: usize, function: Function, mut args: Vec<Node>) -> Parsed {
    match (function, args.pop(), args.pop()) {
        (Function::Matches, Some(pattern), Some(text)) => matches(at, text, pattern),
        // Values have no static type here, so that there is nothing to forget.
        (Function::Dyn, Some(value), None) => Ok(value),
        (_, last, before) => {
            args.extend(before.into_iter().chain(last));
            node(at, Kind::Call { function, args })
        }
    }
}

fn matches(at: usize, text: Node, pattern: Node) -> Parsed {
    let Kind::Literal(Value::String(literal)) = &pattern.kind else {
        let (function, args) = (Function::Matches, vec![text, pattern]);
        return node(at, Kind::Call { function, args });
    };
    let compiled = crate::pattern::compile(literal);
    let compiled = compiled.map_err(|message| SyntaxError::new(pattern.at, message))?;
    let (text, pattern) = (Box::new(text), Box::new(compiled));
    node(at, Kind::Matches { text, pattern })
}

fn has(at: usize, mut args: Vec<Node>) -> Parsed {
    let message = "`has` takes one field, as in `has(param.name)`";
    let wrong = || SyntaxError::new(at, message);
    let (Some(of), true) = (args.pop(), args.is_empty()) else {
        return Err(wrong());
    };
    let Kind::Path { root, mut steps } = of.kind else {
        return Err(wrong());
    };
    let Some(Step::Field(field)) = steps.pop() else {
        return Err(wrong());
    };
    let of = Box::new(path(*root, steps)?);
    node(at, Kind::Has { of, field })
}

fn looping(at: usize, kind: Macro, over: Node, args: Vec<Node>) -> Parsed {
    let mut args = args.into_iter();
    let parts = (args.next(), args.next(), args.next(), args.next());
    let (variable, condition, body) = match (kind, parts) {
        (_, (Some(variable), Some(body), None, None)) => (variable, None, body),
        (Macro::Map, (Some(variable), condition, Some(body), None)) => (variable, condition, body),
        _ => return Err(wrong_loop(at, kind.name())),
    };
    let Kind::Name(variable) = variable.kind else {
        let message = format!("the first argument of `{}` is a new name, as in `list.{0}(x, …)`", kind.name());
        return Err(SyntaxError::new(variable.at, message));
    };
    node(at, Kind::Loop(Box::new(Loop { kind, over, variable, condition, body })))
}

fn wrong_loop(at: usize, name: &str) -> SyntaxError {
    SyntaxError::new(at, format!("`{name}` takes a name and an expression, as in `list.{name}(x, x.ok)`"))
}
