//! Tree to text. What is printed is read as the same tree.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::{Case, Condition, Item, Literal, Number, ObjectId, RecordId, Term};
use super::lexer::is_bare_word;
use super::value::REFERENCE;
use crate::Field;

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::All(parts) => joined(f, parts, " && ", |part| matches!(part, Condition::Any(_))),
            Condition::Any(parts) => joined(f, parts, " || ", |_| false),
            Condition::Not(inner) => {
                let group = matches!(**inner, Condition::All(_) | Condition::Any(_));
                f.write_str("!!").and_then(|()| grouped(f, inner, group))
            }
            Condition::Present(field) => write!(f, "{field}:~"),
            Condition::Null { field, negated } => write!(f, "{}null", Is(field, *negated)),
            Condition::Truth { field, value, negated } => write!(f, "{}{value}", Is(field, *negated)),
            Condition::Equal { field, value, case, negated } => {
                write!(f, "{}{value}{}", Is(field, *negated), mark(*case, Case::Insensitive))
            }
            Condition::Refers { field, id, negated } => write!(f, "{}{id}", Is(field, *negated)),
            Condition::Order { field, order, value, case } => {
                write!(f, "{field}:{}{value}{}", order.sign(), mark(*case, Case::Sensitive))
            }
            Condition::Like { field, pattern, case, negated } => {
                write!(f, "{}{pattern}{}", Is(field, *negated), mark(*case, Case::Insensitive))
            }
            Condition::In { field, items, negated } => {
                write!(f, "{field}{}[", if *negated { ":!^" } else { ":^" })?;
                listed(f, items)?;
                f.write_char(']')
            }
            Condition::Element { field, inner } => write!(f, "{field}:{{{inner}}}"),
            Condition::Edge { direction, predicate, other } => {
                write!(f, "{}({predicate}, {other})", direction.function())
            }
            Condition::Expand { path, filter: None } => write!(f, "expand({path})"),
            Condition::Expand { path, filter: Some(filter) } => write!(f, "expand({path}, {filter})"),
            Condition::Fields(fields) => write!(f, "fields:[{fields}]"),
            Condition::Text(words) => write!(f, "text({words})"),
        }
    }
}

fn joined(f: &mut Formatter<'_>, parts: &[Condition], sign: &str, needs_group: fn(&Condition) -> bool) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(sign)?;
        }
        grouped(f, part, needs_group(part))?;
    }
    Ok(())
}

fn grouped(f: &mut Formatter<'_>, part: &Condition, group: bool) -> fmt::Result {
    if group { write!(f, "({part})") } else { write!(f, "{part}") }
}

fn listed(f: &mut Formatter<'_>, items: &[impl Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

/// A field and `:` or `:!`.
struct Is<'q>(&'q Field, bool);

impl Display for Is<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, if self.1 { ":!" } else { ":" })
    }
}

fn mark(case: Case, default: Case) -> &'static str {
    match case {
        _ if case == default => "",
        Case::Sensitive => "~cs",
        Case::Insensitive => "~ci",
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Word(word) => f.write_str(word),
            Literal::Quoted(text) => quoted(f, text),
            Literal::Id(id) => id.fmt(f),
            Literal::Number(number @ Number::Whole(_)) => write!(f, "#{number}"),
            Literal::Number(number @ Number::Decimal(_)) => write!(f, "##{number}"),
            Literal::Moment(moment) => moment.fmt(f),
            Literal::Variable(name) => write!(f, "${{{name}}}"),
        }
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Item::Literal(value) => value.fmt(f),
            Item::Truth(value) => value.fmt(f),
            Item::Reference(id) => id.fmt(f),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Word(word) => f.write_str(word),
            Term::Quoted(text) => quoted(f, text),
            Term::Variable(name) => write!(f, "${{{name}}}"),
        }
    }
}

impl Display for ObjectId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// With its signs; in quotes where it could not stand without.
impl Display for RecordId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(REFERENCE)?;
        if is_bare_word(self.as_str()) { f.write_str(self.as_str()) } else { quoted(f, self.as_str()) }
    }
}

pub(crate) fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "\"{}\"", text.replace('"', "\"\""))
}
