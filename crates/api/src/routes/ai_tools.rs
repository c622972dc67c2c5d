//! The list of all tools: simple, composite and agentic. `/api/v1/ai/tools` has the complete definitions.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_catalog::registry::{DefinitionQuery, FieldEquals, Registry, RegistryError};
use toolwright_query::Filter;
use toolwright_types::{
    Document, DocumentMeta, ExecutionMode, Timestamp, ToolDefinition, ToolKind, ToolStatus, ToolType,
};

use super::tools::{find_readable_tool, parse_requirement, split_reference};
use crate::extract::{Caller, PathName, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::state::AppState;
use crate::views::PageView;

const TAG: &str = "ai-tools";

/// The maximum length of `text` and `category`, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// The filters, the order, and the page to return.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    /// `simple`, `composite` or `agentic`.
    kind: Option<String>,
    /// `draft`, `active`, `deprecated`, `blocked` or `disabled`.
    status: Option<String>,
    /// The category of the tool, or a parent category.
    category: Option<String>,
    /// A tag.
    tag: Option<String>,
    /// A text that the name or the description contains.
    text: Option<String>,
    /// The order: `refName`, `createdAt` or `updatedAt`, with `-` for descending.
    sort: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// A tool in the list of all tools.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AiToolView {
    /// The id of the definition.
    id: String,
    /// The `refName` of the tool.
    slug: String,
    /// The name for people. Default: the `refName`.
    name: String,
    /// What the tool does.
    description: Option<String>,
    /// The kind of the tool.
    kind: ToolKind,
    /// The type of the tool, which selects its backend.
    tool_type: ToolType,
    /// The status.
    status: AiToolStatus,
    /// How an agentic tool uses its model. Absent for other tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_mode: Option<ExecutionMode>,
    /// The category.
    category: Option<String>,
    /// The tags.
    tags: Vec<String>,
    /// The version.
    version: String,
    /// When the tool was written last.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// When the tool was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// The status of a tool: `disabled` if it is not enabled, else the life cycle status of its version.
#[derive(Clone, Copy, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AiToolStatus {
    /// Not offered.
    Draft,
    /// Offered and callable.
    Active,
    /// Not offered; callable with a warning.
    Deprecated,
    /// Calls are refused.
    Blocked,
    /// Calls are refused until the tool is enabled.
    Disabled,
}

impl AiToolStatus {
    fn of(definition: &ToolDefinition) -> Self {
        match (definition.enabled, definition.status) {
            (false, _) => Self::Disabled,
            (true, ToolStatus::Draft) => Self::Draft,
            (true, ToolStatus::Active) => Self::Active,
            (true, ToolStatus::Deprecated) => Self::Deprecated,
            (true, ToolStatus::Blocked) => Self::Blocked,
        }
    }
}

impl AiToolView {
    fn new(meta: &DocumentMeta, definition: ToolDefinition) -> Self {
        Self {
            id: meta.id.clone(),
            slug: definition.ref_name.to_string(),
            name: definition.display_name().to_owned(),
            kind: definition.tool_type.kind(),
            tool_type: definition.tool_type,
            status: AiToolStatus::of(&definition),
            execution_mode: definition.agentic.map(|config| config.execution_mode),
            description: definition.description,
            category: definition.category,
            tags: definition.tags,
            version: definition.version.to_string(),
            updated_at: meta.updated_at,
            created_at: meta.created_at,
        }
    }
}

/// Lists the tools of all kinds.
#[utoipa::path(get, path = "/api/v1/ai-tools", tag = TAG, operation_id = "listAiTools", params(ListParams),
    responses((status = 200, body = PageView<AiToolView>)))]
pub(crate) async fn list(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<ListParams>,
) -> Result<Json<PageView<AiToolView>>, Problem> {
    let page = registry.list::<ToolDefinition>(&session, params.into_query()?).await?;
    let views = page.items.into_iter().map(|Document { meta, body }| AiToolView::new(&meta, body));
    Ok(Json(PageView { items: views.collect(), next_cursor: page.next.map(|cursor| cursor.to_string()) }))
}

/// Returns a tool with the same fields as in the list. Also finds built-in tools, which the list does not contain.
#[utoipa::path(get, path = "/api/v1/ai-tools/{ref}", tag = TAG, operation_id = "getAiTool", params(("ref" = String, Path)),
    responses((status = 200, body = AiToolView)))]
pub(crate) async fn get(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(name): PathName,
) -> Result<Json<AiToolView>, Problem> {
    let (name, version) = split_reference(&name);
    match engine.registry.get::<ToolDefinition>(&session, name, version).await {
        Ok(Document { meta, body }) => Ok(Json(AiToolView::new(&meta, body))),
        Err(RegistryError::NotFound { .. }) => {
            let requirement = version.map(parse_requirement).transpose()?;
            let tool = find_readable_tool(&engine, &session, name, requirement.as_ref()).await?;
            let unsaved = Document::unsaved(tool.definition.ref_name.clone(), tool.definition.clone());
            let meta = DocumentMeta { id: tool.id.clone(), ..unsaved.meta };
            Ok(Json(AiToolView::new(&meta, unsaved.body)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Parses the parameter `kind`.
pub(crate) fn parse_kind(text: &str) -> Result<ToolKind, Problem> {
    let kind = ToolKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    kind.ok_or_else(|| Problem::invalid("kind", format!("must be `simple`, `composite` or `agentic`, got `{text}`")))
}

impl ListParams {
    fn into_query(self) -> Result<DefinitionQuery, Problem> {
        let mut conditions = Vec::new();
        if let Some(kind) = self.kind.as_deref() {
            conditions.push(kind_condition(parse_kind(kind)?).to_owned());
        }
        if let Some(status) = self.status.as_deref() {
            conditions.push(status_condition(status)?);
        }
        if let Some(category) = self.category.as_deref() {
            let (exact, below) = (quoted("category", category)?, quoted("category", &format!("{category}."))?);
            conditions.push(format!("(category:{exact}~cs || category:{below}*~cs)"));
        }
        if let Some(text) = self.text.as_deref() {
            let text = quoted("text", text)?;
            conditions.push(format!("(name:*{text}* || refName:*{text}* || description:*{text}*)"));
        }
        let tag = self.tag.map(|tag| FieldEquals { path: vec!["tags".to_owned()], value: Value::String(tag) });
        Ok(DefinitionQuery {
            filters: tag.into_iter().collect(),
            matching: filter(&conditions)?,
            source: None,
            apply_set: None,
            sort: self.sort.as_deref().map(list_params::parse_sort).transpose()?.unwrap_or_default(),
            limit: list_params::limit(self.limit)?,
            cursor: list_params::cursor(self.cursor.as_deref())?,
        })
    }
}

fn filter(conditions: &[String]) -> Result<Option<Filter>, Problem> {
    list_params::parse_filter(Some(&conditions.join(" && ")))
}

fn kind_condition(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Simple => r#"toolType:!^["COMPOSITE", "AGENTIC"]"#,
        ToolKind::Composite => r#"toolType:"COMPOSITE""#,
        ToolKind::Agentic => r#"toolType:"AGENTIC""#,
    }
}

fn status_condition(status: &str) -> Result<String, Problem> {
    match status {
        "disabled" => Ok("enabled:false".to_owned()),
        "draft" | "active" | "deprecated" | "blocked" => Ok(format!("enabled:true && status:\"{status}\"")),
        other => {
            let rule = "must be `draft`, `active`, `deprecated`, `blocked` or `disabled`";
            Err(Problem::invalid("status", format!("{rule}, got `{other}`")))
        }
    }
}

/// Quotes a text for the query language.
fn quoted(parameter: &str, text: &str) -> Result<String, Problem> {
    let valid = !text.is_empty() && text.chars().count() <= MAX_TEXT_CHARS && !text.chars().any(char::is_control);
    if !valid {
        let rule = format!("must have 1 to {MAX_TEXT_CHARS} characters, without control characters");
        return Err(Problem::invalid(parameter, rule));
    }
    Ok(format!("\"{}\"", text.replace('"', "\"\"")))
}
