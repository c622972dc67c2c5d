//! Definitions as YAML: reads bodies within limits, finds the positions of invalid fields, and prints definitions.

use std::fmt;
use std::marker::PhantomData;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use toolwright_budget::MAX_NODES;
use toolwright_types::UniqueKeys;

use super::Collection;
use crate::extract::{parse_json, read_body};
use crate::problem::{Code, Problem};
use crate::state::AppState;

/// The media type of YAML.
pub(super) const MEDIA_TYPE: &str = "application/yaml";

/// Other media types of YAML that clients send.
const OTHER_MEDIA_TYPES: [&str; 3] = ["application/x-yaml", "text/yaml", "text/x-yaml"];

/// The maximum number of bytes that are parsed to find the positions of invalid fields. The text is parsed again for
/// each field, so the fields of a large text that exceed this number have no positions.
const MAX_LOCATED_BYTES: usize = 16 << 20;

/// The maximum length of all strings and keys of a document, in bytes. Aliases can repeat one string many times.
const MAX_STRING_BYTES: usize = 2 * crate::MAX_BODY_BYTES;

/// A definition in the body of a request: JSON, or YAML if the kind of the definition allows it.
pub(crate) struct DefinitionBody<T> {
    /// The definition.
    pub value: Value,
    /// The body as the client wrote it.
    pub written: WrittenBody,
    kind: PhantomData<fn() -> T>,
}

/// The line and the column of a value, from 1, if they are known.
pub(crate) type Position = (Option<u32>, Option<u32>);

/// A body as the client wrote it: the text of a YAML body, or `None` for JSON.
pub(crate) struct WrittenBody(Option<String>);

impl<T: Collection> FromRequest<AppState> for DefinitionBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, engine: &AppState) -> Result<Self, Problem> {
        let is_yaml = T::HAS_YAML && request.headers().get(CONTENT_TYPE).is_some_and(is_yaml);
        let bytes = read_body(request, engine, crate::MAX_BODY_BYTES).await?;
        let (value, written) = if is_yaml {
            let (value, text) = offload(move || parse(&bytes)).await??;
            (value, WrittenBody(Some(text)))
        } else {
            let UniqueKeys(value) = parse_json(&bytes)?;
            (value, WrittenBody(None))
        };
        Ok(Self { value, written, kind: PhantomData })
    }
}

impl WrittenBody {
    /// Adds the line and the column of each invalid field, if the body is YAML.
    pub(super) async fn locate(self, mut problem: Problem) -> Problem {
        let paths = problem.errors.iter().map(|field| field.path.clone()).collect();
        match self.positions(paths).await {
            Ok(positions) => {
                for (field, (line, column)) in problem.errors.iter_mut().zip(positions) {
                    (field.line, field.column) = (line, column);
                }
                problem
            }
            Err(unavailable) => unavailable,
        }
    }

    /// Returns the line and the column of the value at each JSON pointer, if the body is YAML.
    pub(crate) async fn positions(self, pointers: Vec<String>) -> Result<Vec<Position>, Problem> {
        let Some(text) = self.0.filter(|_| !pointers.is_empty()) else {
            return Ok(vec![Position::default(); pointers.len()]);
        };
        offload(move || positions(&text, &pointers)).await
    }
}

/// Performs work on a text on a thread for blocking work.
async fn offload<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Problem> {
    let stopped = |error: toolwright_budget::Stopped| Problem::new(Code::Unavailable, error.to_string());
    toolwright_budget::offload(work).await.map_err(stopped)
}

/// Whether a header contains a media type of YAML.
pub(super) fn is_yaml(header: &HeaderValue) -> bool {
    let types = header.to_str().unwrap_or_default().split(',');
    let mut types = types.filter_map(|one| one.split(';').next()).map(|one| one.trim().to_ascii_lowercase());
    types.any(|one| one == MEDIA_TYPE || OTHER_MEDIA_TYPES.contains(&one.as_str()))
}

/// Prints a definition as YAML.
pub(crate) fn print(definition: &impl Serialize) -> Result<String, Problem> {
    let unprintable = |error: &dyn fmt::Display| {
        Problem::new(Code::Internal, format!("the definition cannot be printed as YAML: {error}; use `format=json`"))
    };
    // Without the conversion to JSON, the variants of enums would be printed as YAML tags.
    let value = serde_json::to_value(definition).map_err(|error| unprintable(&error))?;
    serde_norway::to_string(&value).map_err(|error| unprintable(&error))
}

/// Parses a YAML body with one document.
fn parse(bytes: &Bytes) -> Result<(Value, String), Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::new(Code::InvalidYaml, "the body must be UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    // The parser reads all events of a document before it returns the first one. Each event needs one of these
    // characters, so their number limits the memory.
    if text.bytes().filter(|byte| b",\n:[{?-".contains(byte)).count() > MAX_NODES {
        return Err(too_large());
    }
    let mut probe = Probe { nodes: MAX_NODES, bytes: MAX_STRING_BYTES, found: false, is_too_large: false };
    let counted = Visit { probe: &mut probe, target: None }.deserialize(serde_norway::Deserializer::from_str(text));
    if probe.is_too_large {
        return Err(too_large());
    }
    counted.map_err(|error| syntax_problem(&error))?;
    let UniqueKeys(value) =
        UniqueKeys::deserialize(serde_norway::Deserializer::from_str(text)).map_err(|error| syntax_problem(&error))?;
    Ok((value, text.to_owned()))
}

/// Parses a text with one document in YAML or JSON.
pub(crate) async fn parse_text(text: String) -> Result<Value, Problem> {
    offload(move || parse(&Bytes::from(text)).map(|(value, _)| value)).await?
}

fn too_large() -> Problem {
    let limits = format!("at most {MAX_NODES} values and {MAX_STRING_BYTES} bytes of text");
    Problem::new(Code::PayloadTooLarge, format!("the YAML document must have {limits}; use less data"))
}

fn syntax_problem(error: &serde_norway::Error) -> Problem {
    let mut problem = Problem::new(Code::InvalidYaml, error.to_string()).with_field("", error.to_string());
    if let (Some(field), Some(location)) = (problem.errors.first_mut(), error.location()) {
        field.line = u32::try_from(location.line()).ok();
        field.column = u32::try_from(location.column()).ok();
    }
    problem
}

/// Returns the positions of as many values as the size of the text permits.
fn positions(text: &str, pointers: &[String]) -> Vec<Position> {
    let most = (MAX_LOCATED_BYTES / text.len().max(1)).max(1);
    let found = |(at, pointer): (usize, &String)| if at < most { position(text, pointer) } else { None };
    pointers.iter().enumerate().map(|one| found(one).unzip()).collect()
}

/// Returns the line and the column of the value at a JSON pointer, or of the nearest value that contains it.
fn position(text: &str, pointer: &str) -> Option<(u32, u32)> {
    let segments = pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"));
    let path: Vec<String> = segments.collect();
    (0..=path.len()).rev().find_map(|length| {
        let mut probe = Probe { nodes: MAX_NODES, bytes: MAX_STRING_BYTES, found: false, is_too_large: false };
        let visit = Visit { probe: &mut probe, target: path.get(..length) };
        let error = visit.deserialize(serde_norway::Deserializer::from_str(text)).err()?;
        let location = error.location().filter(|_| probe.found)?;
        Some((u32::try_from(location.line()).ok()?, u32::try_from(location.column()).ok()?))
    })
}

/// The values and the bytes that may still be visited.
struct Probe {
    nodes: usize,
    bytes: usize,
    found: bool,
    is_too_large: bool,
}

/// Visits a value without keeping it. At the value whose path is `target`, fails with an error, because only errors of
/// the parser have positions.
struct Visit<'p> {
    probe: &'p mut Probe,
    /// The path from this value to the value that is searched.
    target: Option<&'p [String]>,
}

impl Visit<'_> {
    fn enter<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        if self.target.is_some_and(<[String]>::is_empty) {
            self.probe.found = true;
            return Err(E::custom("found"));
        }
        match (self.probe.nodes.checked_sub(1), self.probe.bytes.checked_sub(bytes)) {
            (Some(nodes), Some(bytes)) => (self.probe.nodes, self.probe.bytes) = (nodes, bytes),
            _ => {
                self.probe.is_too_large = true;
                return Err(E::custom("too large"));
            }
        }
        Ok(())
    }

    /// Returns the visit of a part of this value.
    fn part(&mut self, is_part: impl FnOnce(&str) -> bool) -> Visit<'_> {
        let target = self.target.and_then(|path| path.split_first());
        let target = target.filter(|(first, _)| is_part(first)).map(|(_, rest)| rest);
        Visit { probe: &mut *self.probe, target }
    }
}

impl<'de> DeserializeSeed<'de> for Visit<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Visit<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<(), E> {
        self.enter(0)
    }

    fn visit_bool<E: serde::de::Error>(mut self, _: bool) -> Result<(), E> {
        self.enter(0)
    }

    fn visit_i64<E: serde::de::Error>(mut self, _: i64) -> Result<(), E> {
        self.enter(0)
    }

    fn visit_u64<E: serde::de::Error>(mut self, _: u64) -> Result<(), E> {
        self.enter(0)
    }

    fn visit_f64<E: serde::de::Error>(mut self, _: f64) -> Result<(), E> {
        self.enter(0)
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<(), E> {
        self.enter(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.enter(0)?;
        let mut at = 0_usize;
        while items.next_element_seed(self.part(|segment| segment.parse() == Ok(at)))?.is_some() {
            at += 1;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        self.enter(0)?;
        while let Some(key) = entries.next_key::<String>()? {
            self.probe.bytes = self.probe.bytes.saturating_sub(key.len());
            entries.next_value_seed(self.part(|segment| segment == key))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, Problem> {
        parse(&Bytes::from(text.to_owned())).map(|(value, _)| value)
    }

    #[test]
    fn position_of_a_pointer_is_the_position_of_its_value_or_of_the_nearest_one() {
        let text = "name: x\nsteps:\n- name: a\n  input: { n: [1, 2] }\n- name: b\n  a/b: |\n    text\n";
        for (pointer, expected) in [
            ("/name", (1, 7)),
            ("/steps/0/input/n/1", (4, 19)),
            ("/steps/1/name", (5, 9)),
            ("/steps/1/a~1b", (6, 8)),
            ("/steps/1/missing", (5, 3)),
            ("/missing", (1, 1)),
            ("", (1, 1)),
        ] {
            assert_eq!(position(text, pointer), Some(expected), "{pointer}");
        }
    }

    #[test]
    fn invalid_yaml_is_reported_with_its_position() {
        for (text, line) in [("a: [1\nb: 2", 2), ("a: 1\na: 2", 1), ("a: 1\n---\nb: 2", 0), ("a: *x", 1)] {
            let problem = read(text).unwrap_err();
            assert_eq!(problem.code, "invalid-yaml", "{text}");
            assert_eq!(problem.errors[0].line.unwrap_or_default(), line, "{text}: {problem:?}");
        }
        assert_eq!(parse(&Bytes::from_static(b"a: \xff")).unwrap_err().code, "invalid-yaml");
    }

    #[test]
    fn yaml_that_expands_to_too_much_data_is_refused() {
        let mut bomb = "a0: &a0 [x]\n".to_owned();
        for level in 1..30 {
            let before = level - 1;
            bomb.push_str(&format!("a{level}: &a{level} [*a{before}, *a{before}]\n"));
        }
        assert!(["payload-too-large", "invalid-yaml"].contains(&&*read(&bomb).unwrap_err().code));
        let long = "x".repeat(1 << 20);
        let repeated = format!("a: &a {long}\nb: [{}]\n", vec!["*a"; 40].join(", "));
        assert_eq!(read(&repeated).unwrap_err().code, "payload-too-large");
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(read(&deep).unwrap_err().code, "invalid-yaml");
        assert_eq!(read(&"-\n".repeat(2_000_000)).unwrap_err().code, "payload-too-large");
    }
}
