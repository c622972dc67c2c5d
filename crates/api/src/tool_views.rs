//! Shows the tools of one type, such as composite tools, as documents with their own fields: the views. A table maps
//! each field of a view to a field of the tool definition. A merge patch of a view can therefore be converted to a
//! merge patch of the tool definition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolwright_catalog::Session;
use toolwright_catalog::registry::{DefinitionQuery, FieldEquals, Registry, RegistryError};
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{Document, ToolDefinition, ToolStatus, ToolType};

use crate::list_params;
use crate::problem::{Code, Problem};

/// The fields whose names differ: the name in the view, and the name in the tool definition.
const RENAMED_FIELDS: [(&str, &str); 4] = [
    ("slug", "refName"),
    ("inputSchema", "inputJsonSchema"),
    ("outputSchema", "outputJsonSchema"),
    ("toolDescription", "longDescription"),
];

/// The field of a view that contains the realm. The server fills it in, and ignores it in requests.
const TENANT_ID: &str = "tenantId";

/// The mapping between the tools of one type and their views.
pub(crate) struct ToolViews {
    /// The noun for a tool of this type in messages, with its article: `a composite tool`.
    pub noun: &'static str,
    /// The type of the tools.
    pub tool_type: ToolType,
    /// The field of the tool definition that contains the configuration of the type, such as `composite`.
    pub config: &'static str,
    /// The fields of the view that are stored in the configuration.
    pub config_fields: &'static [&'static str],
    /// The fields of the view, besides the realm, that the server computes and ignores in requests.
    pub computed_fields: &'static [&'static str],
    /// Slugs that are not allowed, because routes end with these words.
    pub reserved_slugs: &'static [&'static str],
}

/// The status of an agentic or composite tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolViewStatus {
    /// The tool is being written. Only calls that name its exact version find it.
    Draft,
    /// The tool can be called.
    Active,
    /// The tool cannot be called.
    Disabled,
    /// This version of the tool is blocked. Only a change of the tool definition makes it active again.
    Blocked,
}

impl ToolViewStatus {
    /// Returns the status for the fields `enabled` and `status` of a tool definition.
    pub(crate) fn of(tool: &ToolDefinition) -> Self {
        match (tool.enabled, tool.status) {
            (_, ToolStatus::Blocked) => Self::Blocked,
            (false, _) => Self::Disabled,
            (true, ToolStatus::Draft) => Self::Draft,
            (true, ToolStatus::Active | ToolStatus::Deprecated) => Self::Active,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "draft" => Some(Self::Draft),
            "active" => Some(Self::Active),
            "disabled" => Some(Self::Disabled),
            "blocked" => Some(Self::Blocked),
            _ => None,
        }
    }

    /// Returns the fields of the tool definition that express this status.
    fn fields(self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Draft => vec![("status", json!("draft")), ("enabled", json!(true))],
            Self::Active => vec![("status", json!("active")), ("enabled", json!(true))],
            Self::Disabled => vec![("enabled", json!(false))],
            Self::Blocked => vec![("status", json!("blocked"))],
        }
    }
}

impl ToolViews {
    /// Finds a tool by name or id. A tool of another type is not found.
    pub(crate) async fn find(
        &self,
        registry: &Registry,
        session: &Session,
        reference: &str,
    ) -> Result<Document<ToolDefinition>, Problem> {
        match registry.get::<ToolDefinition>(session, reference, None).await {
            Ok(document) if document.body.tool_type == self.tool_type => Ok(document),
            Ok(_) | Err(RegistryError::NotFound { .. }) => Err(self.not_found(session, reference)),
            Err(error) => Err(self.problem(error)),
        }
    }

    /// Returns the problem for a tool that does not exist or has another type.
    pub(crate) fn not_found(&self, session: &Session, reference: &str) -> Problem {
        let kind = self.noun.split_once(' ').map_or(self.noun, |(_, kind)| kind);
        let detail = format!("there is no {kind} `{reference}` in realm `{}`", session.realm.name);
        Problem::new(Code::NotFound, detail)
    }

    /// Converts the parameters of a list to a query. A parameter with the name of a field of the view filters by this
    /// field.
    pub(crate) fn query(&self, params: BTreeMap<String, String>) -> Result<DefinitionQuery, Problem> {
        let renamed = RENAMED_FIELDS.iter().map(|(view, _)| *view);
        let known: Vec<&str> =
            list_params::LIST_PARAMS.into_iter().chain(renamed).chain(self.config_fields.iter().copied()).collect();
        list_params::check_filter_names::<ToolDefinition>(params.keys(), &known)?;
        let mut tool_params = BTreeMap::new();
        let mut filters = vec![equals("toolType", json!(self.tool_type))];
        for (name, text) in params {
            if name != "status" {
                tool_params.insert(self.stored_name(&name), text);
                continue;
            }
            let status = ToolViewStatus::parse(&text).ok_or_else(|| invalid_status(&text))?;
            filters.extend(status.fields().into_iter().map(|(field, value)| equals(field, value)));
        }
        let mut query = list_params::from_query_params::<ToolDefinition>(tool_params)?;
        query.filters.extend(filters);
        Ok(query)
    }

    /// Converts the body of a request that creates a tool from the fields of the view to the fields of the tool
    /// definition. Without `slug`, the reference name is made from `name`.
    pub(crate) fn new_tool(&self, body: Value) -> Result<Map<String, Value>, Problem> {
        let mut fields = self.fields_of(body)?;
        let present = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        if !present("slug") && !present("refName") {
            let name = fields.get("name").and_then(Value::as_str);
            let name = name.ok_or_else(|| Problem::invalid("/name", "is required"))?;
            let slug = slug(name);
            if slug.is_empty() {
                return Err(Problem::invalid("/slug", "set `slug`: the name has no letters a-z or digits"));
            }
            fields.insert("slug".into(), json!(slug));
        }
        let slug = fields.get("slug").filter(|slug| !slug.is_null()).or_else(|| fields.get("refName"));
        if let Some(reserved) = slug.and_then(Value::as_str).filter(|slug| self.reserved_slugs.contains(slug)) {
            return Err(Problem::invalid("/slug", format!("must not be `{reserved}`, which is a route")));
        }
        let mut tool = self.tool_fields(fields)?;
        tool.insert("toolType".into(), json!(self.tool_type));
        tool.entry(self.config).or_insert_with(|| json!({}));
        Ok(tool)
    }

    /// Converts a merge patch of the view to a merge patch of the tool definition.
    pub(crate) fn patch(&self, patch: Value) -> Result<Map<String, Value>, Problem> {
        let fields = self.fields_of(patch)?;
        self.tool_fields(fields)
    }

    /// Refuses a patch of the view that would activate a blocked tool. People block a version because it is harmful, so
    /// only a change of the tool definition lifts the block.
    pub(crate) fn check_block(&self, current: &ToolDefinition, patch: &Value) -> Result<(), Problem> {
        let status = patch.get("status").and_then(Value::as_str).and_then(ToolViewStatus::parse);
        let activates = matches!(status, Some(ToolViewStatus::Active | ToolViewStatus::Draft));
        if current.status != ToolStatus::Blocked || !activates {
            return Ok(());
        }
        let (name, version) = (&current.ref_name, &current.version);
        let message = format!(
            "version {version} of `{name}` is blocked; to lift the block, set `status` of the tool definition: \
             `PATCH /api/v1/ai/tools/{name}` with `{{\"status\": \"active\"}}`"
        );
        Err(Problem::invalid("/status", message))
    }

    /// Converts an error of the registry to a problem. Paths in the tool definition become paths in the view.
    pub(crate) fn problem(&self, error: RegistryError) -> Problem {
        match error {
            RegistryError::Invalid(Issues(issues)) => {
                let issues = issues.into_iter();
                let issues = issues.map(|issue| DefinitionIssue { path: self.view_path(&issue.path), ..issue });
                RegistryError::Invalid(Issues(issues.collect())).into()
            }
            other => other.into(),
        }
    }

    fn fields_of(&self, body: Value) -> Result<Map<String, Value>, Problem> {
        match body {
            Value::Object(fields) => Ok(fields),
            _ => Err(Problem::invalid("", format!("{} must be a JSON object", self.noun))),
        }
    }

    /// Moves the fields of a view to their places in the tool definition.
    fn tool_fields(&self, fields: Map<String, Value>) -> Result<Map<String, Value>, Problem> {
        let (mut tool, mut config) = (Map::new(), Map::new());
        for (name, value) in fields {
            match name.as_str() {
                field if self.config_fields.contains(&field) => drop(config.insert(name, value)),
                field if field == TENANT_ID || self.computed_fields.contains(&field) => {}
                "status" if value.is_null() => {}
                "status" => {
                    let status = value.as_str().and_then(ToolViewStatus::parse);
                    let status = status.ok_or_else(|| invalid_status(value.as_str().unwrap_or("another type")))?;
                    tool.extend(status.fields().into_iter().map(|(field, value)| (field.to_owned(), value)));
                }
                "toolType" if value == json!(self.tool_type) => {}
                "toolType" => {
                    let rule = format!("must be `{}` or absent", json!(self.tool_type).as_str().unwrap_or_default());
                    return Err(Problem::invalid("/toolType", rule));
                }
                field if field == self.config => {
                    let message = "is not a field here; send its fields directly";
                    return Err(Problem::invalid(&format!("/{field}"), message));
                }
                // An empty schema counts as absent, so the server generates the schema.
                "inputSchema" if value == json!({}) => drop(tool.insert("inputJsonSchema".into(), Value::Null)),
                field => {
                    let renamed = RENAMED_FIELDS.iter().find(|(view, _)| *view == field);
                    let stored = renamed.map_or_else(|| name.clone(), |(_, stored)| (*stored).to_owned());
                    tool.insert(stored, value);
                }
            }
        }
        if !config.is_empty() {
            tool.insert(self.config.to_owned(), Value::Object(config));
        }
        Ok(tool)
    }

    /// Returns the dotted path in the tool definition for a field of the view.
    fn stored_name(&self, name: &str) -> String {
        let first = name.split('.').next().unwrap_or_default();
        if self.config_fields.contains(&first) {
            return format!("{}.{name}", self.config);
        }
        let renamed = RENAMED_FIELDS.iter().find(|(view, _)| *view == first);
        renamed.map_or_else(|| name.to_owned(), |(view, stored)| name.replacen(view, stored, 1))
    }

    /// Returns the path in the view for a path in the tool definition.
    fn view_path(&self, path: &str) -> String {
        let Some(rest) = path.strip_prefix('/') else { return path.to_owned() };
        if let Some(rest) = rest.strip_prefix(self.config)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return rest.to_owned();
        }
        for (view, stored) in RENAMED_FIELDS {
            match rest.strip_prefix(stored) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => return format!("/{view}{rest}"),
                _ => {}
            }
        }
        path.to_owned()
    }
}

fn equals(field: &str, value: Value) -> FieldEquals {
    FieldEquals { path: vec![field.to_owned()], value }
}

fn invalid_status(text: &str) -> Problem {
    Problem::invalid("/status", format!("must be `draft`, `active`, `disabled` or `blocked`, got `{text}`"))
}

/// Returns the reference name for a name: lower-case words with hyphens.
fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEWS: ToolViews = ToolViews {
        noun: "a composite tool",
        tool_type: ToolType::Composite,
        config: "composite",
        config_fields: &["operations", "routingMode"],
        computed_fields: &["computed"],
        reserved_slugs: &["invoke"],
    };

    #[test]
    fn slug_consists_of_the_lower_case_words_of_the_name() {
        assert_eq!(slug("HubSpot Deal Manager (v2)"), "hubspot-deal-manager-v2");
        assert_eq!(slug("Überall"), "berall");
    }

    #[test]
    fn fields_move_to_their_places_in_the_tool_definition() {
        let body = json!({ "name": "A B", "operations": [1], "inputSchema": {}, "outputSchema": {}, "status": "disabled",
            "toolDescription": "d", "category": "crm", "tenantId": "t", "computed": 1, "toolType": "COMPOSITE" });
        let expected = json!({ "name": "A B", "refName": "a-b", "inputJsonSchema": null, "outputJsonSchema": {},
            "enabled": false, "longDescription": "d", "category": "crm", "composite": { "operations": [1] },
            "toolType": "COMPOSITE" });
        assert_eq!(Value::Object(VIEWS.new_tool(body).unwrap()), expected);
        let patch = VIEWS.patch(json!({ "operations": null, "status": "draft", "inputSchema": null })).unwrap();
        assert_eq!(
            Value::Object(patch),
            json!({ "status": "draft", "enabled": true, "inputJsonSchema": null, "composite": { "operations": null } })
        );
        assert_eq!(Value::Object(VIEWS.patch(json!({ "status": null })).unwrap()), json!({}));
    }

    #[test]
    fn fields_that_a_view_does_not_have_are_refused() {
        for (body, path) in [
            (json!([]), ""),
            (json!({ "description": "no name" }), "/name"),
            (json!({ "slug": "invoke" }), "/slug"),
            (json!({ "refName": "invoke" }), "/slug"),
            (json!({ "slug": "a", "status": "gone" }), "/status"),
            (json!({ "slug": "a", "status": 1 }), "/status"),
            (json!({ "slug": "a", "toolType": "FUNCTION" }), "/toolType"),
            (json!({ "slug": "a", "composite": {} }), "/composite"),
        ] {
            let problem = VIEWS.new_tool(body.clone()).unwrap_err();
            assert_eq!(problem.errors[0].path, path, "{body}");
        }
    }

    #[test]
    fn paths_of_issues_are_converted_to_paths_of_the_view() {
        for (stored, view) in [
            ("/composite/operations/0/actionSlug", "/operations/0/actionSlug"),
            ("/composite", ""),
            ("/compositeX", "/compositeX"),
            ("/inputJsonSchema/type", "/inputSchema/type"),
            ("/refName", "/slug"),
            ("/category", "/category"),
            ("", ""),
        ] {
            assert_eq!(VIEWS.view_path(stored), view);
        }
    }

    #[test]
    fn list_parameters_are_converted_to_filters_on_the_tool_definition() {
        let params =
            [("routingMode", "rule_based"), ("slug", "a"), ("status", "draft"), ("limit", "5"), ("category", "c")];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let query = VIEWS.query(params.into()).unwrap();
        let filters: Vec<(String, Value)> =
            query.filters.into_iter().map(|filter| (filter.path.join("."), filter.value)).collect();
        for expected in [
            ("composite.routingMode", json!("rule_based")),
            ("refName", json!("a")),
            ("category", json!("c")),
            ("toolType", json!("COMPOSITE")),
            ("status", json!("draft")),
            ("enabled", json!(true)),
        ] {
            assert!(filters.contains(&(expected.0.to_owned(), expected.1)), "{filters:?}");
        }
        assert_eq!((query.limit, filters.len()), (5, 6));
        assert!(VIEWS.query([("status".to_owned(), "x".to_owned())].into()).is_err());
    }
}
