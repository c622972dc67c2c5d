//! Implements [`Definition`] for entity types: validates them and calls the hooks when they change.

use toolwright_authz::Resource;
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{Document, DocumentKind, RealmScope, RecordLocation, RefName, TypeDefinition};

use super::TypeHooks;
use crate::Unavailable;
use crate::access::Session;
use crate::catalog::select_version;
use crate::entity_type::CompiledType;
use crate::registry::{Definition, Registry, RegistryError, ValidationContext};

impl Definition for TypeDefinition {
    const KIND: DocumentKind = DocumentKind::Type;
    const NOUN: &'static str = "type";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Type { name: self.ref_name.as_str() }
    }

    async fn users(
        document: &Document<Self>,
        registry: &Registry,
        session: &Session,
    ) -> Result<Option<String>, RegistryError> {
        registry.tools_of_type(session, document).await
    }

    fn discard_echoed_defaults(&mut self, current: &Self) {
        if current.name.is_none() && self.name.as_deref() == Some(current.display_name()) {
            self.name = None;
        }
    }

    async fn after_save(
        document: &Document<Self>,
        hooks: &dyn TypeHooks,
        realm: &RealmScope,
    ) -> Result<Vec<String>, Unavailable> {
        hooks.after_save(realm, document).await
    }

    async fn after_delete(
        document: &Document<Self>,
        hooks: &dyn TypeHooks,
        realm: &RealmScope,
    ) -> Result<(), Unavailable> {
        hooks.after_delete(realm, document).await
    }

    async fn check_external(&self, hooks: &dyn TypeHooks, realm: &RealmScope) -> Result<Vec<String>, Issues> {
        match &self.records {
            None | Some(RecordLocation::Rest(_)) => Ok(Vec::new()),
            Some(RecordLocation::Sql(sql)) => hooks.check_table(realm, self, sql).await.map_err(Issues),
        }
    }

    async fn check(&self, context: &ValidationContext<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let unsaved = Document::unsaved(self.ref_name.clone(), self.clone());
        let mut warnings = match CompiledType::compile_large(unsaved).await {
            Ok((_, warnings)) => warnings,
            Err(issues) => return Ok(Err(issues)),
        };
        let others = self.relations.iter().map(|relation| relation.target.as_str());
        for name in others.filter(|name| !self.ref_name.as_str().eq_ignore_ascii_case(name)) {
            if context.catalog.entity_type(context.realm, name).await?.is_none() {
                warnings.push(format!("no type `{name}` exists yet"));
            }
        }
        if let Some(RecordLocation::Rest(rest)) = &self.records {
            let mut issues = Vec::new();
            for (field, name) in rest.tools() {
                match select_version(&context.catalog.versions(context.realm, name.as_str()).await?, None) {
                    None => warnings.push(format!("no tool `{name}` exists yet")),
                    Some(tool) => issues.extend(
                        tool.ensure_read_only()
                            .err()
                            .map(|error| DefinitionIssue { path: format!("/records/{field}"), message: error.message }),
                    ),
                }
            }
            if !issues.is_empty() {
                return Ok(Err(Issues(issues)));
            }
        }
        Ok(Ok(warnings))
    }
}
