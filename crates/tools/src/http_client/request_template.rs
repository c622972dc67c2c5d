//! Renders HTTP requests from definitions. A value is escaped for the part of the request that it is inserted into:
//! path, query, header or body.

use base64::Engine;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use toolwright_expr::{JsonTextTemplate, Scope, Template, ValueTemplate, escape};
use toolwright_types::{BodyTemplate, ToolDefinition};
use url::Url;

use super::client::{HttpRequest, forbidden_header, forbidden_method};
use super::credentials;
use super::explode;
use super::provider::CompiledProvider;
use crate::{Issues, ToolFailure};

/// The compiled invocation of an HTTP tool.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    method: Method,
    path: Template,
    /// The query string in `invocation.path`, after the `?`.
    path_query: Option<Template>,
    query: Vec<(String, Template)>,
    headers: Vec<(HeaderName, Template)>,
    body: Body,
    content_type: HeaderValue,
}

#[derive(Debug)]
enum Body {
    None,
    /// The whole input, as JSON.
    Parameters,
    Json(ValueTemplate),
    JsonText(JsonTextTemplate),
    /// The fields of an object, form-encoded.
    FormFields(ValueTemplate),
    FormText(Template),
    Text(Template),
    /// A template that renders base64.
    Binary(Template),
}

impl RequestTemplate {
    /// Compiles the invocation of a tool. gRPC requests always use POST.
    pub(crate) fn compile(definition: &ToolDefinition, grpc: bool, issues: &mut Issues) -> Option<Self> {
        let invocation = &definition.invocation;
        if grpc && invocation.method.is_some() {
            issues.add(
                "/invocation/method",
                "must be absent for gRPC; name the method in the path as `package.Service/Method`",
            );
        }
        let default_method = if grpc { "POST" } else { "GET" };
        let method = invocation.method.as_deref().unwrap_or(default_method).to_ascii_uppercase();
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("`{method}` is not an HTTP method"));
        let method = method.and_then(|method| forbidden_method(&method).map_or(Ok(method), Err));
        let method = issues.check("/invocation/method", method);
        let text = invocation.path.as_deref().unwrap_or_default();
        let absolute = text.starts_with("http://") || text.starts_with("https://");
        match (&definition.provider_ref, absolute) {
            (None, false) => issues
                .add("/invocation/path", "must be an absolute http or https URL, because the tool has no providerRef"),
            // The provider's credentials must not be sent to a URL that the author of a tool chooses.
            (Some(_), true) => issues.add(
                "/invocation/path",
                "must be relative to the baseUrl of the provider, because the tool has a providerRef",
            ),
            _ => {}
        }
        if let Some(problem) = credentials::in_url(text) {
            issues.add("/invocation/path", problem);
        }
        let (path, path_query) = split_query(text);
        let path = issues.check("/invocation/path", Template::parse(path));
        if let Some(Err(refused)) = path.as_ref().and_then(Template::literal).map(escape::check_path) {
            issues.add("/invocation/path", refused.to_string());
        }
        let path_query = issues.check("/invocation/path", path_query.map(Template::parse).transpose());
        let query = query(definition, issues);
        let headers = headers(definition, issues);
        let content_type = invocation.content_type.as_deref().unwrap_or("application/json");
        let body = body(invocation.body_template.as_ref(), content_type, method.as_ref(), issues);
        let content_type = HeaderValue::from_str(content_type).map_err(|_| "must be a media type");
        Some(Self {
            content_type: issues.check("/invocation/contentType", content_type)?,
            method: method?,
            path: path?,
            path_query: path_query?,
            query,
            headers,
            body: body?,
        })
    }

    /// Renders the request for `input`, without credentials, and returns warnings about it.
    pub(crate) fn request(
        &self,
        provider: Option<&CompiledProvider>,
        input: &Value,
    ) -> Result<(HttpRequest, Vec<String>), ToolFailure> {
        let scope = Scope::new(input);
        let mut warnings = Vec::new();
        let url = self.url(provider, &scope, &mut warnings)?;
        let mut headers = HeaderMap::new();
        let mut origin_headers = provider.map(|provider| provider.headers.clone()).unwrap_or_default();
        for (name, template) in &self.headers {
            // A header whose template is a single expression is omitted if the expression is null.
            if template.single().is_some() && template.evaluate(&scope).map_err(render_failure)?.value.is_null() {
                continue;
            }
            let rendered = template.render(&scope, escape::header).map_err(render_failure)?;
            warnings.extend(rendered.warnings);
            let value = HeaderValue::from_str(&rendered.text).map_err(|_| header_failure(name.as_str()))?;
            origin_headers.insert(name.clone(), value);
        }
        let body = self.body(&scope, input, &mut warnings)?;
        if body.is_some() {
            headers.insert(CONTENT_TYPE, self.content_type.clone());
        }
        Ok((HttpRequest { method: self.method.clone(), url, headers, origin_headers, body }, warnings))
    }

    fn url(
        &self,
        provider: Option<&CompiledProvider>,
        scope: &Scope<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Url, ToolFailure> {
        let path = self.path.render(scope, escape::path_segment).map_err(render_failure)?;
        warnings.extend(path.warnings);
        escape::check_path(&path.text)
            .map_err(|refused| ToolFailure::invalid(refused.to_string()).reason("template"))?;
        let text = match provider.and_then(|provider| provider.base.as_ref()) {
            Some(base) => {
                format!("{}/{}", base.as_str().trim_end_matches('/'), path.text.trim_start_matches('/'))
            }
            None => path.text,
        };
        let mut url = Url::parse(&text)
            .map_err(|error| ToolFailure::invalid(format!("`{text}` is not a URL: {error}")).reason("template"))?;
        if let Some(template) = &self.path_query {
            let rendered = template.render(scope, escape::query).map_err(render_failure)?;
            warnings.extend(rendered.warnings);
            url.set_query(Some(&rendered.text));
        }
        for (name, template) in &self.query {
            let value = template.evaluate(scope).map_err(render_failure)?.value;
            let pairs = explode::parameters(name, &value);
            // Without this condition, `query_pairs_mut` would append a `?` even if there are no parameters.
            if !pairs.is_empty() {
                url.query_pairs_mut().extend_pairs(pairs);
            }
        }
        Ok(url)
    }

    fn body(&self, scope: &Scope<'_>, input: &Value, warnings: &mut Vec<String>) -> Result<Option<Bytes>, ToolFailure> {
        let mut text = |rendered: Result<toolwright_expr::RenderedText, toolwright_expr::EvalError>| {
            let rendered = rendered.map_err(render_failure)?;
            warnings.extend(rendered.warnings);
            Ok::<String, ToolFailure>(rendered.text)
        };
        let body = match &self.body {
            Body::None => return Ok(None),
            Body::Parameters => input.to_string(),
            Body::JsonText(template) => {
                let rendered = template.render(scope).map_err(render_failure)?;
                // If the template renders null, no body is sent.
                if rendered.text == "null" {
                    return Ok(None);
                }
                text(Ok(rendered))?
            }
            Body::FormText(template) => text(template.render(scope, escape::form))?,
            Body::Text(template) => text(template.render(scope, escape::text))?,
            Body::Binary(template) => {
                let encoded = text(template.render(scope, escape::text))?;
                let bytes = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).map_err(|error| {
                    ToolFailure::invalid(format!("a binary body must be base64: {error}")).reason("template")
                })?;
                return Ok(Some(bytes.into()));
            }
            // An object template renders absent parameters as null, without warnings.
            Body::Json(template) => template.render(scope).map_err(render_failure)?.value.to_string(),
            Body::FormFields(template) => form(&template.render(scope).map_err(render_failure)?.value)?,
        };
        Ok(Some(body.into()))
    }
}

fn query(definition: &ToolDefinition, issues: &mut Issues) -> Vec<(String, Template)> {
    let mut templates = Vec::new();
    for (name, value) in &definition.invocation.query {
        let path = format!("/invocation/query/{name}");
        if let Some(problem) = credentials::in_parameter(name, value) {
            issues.add(path, problem);
        } else if let Some(template) = issues.check(&path, Template::parse(value)) {
            templates.push((name.clone(), template));
        }
    }
    templates
}

fn headers(definition: &ToolDefinition, issues: &mut Issues) -> Vec<(HeaderName, Template)> {
    let mut templates = Vec::new();
    for (name, value) in &definition.invocation.headers {
        let path = format!("/invocation/headers/{name}");
        if let Some(problem) = credentials::in_header(name, value) {
            issues.add(path, problem);
            continue;
        }
        let parsed = issues.check(&path, name.parse::<HeaderName>());
        if let Some(problem) = parsed.as_ref().and_then(forbidden_header) {
            issues.add(path, problem);
            continue;
        }
        if let (Some(name), Some(template)) = (parsed, issues.check(&path, Template::parse(value))) {
            templates.push((name, template));
        }
    }
    templates
}

fn body(
    template: Option<&BodyTemplate>,
    content_type: &str,
    method: Option<&Method>,
    issues: &mut Issues,
) -> Option<Body> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = essence == "application/json" || essence.ends_with("+json");
    let form = essence == "application/x-www-form-urlencoded";
    let readable = essence.starts_with("text/") || essence.ends_with("xml") || essence.ends_with("graphql");
    let path = "/invocation/bodyTemplate";
    match template {
        None if matches!(method, Some(&Method::POST | &Method::PUT | &Method::PATCH)) && json => Some(Body::Parameters),
        None => Some(Body::None),
        Some(BodyTemplate::Text(text)) if text.is_empty() => Some(Body::None),
        Some(BodyTemplate::Json(value)) if form => {
            issues.check(path, ValueTemplate::compile(value)).map(Body::FormFields)
        }
        Some(BodyTemplate::Json(value)) if json => issues.check(path, ValueTemplate::compile(value)).map(Body::Json),
        Some(BodyTemplate::Json(_)) => {
            issues.add(path, format!("an object requires a JSON or form contentType, got `{essence}`"));
            None
        }
        Some(BodyTemplate::Text(text)) if json => issues.check(path, JsonTextTemplate::parse(text)).map(Body::JsonText),
        Some(BodyTemplate::Text(text)) if form => issues.check(path, Template::parse(text)).map(Body::FormText),
        Some(BodyTemplate::Text(text)) if readable => issues.check(path, Template::parse(text)).map(Body::Text),
        Some(BodyTemplate::Text(text)) => issues.check(path, Template::parse(text)).map(Body::Binary),
    }
}

fn form(fields: &Value) -> Result<String, ToolFailure> {
    let Value::Object(fields) = fields else {
        return Err(ToolFailure::invalid("a form must be an object").reason("template"));
    };
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        let values = match value {
            // In a form, a list becomes one field per item, even if the name does not end with `*`.
            Value::Array(items) if !name.ends_with("[*]") => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            form.extend_pairs(explode::parameters(name, value));
        }
    }
    Ok(form.finish())
}

/// Splits at the first `?` that is not inside an expression.
fn split_query(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0usize;
    let mut previous = ' ';
    for (index, c) in text.char_indices() {
        match c {
            '{' if depth > 0 || previous == '$' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '?' if depth == 0 => return (text.get(..index).unwrap_or_default(), text.get(index + 1..)),
            _ => {}
        }
        previous = c;
    }
    (text, None)
}

fn render_failure(error: toolwright_expr::EvalError) -> ToolFailure {
    ToolFailure::invalid(error.to_string()).reason("template")
}

fn header_failure(name: &str) -> ToolFailure {
    ToolFailure::invalid(format!("the value of header `{name}` contains characters that are not allowed in a header"))
        .reason("template")
}
