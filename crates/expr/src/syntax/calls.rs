//! Parses calls to functions, to `has` and to comprehension macros.

use serde_json::Value;

use super::functions::{self, Style};
use super::parser::{node, path};
use super::tokens::ParseResult;
use super::{Comprehension, Function, Macro, Node, NodeKind, PathSegment, SyntaxError};

pub(super) fn global(offset: usize, name: &str, args: Vec<Node>) -> ParseResult {
    if name == "has" {
        return has(offset, args);
    }
    let function = functions::resolve(offset, name, Style::Global, args.len())?;
    call(offset, function, args)
}

pub(super) fn method(offset: usize, name: &str, target: Node, mut args: Vec<Node>) -> ParseResult {
    let kind = match name {
        "all" => Macro::All,
        "exists" => Macro::Exists,
        "exists_one" | "existsOne" => Macro::ExistsOne,
        "filter" => Macro::Filter,
        "map" => Macro::Map,
        _ => {
            args.insert(0, target);
            let function = functions::resolve(offset, name, Style::Method, args.len())?;
            return call(offset, function, args);
        }
    };
    comprehension(offset, kind, target, args)
}

/// Builds the node of a call. Compiles a literal pattern of `matches`, so that an invalid pattern is a parse error.
fn call(offset: usize, function: Function, mut args: Vec<Node>) -> ParseResult {
    match (function, args.pop(), args.pop()) {
        (Function::Matches, Some(pattern), Some(text)) => matches(offset, text, pattern),
        // In CEL, `dyn` turns off static type checks. There are none here, so `dyn(value)` is `value`.
        (Function::Dyn, Some(value), None) => Ok(value),
        (_, last, before) => {
            args.extend(before.into_iter().chain(last));
            node(offset, NodeKind::Call { function, args })
        }
    }
}

fn matches(offset: usize, text: Node, pattern: Node) -> ParseResult {
    let NodeKind::Literal(Value::String(literal)) = &pattern.kind else {
        let (function, args) = (Function::Matches, vec![text, pattern]);
        return node(offset, NodeKind::Call { function, args });
    };
    let compiled = crate::pattern::compile(literal);
    let compiled = compiled.map_err(|message| SyntaxError::new(pattern.offset, message))?;
    let (text, pattern) = (Box::new(text), Box::new(compiled));
    node(offset, NodeKind::Matches { text, pattern })
}

fn has(offset: usize, mut args: Vec<Node>) -> ParseResult {
    let message = "`has` takes one field, as in `has(param.name)`";
    let error = || SyntaxError::new(offset, message);
    let (Some(operand), true) = (args.pop(), args.is_empty()) else {
        return Err(error());
    };
    let NodeKind::Path { root, mut segments } = operand.kind else {
        return Err(error());
    };
    let Some(PathSegment::Field(field)) = segments.pop() else {
        return Err(error());
    };
    let operand = Box::new(path(*root, segments)?);
    node(offset, NodeKind::Has { operand, field })
}

fn comprehension(offset: usize, kind: Macro, iterable: Node, args: Vec<Node>) -> ParseResult {
    let mut args = args.into_iter();
    let parts = (args.next(), args.next(), args.next(), args.next());
    let (variable, condition, body) = match (kind, parts) {
        (_, (Some(variable), Some(body), None, None)) => (variable, None, body),
        (Macro::Map, (Some(variable), condition, Some(body), None)) => (variable, condition, body),
        _ => return Err(wrong_arguments(offset, kind.name())),
    };
    let NodeKind::Ident(variable) = variable.kind else {
        let message =
            format!("the first argument of `{}` must be a variable name, as in `list.{0}(x, …)`", kind.name());
        return Err(SyntaxError::new(variable.offset, message));
    };
    node(offset, NodeKind::Comprehension(Box::new(Comprehension { kind, iterable, variable, condition, body })))
}

fn wrong_arguments(offset: usize, name: &str) -> SyntaxError {
    SyntaxError::new(offset, format!("`{name}` takes a variable name and an expression, as in `list.{name}(x, x.ok)`"))
}
