//! How a definition becomes a request: every hole knows where it stands, and values are escaped for that place.

use base64::Engine;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use toolwright_expr::{JsonTextTemplate, Scope, Template, ValueTemplate, escape};
use toolwright_types::{BodyTemplate, ToolDefinition};
use url::Url;

use super::client::{HttpRequest, refused_header, refused_method};
use super::credentials;
use super::provider::CompiledProvider;
use super::spread;
use crate::{Issues, ToolFailure};

/// The compiled invocation of an HTTP tool.
#[derive(Debug)]
pub(crate) struct HttpPlan {
    method: Method,
    path: Template,
    /// The part of the path behind `?`.
    path_query: Option<Template>,
    query: Vec<(String, Template)>,
    headers: Vec<(HeaderName, Template)>,
    body: Body,
    content_type: HeaderValue,
}

#[derive(Debug)]
enum Body {
    None,
    /// All parameters as one JSON object.
    Parameters,
    Json(ValueTemplate),
    JsonText(JsonTextTemplate),
    /// Fields of an object, form-encoded.
    FormFields(ValueTemplate),
    FormText(Template),
    Text(Template),
    /// A template whose text is base64.
    Binary(Template),
}

impl HttpPlan {
    /// The plan of a tool that makes requests; over `grpc`, they are always of one method.
    pub fn compile(definition: &ToolDefinition, grpc: bool, issues: &mut Issues) -> Option<Self> {
        let invocation = &definition.invocation;
        if grpc && invocation.method.is_some() {
            issues.add("/invocation/method", "a gRPC method is named in the path, as `package.Service/Method`");
        }
        let unsaid = if grpc { "POST" } else { "GET" };
        let method = invocation.method.as_deref().unwrap_or(unsaid).to_ascii_uppercase();
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("`{method}` is no HTTP method"));
        let method = method.and_then(|method| refused_method(&method).map_or(Ok(method), Err));
        let method = issues.take("/invocation/method", method);
        let text = invocation.path.as_deref().unwrap_or_default();
        let absolute = text.starts_with("http://") || text.starts_with("https://");
        match (&definition.provider_ref, absolute) {
            (None, false) => {
                issues.add("/invocation/path", "without a providerRef the path must be an absolute http or https URL")
            }
            // The provider's credentials are for the provider's address, not for one that a tool's author writes.
            (Some(_), true) => {
                issues.add("/invocation/path", "with a providerRef the path is relative to the provider's baseUrl")
            }
            _ => {}
        }
        if let Some(problem) = credentials::in_url(text) {
            issues.add("/invocation/path", problem);
        }
        let (path, path_query) = split_query(text);
        let path = issues.take("/invocation/path", Template::parse(path));
        if let Some(Err(refused)) = path.as_ref().and_then(Template::literal).map(escape::check_path) {
            issues.add("/invocation/path", refused.to_string());
        }
        let path_query = issues.take("/invocation/path", path_query.map(Template::parse).transpose());
        let query = query(definition, issues);
        let headers = headers(definition, issues);
        let content_type = invocation.content_type.as_deref().unwrap_or("application/json");
        let body = body(invocation.body_template.as_ref(), content_type, method.as_ref(), issues);
        let content_type = HeaderValue::from_str(content_type).map_err(|_| "is no media type");
        Some(Self {
            content_type: issues.take("/invocation/contentType", content_type)?,
            method: method?,
            path: path?,
            path_query: path_query?,
            query,
            headers,
            body: body?,
        })
    }

    /// The request for `input`, without credentials; and what was odd about it.
    pub fn request(
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
            // An optional parameter that was not given is not sent.
            if template.single().is_some() && template.evaluate(&scope).map_err(unrenderable)?.value.is_null() {
                continue;
            }
            let rendered = template.render(&scope, escape::header).map_err(unrenderable)?;
            warnings.extend(rendered.warnings);
            let value = HeaderValue::from_str(&rendered.text).map_err(|_| unsendable(name.as_str()))?;
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
        let path = self.path.render(scope, escape::path_segment).map_err(unrenderable)?;
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
            .map_err(|error| ToolFailure::invalid(format!("`{text}` is no URL: {error}")).reason("template"))?;
        if let Some(template) = &self.path_query {
            let rendered = template.render(scope, escape::query).map_err(unrenderable)?;
            warnings.extend(rendered.warnings);
            url.set_query(Some(&rendered.text));
        }
        for (name, template) in &self.query {
            let value = template.evaluate(scope).map_err(unrenderable)?.value;
            let pairs = spread::pairs(name, &value);
            // Asking for the pairs alone would leave a lone `?` behind.
            if !pairs.is_empty() {
                url.query_pairs_mut().extend_pairs(pairs);
            }
        }
        Ok(url)
    }

    fn body(&self, scope: &Scope<'_>, input: &Value, warnings: &mut Vec<String>) -> Result<Option<Bytes>, ToolFailure> {
        let mut text = |rendered: Result<toolwright_expr::Rendered, toolwright_expr::EvalError>| {
            let rendered = rendered.map_err(unrenderable)?;
            warnings.extend(rendered.warnings);
            Ok::<String, ToolFailure>(rendered.text)
        };
        let body = match &self.body {
            Body::None => return Ok(None),
            Body::Parameters => input.to_string(),
            Body::JsonText(template) => {
                let rendered = template.render(scope).map_err(unrenderable)?;
                // A body that is optional and was not given is not sent.
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
                    ToolFailure::invalid(format!("a binary body is written as base64: {error}")).reason("template")
                })?;
                return Ok(Some(bytes.into()));
            }
            // Optional parameters render to null without a warning each: that is what an object template is for.
            Body::Json(template) => template.render(scope).map_err(unrenderable)?.value.to_string(),
            Body::FormFields(template) => form(&template.render(scope).map_err(unrenderable)?.value)?,
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
        } else if let Some(template) = issues.take(&path, Template::parse(value)) {
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
        let parsed = issues.take(&path, name.parse::<HeaderName>());
        if let Some(problem) = parsed.as_ref().and_then(refused_header) {
            issues.add(path, problem);
            continue;
        }
        if let (Some(name), Some(template)) = (parsed, issues.take(&path, Template::parse(value))) {
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
    let at = "/invocation/bodyTemplate";
    match template {
        None if matches!(method, Some(&Method::POST | &Method::PUT | &Method::PATCH)) && json => Some(Body::Parameters),
        None => Some(Body::None),
        Some(BodyTemplate::Text(text)) if text.is_empty() => Some(Body::None),
        Some(BodyTemplate::Json(value)) if form => issues.take(at, ValueTemplate::compile(value)).map(Body::FormFields),
        Some(BodyTemplate::Json(value)) if json => issues.take(at, ValueTemplate::compile(value)).map(Body::Json),
        Some(BodyTemplate::Json(_)) => {
            issues.add(at, format!("an object can be sent as JSON or as a form, not as `{essence}`"));
            None
        }
        Some(BodyTemplate::Text(text)) if json => issues.take(at, JsonTextTemplate::parse(text)).map(Body::JsonText),
        Some(BodyTemplate::Text(text)) if form => issues.take(at, Template::parse(text)).map(Body::FormText),
        Some(BodyTemplate::Text(text)) if readable => issues.take(at, Template::parse(text)).map(Body::Text),
        Some(BodyTemplate::Text(text)) => issues.take(at, Template::parse(text)).map(Body::Binary),
    }
}

fn form(fields: &Value) -> Result<String, ToolFailure> {
    let Value::Object(fields) = fields else {
        return Err(ToolFailure::invalid("a form is an object of fields").reason("template"));
    };
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        let values = match value {
            // In a form a list repeats its field, also without a star.
            Value::Array(several) if !name.ends_with("[*]") => several.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            form.extend_pairs(spread::pairs(name, value));
        }
    }
    Ok(form.finish())
}

/// Splits at the first `?` that is not inside an expression.
fn split_query(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0usize;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '{' if depth > 0 || previous == '$' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '?' if depth == 0 => return (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
            _ => {}
        }
        previous = c;
    }
    (text, None)
}

fn unrenderable(error: toolwright_expr::EvalError) -> ToolFailure {
    ToolFailure::invalid(error.to_string()).reason("template")
}

fn unsendable(name: &str) -> ToolFailure {
    ToolFailure::invalid(format!("the value of header `{name}` cannot be sent")).reason("template")
}
