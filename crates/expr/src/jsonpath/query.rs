//! Evaluates a selector. Each visited node and each compared value is charged to the step limit of the current
//! operation (`toolwright_budget`).

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::ControlFlow;

use serde_json::{Number, Value};
use toolwright_budget::{charge, charge_nested};

use super::{Comparison, CompiledPattern, Condition, Operand, Pattern, PatternTest, Query, Segment, Selector};

/// The maximum number of compiled patterns from the document that a query caches.
const KEPT_PATTERNS: usize = 16;
/// The number of steps charged for each byte of a pattern from the document, when the pattern is compiled.
const COMPILE_STEPS: u64 = 500;
/// How many bytes of text are compared in one step.
const BYTES_PER_STEP: usize = 64;

/// Returns the nodes that `segments` select. The result is incomplete if the operation was stopped.
pub(super) fn select<'v>(segments: &[Segment], root: &'v Value) -> Vec<&'v Value> {
    let mut nodes = Vec::new();
    let evaluation = Evaluation { root, patterns: RefCell::default() };
    let _ = evaluation.visit(segments, root, &mut |node| {
        nodes.push(node);
        ControlFlow::Continue(())
    });
    nodes
}

struct Evaluation<'v> {
    root: &'v Value,
    /// A cache of the most recently compiled patterns from the document.
    patterns: RefCell<Vec<(String, bool, Option<CompiledPattern>)>>,
}

/// Receives the selected nodes, and may end the query.
type Sink<'s, 'v> = dyn FnMut(&'v Value) -> ControlFlow<()> + 's;

/// The value of an operand: borrowed from the selector (a literal) or from the document (a node), or computed by a
/// function.
enum Operated<'a> {
    Borrowed(&'a Value),
    Computed(Value),
    Nothing,
}

impl Operated<'_> {
    fn as_value(&self) -> Option<&Value> {
        match self {
            Operated::Borrowed(value) => Some(value),
            Operated::Computed(value) => Some(value),
            Operated::Nothing => None,
        }
    }
}

impl<'v> Evaluation<'v> {
    fn visit(&self, segments: &[Segment], node: &'v Value, sink: &mut Sink<'_, 'v>) -> ControlFlow<()> {
        if charge_nested(1).is_err() {
            return ControlFlow::Break(());
        }
        let Some((segment, rest)) = segments.split_first() else { return sink(node) };
        for selector in &segment.selectors {
            self.children(selector, node, &mut |child| self.visit(rest, child, sink))?;
        }
        if segment.descends {
            each_child(node, &mut |child| self.visit(segments, child, sink))?;
        }
        ControlFlow::Continue(())
    }

    fn children(&self, selector: &Selector, node: &'v Value, sink: &mut Sink<'_, 'v>) -> ControlFlow<()> {
        match selector {
            Selector::Name(name) => {
                node.as_object().and_then(|fields| fields.get(name)).map_or(ControlFlow::Continue(()), sink)
            }
            Selector::Index(index) => item(node, *index).map_or(ControlFlow::Continue(()), sink),
            Selector::Wildcard => each_child(node, sink),
            Selector::Slice { start, end, step } => match node {
                Value::Array(items) => slice(items, *start, *end, *step).try_for_each(sink),
                _ => ControlFlow::Continue(()),
            },
            Selector::Filter(condition) => each_child(node, &mut |child| {
                if self.holds(condition, child) { sink(child) } else { ControlFlow::Continue(()) }
            }),
        }
    }

    fn holds(&self, condition: &Condition, current: &'v Value) -> bool {
        if charge_nested(1).is_err() {
            return false;
        }
        match condition {
            Condition::Any(parts) => parts.iter().any(|part| self.holds(part, current)),
            Condition::All(parts) => parts.iter().all(|part| self.holds(part, current)),
            Condition::Not(part) => !self.holds(part, current),
            Condition::Exists(query) => self.nodes(query, current, 1).0 > 0,
            Condition::Compare(left, comparison, right) => {
                compare(self.operand(left, current).as_value(), *comparison, self.operand(right, current).as_value())
            }
            Condition::Matches(test) => self.matches(test, current),
        }
    }

    /// Returns the number of nodes that a query selects, and the first of them. Stops after `enough` nodes.
    fn nodes(&self, query: &Query, current: &'v Value, enough: u64) -> (u64, Option<&'v Value>) {
        let (mut count, mut first) = (0, None);
        let start = if query.from_root { self.root } else { current };
        let _ = self.visit(&query.segments, start, &mut |node| {
            count += 1;
            first.get_or_insert(node);
            if count < enough { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        (count, first)
    }

    fn operand<'a>(&self, operand: &'a Operand, current: &'v Value) -> Operated<'a>
    where
        'v: 'a,
    {
        match operand {
            Operand::Literal(value) => Operated::Borrowed(value),
            Operand::Node(query) => self.nodes(query, current, 1).1.map_or(Operated::Nothing, Operated::Borrowed),
            Operand::OnlyNode(query) => match self.nodes(query, current, 2) {
                (1, Some(node)) => Operated::Borrowed(node),
                _ => Operated::Nothing,
            },
            Operand::Count(query) => Operated::Computed(self.nodes(query, current, u64::MAX).0.into()),
            Operand::Length(operand) => match self.operand(operand, current).as_value() {
                Some(Value::String(text)) => {
                    let _ = charge((text.len() / BYTES_PER_STEP) as u64);
                    Operated::Computed(text.chars().count().into())
                }
                Some(Value::Array(items)) => Operated::Computed(items.len().into()),
                Some(Value::Object(fields)) => Operated::Computed(fields.len().into()),
                _ => Operated::Nothing,
            },
        }
    }

    fn matches(&self, test: &PatternTest, current: &'v Value) -> bool {
        let text = self.operand(&test.text, current);
        let Some(text) = text.as_value().and_then(Value::as_str) else { return false };
        match &test.pattern {
            Pattern::Compiled(pattern) => pattern.as_ref().is_some_and(|pattern| pattern.is_match(text)),
            Pattern::Computed(operand) => {
                let pattern = self.operand(operand, current);
                pattern
                    .as_value()
                    .and_then(Value::as_str)
                    .is_some_and(|pattern| self.matches_computed(pattern, test.whole, text))
            }
        }
    }

    fn matches_computed(&self, pattern: &str, whole: bool, text: &str) -> bool {
        let mut kept = self.patterns.borrow_mut();
        let known = kept.iter().position(|(known, of_whole, _)| known == pattern && *of_whole == whole);
        let index = match known {
            Some(index) => index,
            None if charge(COMPILE_STEPS.saturating_mul(1 + pattern.len() as u64)).is_err() => return false,
            None => {
                if kept.len() == KEPT_PATTERNS {
                    kept.remove(0);
                }
                kept.push((pattern.to_owned(), whole, CompiledPattern::new(pattern, whole).unwrap_or(None)));
                kept.len() - 1
            }
        };
        kept.get(index).and_then(|(_, _, compiled)| compiled.as_ref()).is_some_and(|compiled| compiled.is_match(text))
    }
}

impl CompiledPattern {
    fn is_match(&self, text: &str) -> bool {
        charge(self.steps_per_byte.saturating_mul(text.len() as u64)).is_ok() && self.regex.is_match(text)
    }
}

fn each_child<'v>(node: &'v Value, sink: &mut Sink<'_, 'v>) -> ControlFlow<()> {
    match node {
        Value::Array(items) => items.iter().try_for_each(sink),
        Value::Object(fields) => fields.values().try_for_each(sink),
        _ => ControlFlow::Continue(()),
    }
}

fn item(node: &Value, index: i64) -> Option<&Value> {
    let items = node.as_array()?;
    let index = if index < 0 {
        items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(index).ok()?
    };
    items.get(index)
}

/// The items of a slice, as RFC 9535 defines it.
fn slice(items: &[Value], start: Option<i64>, end: Option<i64>, step: i64) -> impl Iterator<Item = &Value> {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let absolute = |index: i64| if index < 0 { length.saturating_add(index) } else { index };
    let (first, last) = if step >= 0 {
        (absolute(start.unwrap_or(0)).clamp(0, length), absolute(end.unwrap_or(length)).clamp(0, length))
    } else {
        let start = start.map_or(length - 1, absolute);
        (start.clamp(-1, length - 1), end.map_or(-1, absolute).clamp(-1, length - 1))
    };
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let index = next.filter(|index| step > 0 && *index < last || step < 0 && *index > last)?;
        next = index.checked_add(step);
        items.get(usize::try_from(index).ok()?)
    })
}

fn compare(left: Option<&Value>, comparison: Comparison, right: Option<&Value>) -> bool {
    let equal = || match (left, right) {
        (Some(left), Some(right)) => is_equal(left, right),
        (None, None) => true,
        _ => false,
    };
    let order = || match (left?, right?) {
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right),
        (Value::String(left), Value::String(right)) => {
            charge((left.len().min(right.len()) / BYTES_PER_STEP) as u64).ok()?;
            Some(left.cmp(right))
        }
        _ => None,
    };
    match comparison {
        Comparison::Equal => equal(),
        Comparison::NotEqual => !equal(),
        Comparison::Less => order() == Some(Ordering::Less),
        Comparison::Greater => order() == Some(Ordering::Greater),
        Comparison::LessOrEqual => order() == Some(Ordering::Less) || equal(),
        Comparison::GreaterOrEqual => order() == Some(Ordering::Greater) || equal(),
    }
}

fn is_equal(left: &Value, right: &Value) -> bool {
    if charge_nested(1).is_err() {
        return false;
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => order_numbers(left, right) == Some(Ordering::Equal),
        (Value::String(left), Value::String(right)) => {
            left.len() == right.len() && charge((left.len() / BYTES_PER_STEP) as u64).is_ok() && left == right
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has_equal =
                |(name, left): (&String, &Value)| right.get(name).is_some_and(|right| is_equal(left, right));
            left.len() == right.len() && left.iter().all(has_equal)
        }
        (left, right) => left == right,
    }
}

/// Compares two numbers. Integers are compared exactly.
fn order_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    let integer = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}
