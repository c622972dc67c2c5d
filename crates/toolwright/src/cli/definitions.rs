//! Definitions in files: found, parsed and told apart before anything is sent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::client::{AGENTS, FRAGMENTS, PROVIDERS, TOOLS, TYPES};
use super::failure::Failure;
use super::gram;

/// What a document defines. What others refer to comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A connection to a system.
    Provider,
    /// A part of agents' instructions.
    Fragment,
    /// A type of records.
    Type,
    /// A tool.
    Tool,
    /// An agent.
    Agent,
}

/// Fields that only one kind has.
const MARKS: [(Kind, &[&str]); 5] = [
    (Kind::Tool, &["toolType"]),
    (Kind::Provider, &["providerType", "baseUrl", "auth"]),
    (Kind::Agent, &["llmConfig", "systemPrompt", "systemPromptRefs", "toolRefs", "toolCategories", "toolTags"]),
    (Kind::Fragment, &["content"]),
    (Kind::Type, &["jsonSchema", "searchableFields", "excludeOperations", "singularName", "pluralName", "relations"]),
];

/// One definition, ready to be sent.
#[derive(Debug)]
pub struct Definition {
    /// What it is.
    pub kind: Kind,
    /// How it is addressed.
    pub name: String,
    /// Its fields.
    pub body: Value,
    /// Where it was written.
    pub place: Place,
}

/// A document in a file.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The document in the file, from 1.
    pub document: usize,
}

impl Kind {
    /// The kind in words.
    pub fn noun(self) -> &'static str {
        match self {
            Kind::Provider => "provider",
            Kind::Fragment => "fragment",
            Kind::Type => "type",
            Kind::Tool => "tool",
            Kind::Agent => "agent",
        }
    }

    /// Where the server keeps them.
    pub fn collection(self) -> &'static str {
        match self {
            Kind::Provider => PROVIDERS,
            Kind::Fragment => FRAGMENTS,
            Kind::Type => TYPES,
            Kind::Tool => TOOLS,
            Kind::Agent => AGENTS,
        }
    }

    /// The kind that `kind` names in a document.
    fn named(word: &str) -> Option<Self> {
        let all = [Kind::Provider, Kind::Fragment, Kind::Type, Kind::Tool, Kind::Agent];
        all.into_iter().find(|kind| kind.noun() == word)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (document {})", self.file.display(), self.document)
    }
}

/// Standard input, as a path.
pub const STDIN: &str = "-";

/// Every definition in these files and folders, in the order of kinds. `format` is the language of standard input, where
/// that is said; `assumed` is what a document defines that does not say it. Fails with everything that is wrong.
pub fn read(paths: &[PathBuf], format: Option<Format>, assumed: Option<Kind>) -> Result<Vec<Definition>, Failure> {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        let found = files.len();
        let is_wanted = |path: &Path| extension(path).is_some();
        collect(path, &is_wanted, &mut files)
            .map_err(|error| Failure::Usage(format!("read `{}`: {error}", path.display())))?;
        if files.len() == found {
            return Err(Failure::Usage(format!("there is no {KNOWN} file in `{}`", path.display())));
        }
    }
    if format.is_some() && !files.iter().any(|file| file == Path::new(STDIN)) {
        return Err(Failure::Usage("--format is about standard input, `-f -`; a file has a name that says it".into()));
    }
    let (mut definitions, mut texts) = (Vec::new(), Vec::new());
    for file in files {
        match text_of(&file).and_then(|text| Ok((language(&file, &text, format)?, text))) {
            // Such texts know each other's names and are read together.
            Ok((Format::Gram, text)) => texts.push((file, text)),
            Ok((language, text)) => match parse(&file, &text, language) {
                Ok(documents) => documents.into_iter().for_each(|(place, body)| match classify(place, body, assumed) {
                    Ok(definition) => definitions.push(definition),
                    Err(error) => errors.push(error),
                }),
                Err(error) => errors.push(format!("{}: {error}", file.display())),
            },
            Err(error) => errors.push(format!("{}: {error}", file.display())),
        }
    }
    match gram::definitions(texts) {
        Ok(found) => definitions.extend(found),
        Err(found) => errors.extend(found),
    }
    errors.extend(doubles(&definitions));
    definitions.sort_by_key(|definition| definition.kind);
    if errors.is_empty() { Ok(definitions) } else { Err(Failure::Definitions(errors)) }
}

/// The files at a path, by name; in a folder those that are wanted. A link to a folder is not followed: it may lead back.
pub fn collect(path: &Path, is_wanted: &dyn Fn(&Path) -> bool, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path == Path::new(STDIN) || !fs::metadata(path)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, is_wanted, files)?;
        } else if is_wanted(&path) && !path.is_dir() {
            files.push(path);
        }
    }
    Ok(())
}

/// What is in a file, or on standard input.
pub fn bytes_of(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new(STDIN) {
        return fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A document that the server is to read: where it is, or itself.
pub fn document_at(source: &str) -> Result<(&'static str, String), Failure> {
    if source.starts_with("http://") || source.starts_with("https://") {
        return Ok(("url", source.to_owned()));
    }
    let text = String::from_utf8(bytes_at(source)?);
    Ok(("document", text.map_err(|_| Failure::Usage(format!("read `{source}`: it is no UTF-8 text")))?))
}

/// What is in a file, or comes from standard input.
pub fn bytes_at(source: &str) -> Result<Vec<u8>, Failure> {
    bytes_of(Path::new(source)).map_err(|error| Failure::Usage(format!("read `{source}`: {error}")))
}

fn text_of(file: &Path) -> Result<String, String> {
    let bytes = bytes_of(file).map_err(|error| error.to_string())?;
    toolwright_gram::decode(&bytes).map(str::to_owned).map_err(|mistakes| mistakes.to_string())
}

/// A language in which definitions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// JSON
    Json,
    /// YAML, which all JSON is too
    Yaml,
    /// Gram notation
    Gram,
}

/// The languages, for messages.
const KNOWN: &str = ".json, .yaml, .yml or .gram";

fn extension(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "json" => Some(Format::Json),
        "yaml" | "yml" => Some(Format::Yaml),
        "gram" => Some(Format::Gram),
        _ => None,
    }
}

/// The language of a file, or of standard input, where the text tells if the caller does not.
fn language(file: &Path, text: &str, format: Option<Format>) -> Result<Format, String> {
    if file != Path::new(STDIN) {
        return extension(file).ok_or_else(|| format!("is no {KNOWN} file"));
    }
    Ok(format.unwrap_or(if gram::is_gram(text) { Format::Gram } else { Format::Yaml }))
}

/// The documents of a JSON or YAML text: an array is as many as it has elements, and an empty YAML document is none.
fn parse(file: &Path, text: &str, language: Format) -> Result<Vec<(Place, Value)>, String> {
    let roots: Vec<Value> = match language {
        Format::Json => vec![serde_json::from_str(text).map_err(|error| error.to_string())?],
        _ => serde_norway::Deserializer::from_str(text)
            .map(Value::deserialize)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?,
    };
    let documents = roots.into_iter().filter(|root| !root.is_null()).flat_map(|root| match root {
        Value::Array(elements) => elements,
        other => vec![other],
    });
    let place = |index: usize| Place { file: file.to_owned(), document: index + 1 };
    Ok(documents.enumerate().map(|(index, body)| (place(index), body)).collect())
}

fn classify(place: Place, mut body: Value, assumed: Option<Kind>) -> Result<Definition, String> {
    let wrong = |why: &str| format!("{place}: {why}");
    let fields = body.as_object_mut().ok_or_else(|| wrong("a definition is an object"))?;
    let has = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
    let kind = match fields.get("kind") {
        Some(word) => word
            .as_str()
            .and_then(Kind::named)
            .ok_or_else(|| wrong("`kind` is `tool`, `provider`, `agent`, `fragment` or `type`"))?,
        None => {
            let marked = MARKS.into_iter().find(|(_, marks)| marks.iter().any(has)).map(|(kind, _)| kind);
            marked.or(assumed).ok_or_else(|| {
                wrong("what is it? say `kind: tool`, `provider`, `agent`, `fragment` or `type`, or give `toolType` or `providerType`")
            })?
        }
    };
    fields.shift_remove("kind");
    // The server takes the name for the refName too.
    let named = ["refName", "name"].iter().find_map(|key| fields.get(*key).and_then(Value::as_str));
    let name = named.filter(|name| !name.is_empty()).ok_or_else(|| wrong("`refName` is missing"))?.to_owned();
    Ok(Definition { kind, name, body, place })
}

/// Two definitions of the same thing would overwrite each other in an order nobody sees.
fn doubles(definitions: &[Definition]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let mut errors = Vec::new();
    for definition in definitions {
        let version = definition.body.get("version").and_then(Value::as_str).unwrap_or("1.0.0");
        let key = (definition.kind, definition.name.to_lowercase(), version);
        if let Some(first) = seen.insert(key, &definition.place) {
            let (noun, name) = (definition.kind.noun(), &definition.name);
            errors.push(format!("{}: {noun} `{name}` is also in {first}", definition.place));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place() -> Place {
        Place { file: "f.json".into(), document: 2 }
    }

    #[test]
    fn documents_are_told_apart_by_their_fields() {
        for (body, kind) in [
            (json!({ "refName": "a", "toolType": "FUNCTION" }), Kind::Tool),
            (json!({ "refName": "a", "providerType": "REST" }), Kind::Provider),
            (json!({ "refName": "a", "baseUrl": "http://h" }), Kind::Provider),
            (json!({ "refName": "a", "auth": {} }), Kind::Provider),
            (json!({ "name": "a", "kind": "provider" }), Kind::Provider),
            (json!({ "refName": "a", "kind": "tool", "auth": {} }), Kind::Tool),
            (json!({ "refName": "a", "systemPrompt": "be kind" }), Kind::Agent),
            (json!({ "refName": "a", "content": "be kind" }), Kind::Fragment),
            (json!({ "refName": "a", "kind": "fragment" }), Kind::Fragment),
            (json!({ "name": "a", "jsonSchema": {} }), Kind::Type),
            (json!({ "name": "a", "kind": "type" }), Kind::Type),
            (json!({ "refName": "a" }), Kind::Agent),
        ] {
            let definition = classify(place(), body.clone(), Some(Kind::Agent)).unwrap();
            assert_eq!(definition.kind, kind, "{body}");
            assert_eq!(definition.name, "a");
            assert!(definition.body.get("kind").is_none());
        }
    }

    #[test]
    fn what_cannot_be_told_apart_names_file_and_document() {
        for body in [json!({ "refName": "a" }), json!({ "kind": "agents" }), json!([]), json!({ "kind": "tool" })] {
            let error = classify(place(), body, None).unwrap_err();
            assert!(error.starts_with("f.json (document 2): "), "{error}");
        }
    }

    #[test]
    fn yaml_has_many_documents_and_numbers_for_keys() {
        let text =
            "---\nrefName: a\nerrorHandling:\n  400: { action: clarify }\n---\n---\n- refName: b\n- refName: c\n";
        let documents = parse(Path::new("f.yml"), text, Format::Yaml).unwrap();
        let names: Vec<_> = documents.iter().map(|(place, body)| (place.document, body["refName"].clone())).collect();
        assert_eq!(names, [(1, json!("a")), (2, json!("b")), (3, json!("c"))]);
        assert_eq!(documents[0].1["errorHandling"]["400"]["action"], "clarify");
    }

    #[test]
    fn folders_are_read_through_and_what_others_refer_to_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/tool.json", r#"[{"refName":"t1","toolType":"FUNCTION"},{"refName":"t2","toolType":"FUNCTION"}]"#);
        write("b/deep/provider.yaml", "refName: p\nbaseUrl: http://h\n");
        write("a/agent.yaml", "refName: a\nsystemPromptRefs: [f]\ntoolRefs: [t1]\n---\nrefName: f\ncontent: text\n");
        write("b/notes.txt", "not a definition");
        let read = read(&[folder.path().to_owned()], None, None).unwrap();
        let names: Vec<_> = read.iter().map(|definition| definition.name.as_str()).collect();
        assert_eq!(names, ["p", "f", "t1", "t2", "a"]);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("1.json"), "{").unwrap();
        fs::write(path("2.json"), r#"{"refName":"x"}"#).unwrap();
        fs::write(path("3.yaml"), "refName: T\ntoolType: FUNCTION\n---\nrefName: t\ntoolType: FUNCTION\n").unwrap();
        let Err(Failure::Definitions(errors)) = read(&[folder.path().to_owned()], None, None) else {
            panic!("read although wrong");
        };
        assert_eq!(errors.len(), 3, "{errors:#?}");
        assert!(errors[2].contains("tool `t` is also in"), "{errors:#?}");
        assert!(matches!(read(&[path("none")], None, None), Err(Failure::Usage(_))));
    }
}
