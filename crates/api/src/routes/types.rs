//! Types of records: a collection like any other. Their records are reached through the query gateway.

use toolwright_types::TypeDefinition;

use crate::collection::Kind;

impl Kind for TypeDefinition {
    const PATH: &'static str = "/api/v1/ai/types";
    const TAG: &'static str = "types";
    const ONE: &'static str = "Type";
}
