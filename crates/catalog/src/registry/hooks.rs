//! The hooks that the registry calls when an entity type changes.

use futures::future::BoxFuture;
use toolwright_tools::DefinitionIssue;
use toolwright_types::{Document, RealmScope, SqlRecords, TypeDefinition};

use crate::Unavailable;

/// Keeps indexes and generated tools consistent with entity types, and checks external tables.
pub trait TypeHooks: Send + Sync {
    /// Updates the indexes and the generated tools of a saved type. Returns warnings for its author.
    fn after_save<'a>(
        &'a self,
        realm: &'a RealmScope,
        document: &'a Document<TypeDefinition>,
    ) -> BoxFuture<'a, Result<Vec<String>, Unavailable>>;

    /// Removes the indexes and the generated tools of a deleted type.
    fn after_delete<'a>(
        &'a self,
        realm: &'a RealmScope,
        document: &'a Document<TypeDefinition>,
    ) -> BoxFuture<'a, Result<(), Unavailable>>;

    /// Compares a type with the external table of its records. Returns warnings for its author.
    fn check_table<'a>(
        &'a self,
        realm: &'a RealmScope,
        definition: &'a TypeDefinition,
        table: &'a SqlRecords,
    ) -> BoxFuture<'a, Result<Vec<String>, Vec<DefinitionIssue>>>;
}
