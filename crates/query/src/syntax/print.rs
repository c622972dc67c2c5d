//! Formats a syntax tree. The output parses to the same tree.

use std::fmt::{self, Display, Formatter, Write};

use super::ast::{Condition, Item, Literal, NumberLiteral, ObjectId, RecordId, Term};
use super::lexer::is_bare_word;
use super::value::REFERENCE;
use crate::Field;
use crate::text::{Case, write_quoted};

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Condition::And(parts) => write_joined(f, parts, " && ", |part| matches!(part, Condition::Or(_))),
            Condition::Or(parts) => write_joined(f, parts, " || ", |_| false),
            Condition::Not(inner) => {
                let group = matches!(**inner, Condition::And(_) | Condition::Or(_));
                f.write_str("!!").and_then(|()| write_grouped(f, inner, group))
            }
            Condition::Present(field) => write!(f, "{field}:~"),
            Condition::Null { field, negated } => write!(f, "{}null", FieldPrefix(field, *negated)),
            Condition::Bool { field, value, negated } => write!(f, "{}{value}", FieldPrefix(field, *negated)),
            Condition::Equal { field, value, case, negated } => {
                write!(f, "{}{value}{}", FieldPrefix(field, *negated), case_mark(*case, Case::Insensitive))
            }
            Condition::Reference { field, id, negated } => write!(f, "{}{id}", FieldPrefix(field, *negated)),
            Condition::Compare { field, op, value, case } => {
                write!(f, "{field}:{}{value}{}", op.symbol(), case_mark(*case, Case::Sensitive))
            }
            Condition::Like { field, pattern, case, negated } => {
                write!(f, "{}{pattern}{}", FieldPrefix(field, *negated), case_mark(*case, Case::Insensitive))
            }
            Condition::In { field, items, negated } => {
                write!(f, "{field}{}[", if *negated { ":!^" } else { ":^" })?;
                write_list(f, items)?;
                f.write_char(']')
            }
            Condition::Element { field, inner } => write!(f, "{field}:{{{inner}}}"),
            Condition::Edge { direction, relation, other } => {
                write!(f, "{}({relation}, {other})", direction.function())
            }
            Condition::Expand { path, filter: None } => write!(f, "expand({path})"),
            Condition::Expand { path, filter: Some(filter) } => write!(f, "expand({path}, {filter})"),
            Condition::Fields(fields) => write!(f, "fields:[{fields}]"),
            Condition::Text(words) => write!(f, "text({words})"),
        }
    }
}

fn write_joined(
    f: &mut Formatter<'_>,
    parts: &[Condition],
    separator: &str,
    needs_group: fn(&Condition) -> bool,
) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write_grouped(f, part, needs_group(part))?;
    }
    Ok(())
}

fn write_grouped(f: &mut Formatter<'_>, part: &Condition, group: bool) -> fmt::Result {
    if group { write!(f, "({part})") } else { write!(f, "{part}") }
}

fn write_list(f: &mut Formatter<'_>, items: &[impl Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}

/// A field followed by `:` or `:!`.
struct FieldPrefix<'q>(&'q Field, bool);

impl Display for FieldPrefix<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, if self.1 { ":!" } else { ":" })
    }
}

fn case_mark(case: Case, default: Case) -> &'static str {
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
            Literal::Quoted(text) => write_quoted(f, text),
            Literal::Id(id) => id.fmt(f),
            Literal::Number(number @ NumberLiteral::Integer(_)) => write!(f, "#{number}"),
            Literal::Number(number @ NumberLiteral::Decimal(_)) => write!(f, "##{number}"),
            Literal::DateTime(timestamp) => timestamp.fmt(f),
            Literal::Variable(name) => write!(f, "${{{name}}}"),
        }
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Item::Literal(value) => value.fmt(f),
            Item::Bool(value) => value.fmt(f),
            Item::Reference(id) => id.fmt(f),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Word(word) => f.write_str(word),
            Term::Quoted(text) => write_quoted(f, text),
            Term::Variable(name) => write!(f, "${{{name}}}"),
        }
    }
}

impl Display for ObjectId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Formats the id with `@@`, in quotes if it is not a bare word.
impl Display for RecordId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(REFERENCE)?;
        if is_bare_word(self.as_str()) { f.write_str(self.as_str()) } else { write_quoted(f, self.as_str()) }
    }
}
