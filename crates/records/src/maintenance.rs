//! Keeps the indexes and the generated tools of entity types up to date.

use serde_json::Value;
use toolwright_store::{DocumentRef, Store};
use toolwright_types::{Document, DocumentKind, RealmScope, SqlRecords, TypeDefinition, TypeId};

use futures::future::BoxFuture;
use toolwright_catalog::registry::TypeHooks;
use toolwright_catalog::{Catalog, CompiledType, Unavailable};
use toolwright_tools::DefinitionIssue;

use super::SqlTables;
use crate::record_tools::ToolGenerator;

/// The maximum number of passes of `sync`, which starts another pass if the type changed during the previous one.
const MAX_ATTEMPTS: usize = 10;

/// When the tools of entity types are generated.
#[derive(Debug, Clone, Copy)]
pub struct GenerationSettings {
    /// Whether to generate the tools of a type after each write of the type.
    pub automatic: bool,
    /// Whether to update the indexes of all types when the server starts. If `automatic` is set, their tools are
    /// updated too.
    pub at_start: bool,
}

impl Default for GenerationSettings {
    fn default() -> Self {
        Self { automatic: true, at_start: true }
    }
}

/// Keeps the indexes and the generated tools of types up to date. Cheap to clone.
#[derive(Clone)]
pub struct TypeMaintenance {
    store: Store,
    catalog: Catalog,
    generator: ToolGenerator,
    generation: GenerationSettings,
    tables: SqlTables,
}

impl TypeMaintenance {
    /// Creates a [`TypeMaintenance`] with these settings.
    pub fn new(store: Store, catalog: Catalog, generation: GenerationSettings, tables: SqlTables) -> Self {
        let generator = ToolGenerator::new(store.clone(), catalog.clone());
        Self { store, catalog, generator, generation, tables }
    }

    /// The generator that stores the tools of types.
    pub fn generator(&self) -> &ToolGenerator {
        &self.generator
    }

    /// Updates the indexes and tools of all types in these realms. Does nothing unless [`GenerationSettings::at_start`]
    /// is set.
    pub async fn sync_all(&self, realms: &[RealmScope]) -> Result<(), Unavailable> {
        if !self.generation.at_start {
            return Ok(());
        }
        for realm in realms {
            for entity_type in self.catalog.entity_types(realm).await?.iter() {
                let document = Document { meta: entity_type.meta.clone(), body: entity_type.definition.clone() };
                self.sync(realm, &document).await?;
            }
        }
        Ok(())
    }

    /// Updates the indexes and tools of a type that was written. Returns warnings for the author of the type.
    pub async fn sync(
        &self,
        realm: &RealmScope,
        document: &Document<TypeDefinition>,
    ) -> Result<Vec<String>, Unavailable> {
        let mut entity_type = document.clone();
        let mut warnings = Vec::new();
        // Concurrent writes may be synced in any order, so the loop repeats until it has synced the latest revision.
        for _ in 0..MAX_ATTEMPTS {
            if let Ok((compiled, _)) = CompiledType::compile_large(entity_type.clone()).await {
                let records = self.store.records(realm, compiled.id);
                match compiled.definition.records {
                    None => records.index(&compiled.searchable).await?,
                    Some(_) => records.drop_indexes().await?,
                }
            }
            if self.generation.automatic {
                warnings = self.generator.sync_tools(realm, &entity_type).await?.warnings();
            }
            match self.load_latest(realm, &entity_type).await? {
                Some(now) if now.meta.revision != entity_type.meta.revision => entity_type = now,
                Some(_) => break,
                None => {
                    self.clean_up(realm, &entity_type).await?;
                    break;
                }
            }
        }
        Ok(warnings)
    }

    /// Removes the indexes and tools of a deleted type.
    pub async fn clean_up(&self, realm: &RealmScope, document: &Document<TypeDefinition>) -> Result<(), Unavailable> {
        if let Ok(id) = document.meta.id.parse::<TypeId>() {
            self.store.records(realm, id).drop_indexes().await?;
        }
        self.generator.remove_tools(realm, document.body.ref_name.as_str()).await
    }

    /// Returns the latest revision of the type; `None` if the type was deleted.
    async fn load_latest(
        &self,
        realm: &RealmScope,
        entity_type: &Document<TypeDefinition>,
    ) -> Result<Option<Document<TypeDefinition>>, Unavailable> {
        let found: Option<Document<Value>> = self
            .store
            .definitions(realm)
            .get(DocumentKind::Type, &DocumentRef::Id(entity_type.meta.id.clone()))
            .await?;
        let parsed = found.map(|found| found.try_map(serde_json::from_value)).transpose();
        parsed.map_err(|error| Unavailable::new("a stored type cannot be read by this release", error))
    }
}

impl TypeHooks for TypeMaintenance {
    fn after_save<'a>(
        &'a self,
        realm: &'a RealmScope,
        document: &'a Document<TypeDefinition>,
    ) -> BoxFuture<'a, Result<Vec<String>, Unavailable>> {
        Box::pin(TypeMaintenance::sync(self, realm, document))
    }

    fn after_delete<'a>(
        &'a self,
        realm: &'a RealmScope,
        document: &'a Document<TypeDefinition>,
    ) -> BoxFuture<'a, Result<(), Unavailable>> {
        Box::pin(TypeMaintenance::clean_up(self, realm, document))
    }

    fn check_table<'a>(
        &'a self,
        realm: &'a RealmScope,
        definition: &'a TypeDefinition,
        table: &'a SqlRecords,
    ) -> BoxFuture<'a, Result<Vec<String>, Vec<DefinitionIssue>>> {
        Box::pin(self.tables.check(realm, definition, table))
    }
}
