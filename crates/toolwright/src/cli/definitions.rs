//! Finds and parses definition files, and determines the kind of each definition before anything is sent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use toolwright_types::UniqueKeys;

use super::client::{
    AGENTS, CONDITION_BINDINGS, FRAGMENTS, PROVIDERS, STEP_REGISTRATIONS, TOOLS, TRIGGERS, TYPES, WEBHOOKS, WORKFLOWS,
};
use super::failure::Failure;
use super::gram;
use super::source_lines::{self, DocumentLines};

/// The kind of a definition. The variants are in the order in which definitions are applied: a definition comes after
/// the definitions that it refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ResourceKind {
    Provider,
    Fragment,
    Type,
    Tool,
    Agent,
    StepRegistration,
    ConditionBinding,
    Workflow,
    Trigger,
    Webhook,
}

/// Fields that identify the kind of a definition.
const DISTINCTIVE_FIELDS: [(ResourceKind, &[&str]); 10] = [
    (ResourceKind::Tool, &["toolType"]),
    (ResourceKind::Provider, &["providerType", "baseUrl", "auth"]),
    (ResourceKind::Agent, &["llmConfig", "systemPrompt", "systemPromptRefs", "toolRefs", "toolCategories", "toolTags"]),
    (ResourceKind::Fragment, &["content"]),
    (
        ResourceKind::Type,
        &["jsonSchema", "searchableFields", "excludeOperations", "singularName", "pluralName", "relations"],
    ),
    (ResourceKind::Workflow, &["steps"]),
    (ResourceKind::StepRegistration, &["toolRef", "inputMapping", "outputMapping"]),
    (ResourceKind::ConditionBinding, &["condition"]),
    (ResourceKind::Trigger, &["target", "cron"]),
    (ResourceKind::Webhook, &["url", "events"]),
];

/// The rule for the field `kind` of a document.
const KIND_RULE: &str = "`tool`, `provider`, `agent`, `fragment`, `type`, `workflow`, `step-registration`, `condition-binding`, `webhook` or, \
     for a trigger, `schedule` or `webhook`";

/// A definition, ready to be sent.
#[derive(Debug)]
pub(super) struct FileDefinition {
    pub kind: ResourceKind,
    /// The name that identifies the definition in requests.
    pub name: String,
    /// The fields.
    pub body: Value,
    /// Where the definition was read from.
    pub location: SourceLocation,
    /// The line numbers of the fields; empty for gram.
    pub lines: DocumentLines,
}

/// The position of a definition in a file.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct SourceLocation {
    pub file: PathBuf,
    /// The number of the document in the file, starting at 1.
    pub document: usize,
    /// The line where the document begins, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl ResourceKind {
    /// All kinds, in the order in which definitions are applied.
    pub(super) const ALL: [Self; 10] = [
        Self::Provider,
        Self::Fragment,
        Self::Type,
        Self::Tool,
        Self::Agent,
        Self::StepRegistration,
        Self::ConditionBinding,
        Self::Workflow,
        Self::Trigger,
        Self::Webhook,
    ];

    /// Returns the name of the kind.
    pub(super) fn noun(self) -> &'static str {
        match self {
            ResourceKind::Provider => "provider",
            ResourceKind::Fragment => "fragment",
            ResourceKind::Type => "type",
            ResourceKind::Tool => "tool",
            ResourceKind::Agent => "agent",
            ResourceKind::StepRegistration => "step-registration",
            ResourceKind::ConditionBinding => "condition-binding",
            ResourceKind::Workflow => "workflow",
            ResourceKind::Trigger => "trigger",
            ResourceKind::Webhook => "webhook",
        }
    }

    /// Returns the API path of the kind.
    pub(super) fn collection(self) -> &'static str {
        match self {
            ResourceKind::Provider => PROVIDERS,
            ResourceKind::Fragment => FRAGMENTS,
            ResourceKind::Type => TYPES,
            ResourceKind::Tool => TOOLS,
            ResourceKind::Agent => AGENTS,
            ResourceKind::StepRegistration => STEP_REGISTRATIONS,
            ResourceKind::ConditionBinding => CONDITION_BINDINGS,
            ResourceKind::Workflow => WORKFLOWS,
            ResourceKind::Trigger => TRIGGERS,
            ResourceKind::Webhook => WEBHOOKS,
        }
    }

    /// Parses the `kind` field of a document. A trigger has a field of its own with this name: what causes a run.
    fn from_name(value: &str, is_trigger: bool) -> Option<Self> {
        match value {
            "schedule" => Some(Self::Trigger),
            "webhook" if is_trigger => Some(Self::Trigger),
            _ => Self::ALL.into_iter().find(|kind| kind.noun() == value),
        }
    }
}

impl std::fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file.display()),
            None => write!(f, "{} (document {})", self.file.display(), self.document),
        }
    }
}

/// The path that stands for standard input.
pub(super) const STDIN: &str = "-";

/// Reads the JSON and YAML documents of files, without a check of their fields. Reports all errors together.
pub(super) fn read_documents(files: &[PathBuf]) -> Result<Vec<ParsedDocument>, Failure> {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        let name = file.display();
        let bytes = read_bytes(file).map_err(|error| Failure::Usage(format!("cannot read `{name}`: {error}")))?;
        let text = match toolwright_gram::decode(&bytes) {
            Ok(text) => text,
            Err(error) => {
                errors.push(format!("{name}: {error}"));
                continue;
            }
        };
        let format = format_from_extension(file).filter(|format| *format == Format::Json).unwrap_or(Format::Yaml);
        let (found, error) = parse(file, text, format);
        if found.is_empty() && error.is_none() {
            errors.push(format!("{name}: contains no document"));
        }
        documents.extend(found);
        errors.extend(error.map(|error| format!("{name}: {error}")));
    }
    let objects = documents.iter().filter(|document| !document.body.is_object());
    errors.extend(objects.map(|document| format!("{}: must be an object", document.location)));
    if errors.is_empty() { Ok(documents) } else { Err(Failure::InvalidDefinitions(errors)) }
}

/// Reads all definitions in files and directories, sorted by kind. `format` is the format of standard input, if given.
/// `default_kind` is the kind of documents that do not indicate one. Reports all errors together.
pub(super) fn read(
    paths: &[PathBuf],
    format: Option<Format>,
    default_kind: Option<ResourceKind>,
) -> Result<(Vec<FileDefinition>, String), Failure> {
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        let found = files.len();
        let is_included = |path: &Path| format_from_extension(path).is_some();
        collect_files(path, &is_included, &mut files)
            .map_err(|error| Failure::Usage(format!("cannot read `{}`: {error}", path.display())))?;
        if files.len() == found {
            return Err(Failure::Usage(format!("no {KNOWN_EXTENSIONS} file found in `{}`", path.display())));
        }
    }
    if format.is_some() && !files.iter().any(|file| file == Path::new(STDIN)) {
        return Err(Failure::Usage(
            "--format applies to standard input (`-f -`) only; the format of a file is determined by its extension"
                .into(),
        ));
    }
    let (mut definitions, mut gram_texts) = (Vec::new(), Vec::new());
    for file in files {
        match read_text(&file).and_then(|text| Ok((detect_format(&file, &text, format)?, text))) {
            // A gram text may use names that another gram text defines, so all of them are parsed together.
            Ok((Format::Gram, text)) => gram_texts.push((file, text)),
            Ok((format, text)) => {
                let (documents, error) = parse(&file, &text, format);
                for ParsedDocument { location, lines, body } in documents {
                    match classify(location, lines, body, default_kind) {
                        Ok(definition) => definitions.push(definition),
                        Err(error) => errors.push(error),
                    }
                }
                errors.extend(error.map(|error| format!("{}: {error}", file.display())));
            }
            Err(error) => errors.push(format!("{}: {error}", file.display())),
        }
    }
    let gram_text = gram_texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n");
    match gram::definitions(gram_texts) {
        Ok(found) => definitions.extend(found),
        Err(found) => errors.extend(found),
    }
    errors.extend(find_duplicates(&definitions));
    definitions.sort_by_key(|definition| definition.kind);
    if errors.is_empty() { Ok((definitions, gram_text)) } else { Err(Failure::InvalidDefinitions(errors)) }
}

/// Collects the file at a path, or the included files of a directory, sorted by name. Symbolic links to directories are
/// not followed, because they may form a cycle.
pub(super) fn collect_files(
    path: &Path,
    is_included: &dyn Fn(&Path) -> bool,
    files: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    if path == Path::new(STDIN) || !fs::metadata(path)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect_files(&path, is_included, files)?;
        } else if is_included(&path) && !path.is_dir() {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads a file or standard input.
pub(super) fn read_bytes(file: &Path) -> std::io::Result<Vec<u8>> {
    if file != Path::new(STDIN) {
        return fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the request field, as name and value, that passes the document at `source` to the server: its URL, or the
/// text of a file or of standard input.
pub(super) fn document_source(source: &str) -> Result<(&'static str, String), Failure> {
    if source.starts_with("http://") || source.starts_with("https://") {
        return Ok(("url", source.to_owned()));
    }
    Ok(("document", read_document(source)?))
}

/// Reads the text of a file or of standard input.
pub(super) fn read_document(source: &str) -> Result<String, Failure> {
    let text = String::from_utf8(read_source(source)?);
    text.map_err(|_| Failure::Usage(format!("cannot read `{source}`: not valid UTF-8")))
}

/// Reads a file or standard input, with a usage error on failure.
pub(super) fn read_source(source: &str) -> Result<Vec<u8>, Failure> {
    read_bytes(Path::new(source)).map_err(|error| Failure::Usage(format!("cannot read `{source}`: {error}")))
}

fn read_text(file: &Path) -> Result<String, String> {
    let bytes = read_bytes(file).map_err(|error| error.to_string())?;
    toolwright_gram::decode(&bytes).map(str::to_owned).map_err(|diagnostics| diagnostics.to_string())
}

/// The format of a definition file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// JSON
    Json,
    /// YAML, a superset of JSON
    Yaml,
    /// Gram notation
    Gram,
}

/// The known file extensions, for messages.
const KNOWN_EXTENSIONS: &str = ".json, .yaml, .yml or .gram";

fn format_from_extension(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()? {
        "json" => Some(Format::Json),
        "yaml" | "yml" => Some(Format::Yaml),
        "gram" => Some(Format::Gram),
        _ => None,
    }
}

/// Determines the format of `text`. The extension decides for a file. For standard input, `format` decides, or the text
/// itself if `format` is `None`.
fn detect_format(file: &Path, text: &str, format: Option<Format>) -> Result<Format, String> {
    if file != Path::new(STDIN) {
        return format_from_extension(file).ok_or_else(|| format!("must be a {KNOWN_EXTENSIONS} file"));
    }
    Ok(format.unwrap_or(if gram::is_gram(text) { Format::Gram } else { Format::Yaml }))
}

/// A parsed document of a file.
#[derive(Debug)]
pub(super) struct ParsedDocument {
    /// Where the document was read from.
    pub location: SourceLocation,
    /// The line numbers of the fields.
    pub lines: DocumentLines,
    /// The document.
    pub body: Value,
}

/// Parses the documents of a JSON or YAML text. Each element of an array is a document. Empty YAML documents are
/// skipped. Returns the documents before the first syntax error, and the error.
fn parse(file: &Path, text: &str, format: Format) -> (Vec<ParsedDocument>, Option<String>) {
    let (mut roots, mut error) = (Vec::new(), None);
    match format {
        Format::Json => match serde_json::from_str(text) {
            Ok(UniqueKeys(root)) => roots.push(root),
            Err(invalid) => error = Some(invalid.to_string()),
        },
        _ => {
            for document in serde_norway::Deserializer::from_str(text) {
                match UniqueKeys::deserialize(document) {
                    Ok(UniqueKeys(root)) => roots.push(root),
                    Err(invalid) => {
                        error = Some(invalid.to_string());
                        break;
                    }
                }
            }
        }
    }
    roots.retain(|root| !root.is_null());
    let mut scanned = source_lines::scan(text).into_iter();
    let documents = roots.into_iter().flat_map(|root| {
        let lines = scanned.next().unwrap_or_default();
        match root {
            Value::Array(elements) => {
                elements.into_iter().enumerate().map(|(index, body)| (lines.element(index), body)).collect()
            }
            body => vec![(lines, body)],
        }
    });
    let document = |(index, (lines, body)): (usize, (DocumentLines, Value))| {
        let location = SourceLocation { file: file.to_owned(), document: index + 1, line: lines.line("") };
        ParsedDocument { location, lines, body }
    };
    (documents.enumerate().map(document).collect(), error)
}

fn classify(
    location: SourceLocation,
    lines: DocumentLines,
    mut body: Value,
    default_kind: Option<ResourceKind>,
) -> Result<FileDefinition, String> {
    let invalid = |why: &str| format!("{location}: {why}");
    let fields = body.as_object_mut().ok_or_else(|| invalid("a definition must be an object"))?;
    let has = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
    let kind = match fields.get("kind") {
        Some(value) => value
            .as_str()
            .and_then(|name| ResourceKind::from_name(name, has(&"target")))
            .ok_or_else(|| invalid(&format!("`kind` must be {KIND_RULE}")))?,
        None => {
            let recognized =
                DISTINCTIVE_FIELDS.into_iter().find(|(_, names)| names.iter().any(has)).map(|(kind, _)| kind);
            recognized.or(default_kind).ok_or_else(|| {
                invalid(&format!("cannot determine the kind of definition; add `kind` with {KIND_RULE}"))
            })?
        }
    };
    if kind != ResourceKind::Trigger {
        fields.shift_remove("kind");
    }
    // The server also accepts `name` as the refName.
    let named = ["refName", "name"].iter().find_map(|key| fields.get(*key).and_then(Value::as_str));
    let name = named.filter(|name| !name.is_empty()).ok_or_else(|| invalid("`refName` is required"))?.to_owned();
    Ok(FileDefinition { kind, name, body, location, lines })
}

/// Finds definitions with the same kind, name and version, which would overwrite each other.
fn find_duplicates(definitions: &[FileDefinition]) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let mut errors = Vec::new();
    for definition in definitions {
        let version = definition.body.get("version").and_then(Value::as_str).unwrap_or("1.0.0");
        let key = (definition.kind, definition.name.to_lowercase(), version);
        if let Some(first) = seen.insert(key, &definition.location) {
            let (noun, name) = (definition.kind.noun(), &definition.name);
            errors.push(format!("{}: {noun} `{name}` is already defined in {first}", definition.location));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn location() -> SourceLocation {
        SourceLocation { file: "f.json".into(), document: 2, line: None }
    }

    #[test]
    fn definition_kind_is_recognized_by_distinctive_fields() {
        for (body, kind) in [
            (json!({ "refName": "a", "toolType": "FUNCTION" }), ResourceKind::Tool),
            (json!({ "refName": "a", "providerType": "REST" }), ResourceKind::Provider),
            (json!({ "refName": "a", "baseUrl": "http://h" }), ResourceKind::Provider),
            (json!({ "refName": "a", "auth": {} }), ResourceKind::Provider),
            (json!({ "name": "a", "kind": "provider" }), ResourceKind::Provider),
            (json!({ "refName": "a", "kind": "tool", "auth": {} }), ResourceKind::Tool),
            (json!({ "refName": "a", "systemPrompt": "be kind" }), ResourceKind::Agent),
            (json!({ "refName": "a", "content": "be kind" }), ResourceKind::Fragment),
            (json!({ "refName": "a", "kind": "fragment" }), ResourceKind::Fragment),
            (json!({ "name": "a", "jsonSchema": {} }), ResourceKind::Type),
            (json!({ "name": "a", "kind": "type" }), ResourceKind::Type),
            (json!({ "name": "a", "steps": [] }), ResourceKind::Workflow),
            (json!({ "name": "a", "kind": "workflow" }), ResourceKind::Workflow),
            (json!({ "name": "a", "toolRef": "echo" }), ResourceKind::StepRegistration),
            (json!({ "name": "a", "kind": "step-registration" }), ResourceKind::StepRegistration),
            (json!({ "name": "a", "condition": "${input.ok}" }), ResourceKind::ConditionBinding),
            (json!({ "name": "a", "kind": "condition-binding" }), ResourceKind::ConditionBinding),
            (json!({ "refName": "a", "url": "http://h", "events": [] }), ResourceKind::Webhook),
            (json!({ "refName": "a", "kind": "webhook" }), ResourceKind::Webhook),
            (json!({ "refName": "a" }), ResourceKind::Agent),
        ] {
            let definition =
                classify(location(), DocumentLines::default(), body.clone(), Some(ResourceKind::Agent)).unwrap();
            assert_eq!(definition.kind, kind, "{body}");
            assert_eq!(definition.name, "a");
            assert!(definition.body.get("kind").is_none());
        }
    }

    #[test]
    fn trigger_keeps_its_kind() {
        for kind in ["schedule", "webhook"] {
            let body = json!({ "refName": "a", "kind": kind, "target": { "tool": "echo" } });
            let definition = classify(location(), DocumentLines::default(), body, None).unwrap();
            assert_eq!((definition.kind, &definition.body["kind"]), (ResourceKind::Trigger, &json!(kind)));
        }
    }

    #[test]
    fn definition_of_unrecognized_kind_is_rejected_with_its_location() {
        for body in [json!({ "refName": "a" }), json!({ "kind": "agents" }), json!([]), json!({ "kind": "tool" })] {
            let error = classify(location(), DocumentLines::default(), body, None).unwrap_err();
            assert!(error.starts_with("f.json (document 2): "), "{error}");
        }
    }

    #[test]
    fn yaml_file_may_contain_several_documents_and_numeric_keys() {
        let text =
            "---\nrefName: a\nerrorHandling:\n  400: { action: clarify }\n---\n---\n- refName: b\n- refName: c\n";
        let (documents, error) = parse(Path::new("f.yml"), text, Format::Yaml);
        assert_eq!(error, None);
        let names: Vec<_> = documents
            .iter()
            .map(|one| (one.location.document, one.location.to_string(), one.body["refName"].clone()))
            .collect();
        let expected =
            [(1, "f.yml:2".into(), json!("a")), (2, "f.yml:7".into(), json!("b")), (3, "f.yml:8".into(), json!("c"))];
        assert_eq!(names, expected);
        assert_eq!(documents[0].body["errorHandling"]["400"]["action"], "clarify");
    }

    #[test]
    fn definition_folders_are_read_recursively_and_sorted_by_dependency() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/tool.json", r#"[{"refName":"t1","toolType":"FUNCTION"},{"refName":"t2","toolType":"FUNCTION"}]"#);
        write("b/deep/provider.yaml", "refName: p\nbaseUrl: http://h\n");
        write("a/agent.yaml", "refName: a\nsystemPromptRefs: [f]\ntoolRefs: [t1]\n---\nrefName: f\ncontent: text\n");
        write(
            "a/flow.yaml",
            "refName: w\nsteps: []\n---\nname: c\ncondition: ${input.ok}\n---\nname: s\ntoolRef: t1\n",
        );
        write("b/notes.txt", "not a definition");
        let read = read(&[directory.path().to_owned()], None, None).unwrap();
        let names: Vec<_> = read.0.iter().map(|definition| definition.name.as_str()).collect();
        assert_eq!(names, ["p", "f", "t1", "t2", "a", "s", "c", "w"]);
    }

    #[test]
    fn errors_of_all_definition_files_are_reported_together() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("1.json"), "{").unwrap();
        fs::write(path("2.json"), r#"{"refName":"x"}"#).unwrap();
        fs::write(path("3.yaml"), "refName: T\ntoolType: FUNCTION\n---\nrefName: t\ntoolType: FUNCTION\n---\nkind: nonsense\n---\nrefName: u\na: [\n").unwrap();
        let Err(Failure::InvalidDefinitions(errors)) = read(&[directory.path().to_owned()], None, None) else {
            panic!("invalid files were accepted");
        };
        assert_eq!(errors.len(), 5, "{errors:#?}");
        assert!(errors[1].contains("2.json:1: cannot determine the kind"), "{errors:#?}");
        assert!(errors[2].contains("3.yaml:7: `kind` must be"), "{errors:#?}");
        assert!(errors[3].contains("3.yaml: ") && errors[3].contains("line 11"), "{errors:#?}");
        assert!(errors[4].contains("3.yaml:4: tool `t` is already defined in"), "{errors:#?}");
        assert!(matches!(read(&[path("none")], None, None), Err(Failure::Usage(_))));
    }
}
