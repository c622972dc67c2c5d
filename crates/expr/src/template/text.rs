//! Templates for text.

use std::borrow::Cow;

use serde_json::Value;

use super::scan::{self, Placeholder, Segment, SegmentKind};
use crate::escape::{self, EscapeError};
use crate::eval::EvalContext;
use crate::limits::EvalLimits;
use crate::{EvalError, EvalErrorKind, Evaluation, Expression, ParseError, Scope};

/// Text in which `${…}` is replaced by the value of an expression, and `$${` by the characters `${`.
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
    segments: Vec<Segment>,
}

/// The result of rendering a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedText {
    /// The text.
    pub text: String,
    /// Warnings, for example about missing paths.
    pub warnings: Vec<String>,
}

impl Template {
    /// Parses a text and the expressions in it.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let segments = scan::split(source)?;
        Ok(Self { segments })
    }

    /// Whether the template contains no expression.
    pub fn is_literal(&self) -> bool {
        self.literal().is_some()
    }

    /// Returns the text if the template contains no expression.
    pub fn literal(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [] => Some(""),
            [Segment { kind: SegmentKind::Text(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// Returns the expression if it is the whole text.
    pub fn single(&self) -> Option<&Expression> {
        self.only_placeholder().map(|placeholder| &placeholder.expression)
    }

    /// Returns the expressions from left to right.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.segments.iter().filter_map(|segment| match &segment.kind {
            SegmentKind::Text(_) => None,
            SegmentKind::Placeholder(placeholder) => Some(&placeholder.expression),
        })
    }

    /// Renders the text. `escape` converts each value to text (see [`escape`](crate::escape)).
    pub fn render(
        &self,
        scope: &Scope<'_>,
        escape: impl Fn(&Value) -> Result<String, EscapeError>,
    ) -> Result<RenderedText, EvalError> {
        self.render_within(scope, EvalLimits::default(), escape)
    }

    /// Like [`render`](Template::render), but within `limits`.
    pub fn render_within(
        &self,
        scope: &Scope<'_>,
        limits: EvalLimits,
        escape: impl Fn(&Value) -> Result<String, EscapeError>,
    ) -> Result<RenderedText, EvalError> {
        let mut context = EvalContext::new(limits);
        let text = self.render_in(scope, &mut context, |_, value| escape(value))?;
        Ok(RenderedText { text, warnings: context.into_warnings() })
    }

    /// Evaluates the template. If the whole text is one expression, returns its value with its type. Otherwise returns
    /// a string.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Evaluation, EvalError> {
        let mut context = EvalContext::new(EvalLimits::default());
        let value = self.value(scope, &mut context)?.into_owned();
        Ok(Evaluation { value, warnings: context.into_warnings() })
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(super) fn value<'v>(
        &'v self,
        scope: &Scope<'v>,
        context: &mut EvalContext,
    ) -> Result<Cow<'v, Value>, EvalError> {
        if let Some(placeholder) = self.only_placeholder() {
            return placeholder.evaluate(scope, context);
        }
        let text = self.render_in(scope, context, |_, value| escape::text(value))?;
        Ok(Cow::Owned(Value::String(text)))
    }

    /// Renders the text. The escape function receives the index of the segment and the value.
    pub(super) fn render_in(
        &self,
        scope: &Scope<'_>,
        context: &mut EvalContext,
        escape: impl Fn(usize, &Value) -> Result<String, EscapeError>,
    ) -> Result<String, EvalError> {
        let mut text = String::new();
        for (index, segment) in self.segments.iter().enumerate() {
            match &segment.kind {
                SegmentKind::Text(literal) => text.push_str(literal),
                SegmentKind::Placeholder(placeholder) => {
                    let value = placeholder.evaluate(scope, context)?;
                    let escaped = escape(index, &value).map_err(|error| placeholder.escape_error(&error))?;
                    placeholder.charge_output(escaped.len(), context)?;
                    text.push_str(&escaped);
                }
            }
        }
        Ok(text)
    }

    fn only_placeholder(&self) -> Option<&Placeholder> {
        match self.segments.as_slice() {
            [Segment { kind: SegmentKind::Placeholder(placeholder), .. }] => Some(placeholder),
            _ => None,
        }
    }
}

impl Placeholder {
    fn evaluate<'v>(&'v self, scope: &Scope<'v>, context: &mut EvalContext) -> Result<Cow<'v, Value>, EvalError> {
        let value = self.expression.evaluate_in(scope, context);
        value.map_err(|error| error.shifted_by(self.start))
    }

    fn escape_error(&self, error: &EscapeError) -> EvalError {
        let message = format!("`${{{}}}`: {error}", self.expression.source());
        EvalError::new(EvalErrorKind::Escape, message, self.start)
    }

    fn charge_output(&self, bytes: usize, context: &mut EvalContext) -> Result<(), EvalError> {
        let charged = context.budget.charge_output(bytes);
        charged.map_err(|exceeded| EvalError::new(EvalErrorKind::Budget, exceeded.0, self.start))
    }
}
