//! Text with holes.

use std::borrow::Cow;

use serde_json::Value;

use super::scan::{self, Hole, Part, PartKind};
use crate::escape::{self, Refused};
use crate::eval::Session;
use crate::limits::Limits;
use crate::{EvalError, EvalErrorKind, Evaluated, Expression, ParseError, Scope};

/// Text in which `${…}` stands for the value of an expression, and `$${` for the characters `${`.
///
/// ```
/// use serde_json::json;
/// use toolwright_expr::{Scope, Template, escape};
///
/// let template = Template::parse("/orders/${orderId}/items")?;
/// let input = json!({"orderId": "a/b"});
/// let path = template.render(&Scope::new(&input), escape::path_segment).unwrap();
/// assert_eq!(path.text, "/orders/a%2Fb/items");
/// # Ok::<(), toolwright_expr::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Template {
    parts: Vec<Part>,
}

/// A rendered text, and what was odd on the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Paths that were missing and taken as null, and the like.
    pub warnings: Vec<String>,
}

impl Template {
    /// Parses a text and the expressions in it.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let parts = scan::split(source)?;
        Ok(Self { parts })
    }

    /// Whether there is no expression in it.
    pub fn is_literal(&self) -> bool {
        self.literal().is_some()
    }

    /// The text itself, when there is no expression in it.
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part { kind: PartKind::Text(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// The expression, when it is the whole text.
    pub fn single(&self) -> Option<&Expression> {
        self.only_hole().map(|hole| &hole.expression)
    }

    /// The expressions, from left to right.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match &part.kind {
            PartKind::Text(_) => None,
            PartKind::Hole(hole) => Some(&hole.expression),
        })
    }

    /// Renders the text; `escape` says how a value is written in it (see [`escape`](crate::escape)).
    pub fn render(
        &self,
        scope: &Scope<'_>,
        escape: impl Fn(&Value) -> Result<String, Refused>,
    ) -> Result<Rendered, EvalError> {
        self.render_within(scope, Limits::default(), escape)
    }

    /// [`render`](Template::render) within `limits`.
    pub fn render_within(
        &self,
        scope: &Scope<'_>,
        limits: Limits,
        escape: impl Fn(&Value) -> Result<String, Refused>,
    ) -> Result<Rendered, EvalError> {
        let mut session = Session::new(limits);
        let text = self.run(scope, &mut session, |_, value| escape(value))?;
        Ok(Rendered { text, warnings: session.into_warnings() })
    }

    /// The value of the template: that of its expression when this is the whole text, else a string.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Evaluated, EvalError> {
        let mut session = Session::new(Limits::default());
        let value = self.value(scope, &mut session)?.into_owned();
        Ok(Evaluated { value, warnings: session.into_warnings() })
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn value<'v>(&'v self, scope: &Scope<'v>, session: &mut Session) -> Result<Cow<'v, Value>, EvalError> {
        if let Some(hole) = self.only_hole() {
            return hole.run(scope, session);
        }
        let text = self.run(scope, session, |_, value| escape::text(value))?;
        Ok(Cow::Owned(Value::String(text)))
    }

    /// Renders with an escape that is told which part it writes.
    pub(super) fn run(
        &self,
        scope: &Scope<'_>,
        session: &mut Session,
        escape: impl Fn(usize, &Value) -> Result<String, Refused>,
    ) -> Result<String, EvalError> {
        let mut text = String::new();
        for (index, part) in self.parts.iter().enumerate() {
            match &part.kind {
                PartKind::Text(literal) => text.push_str(literal),
                PartKind::Hole(hole) => {
                    let value = hole.run(scope, session)?;
                    let written = escape(index, &value).map_err(|refused| hole.refused(&refused))?;
                    hole.count(written.len(), session)?;
                    text.push_str(&written);
                }
            }
        }
        Ok(text)
    }

    fn only_hole(&self) -> Option<&Hole> {
        match self.parts.as_slice() {
            [Part { kind: PartKind::Hole(hole), .. }] => Some(hole),
            _ => None,
        }
    }
}

impl Hole {
    fn run<'v>(&'v self, scope: &Scope<'v>, session: &mut Session) -> Result<Cow<'v, Value>, EvalError> {
        let value = self.expression.run(scope, session);
        value.map_err(|error| error.moved(self.start))
    }

    fn refused(&self, refused: &Refused) -> EvalError {
        let message = format!("`${{{}}}`: {refused}", self.expression.source());
        EvalError::new(EvalErrorKind::Refused, message, self.start)
    }

    fn count(&self, bytes: usize, session: &mut Session) -> Result<(), EvalError> {
        let counted = session.meter.produce(bytes);
        counted.map_err(|spent| EvalError::new(EvalErrorKind::Budget, spent.0, self.start))
    }
}
