//! Entity types, which have the common routes of a [`Collection`]. The routes in [`query`](super::query) serve the
//! records of these types.

use toolwright_types::TypeDefinition;

use crate::collection::Collection;

impl Collection for TypeDefinition {
    const PATH: &'static str = "/api/v1/ai/types";
    const TAG: &'static str = "types";
    const SINGULAR: &'static str = "Type";
}
