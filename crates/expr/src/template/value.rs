//! JSON values whose strings are templates.

use serde_json::{Map, Value};

use super::text::Template;
use crate::escape;
use crate::eval::EvalContext;
use crate::limits::EvalLimits;
use crate::{EvalError, Evaluation, Expression, ParseError, Position, Scope};

/// The maximum nesting depth of a template.
const MAX_DEPTH: usize = 128;

/// A JSON value in which every string, including keys, is a [`Template`].
///
/// A string that consists of one expression is replaced by the value of the expression, with its type. Parts without
/// expressions are copied unchanged.
#[derive(Debug, Clone)]
pub struct ValueTemplate {
    root: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Literal(Value),
    Text(Template),
    List(Vec<Node>),
    Object(Vec<(Template, Node)>),
}

impl ValueTemplate {
    /// Compiles a template. An error contains the JSON pointer of the invalid value.
    pub fn compile(value: &Value) -> Result<Self, ParseError> {
        let mut pointer = Pointer::default();
        let root = compile(value, &mut pointer)?;
        Ok(Self { root })
    }

    /// Whether the template contains no expression.
    pub fn is_literal(&self) -> bool {
        matches!(self.root, Node::Literal(_))
    }

    /// Returns the expressions of all strings, in the order of the document.
    pub fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        collect_expressions(&self.root, &mut found);
        found
    }

    /// Renders the value. All its expressions together must stay within the default [`EvalLimits`].
    pub fn render(&self, scope: &Scope<'_>) -> Result<Evaluation, EvalError> {
        self.render_within(scope, EvalLimits::default())
    }

    /// Like [`render`](ValueTemplate::render), but within `limits`.
    pub fn render_within(&self, scope: &Scope<'_>, limits: EvalLimits) -> Result<Evaluation, EvalError> {
        let mut context = EvalContext::new(limits);
        let value = render(&self.root, scope, &mut context, &mut Pointer::default())?;
        Ok(Evaluation { value, warnings: context.into_warnings() })
    }
}

fn collect_expressions<'t>(node: &'t Node, found: &mut Vec<&'t Expression>) {
    match node {
        Node::Literal(_) => {}
        Node::Text(template) => found.extend(template.expressions()),
        Node::List(nodes) => nodes.iter().for_each(|node| collect_expressions(node, found)),
        Node::Object(entries) => {
            for (key, node) in entries {
                found.extend(key.expressions());
                collect_expressions(node, found);
            }
        }
    }
}

fn compile(value: &Value, pointer: &mut Pointer) -> Result<Node, ParseError> {
    if pointer.depth() > MAX_DEPTH {
        let message = format!("the template must be at most {MAX_DEPTH} levels deep; make it flatter");
        return Err(ParseError::new(message, Position::START).with_pointer(&pointer.text()));
    }
    match value {
        Value::String(text) => compile_string(text, pointer),
        Value::Array(items) => compile_list(items, pointer),
        Value::Object(fields) => compile_object(fields, pointer),
        other => Ok(Node::Literal(other.clone())),
    }
}

fn compile_string(text: &str, pointer: &Pointer) -> Result<Node, ParseError> {
    let template = Template::parse(text).map_err(|error| error.with_pointer(&pointer.text()))?;
    Ok(match template.literal() {
        Some(literal) => Node::Literal(Value::from(literal)),
        None => Node::Text(template),
    })
}

fn compile_list(items: &[Value], pointer: &mut Pointer) -> Result<Node, ParseError> {
    let mut nodes = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        nodes.push(pointer.with_segment(&index.to_string(), |pointer| compile(item, pointer))?);
    }
    let literals: Option<Vec<Value>> = nodes.iter().map(literal).collect();
    Ok(literals.map_or_else(|| Node::List(nodes), |items| Node::Literal(Value::Array(items))))
}

fn compile_object(fields: &Map<String, Value>, pointer: &mut Pointer) -> Result<Node, ParseError> {
    let mut entries = Vec::with_capacity(fields.len());
    for (key, field) in fields {
        let entry = pointer.with_segment(key, |pointer| {
            let key = Template::parse(key).map_err(|error| error.with_pointer(&pointer.text()))?;
            Ok((key, compile(field, pointer)?))
        })?;
        entries.push(entry);
    }
    let literals: Option<Map<String, Value>> =
        entries.iter().map(|(key, node)| Some((key.literal()?.to_owned(), literal(node)?))).collect();
    Ok(literals.map_or_else(|| Node::Object(entries), |map| Node::Literal(Value::Object(map))))
}

fn literal(node: &Node) -> Option<Value> {
    match node {
        Node::Literal(value) => Some(value.clone()),
        _ => None,
    }
}

fn render(
    node: &Node,
    scope: &Scope<'_>,
    context: &mut EvalContext,
    pointer: &mut Pointer,
) -> Result<Value, EvalError> {
    match node {
        Node::Literal(value) => Ok(value.clone()),
        Node::Text(template) => {
            let value = template.value(scope, context);
            Ok(value.map_err(|error| error.with_pointer(&pointer.text()))?.into_owned())
        }
        Node::List(nodes) => {
            let mut items = Vec::with_capacity(nodes.len());
            for (index, node) in nodes.iter().enumerate() {
                let item = |pointer: &mut Pointer| render(node, scope, context, pointer);
                items.push(pointer.with_segment(&index.to_string(), item)?);
            }
            Ok(Value::Array(items))
        }
        Node::Object(entries) => render_object(entries, scope, context, pointer),
    }
}

fn render_object(
    entries: &[(Template, Node)],
    scope: &Scope<'_>,
    context: &mut EvalContext,
    pointer: &mut Pointer,
) -> Result<Value, EvalError> {
    let mut fields = Map::with_capacity(entries.len());
    for (key, node) in entries {
        let name = key
            .render_in(scope, context, |_, value| escape::text(value))
            .map_err(|error| error.with_pointer(&pointer.text()))?;
        let field = |pointer: &mut Pointer| render(node, scope, context, pointer);
        let field = pointer.with_segment(&name, field)?;
        if fields.contains_key(&name) {
            context.warn(format!("two keys render to `{name}`; using the later one"));
        }
        fields.insert(name, field);
    }
    Ok(Value::Object(fields))
}

/// A JSON pointer to the current value (RFC 6901).
#[derive(Debug, Default)]
struct Pointer {
    segments: Vec<String>,
}

impl Pointer {
    fn with_segment<T>(&mut self, segment: &str, f: impl FnOnce(&mut Self) -> T) -> T {
        self.segments.push(segment.to_owned());
        let result = f(self);
        self.segments.pop();
        result
    }

    fn depth(&self) -> usize {
        self.segments.len()
    }

    fn text(&self) -> String {
        let escaped = self.segments.iter().map(|segment| segment.replace('~', "~0").replace('/', "~1"));
        escaped.map(|segment| format!("/{segment}")).collect()
    }
}
