//! Builds the executor of an engine, with its ports (such as secrets and caches) and its backends.

use std::sync::Arc;

use tokio_util::task::TaskTracker;
use toolwright_agents::DelegateBackend;
use toolwright_catalog::Catalog;
use toolwright_grpc::GrpcBackend;
use toolwright_records::record_tools::{RecordBackend, RecordsSlot, with_query_tools};
use toolwright_records::{DatabaseAccess, RecordRules, Records, SqlTables, ToolCaller};
use toolwright_sandbox::Sandbox;
use toolwright_tools::executor::{Backend, MemoryCache, MemoryRateLimiter, Ports};
use toolwright_tools::http::{HttpBackend, HttpClient};
use toolwright_tools::ports::{RateLimiter, ResultCache, SecretResolver};
use toolwright_tools::{Executor, FunctionBackend, Library};
use toolwright_types::ToolType;

use crate::base::{Base, OpenError};
use crate::drift::{self, DriftRecorder, DriftWriter};
use crate::helix::HelixBackend;
use crate::logins::Logins;
use crate::references::ReferenceCache;
use crate::sandbox_backend::{SandboxBackend, with_python};
use crate::status::RedisPing;
use crate::vault::VaultPort;
use crate::workflow_tools::{RegistrySlot, with_workflow_tools};

/// The options of the engine that the executor needs.
pub(crate) struct ExecutionSettings {
    pub library: Library,
    pub sandbox: Option<Sandbox>,
    pub backends: Vec<(ToolType, Arc<dyn Backend>)>,
    pub redis_url: Option<String>,
    pub record_rules: Arc<dyn RecordRules>,
    pub database_access: DatabaseAccess,
}

/// The executor and the services that are built together with it.
pub(crate) struct Execution {
    pub catalog: Catalog,
    pub executor: Executor,
    pub records: Records,
    pub tables: SqlTables,
    pub secrets: Arc<dyn SecretResolver>,
    /// The backend that runs agents as tools. The agents service must be bound to it before the first call.
    pub delegation: Arc<DelegateBackend>,
    /// The registry of the tools that write workflows. It must be set before the first call.
    pub workflow_registry: RegistrySlot,
    pub reference_cache: ReferenceCache,
    pub drift_recorder: DriftRecorder,
    pub drift_writer: DriftWriter,
    /// Checks that Redis answers. `None` if the server does not use Redis.
    pub redis_ping: Option<RedisPing>,
}

impl Execution {
    pub(crate) async fn build(
        base: &Base,
        http: HttpClient,
        settings: ExecutionSettings,
        background: &TaskTracker,
    ) -> Result<Self, OpenError> {
        let ExecutionSettings { library, sandbox, backends, redis_url, record_rules, database_access } = settings;
        let Base { store, access, clock, .. } = base;
        let records_slot = RecordsSlot::default();
        let workflow_registry = RegistrySlot::default();
        let library = with_workflow_tools(with_query_tools(library, &records_slot), &workflow_registry);
        let library = Arc::new(with_python(library, sandbox.as_ref()));
        let catalog = Catalog::new(store.clone(), Arc::clone(&library));
        let (cache, limiter, redis_ping) = shared_ports(redis_url.as_deref()).await?;
        let reference_cache = ReferenceCache::new(store.clone());
        let (drift_recorder, drift_writer) = drift::channel(store.clone());
        let logins = Logins {
            store: store.clone(),
            http: http.clone(),
            clock: Arc::clone(clock),
            background: background.clone(),
        };
        let secrets: Arc<dyn SecretResolver> = Arc::new(VaultPort { store: store.clone(), logins });
        let ports = Ports {
            catalog: Arc::new(catalog.clone()),
            authorizer: Arc::new(access.clone()),
            secrets: Arc::clone(&secrets),
            references: Arc::new(reference_cache.clone()),
            drift_sink: Arc::new(drift_recorder.clone()),
            blobs: Arc::new(base.blobs.clone()),
            cache,
            limiter,
            clock: Arc::clone(clock),
        };
        let tables = SqlTables::new(store.clone(), database_access);
        let records = Records::new(
            store.clone(),
            tables.clone(),
            catalog.clone(),
            access.clone(),
            record_rules,
            Arc::clone(clock),
        );
        // `set` cannot fail, because no other code sets this slot.
        let _ = records_slot.set(records.clone());
        let delegation = Arc::new(DelegateBackend::default());
        let functions = SandboxBackend::new(FunctionBackend::new(library, http.clone()), sandbox);
        let builtin = builtin_backends(functions, http, Arc::clone(&delegation), &records);
        let executor = Executor::new(ports, builtin.into_iter().chain(backends));
        let records = records.with_tool_caller(ToolCaller::direct(&executor));
        Ok(Self {
            catalog,
            executor,
            records,
            tables,
            secrets,
            delegation,
            workflow_registry,
            reference_cache,
            drift_recorder,
            drift_writer,
            redis_ping,
        })
    }
}

fn builtin_backends(
    functions: SandboxBackend,
    http: HttpClient,
    delegation: Arc<DelegateBackend>,
    records: &Records,
) -> Vec<(ToolType, Arc<dyn Backend>)> {
    let record_backend: Arc<dyn Backend> = Arc::new(RecordBackend::new(records));
    let rest: Arc<dyn Backend> = Arc::new(HttpBackend::new(http.clone()));
    let grpc: Arc<dyn Backend> = Arc::new(GrpcBackend::new(http));
    vec![
        (ToolType::Helix, Arc::new(HelixBackend { http: Arc::clone(&rest), grpc: Arc::clone(&grpc) })),
        (ToolType::ExternalRest, rest),
        (ToolType::Grpc, grpc),
        (ToolType::Function, Arc::new(functions)),
        (ToolType::Agent, Arc::clone(&delegation) as _),
        (ToolType::Agentic, Arc::clone(&delegation) as _),
        (ToolType::Composite, Arc::clone(&delegation) as _),
        (ToolType::Workflow, delegation),
        (ToolType::QuantumQuery, Arc::clone(&record_backend)),
        (ToolType::QuantumApi, record_backend),
    ]
}

type SharedPorts = (Arc<dyn ResultCache>, Arc<dyn RateLimiter>, Option<RedisPing>);

async fn shared_ports(redis_url: Option<&str>) -> Result<SharedPorts, OpenError> {
    match redis_url {
        None => Ok((Arc::new(MemoryCache::default()), Arc::new(MemoryRateLimiter::default()), None)),
        #[cfg(feature = "redis")]
        Some(url) => {
            let connection =
                crate::redis_ports::connect(url).await.map_err(|error| OpenError::Redis(Box::new(error)))?;
            let cache = crate::redis_ports::RedisCache::new(connection.clone());
            let ping = crate::redis_ports::ping(connection.clone());
            Ok((Arc::new(cache), Arc::new(crate::redis_ports::RedisRateLimiter::new(connection)), Some(ping)))
        }
        #[cfg(not(feature = "redis"))]
        Some(_) => Err(OpenError::RedisNotBuiltIn),
    }
}
