//! The API reference: the OpenAPI document as one HTML page, served at `/docs`.
//!
//! The page needs no script and no other file, so it works offline and its content security policy can forbid
//! everything but its own style.

mod schema;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use schema::{description, schema_summary, schema_table};

const STYLE: &str = include_str!("style.css");

/// The headers of the page. They forbid scripts although the page shows no user content, because the page needs no
/// script.
pub(crate) const HEADERS: [(&str, &str); 2] = [
    ("content-type", "text/html; charset=utf-8"),
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    ),
];

/// One operation of the OpenAPI document.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    body: &'a Value,
}

/// Renders the OpenAPI document as HTML.
pub(crate) fn page(document: &Value) -> String {
    let operations = operations_by_tag(document);
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let version = text(document, "/info/version");
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>Toolwright API {version}</title><style>{STYLE}</style><nav>\
         <h1>Toolwright API</h1><p>Version {version} · <a href=\"/openapi.json\">openapi.json</a></p>",
        version = escape(version)
    );
    navigation(&mut page, &operations);
    page.push_str("<p><a href=\"#schemas\">Schemas</a></p></nav><main>");
    page.push_str(INTRODUCTION);
    for (tag, operations) in &operations {
        let _ = write!(page, "<h2 id=\"tag-{0}\">{0}</h2>", escape(tag));
        for operation in operations {
            render_operation(&mut page, operation);
        }
    }
    page.push_str("<h2 id=\"schemas\">Schemas</h2>");
    for (name, schema) in schemas.into_iter().flatten() {
        let _ = write!(page, "<section id=\"schema-{0}\"><h3>{0}</h3>", escape(name));
        schema_table(&mut page, schema);
        page.push_str("</section>");
    }
    page.push_str("</main></html>");
    page
}

const INTRODUCTION: &str = "<p>Every request needs an API key: <code>Authorization: Bearer KEY</code>. The header \
    <code>X-Realm: NAME</code> selects a realm other than the home realm of the key. A rejected request answers with \
    <code>application/problem+json</code>; its <code>type</code> is the path of a page that explains the error. Write \
    the slash of a name as <code>%2F</code> in a path.</p>";

fn operations_by_tag(document: &Value) -> BTreeMap<&str, Vec<Operation<'_>>> {
    let mut groups: BTreeMap<&str, Vec<Operation<'_>>> = BTreeMap::new();
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    for (path, item) in paths {
        for (method, body) in item.as_object().into_iter().flatten().filter(|(_, body)| body.is_object()) {
            groups.entry(text(body, "/tags/0")).or_default().push(Operation { method, path, body });
        }
    }
    groups
}

fn navigation(page: &mut String, groups: &BTreeMap<&str, Vec<Operation<'_>>>) {
    for (tag, operations) in groups {
        let _ = write!(page, "<details><summary>{}</summary>", escape(tag));
        for operation in operations {
            let _ = write!(
                page,
                "<a href=\"#{id}\"><b class=\"{method}\">{method}</b> {path}</a>",
                id = escape(operation.id()),
                method = escape(operation.method),
                path = escape(operation.path.trim_start_matches("/api/v1/ai"))
            );
        }
        page.push_str("</details>");
    }
}

impl Operation<'_> {
    fn id(&self) -> &str {
        text(self.body, "/operationId")
    }
}

fn render_operation(page: &mut String, operation: &Operation<'_>) {
    let _ = write!(
        page,
        "<section id=\"{id}\"><h3><b class=\"{method}\">{method}</b> <code>{path}</code></h3>",
        id = escape(operation.id()),
        method = escape(operation.method),
        path = escape(operation.path)
    );
    description(page, text(operation.body, "/summary"));
    description(page, text(operation.body, "/description"));
    let parameters = operation.body.get("parameters").and_then(Value::as_array);
    if let Some(parameters) = parameters.filter(|parameters| !parameters.is_empty()) {
        page.push_str("<h4>Parameters</h4><table>");
        for parameter in parameters {
            let required = parameter.get("required").and_then(Value::as_bool).unwrap_or(false);
            let _ = write!(
                page,
                "<tr><td><code>{}</code>{}<td>{}<td>",
                escape(text(parameter, "/name")),
                if required { " <i>required</i>" } else { "" },
                escape(text(parameter, "/in"))
            );
            schema_summary(page, parameter.get("schema").unwrap_or(&Value::Null));
            description(page, text(parameter, "/description"));
        }
        page.push_str("</table>");
    }
    if let Some(content) = operation.body.pointer("/requestBody/content").and_then(Value::as_object) {
        page.push_str("<h4>Body</h4><table>");
        contents(page, content);
        page.push_str("</table>");
    }
    page.push_str("<h4>Responses</h4><table>");
    for (status, response) in operation.body.get("responses").and_then(Value::as_object).into_iter().flatten() {
        let _ = write!(page, "<tr><td><code>{}</code><td colspan=\"2\">", escape(status));
        description(page, text(response, "/description"));
        if let Some(content) = response.get("content").and_then(Value::as_object) {
            contents(page, content);
        }
    }
    page.push_str("</table></section>");
}

fn contents(page: &mut String, content: &Map<String, Value>) {
    for (media_type, body) in content {
        let _ = write!(page, "<tr><td><td><code>{}</code><td>", escape(media_type));
        schema_summary(page, body.get("schema").unwrap_or(&Value::Null));
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Escapes text for HTML content and for attributes in double quotes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
