//! What follows from a type: the indexes of its searchable fields.

use toolwright_store::Store;
use toolwright_types::{Document, RealmScope, TypeDefinition, TypeId};

use super::CompiledType;
use crate::Unavailable;

/// Keeps what follows from types in step with them. Cheap to clone.
#[derive(Clone)]
pub struct Upkeep {
    store: Store,
}

impl Upkeep {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Brings up to date what follows from a type that was written. Gives what its author should know.
    pub(crate) async fn written(
        &self,
        realm: &RealmScope,
        document: &Document<TypeDefinition>,
    ) -> Result<Vec<String>, Unavailable> {
        if let Ok((of, _)) = CompiledType::compile(document.clone()) {
            self.store.records(realm, of.id).index(&of.searchable).await?;
        }
        Ok(Vec::new())
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
        Ok(())
    }
}
