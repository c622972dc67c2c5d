//! The state of the handlers. A handler that needs one service takes that service, such as `State<Vault>`. A handler
//! that needs several services takes the whole [`AppState`].

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use toolwright_agents::Agents;
use toolwright_agents::conversations::Conversations;
use toolwright_catalog::identity::Identity;
use toolwright_catalog::registry::Registry;
use toolwright_engine::{DriftReports, Engine, Events, Imports, ReferenceData, Vault};
use toolwright_records::Records;
use toolwright_runs::Runs;
use toolwright_triggers::{Triggers, Webhooks};

/// All services of the server.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Engine>);

impl AppState {
    /// Shares an engine with all handlers.
    pub(crate) fn new(engine: Engine) -> Self {
        Self(Arc::new(engine))
    }
}

impl Deref for AppState {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

macro_rules! services {
    ($($field:ident: $service:ty,)*) => {$(
        impl FromRef<AppState> for $service {
            fn from_ref(state: &AppState) -> Self {
                state.$field.clone()
            }
        }
    )*};
}

services! {
    registry: Registry,
    imports: Imports,
    references: ReferenceData,
    drift: DriftReports,
    events: Events,
    identity: Identity,
    vault: Vault,
    agents: Agents,
    runs: Runs,
    conversations: Conversations,
    records: Records,
    triggers: Triggers,
    webhooks: Webhooks,
}
