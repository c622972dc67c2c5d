//! Generates documents and queries that are likely to match.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use toolwright_query::{Direction, Edge, EdgeFilters, Field, Filter};

const OID: &str = "507f1f77bcf86cd799439011";

/// Strings that are edge cases for quoting, patterns, letter case, dates and type conversions.
const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "ab",
    "aB",
    "abc",
    "ABC",
    "x y",
    "50%",
    "a_b",
    "a\\b",
    "\\",
    "say \"hi\"",
    "ä",
    "Ä",
    "ß",
    "SS",
    "İ",
    "K",
    "日本",
    "🦀",
    "O'Brien",
    "100",
    "1.5",
    "-7",
    "007",
    "1e2",
    "+1",
    "true",
    "TRUE",
    "false",
    "null",
    "[1]",
    "{\"a\":1}",
    "*",
    "a*b",
    "a?b",
    "[a]",
    "^",
    "]",
    "%",
    "_",
    "a\nb",
    "\n",
    "\u{10FFFF}",
    "\u{FFFF}",
    "now",
    " a",
    "a ",
    OID,
    "507F1F77BCF86CD799439011",
];

const DATES: &[&str] = &[
    "2024-01-15",
    "2024-01-15T00:00:00",
    "2024-01-15T12:00:00Z",
    "2024-01-15T14:00:00+02:00",
    "2024-01-15T12:00:00.5Z",
    "2024-01-15T12:00:00.500000999Z",
    "2024-01-14T21:01:00-14:59",
    "1969-12-31T23:59:59.999999Z",
    "2024-02-29",
    "2000-02-29",
    "0001-01-01",
    "9999-12-31T23:59:59.999999999Z",
    "0001-01-01T00:00:00+14:00",
    "2024-03-01T00:00:00.000001+00:00",
];

/// Invalid dates that resemble valid ones. Neither matching in memory nor the databases may accept them.
const INVALID_DATES: &[&str] = &[
    "2024-02-30",
    "2023-02-29",
    "1900-02-29",
    "2024-04-31",
    "0000-01-01",
    "2024-00-10",
    "2024-13-01",
    "2024-01-00",
    "2024-01-15T24:00:00Z",
    "2024-01-15T12:60:00Z",
    "2024-01-15T12:00:60Z",
    "2024-01-15T12:00:00+15:00",
    "2024-01-15T12:00:00+02:60",
    "2024-01-15T12:00:00.Z",
    "2024-01-15T12:00:00.1234567890Z",
    "2024-01-15 12:00:00",
    "2024-01-15T12:00",
    "2024-01-15T12:00:00z",
    "2024-01-15t12:00:00Z",
    "2024-1-15",
    "2024-01-15Z",
    "2024-01-15T",
    "+2024-01-15",
    "2024-01-15T12:00:00 Z",
    "2024-01-15T12:00:00+0200",
    "2024-01-15\n",
    "2024-01-15T12:00:00.5.5Z",
    "２０２４-01-15",
];

/// Values of every type, including the edge cases of comparisons.
pub(crate) fn edge_case_values() -> Vec<Value> {
    let texts = TEXTS.iter().chain(DATES).chain(INVALID_DATES).map(|text| json!(text));
    let others = json!([
        null, true, false, 0, -0.0, 1, 1.0, 1.5, -7, 100, 100.0, 1e300, 5e-324, 0.1, 9007199254740993i64, 9007199254740992i64,
        i64::MAX, i64::MIN, u64::MAX, 123456789.12345679, {}, [], [null], [[1]], [1, "a"], ["A", "x y"], {"id": OID}, {"id": 1}, {"id": "aB"}, [{"id": "x y"}, {"id": "AB"}],
        {"a": "a"}, [{"id": OID}], [{"a": "b"}], [true], ["2024-01-15"]
    ]);
    texts.chain(others.as_array().cloned().unwrap_or_default()).collect()
}

/// One condition on `field` for every combination of an operator and a valid value.
pub(crate) fn edge_case_queries(field: &str) -> Vec<String> {
    let strings = || TEXTS.iter().chain(DATES).chain(INVALID_DATES).filter(|text| !text.contains('\n'));
    let quoted_texts = strings().map(|text| quoted(text));
    let bare =
        ["a", "A", "aB", "100", "1.5", "-7", "007", "1e2", "O'Brien", "x y", "1", "0", "ä", "Ä", "ß", "日本", OID];
    let bare = bare.map(str::to_owned);
    let numbers =
        ["#0", "#1", "##1.5", "#-7", "#100", "##100", "##0.1", "#9007199254740993", "#9223372036854775807", "##-0.0"];
    let variables = ORDERED_VARIABLES.iter().map(|name| (*name).to_owned());
    let texts: Vec<String> = quoted_texts.chain(bare).chain(variables).collect();
    let others = numbers.iter().chain(DATES).map(|value| (*value).to_owned());
    let mut queries =
        vec![format!("{field}:~"), format!("{field}:null"), format!("{field}:true"), format!("{field}:false")];
    let references = ["@@507f1f77bcf86cd799439011", "@@aB", "@@x y", "@@ä", "@@\"50%\"", "@@\"a\\b\""];
    queries.extend(references.into_iter().chain(["${flag}"]).map(|value| format!("{field}:{value}")));
    queries.extend(
        [
            "true",
            "FALSE",
            "${list}",
            "${commas}",
            "${flag}",
            "a,B,#1,##1.5,2024-01-15,@@507f1f77bcf86cd799439011,@@aB",
            "@@x y,@@ABC",
        ]
        .map(|items| format!("{field}:^[{items}]")),
    );
    for operator in [":", ":<", ":>", ":<=", ":>="] {
        queries.extend(others.clone().map(|value| format!("{field}{operator}{value}")));
        for case in ["", "~cs", "~ci"] {
            queries.extend(texts.iter().map(|text| format!("{field}{operator}{text}{case}")));
        }
    }
    for text in &texts {
        queries.push(format!("{field}:^[{text}]"));
        if text.starts_with('"') && text.len() > 2 {
            for case in ["", "~cs"] {
                let patterns = [
                    format!("*{text}*"),
                    format!("{text}*"),
                    format!("*{text}"),
                    format!("?{text}*"),
                    format!("{text}?"),
                ];
                queries.extend(patterns.map(|pattern| format!("{field}:{pattern}{case}")));
            }
        }
    }
    queries
}

pub(crate) fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(TEXTS).prop_map(str::to_owned),
        2 => select(DATES).prop_map(str::to_owned),
        2 => select(INVALID_DATES).prop_map(str::to_owned),
        1 => "[a-cA-C%_*?\\\\\" ]{0,5}",
        1 => any::<String>().prop_map(|text| text.replace('\0', "0")),
    ]
}

fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (-8i64..8).prop_map(Value::from),
        2 => select(vec![0.0, -0.0, 1.5, -7.0, 100.0, 0.1, 1e300, -1e-300, 5e-324, 1.0e15, 123456789.12345679]).prop_map(Value::from),
        1 => select(vec![json!(i64::MAX), json!(i64::MIN), json!(u64::MAX), json!(9007199254740993i64), json!(100)]),
        1 => any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::from),
        4 => numbers(),
        8 => texts().prop_map(Value::from),
        1 => select(vec![json!({"id": OID}), json!({"id": "aB"}), json!({"id": "ab"})]),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), objects(inner),]
    })
}

fn objects(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let name = prop_oneof![8 => "[a-d]", 1 => select(vec!["id", "x&y", "O'x", "a b", "@t", "a/b", "-", "ä"]).prop_map(str::to_owned)];
    prop::collection::vec((name, inner), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// Documents, which are always objects.
pub(crate) fn documents() -> impl Strategy<Value = Value> {
    objects(values())
}

pub(crate) fn fields() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => "[a-d]",
        3 => "[a-d]\\.[a-d]",
        1 => "[a-d]\\.[a-d]\\.[a-d]",
        1 => select(vec!["id", "x&y", "O'x", "a b", "@t.a", "a/b", "-", "a.0", "0", "ä", "a.ä"]).prop_map(str::to_owned),
    ]
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
}

fn quoted_texts() -> impl Strategy<Value = String> {
    texts().prop_map(|text| quoted(&text))
}

fn words() -> impl Strategy<Value = String> {
    let plain = select(TEXTS).prop_filter("a bare word", |text| {
        let bare = |c: char| c.is_alphanumeric() || "_./@'-".contains(c);
        !text.is_empty() && text.chars().all(bare) && !["true", "TRUE", "false", "null"].contains(text)
    });
    plain.prop_map(str::to_owned)
}

fn number_literals() -> impl Strategy<Value = String> {
    prop_oneof![
        (-8i64..8).prop_map(|number| format!("#{number}")),
        any::<i64>().prop_map(|number| format!("#{number}")),
        select(vec![
            "##1.5",
            "##-7.0",
            "##100",
            "##0.1",
            "##-0.0",
            "#0",
            "#100",
            "##9007199254740993",
            "##123456789.123456789"
        ])
        .prop_map(str::to_owned),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(|number| format!("##{number}")),
    ]
}

fn date_literals() -> impl Strategy<Value = String> {
    select(DATES).prop_map(str::to_owned)
}

fn variable_names() -> impl Strategy<Value = String> {
    select(vec!["text", "number", "flag", "day", "oid", "hundred"]).prop_map(|name| format!("${{{name}}}"))
}

/// Variables for order comparisons. Booleans are left out because they cannot be ordered.
const ORDERED_VARIABLES: &[&str] = &["${text}", "${number}", "${day}", "${oid}", "${hundred}"];

pub(crate) fn variables() -> Map<String, Value> {
    let Value::Object(variables) = json!({
        "text": "aB", "number": 1.5, "flag": true, "day": "2024-01-15T13:00:00+01:00", "oid": OID, "hundred": "100",
        "list": ["a", 1.5, "2024-01-15", true, "ä", "100"], "none": [], "commas": "ab, x y,,-7,true,2024-02-29",
    }) else {
        panic!("the literal above must be an object")
    };
    variables
}

pub(crate) fn edges() -> EdgeFilters {
    let edge = |direction, other: &str| Edge { direction, relation: "owns".into(), other: other.into() };
    EdgeFilters::from([
        (edge(Direction::Outgoing, "x"), Filter::ids((0..20).step_by(2).map(|id| format!("{id:03}")))),
        (edge(Direction::Incoming, "x"), Filter::text_in(Field::parse("a").unwrap(), ["x".into(), "Ab".into()])),
        (edge(Direction::Outgoing, "none"), Filter::ids([])),
    ])
}

fn case() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just(""), 1 => Just("~cs"), 1 => Just("~ci")]
}

fn equals() -> impl Strategy<Value = &'static str> {
    prop_oneof![2 => Just(":"), 1 => Just(":!")]
}

fn orders() -> impl Strategy<Value = &'static str> {
    select(vec![":<", ":>", ":<=", ":>="])
}

fn patterns() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        2 => "[ab_äÄ]",
        1 => quoted_texts().prop_map(|text| if text == "\"\"" { "\"a\"".into() } else { text }),
    ];
    let wild = select(vec!["*", "?", "??", "*?"]);
    prop_oneof![
        piece.clone().prop_map(|v| format!("*{v}*")),
        piece.clone().prop_map(|v| format!("*{v}")),
        piece.clone().prop_map(|v| format!("{v}*")),
        (wild, piece.clone(), piece).prop_map(|(wild, a, b)| format!("{a}{wild}{b}")),
        Just("?".to_owned()),
        Just("???*".to_owned()),
    ]
}

fn items() -> impl Strategy<Value = String> {
    prop_oneof![
        words(),
        quoted_texts(),
        number_literals(),
        date_literals(),
        variable_names(),
        select(vec!["true", "FALSE", "@@507f1f77bcf86cd799439011", "@@aB", "@@\"x y\"", OID, "${list}"])
            .prop_map(str::to_owned),
    ]
}

fn conditions() -> impl Strategy<Value = String> {
    let text = prop_oneof![words(), quoted_texts(), variable_names(), Just(OID.to_owned())];
    let ordered_text = prop_oneof![words(), quoted_texts(), select(ORDERED_VARIABLES).prop_map(str::to_owned)];
    prop_oneof![
        6 => (fields(), equals(), text, case()).prop_map(|(field, op, text, case)| format!("{field}{op}{text}{case}")),
        3 => (fields(), equals(), number_literals()).prop_map(|(field, op, number)| format!("{field}{op}{number}")),
        3 => (fields(), equals(), date_literals()).prop_map(|(field, op, date)| format!("{field}{op}{date}")),
        3 => (fields(), orders(), ordered_text, case()).prop_map(|(field, op, text, case)| format!("{field}{op}{text}{case}")),
        3 => (fields(), orders(), number_literals()).prop_map(|(field, op, number)| format!("{field}{op}{number}")),
        3 => (fields(), orders(), date_literals()).prop_map(|(field, op, date)| format!("{field}{op}{date}")),
        2 => fields().prop_map(|field| format!("{field}:~")),
        2 => (fields(), equals(), select(vec!["null", "true", "false", "TRUE"])).prop_map(|(f, op, v)| format!("{f}{op}{v}")),
        1 => (fields(), equals(), select(vec![OID, "aB", "AB", "x y", "\"50%\""]))
            .prop_map(|(field, op, id)| format!("{field}{op}@@{id}")),
        5 => (fields(), equals(), patterns(), case()).prop_map(|(f, op, pattern, case)| format!("{f}{op}{pattern}{case}")),
        5 => (fields(), select(vec![":^", ":!^"]), prop::collection::vec(items(), 1..5))
            .prop_map(|(field, op, items)| format!("{field}{op}[{}]", items.join(","))),
        1 => (fields(), select(vec!["${list}", "${none}", "${commas}"])).prop_map(|(field, name)| format!("{field}:^[{name}]")),
    ]
}

/// Groups, negations and element matches that contain conditions from `leaf`.
fn nested(leaf: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    leaf.prop_recursive(4, 12, 3, |inner| {
        let joined = |sign: &'static str, inner: BoxedStrategy<String>| {
            prop::collection::vec(inner, 2..4).prop_map(move |parts| format!("({})", parts.join(sign)))
        };
        let inner = inner.boxed();
        prop_oneof![
            joined(" && ", inner.clone()),
            joined("||", inner.clone()),
            inner.clone().prop_map(|inner| format!("!!{inner}")),
            ("[a-d]", inner.clone()).prop_map(|(field, inner)| format!("{field}:{{{inner}}}")),
            ("[a-d]\\.[a-d]", inner).prop_map(|(field, inner)| format!("{field}:{{{inner}}}")),
        ]
    })
}

/// Queries without relations.
pub(crate) fn queries() -> impl Strategy<Value = String> {
    let words = prop_oneof![
        quoted_texts().prop_filter("words", |text| !text.trim_matches(['"', ' ']).trim().is_empty()),
        words()
    ];
    prop_oneof![
        8 => nested(conditions()),
        1 => words.clone().prop_map(|words| format!("text({words})")),
        1 => (words, nested(conditions())).prop_map(|(words, query)| format!("text({words}) && {query}")),
    ]
}

/// Queries with every feature of the language.
pub(crate) fn all_queries() -> impl Strategy<Value = String> {
    let relations = select(vec!["hasEdge(owns, x)", "hasIncomingEdge(\"owns\", x)", "hasOutgoingEdge(owns, none)"]);
    let neutral = select(vec!["expand(a)", "expand(a[*].b c, d:e || f:#1)", "fields:[+a,-b.c]"]);
    let leaf =
        prop_oneof![6 => conditions(), 2 => relations.prop_map(str::to_owned), 1 => neutral.prop_map(str::to_owned)];
    nested(leaf)
}
