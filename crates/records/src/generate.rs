//! Generates the tools of entity types at the request of a client.

use toolwright_types::{Document, Operation, ToolDefinition, TypeDefinition};

use toolwright_catalog::registry::RegistryError;
use toolwright_catalog::{Registry, Session};

use crate::TypeMaintenance;
use crate::record_tools::{GenerationReport, tool_definitions};

/// A request to generate tools.
#[derive(Debug, Clone, Default)]
pub struct GenerateRequest {
    /// The names of the entity types. An empty list means all types.
    pub types: Vec<String>,
    /// Whether to store the tools. If false, the tools are only returned.
    pub persist: bool,
    /// Operations to exclude, in addition to those that the types exclude.
    pub excluded: Vec<Operation>,
}

impl TypeMaintenance {
    /// Generates the tools of the requested types. With `persist`, it also stores the tools and reports which tools
    /// changed.
    pub async fn generate(
        &self,
        registry: &Registry,
        session: &Session,
        request: &GenerateRequest,
    ) -> Result<(Vec<ToolDefinition>, GenerationReport), RegistryError> {
        let types = requested_types(registry, session, &request.types).await?;
        if request.persist {
            for entity_type in &types {
                registry.may_replace(session, Some(entity_type), &entity_type.body)?;
            }
        }
        let (mut generated, mut report) = (Vec::new(), GenerationReport::default());
        for entity_type in types {
            let tools = tool_definitions(&entity_type.body, &request.excluded);
            if request.persist {
                let by = session.principal.name.as_str();
                report.extend(self.generator().write_tools(&session.realm, &tools, by).await?);
            }
            generated.extend(tools);
        }
        Ok((generated, report))
    }
}

/// Returns the types with these names. Without names, returns all types that the session may read.
async fn requested_types(
    registry: &Registry,
    session: &Session,
    names: &[String],
) -> Result<Vec<Document<TypeDefinition>>, RegistryError> {
    if names.is_empty() {
        return registry.list_all::<TypeDefinition>(session, Vec::new()).await;
    }
    let mut types = Vec::new();
    for name in names {
        types.push(registry.get::<TypeDefinition>(session, name, None).await?);
    }
    Ok(types)
}
