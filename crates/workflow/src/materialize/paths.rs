//! Places in JSON values, as JSON pointers and as expressions.

use serde_json::Value;
use toolwright_expr::Expression;

/// One level of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Field(&'a str),
    Index(usize),
}

/// The path as a JSON pointer.
pub(super) fn pointer(path: &[Segment<'_>]) -> String {
    let segment = |segment: &Segment<'_>| match segment {
        Segment::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        Segment::Index(at) => format!("/{at}"),
    };
    path.iter().map(segment).collect()
}

/// The value at a path.
pub(super) fn lookup<'v>(value: &'v Value, path: &[Segment<'_>]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Field(name) => value.as_object()?.get(*name),
        Segment::Index(at) => value.as_array()?.get(*at),
    })
}

/// The name of the innermost field of a path.
pub(super) fn last_field<'a>(path: &[Segment<'a>]) -> Option<&'a str> {
    path.iter().rev().find_map(|segment| match segment {
        Segment::Field(name) => Some(*name),
        Segment::Index(_) => None,
    })
}

/// An expression that reads a path, without `${` and `}`.
pub(super) fn expression(root: &str, path: &[Segment<'_>]) -> String {
    let mut text = root.to_owned();
    for segment in path {
        match segment {
            Segment::Field(name) => text.push_str(&field(name)),
            Segment::Index(at) => text.push_str(&format!("[{at}]")),
        }
    }
    text
}

/// The part of an expression that reads a field.
pub(super) fn field(name: &str) -> String {
    if Expression::is_name(name) {
        return format!(".{name}");
    }
    let mut quoted = String::new();
    for c in name.chars() {
        match c {
            '\\' | '\'' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c => quoted.push(c),
        }
    }
    format!("['{quoted}']")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_that_is_no_name_is_read_in_brackets() {
        let path = [Segment::Field("a"), Segment::Index(0), Segment::Field("x-y"), Segment::Field("it's")];
        assert_eq!(expression("load", &path), r"load.a[0]['x-y']['it\'s']");
        assert_eq!(pointer(&path), "/a/0/x-y/it's");
    }
}
