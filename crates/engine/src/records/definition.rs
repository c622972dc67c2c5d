//! Types as definitions: what is checked when one is written.

use toolwright_authz::Resource;
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{Document, DocumentKind, RealmScope, RecordsIn, RefName, TypeDefinition};

use super::{CompiledType, SqlTables, Upkeep};
use crate::Unavailable;
use crate::catalog::choose;
use crate::registry::{Definition, Surroundings};

impl Definition for TypeDefinition {
    const KIND: DocumentKind = DocumentKind::Type;
    const NOUN: &'static str = "type";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Type { name: self.ref_name.as_str() }
    }

    fn forget_echo(&mut self, current: &Self) {
        if current.name.is_none() && self.name.as_deref() == Some(current.display_name()) {
            self.name = None;
        }
    }

    async fn written(
        document: &Document<Self>,
        upkeep: &Upkeep,
        realm: &RealmScope,
    ) -> Result<Vec<String>, Unavailable> {
        upkeep.written(realm, document).await
    }

    async fn removed(document: &Document<Self>, upkeep: &Upkeep, realm: &RealmScope) -> Result<(), Unavailable> {
        upkeep.removed(realm, document).await
    }

    async fn look_around(&self, tables: &SqlTables, realm: &RealmScope) -> Result<Vec<String>, Issues> {
        match &self.records {
            None | Some(RecordsIn::Rest(_)) => Ok(Vec::new()),
            Some(RecordsIn::Sql(sql)) => tables.check(realm, self, sql).await.map_err(Issues),
        }
    }

    async fn check(&self, around: &Surroundings<'_>) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let unsaved = Document::unsaved(self.ref_name.clone(), self.clone());
        let mut warnings = match CompiledType::compile(unsaved) {
            Ok((_, warnings)) => warnings,
            Err(issues) => return Ok(Err(issues)),
        };
        let others = self.relations.iter().map(|relation| relation.target.as_str());
        for name in others.filter(|name| !self.ref_name.as_str().eq_ignore_ascii_case(name)) {
            if around.catalog.entity_type(around.realm, name).await?.is_none() {
                warnings.push(format!("no type `{name}` exists yet"));
            }
        }
        if let Some(RecordsIn::Rest(rest)) = &self.records {
            let mut issues = Vec::new();
            for (field, name) in rest.tools() {
                match choose(&around.catalog.versions(around.realm, name.as_str()).await?, None) {
                    None => warnings.push(format!("no tool `{name}` exists yet")),
                    Some(tool) => issues.extend(
                        tool.merely_reads()
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
