//! Opens all services of a server and connects them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_agents::{AgentSettings, Agents, Conversations};
use toolwright_catalog::{Identity, ModelDefaults, ModelRegistry, Registry, Resolver, Unavailable};
use toolwright_models::{ModelFactory, PriceList, Script};
use toolwright_records::{
    DatabaseAccess, GenerationSettings, NoRules, RecordRules, Records, SqlTables, TypeMaintenance,
};
use toolwright_runs::blobs::{BlobLocation, BlobStore};
use toolwright_runs::{Retention, Runs, TaskScheduler};
use toolwright_sandbox::Sandbox;
use toolwright_store::{Location, SealKey, Store, SyncMode};
use toolwright_tools::executor::Backend;
use toolwright_tools::http::{EgressPolicy, HttpClient};
use toolwright_tools::ports::SecretResolver;
use toolwright_tools::{Library, ToolFailure, builtin};
use toolwright_triggers::{TriggerServices, Triggers, Webhooks};
use toolwright_types::{Clock, SystemClock, ToolType};

use crate::base::{Base, BaseOptions, OpenError};
use crate::calls::Calls;
use crate::drift::DriftReports;
use crate::events::Events;
use crate::execution::{Execution, ExecutionSettings};
use crate::imports::Imports;
use crate::references::ReferenceData;
use crate::status::{ServerStatus, StatusParts};
use crate::vault::Vault;

/// A function that returns the value of an environment variable.
pub type EnvironmentLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The options of an engine.
pub struct Options {
    /// The folder for the database, blobs and keys.
    pub data: PathBuf,
    /// Where blobs are stored. Default: the folder `blobs` in `data`.
    pub blobs: Option<BlobLocation>,
    /// The database. Default: an SQLite file in `data`.
    pub database: Option<Location>,
    /// Whether a commit waits until the data is on disk.
    pub sync: SyncMode,
    /// The key that seals secrets.
    pub seal: SealKey,
    /// The Redis server for the result cache and the rate limits. By default, this process keeps both in memory.
    pub redis_url: Option<String>,
    /// An API key for the administrator that the operator chose.
    pub admin_key: Option<SecretString>,
    /// Whether the engine issues an API key for the administrator if there is no API key yet.
    pub issue_first_key: bool,
    /// The private networks that tools may reach.
    pub egress_allow: Vec<IpNet>,
    /// The folder with SQLite files that entity types may use. `None` disables SQLite for entity types.
    pub sqlite_folder: Option<PathBuf>,
    /// The functions for FUNCTION tools.
    pub library: Library,
    /// The sandbox for code that users and models write. `None` means that such code is not executed.
    pub sandbox: Option<Sandbox>,
    /// The model settings for agents that do not set them.
    pub models: ModelDefaults,
    /// Prices that override the built-in prices, for all realms or for single realms.
    pub prices: PriceList,
    /// Scripts for scripted models, by name.
    pub scripts: Vec<(String, Script)>,
    /// The default settings and limits of agents.
    pub agents: AgentSettings,
    /// How long finished runs are stored.
    pub retention: Retention,
    /// When tools are generated for entity types.
    pub generation: GenerationSettings,
    /// Additional policies in the Cedar language.
    pub policies: String,
    /// Rules that restrict which records a principal can see and change.
    pub record_rules: Arc<dyn RecordRules>,
    /// The external scheduler that drives durable runs. `None` means that the engine drives them.
    pub scheduler: Option<Arc<dyn TaskScheduler>>,
    /// Backends for tool types that the engine does not implement.
    pub backends: Vec<(ToolType, Arc<dyn Backend>)>,
    /// The optional features with which the program was built, without those of this crate. They are only shown in the
    /// status of the server.
    pub features: Vec<&'static str>,
    /// The clock of all services.
    pub clock: Arc<dyn Clock>,
    /// Reads environment variables. Default: the environment of this process.
    pub environment: EnvironmentLookup,
}

impl Options {
    /// Creates options that store all data in one folder and use the built-in functions.
    pub fn in_folder(data: PathBuf, seal: SealKey) -> Self {
        Self {
            data,
            blobs: None,
            database: None,
            sync: SyncMode::default(),
            seal,
            redis_url: None,
            admin_key: None,
            issue_first_key: true,
            egress_allow: Vec::new(),
            sqlite_folder: None,
            library: builtin::library(),
            sandbox: None,
            models: ModelDefaults::default(),
            prices: PriceList::default(),
            scripts: Vec::new(),
            agents: AgentSettings::default(),
            retention: Retention::default(),
            generation: GenerationSettings::default(),
            policies: String::new(),
            record_rules: Arc::new(NoRules),
            scheduler: None,
            backends: Vec::new(),
            features: Vec::new(),
            clock: Arc::new(SystemClock),
            environment: Arc::new(|name| std::env::var(name).ok()),
        }
    }
}

/// The services of one server.
#[derive(Clone)]
pub struct Engine {
    /// Definitions of tools, providers, agents, prompt fragments and entity types.
    pub registry: Registry,
    /// Imports of definitions from OpenAPI documents, gRPC servers and databases.
    pub imports: Imports,
    /// Reference data: the names and ids that providers publish.
    pub references: ReferenceData,
    /// Drift: differences between the output schema of a tool and the outputs that the tool returned.
    pub drift: DriftReports,
    /// The event streams of realms.
    pub events: Events,
    /// Authentication, API keys and realms.
    pub identity: Identity,
    /// Secrets.
    pub vault: Vault,
    /// Payloads that are too large for journals.
    pub blobs: BlobStore,
    /// Direct tool calls.
    pub calls: Calls,
    /// Agents.
    pub agents: Agents,
    /// Runs.
    pub runs: Runs,
    /// Conversations.
    pub conversations: Conversations,
    /// Records.
    pub records: Records,
    /// Triggers: schedules and incoming webhooks.
    pub triggers: Triggers,
    /// Outgoing webhooks.
    pub webhooks: Webhooks,
    /// The features of the server, and the health of the database and the other parts.
    pub status: ServerStatus,
    /// Creates the indexes and the tools of entity types.
    pub entity_tools: TypeMaintenance,
    store: Store,
    tables: SqlTables,
    signing_key: SigningKey,
    background: TaskTracker,
    stop: CancellationToken,
    shutdown: CancellationToken,
}

/// A key for signing data that clients send back later, such as consent tokens.
type SigningKey = Arc<zeroize::Zeroizing<[u8; 32]>>;

impl Engine {
    /// Opens all services. Also returns the administrator's API key, if this call issued it.
    pub async fn open(options: Options) -> Result<(Self, Option<SecretString>), OpenError> {
        // Boxed, because the future contains every service and is large.
        Box::pin(Self::assemble(options)).await
    }

    async fn assemble(options: Options) -> Result<(Self, Option<SecretString>), OpenError> {
        let (background, stop) = (TaskTracker::new(), CancellationToken::new());
        let signing_key = Arc::new(options.seal.signing_key());
        let database = options.database.unwrap_or_else(|| Location::Sqlite(options.data.join("toolwright.db")));
        let base = Base::open(BaseOptions {
            data: &options.data,
            database,
            sync: options.sync,
            seal: options.seal,
            clock: options.clock,
            policies: &options.policies,
            blobs: options.blobs,
            environment: &options.environment,
        })
        .await?;
        let identity = Identity::bootstrap(base.store.clone(), base.access.clone(), options.admin_key).await?;
        let first_key = issue_first_key(&identity, options.issue_first_key).await?;
        let http = HttpClient::new(EgressPolicy::allowing(options.egress_allow));
        let (sandbox, data) = (options.sandbox.clone(), options.data.clone());
        let settings = ExecutionSettings {
            library: options.library,
            sandbox: options.sandbox,
            backends: options.backends,
            redis_url: options.redis_url,
            record_rules: options.record_rules,
            database_access: DatabaseAccess {
                egress: http.egress().clone(),
                sqlite_folder: options.sqlite_folder,
                own_folder: options.data,
            },
        };
        let execution = Execution::build(&base, http.clone(), settings, &background).await?;
        let Execution { catalog, executor, records, tables, secrets, delegation, workflow_registry, .. } = execution;
        if base.shared {
            // The generation counts changes of definitions, identities and secrets. It must be read before the first
            // definition is compiled. Otherwise a change by another server could be missed.
            let generation = base.store.generation().await.map_err(Unavailable::from)?;
            background.spawn(catalog.clone().watch_other_servers(generation, stop.clone()));
        }
        let models = model_factory(&http, options.environment, options.scripts)?;
        let models = build_model_registry(&http, models, options.models, options.prices, secrets);
        let resolver = Resolver { catalog: catalog.clone(), access: base.access.clone() };
        let dependencies = toolwright_runs::Dependencies {
            store: base.store.clone(),
            executor: executor.clone(),
            blobs: base.blobs.clone(),
            models: models.clone(),
            resolver: resolver.clone(),
            access: base.access.clone(),
            clock: Arc::clone(&base.clock),
        };
        let runs = Runs::open(dependencies, base.shared, options.scheduler, &background, &stop).await?;
        let client_wait = options.agents.client_wait;
        let dependencies = toolwright_agents::AgentServices {
            resolver,
            models: models.clone(),
            runs: runs.clone(),
            identity: identity.clone(),
            access: base.access.clone(),
            store: base.store.clone(),
        };
        let agents = Agents::new(dependencies, options.agents);
        // The delegate backend must be bound before `runs.start`: that call recovers runs, and a recovered run may call
        // an agent.
        delegation.bind(&agents);
        runs.start(base.shared, options.retention, &background, &stop).await?;
        let type_maintenance =
            TypeMaintenance::new(base.store.clone(), catalog.clone(), options.generation, tables.clone());
        if let Err(error) = type_maintenance.sync_all(&identity.all_realms().await?).await {
            // An entity type that cannot be read must not prevent the start of the server.
            tracing::error!(error = &error as &dyn std::error::Error, "indexes and tools of types are not up to date");
        }
        let hooks = Arc::new(type_maintenance.clone());
        let registry = Registry::new(base.store.clone(), catalog.clone(), models, base.access.clone(), hooks);
        // `set` cannot fail, because no other code sets this slot.
        let _ = workflow_registry.set(registry.clone());
        let calls = Calls::new(executor, catalog.clone(), runs.clone(), base.access.clone(), client_wait);
        let references = ReferenceData::new(
            base.store.clone(),
            registry.clone(),
            calls.clone(),
            execution.reference_cache,
            Arc::clone(&base.clock),
        );
        if let Some(reserve) = &base.reserve {
            reserve.restore();
        }
        let status = ServerStatus::new(StatusParts {
            store: base.store.clone(),
            blobs: base.blobs.clone(),
            runs: runs.clone(),
            redis: execution.redis_ping,
            sandbox,
            data,
            features: options.features.into_iter().chain(built_in_features()).collect(),
        });
        background.spawn(references.clone().run_refresh_loop(stop.clone()));
        background.spawn(execution.drift_writer.run(stop.clone()));
        let events =
            Events::new(base.store.clone(), registry.clone(), base.access.clone(), background.clone(), stop.clone());
        background.spawn(events.clone().run_retention(identity.clone(), Arc::clone(&base.clock)));
        let services = Arc::new(TriggerServices {
            store: base.store.clone(),
            registry: registry.clone(),
            identity: identity.clone(),
            agents: agents.clone(),
            runs: runs.clone(),
            client_wait,
            http: http.clone(),
            clock: Arc::clone(&base.clock),
        });
        let (triggers, webhooks) = (Triggers::new(Arc::clone(&services)), Webhooks::new(services));
        background.spawn(triggers.clone().run_scheduler(stop.clone()));
        background.spawn(webhooks.clone().run_deliveries(stop.clone()));
        let engine = Self {
            triggers,
            webhooks,
            imports: Imports::new(registry.clone(), calls.clone(), http, execution.drift_recorder, tables.clone()),
            references,
            drift: DriftReports::new(base.store.clone(), registry.clone()),
            events,
            registry,
            identity,
            vault: Vault::new(base.store.clone(), base.access.clone()),
            blobs: base.blobs,
            calls,
            agents,
            records,
            status,
            entity_tools: type_maintenance,
            conversations: Conversations::new(base.store.clone(), base.access, runs.clone()),
            runs,
            store: base.store,
            tables,
            signing_key,
            background,
            stop,
            shutdown: CancellationToken::new(),
        };
        Ok((engine, first_key))
    }

    /// Returns the token that is cancelled when the server shuts down. Endless streams and loops must then end.
    pub fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Returns the key for signing data that clients send back later. It is the same on all servers with the same seal
    /// key.
    pub fn signing_key(&self) -> &[u8; 32] {
        &self.signing_key
    }

    /// Returns an id of this deployment, which is the same on all servers with the same seal key. It reveals nothing
    /// about the key.
    pub fn deployment_id(&self) -> String {
        let key = self.signing_key().as_slice();
        let mut id = toolwright_types::json::hex_digest(&serde_json::json!(["deployment", key]));
        id.truncate(32);
        id
    }

    /// Spawns a background task. [`Engine::close`] waits for it.
    pub fn spawn_background(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(task);
    }

    /// Checks that the database and the blob storage answer.
    pub async fn ready(&self) -> Result<(), Unavailable> {
        self.store.ping().await?;
        self.blobs.check().await
    }

    /// Waits up to `grace` for the calls and runs in progress, and then ends those that are left. Durable runs are
    /// recovered later.
    pub async fn drain_calls(&self, grace: Duration) {
        self.runs.finish(grace).await;
    }

    /// Stops the background tasks and closes the database.
    pub async fn close(&self) {
        self.shutdown.cancel();
        self.stop.cancel();
        self.background.close();
        self.background.wait().await;
        self.tables.close().await;
        self.store.close().await;
    }
}

/// The optional features of this crate.
fn built_in_features() -> impl Iterator<Item = &'static str> {
    let features = [(cfg!(feature = "postgres"), "postgres"), (cfg!(feature = "redis"), "redis")];
    features.into_iter().filter_map(|(enabled, name)| enabled.then_some(name))
}

/// Issues the administrator's API key if no key exists. The key cannot be read again later.
async fn issue_first_key(identity: &Identity, allowed: bool) -> Result<Option<SecretString>, OpenError> {
    match identity.has_key().await? {
        true => Ok(None),
        false if allowed => Ok(Some(identity.issue_first_key().await?)),
        false => Err(OpenError::NoKey),
    }
}

fn model_factory(
    http: &HttpClient,
    environment: EnvironmentLookup,
    scripts: Vec<(String, Script)>,
) -> Result<ModelFactory, OpenError> {
    let no_client = |failure: ToolFailure| OpenError::HttpClient(failure.error.message);
    let models = ModelFactory::new(http.raw_client().map_err(no_client)?);
    let models = models.with_operator_client(http.unrestricted_client().map_err(no_client)?);
    let models = models.with_environment(move |name| environment(name));
    Ok(scripts.into_iter().fold(models, |models, (name, script)| models.with_script(name, script)))
}

fn build_model_registry(
    http: &HttpClient,
    models: ModelFactory,
    defaults: ModelDefaults,
    prices: PriceList,
    secrets: Arc<dyn SecretResolver>,
) -> ModelRegistry {
    let realm_models =
        prices.realms().map(|(realm, prices)| (realm.to_owned(), models.clone().with_prices(prices))).collect();
    let models = models.with_prices(prices.default_prices());
    ModelRegistry::new(models, realm_models, defaults, http.egress().clone(), secrets)
}
