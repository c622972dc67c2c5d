//! What follows from a type: the indexes of its searchable fields, and the tools that work on its records.

use serde_json::Value;
use toolwright_store::{Ref, Store};
use toolwright_types::{Document, DocumentKind, RealmScope, TypeDefinition, TypeId};

use super::CompiledType;
use crate::Unavailable;
use crate::catalog::Catalog;
use crate::generated::Generator;

/// How often a type may be written again while its tools are brought up to date.
const MOST_OVERTAKEN: usize = 10;

/// When tools are made for types.
#[derive(Debug, Clone, Copy)]
pub struct Generation {
    /// Whenever a type is written.
    pub automatic: bool,
    /// When the server starts, for all types.
    pub at_start: bool,
}

impl Default for Generation {
    fn default() -> Self {
        Self { automatic: true, at_start: true }
    }
}

/// Keeps what follows from types in step with them. Cheap to clone.
#[derive(Clone)]
pub struct Upkeep {
    store: Store,
    catalog: Catalog,
    generator: Generator,
    generation: Generation,
}

impl Upkeep {
    pub(crate) fn new(store: Store, catalog: Catalog, generation: Generation) -> Self {
        let generator = Generator::new(store.clone(), catalog.clone());
        Self { store, catalog, generator, generation }
    }

    pub(crate) fn generator(&self) -> &Generator {
        &self.generator
    }

    /// Brings up to date what follows from all types of these realms.
    pub(crate) async fn at_start(&self, realms: &[RealmScope]) -> Result<(), Unavailable> {
        if !self.generation.at_start {
            return Ok(());
        }
        for realm in realms {
            for of in self.catalog.entity_types(realm).await?.iter() {
                let document = Document { meta: of.meta.clone(), body: of.definition.clone() };
                self.written(realm, &document).await?;
            }
        }
        Ok(())
    }

    /// Brings up to date what follows from a type that was written. Gives what its author should know.
    pub(crate) async fn written(
        &self,
        realm: &RealmScope,
        document: &Document<TypeDefinition>,
    ) -> Result<Vec<String>, Unavailable> {
        let mut of = document.clone();
        let mut warnings = Vec::new();
        // Whoever wrote last may have been followed first: what counts is what the type says in the end.
        for _ in 0..MOST_OVERTAKEN {
            if let Ok((compiled, _)) = CompiledType::compile(of.clone()) {
                let records = self.store.records(realm, compiled.id);
                match compiled.definition.records {
                    None => records.index(&compiled.searchable).await?,
                    Some(_) => records.drop_indexes().await?,
                }
            }
            if self.generation.automatic {
                warnings = self.generator.follow(realm, &of).await?.warnings();
            }
            match self.head(realm, &of).await? {
                Some(now) if now.meta.revision != of.meta.revision => of = now,
                Some(_) => break,
                None => {
                    self.removed(realm, &of).await?;
                    break;
                }
            }
        }
        Ok(warnings)
    }

    /// Removes what followed from a type that is gone.
    pub(crate) async fn removed(
        &self,
        realm: &RealmScope,
        document: &Document<TypeDefinition>,
    ) -> Result<(), Unavailable> {
        if let Ok(id) = document.meta.id.parse::<TypeId>() {
            self.store.records(realm, id).drop_indexes().await?;
        }
        self.generator.forget(realm, document.body.ref_name.as_str()).await
    }

    /// The type as it stands now.
    async fn head(
        &self,
        realm: &RealmScope,
        of: &Document<TypeDefinition>,
    ) -> Result<Option<Document<TypeDefinition>>, Unavailable> {
        let found: Option<Document<Value>> =
            self.store.in_realm(realm).get(DocumentKind::Type, &Ref::Id(of.meta.id.clone())).await?;
        let parsed = found.map(|found| found.try_map(serde_json::from_value)).transpose();
        parsed.map_err(|error| Unavailable::new("a stored type cannot be read by this release")(Box::new(error)))
    }
}
