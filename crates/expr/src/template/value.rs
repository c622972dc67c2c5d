//! JSON whose strings are templates.

use serde_json::{Map, Value};

use super::text::Template;
use crate::escape;
use crate::eval::Session;
use crate::limits::Limits;
use crate::{EvalError, Evaluated, ParseError, Position, Scope};

/// Deepest object template.
const MAX_DEPTH: usize = 128;

/// A JSON value in which every string, keys included, is a [`Template`].
///
/// A string that is exactly one expression becomes that expression's value, whatever its type.
/// Parts without expressions are kept as they are and not rendered again.
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
    /// Compiles a template; errors name the JSON pointer of the string.
    pub fn compile(value: &Value) -> Result<Self, ParseError> {
        let mut pointer = Pointer::default();
        let root = compile(value, &mut pointer)?;
        Ok(Self { root })
    }

    /// Whether there is no expression in it.
    pub fn is_literal(&self) -> bool {
        matches!(self.root, Node::Literal(_))
    }

    /// Renders the value within the default [`Limits`], shared by all its expressions.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Evaluated, EvalError> {
        self.render_within(scope, Limits::default())
    }

    /// [`render`](ValueTemplate::render) within `limits`.
    pub fn render_within(&self, scope: &Scope<'_>, limits: Limits) -> Result<Evaluated, EvalError> {
        let mut session = Session::new(limits);
        let value = render(&self.root, scope, &mut session, &mut Pointer::default())?;
        Ok(Evaluated { value, warnings: session.into_warnings() })
    }
}

fn compile(value: &Value, pointer: &mut Pointer) -> Result<Node, ParseError> {
    if pointer.depth() > MAX_DEPTH {
        let message = format!("the template is more than {MAX_DEPTH} levels deep; make it flatter");
        return Err(ParseError::new(message, Position::START).inside(&pointer.text()));
    }
    match value {
        Value::String(text) => string(text, pointer),
        Value::Array(items) => list(items, pointer),
        Value::Object(fields) => object(fields, pointer),
        other => Ok(Node::Literal(other.clone())),
    }
}

fn string(text: &str, pointer: &Pointer) -> Result<Node, ParseError> {
    let template = Template::parse(text).map_err(|error| error.inside(&pointer.text()))?;
    Ok(match template.literal() {
        Some(literal) => Node::Literal(Value::from(literal)),
        None => Node::Text(template),
    })
}

fn list(items: &[Value], pointer: &mut Pointer) -> Result<Node, ParseError> {
    let mut nodes = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        nodes.push(pointer.within(&index.to_string(), |pointer| compile(item, pointer))?);
    }
    let literals: Option<Vec<Value>> = nodes.iter().map(literal).collect();
    Ok(literals.map_or_else(|| Node::List(nodes), |items| Node::Literal(Value::Array(items))))
}

fn object(fields: &Map<String, Value>, pointer: &mut Pointer) -> Result<Node, ParseError> {
    let mut entries = Vec::with_capacity(fields.len());
    for (key, field) in fields {
        let entry = pointer.within(key, |pointer| {
            let key = Template::parse(key).map_err(|error| error.inside(&pointer.text()))?;
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

fn render(node: &Node, scope: &Scope<'_>, session: &mut Session, pointer: &mut Pointer) -> Result<Value, EvalError> {
    match node {
        Node::Literal(value) => Ok(value.clone()),
        Node::Text(template) => {
            let value = template.value(scope, session);
            Ok(value.map_err(|error| error.inside(&pointer.text()))?.into_owned())
        }
        Node::List(nodes) => {
            let mut items = Vec::with_capacity(nodes.len());
            for (index, node) in nodes.iter().enumerate() {
                let item = |pointer: &mut Pointer| render(node, scope, session, pointer);
                items.push(pointer.within(&index.to_string(), item)?);
            }
            Ok(Value::Array(items))
        }
        Node::Object(entries) => render_object(entries, scope, session, pointer),
    }
}

fn render_object(
    entries: &[(Template, Node)],
    scope: &Scope<'_>,
    session: &mut Session,
    pointer: &mut Pointer,
) -> Result<Value, EvalError> {
    let mut fields = Map::with_capacity(entries.len());
    for (key, node) in entries {
        let name =
            key.run(scope, session, |_, value| escape::text(value)).map_err(|error| error.inside(&pointer.text()))?;
        let field = |pointer: &mut Pointer| render(node, scope, session, pointer);
        let field = pointer.within(&name, field)?;
        if fields.contains_key(&name) {
            session.warn(format!("two keys became `{name}`; the later one was kept"));
        }
        fields.insert(name, field);
    }
    Ok(Value::Object(fields))
}

/// The way from the root to the current value (RFC 6901).
#[derive(Debug, Default)]
struct Pointer {
    steps: Vec<String>,
}

impl Pointer {
    fn within<T>(&mut self, step: &str, run: impl FnOnce(&mut Self) -> T) -> T {
        self.steps.push(step.to_owned());
        let result = run(self);
        self.steps.pop();
        result
    }

    fn depth(&self) -> usize {
        self.steps.len()
    }

    fn text(&self) -> String {
        let escaped = self.steps.iter().map(|step| step.replace('~', "~0").replace('/', "~1"));
        escaped.map(|step| format!("/{step}")).collect()
    }
}
