//! Tools made from types when someone asks for them.

use toolwright_authz::{Action, Resource};
use toolwright_types::{Operation, ToolDefinition, TypeDefinition};

use super::{Registry, RegistryError};
use crate::access::Session;
use crate::generated::{Generated, tools};

/// What someone asks for.
#[derive(Debug, Clone, Default)]
pub struct GenerateRequest {
    /// The types.
    pub types: Vec<String>,
    /// Whether the tools are written, or only shown.
    pub persist: bool,
    /// Operations that are left out, beside those that the types leave out.
    pub excluded: Vec<Operation>,
}

impl Registry {
    /// The tools of these types, and what became of them if they were to be written.
    pub async fn generate(
        &self,
        session: &Session,
        request: &GenerateRequest,
    ) -> Result<(Vec<ToolDefinition>, Generated), RegistryError> {
        let mut types = Vec::new();
        for name in &request.types {
            let of = self.get::<TypeDefinition>(session, name, None).await?;
            if request.persist {
                self.access.require(session, Action::Write, Resource::Type { name: of.body.ref_name.as_str() })?;
            }
            types.push(of.body);
        }
        let (mut made, mut done) = (Vec::new(), Generated::default());
        for of in types {
            let wanted = tools(&of, &request.excluded);
            if request.persist {
                let by = session.principal.name.as_str();
                done.extend(self.upkeep.generator().write(&session.realm, &wanted, by).await?);
            }
            made.extend(wanted);
        }
        Ok((made, done))
    }
}
