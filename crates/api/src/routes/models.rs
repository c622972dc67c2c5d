//! The models that the server knows, with their prices.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolwright_catalog::registry::Registry;
use toolwright_catalog::{ModelInfo, ModelPrice};

use crate::extract::{Caller, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::views::PageView;

/// A model.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelView {
    /// The name, or the start of several names. The entry applies to all models whose names start with this text,
    /// unless an entry with a longer matching name exists.
    pub name: String,
    /// The provider; null if it is not known.
    pub provider: Option<String>,
    /// The price; null if it is not known.
    pub price: Option<ModelPriceView>,
    /// The size of the context in tokens, input and output together; null if it is not known.
    pub context_tokens: Option<u64>,
    /// Whether the operator has set an API key for the provider; null if the provider is not known or needs no key. An
    /// agent can also have its own key, in `llmConfig.apiKeySecretRef`.
    pub credential_configured: Option<bool>,
    /// The environment variable with the API key.
    pub credential_variable: Option<String>,
    /// Whether agents without a model use this one.
    pub is_default: bool,
}

/// The price of a model, in US dollars per 1,000 tokens.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelPriceView {
    /// The price of input tokens.
    pub input: f64,
    /// The price of output tokens.
    pub output: f64,
    /// The price of input tokens from the provider's cache; null if they cost as much as other input tokens.
    pub cached_input: Option<f64>,
    /// Who set the price: `built-in`, `operator` or `realm`; null for scripted models, which are free.
    pub source: Option<String>,
    /// The date of the price, such as `2025-11-30`; null if it is not known.
    pub as_of: Option<String>,
}

impl From<&ModelPrice> for ModelPriceView {
    fn from(price: &ModelPrice) -> Self {
        Self {
            input: price.price.input,
            output: price.price.output,
            cached_input: price.price.cached_input,
            source: price.source.map(|source| source.as_str().to_owned()),
            as_of: price.as_of.clone(),
        }
    }
}

impl From<ModelInfo> for ModelView {
    fn from(model: ModelInfo) -> Self {
        let (credential_variable, credential_configured) = model.key_variable.unzip();
        Self {
            price: model.price.as_ref().map(ModelPriceView::from),
            name: model.name,
            provider: model.provider,
            context_tokens: model.context_tokens,
            credential_configured,
            credential_variable,
            is_default: model.is_default,
        }
    }
}

/// The parameters of the list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ModelParams {
    /// Only models of this provider.
    provider: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the models that have a price in this realm, and the default model, sorted by name.
#[utoipa::path(get, path = "/api/v1/ai/models", tag = "models", operation_id = "listModels", params(ModelParams),
    responses((status = 200, body = PageView<ModelView>)))]
pub(crate) async fn list(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(ModelParams { provider, limit, cursor }): QueryParams<ModelParams>,
) -> Result<Json<PageView<ModelView>>, Problem> {
    let limit = usize::try_from(list_params::limit(limit)?).unwrap_or(usize::MAX);
    let is_listed = |model: &ModelInfo| {
        let of_provider = |wanted: &String| model.provider.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(wanted));
        provider.as_ref().is_none_or(of_provider) && cursor.as_ref().is_none_or(|last| model.name > *last)
    };
    let mut models: Vec<ModelInfo> = registry.known_models(&session)?.into_iter().filter(is_listed).collect();
    let has_more = models.len() > limit;
    models.truncate(limit);
    let next_cursor = models.last().filter(|_| has_more).map(|last| last.name.clone());
    Ok(Json(PageView { items: models.into_iter().map(ModelView::from).collect(), next_cursor }))
}
