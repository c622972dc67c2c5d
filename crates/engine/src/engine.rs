//! Puts the services together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_grpc::GrpcBackend;
use toolwright_models::{Models, PriceList, Script};
use toolwright_sandbox::Sandbox;
use toolwright_store::{Location, Promise, SealKey, ServerId, Store, WriterOptions};
use toolwright_tools::executor::{Backend, MemoryCache, MemoryLimiter, Ports};
use toolwright_tools::http::{Egress, HttpBackend, HttpClient};
use toolwright_tools::ports::{RateLimiter, ResultCache, Secrets};
use toolwright_tools::{Executor, Functions, Library, ToolFailure, builtin};
use toolwright_types::{Clock, SystemClock, ToolType};

use crate::access::Access;
use crate::agents::{self, AgentSettings, Agents, Delegation, Resolver};
use crate::blobs::BlobStore;
use crate::calls::Calls;
use crate::catalog::Catalog;
use crate::conversations::Conversations;
use crate::drift::{self, Findings};
use crate::generated::{Gateway, RecordTools, with_gateway};
use crate::helix::ControlPlane;
use crate::identity::Identity;
use crate::imports::Imports;
use crate::llm::{ModelDefaults, ModelShop};
use crate::logins::Logins;
use crate::records::{CallPath, Generation, NoRules, Reachable, RecordRules, Records, SqlTables, Upkeep};
use crate::references::{References, Shelf};
use crate::registry::Registry;
use crate::runs::lease::Lease;
use crate::runs::{self, Conduct, Conductor, Retention, Runs};
use crate::sandboxed::{Sandboxed, with_python};
use crate::vault::{Vault, VaultPort};

/// What an engine is made of.
pub struct Options {
    /// The folder for blobs and keys.
    pub data: PathBuf,
    /// The database; a file in `data` when absent.
    pub database: Option<Location>,
    /// When a commit to it counts.
    pub sync: Promise,
    /// The key secrets are sealed with.
    pub seal: SealKey,
    /// A Redis for the result cache and rate limits; this process's memory when absent.
    pub redis_url: Option<String>,
    /// The administrator's key, when the operator sets it.
    pub admin_key: Option<SecretString>,
    /// Whether a first start without keys may make one for the administrator.
    pub issue_first_key: bool,
    /// Networks that tools may reach although they are private.
    pub egress_allow: Vec<IpNet>,
    /// The folder with SQLite files that types may have their records in; none when absent.
    pub sqlite_folder: Option<PathBuf>,
    /// The functions that FUNCTION tools can name.
    pub library: Library,
    /// Where code that users or models write is run; nowhere when absent.
    pub sandbox: Option<Sandbox>,
    /// The model of agents that name none.
    pub models: ModelDefaults,
    /// Prices that are laid over the built-in ones: everywhere, and in single realms.
    pub prices: PriceList,
    /// Scripts that answer instead of a model, by name.
    pub scripts: Vec<(String, Script)>,
    /// What holds for agents.
    pub agents: AgentSettings,
    /// How long runs are kept.
    pub retention: Retention,
    /// When tools are made for types.
    pub generation: Generation,
    /// Policies beside the built-in ones, in Cedar.
    pub policies: String,
    /// What permission adds to questions about records.
    pub record_rules: Arc<dyn RecordRules>,
    /// Whoever drives durable runs; the engine itself when absent.
    pub conductor: Option<Arc<dyn Conductor>>,
    /// What runs tools of types that the engine does not run by itself.
    pub backends: Vec<(ToolType, Arc<dyn Backend>)>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// Everything in one folder, with the built-in functions.
    pub fn in_folder(data: PathBuf, seal: SealKey) -> Self {
        Self {
            data,
            database: None,
            sync: Promise::default(),
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
            generation: Generation::default(),
            policies: String::new(),
            record_rules: Arc::new(NoRules),
            conductor: None,
            backends: Vec::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// Why an engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be used.
    #[error("use data folder `{}`", path.display())]
    Data {
        /// The folder.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The database cannot be opened.
    #[error("open the database")]
    Store(#[from] toolwright_store::OpenError),
    /// Redis cannot be reached.
    #[error("connect to Redis")]
    Redis(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This binary was built without Redis.
    #[error("this build has no Redis support; build it with the feature `redis`")]
    RedisNotBuiltIn,
    /// The built-in policies do not compile.
    #[error("load the built-in policies")]
    Policies(#[from] toolwright_authz::PolicyError),
    /// Nobody could ever log in.
    #[error("there is no API key yet, and one is only made when listening on loopback; set TOOLWRIGHT_ADMIN_KEY")]
    NoKey,
    /// There is no client for models.
    #[error("make an HTTP client for models: {0}")]
    HttpClient(String),
    /// Something else failed.
    #[error(transparent)]
    Unavailable(#[from] crate::Unavailable),
}

/// The services of one server.
#[derive(Clone)]
pub struct Engine {
    /// Definitions.
    pub registry: Registry,
    /// Definitions that come from elsewhere.
    pub imports: Imports,
    /// What the systems of providers call things.
    pub references: References,
    /// Where those systems differ from what their tools say.
    pub drift: Findings,
    /// Keys and realms.
    pub identity: Identity,
    /// Secrets.
    pub vault: Vault,
    /// Large payloads.
    pub blobs: BlobStore,
    /// Calls.
    pub calls: Calls,
    /// Agents.
    pub agents: Agents,
    /// Runs.
    pub runs: Runs,
    /// Conversations.
    pub conversations: Conversations,
    /// Records.
    pub records: Records,
    store: Store,
    signing_key: SigningKey,
    background: TaskTracker,
    stop: CancellationToken,
    stopping: CancellationToken,
}

/// A key for what clients carry back and forth.
type SigningKey = Arc<zeroize::Zeroizing<[u8; 32]>>;

impl Engine {
    /// Opens everything, and returns the administrator's key if this start made one.
    pub async fn open(options: Options) -> Result<(Self, Option<SecretString>), OpenError> {
        // On the heap, because everything that is put together lives in it at once.
        Box::pin(Self::put_together(options)).await
    }

    async fn put_together(options: Options) -> Result<(Self, Option<SecretString>), OpenError> {
        std::fs::create_dir_all(&options.data)
            .map_err(|source| OpenError::Data { path: options.data.clone(), source })?;
        let location = options.database.unwrap_or_else(|| Location::Sqlite(options.data.join("toolwright.db")));
        let shared = matches!(location, Location::Postgres(_));
        let clock = options.clock;
        let signing_key = Arc::new(options.seal.signing_key());
        let store = Store::open(toolwright_store::Options {
            url: location,
            sync: options.sync,
            clock: Arc::clone(&clock),
            seal: options.seal,
        })
        .await?;
        let access = Access::with(&options.policies)?;
        let identity = Identity::bootstrap(store.clone(), access.clone(), options.admin_key).await?;
        let issued = match identity.has_key().await? {
            true => None,
            false if options.issue_first_key => Some(identity.issue_first_key().await?),
            false => return Err(OpenError::NoKey),
        };
        let blobs = BlobStore::in_folder(&options.data.join("blobs"))?;
        let gateway = Gateway::default();
        let library = with_python(with_gateway(options.library, &gateway), options.sandbox.as_ref());
        let library = Arc::new(library);
        let catalog = Catalog::new(store.clone(), Arc::clone(&library));
        let (cache, limiter) = shared_ports(options.redis_url.as_deref()).await?;
        let shelf = Shelf::new(store.clone());
        let (lookout, scribe) = drift::watch(store.clone());
        let http = HttpClient::new(Egress::allowing(options.egress_allow));
        let (background, stop) = (TaskTracker::new(), CancellationToken::new());
        let logins = Logins {
            store: store.clone(),
            http: http.clone(),
            clock: Arc::clone(&clock),
            background: background.clone(),
        };
        let ports = Ports {
            catalog: Arc::new(catalog.clone()),
            authorizer: Arc::new(access.clone()),
            secrets: Arc::new(VaultPort { store: store.clone(), logins }),
            references: Arc::new(shelf.clone()),
            drifts: Arc::new(lookout.clone()),
            blobs: Arc::new(blobs.clone()),
            cache,
            limiter,
            clock: Arc::clone(&clock),
        };
        let models = model_shop(&http, options.models, options.prices, options.scripts, Arc::clone(&ports.secrets))?;
        let delegation = Arc::new(Delegation::default());
        let reachable = Reachable {
            egress: http.egress().clone(),
            sqlite_folder: options.sqlite_folder,
            own_folder: options.data.clone(),
        };
        let tables = SqlTables::new(store.clone(), reachable);
        let records = Records::new(
            store.clone(),
            tables.clone(),
            catalog.clone(),
            access.clone(),
            options.record_rules,
            Arc::clone(&clock),
        );
        // Set once, right here.
        let _ = gateway.set(records.clone());
        let functions = Sandboxed::new(Functions::new(library, http.clone()), options.sandbox);
        let own = backends(functions, http.clone(), Arc::clone(&delegation), &records);
        let executor = Executor::new(ports, own.into_iter().chain(options.backends));
        let records = records.calling(CallPath::direct(&executor));
        let resolver = Resolver { catalog: catalog.clone(), access: access.clone() };
        let lease = Arc::new(
            Lease::take(Arc::new(store.clone()), Arc::clone(&clock), shared).await.map_err(crate::Unavailable::from)?,
        );
        if !shared {
            store.release_renewals().await.map_err(crate::Unavailable::from)?;
        }
        if shared {
            background.spawn(Arc::clone(&lease).keep(stop.clone()));
        }
        let (writer, writing) = store.writer(lease.server().clone(), WriterOptions::default());
        background.spawn(writing.run(stop.clone()));
        let conduct = options.conductor.map(|conductor| {
            let (writer, writing) = store.writer(ServerId::conductor(), WriterOptions::default());
            background.spawn(writing.run(stop.clone()));
            Conduct::new(conductor, writer)
        });
        let runs = Runs::new(runs::Inner {
            store: store.clone(),
            lease,
            writer,
            executor: executor.clone(),
            blobs: blobs.clone(),
            models: models.clone(),
            resolver: resolver.clone(),
            access: access.clone(),
            clock: Arc::clone(&clock),
            hub: Default::default(),
            drivers: TaskTracker::new(),
            stop: CancellationToken::new(),
            lost: Default::default(),
            put_down: Default::default(),
            forms: Default::default(),
            conduct,
        });
        let client_wait = options.agents.client_wait;
        let agents = Agents::new(agents::Inner {
            resolver,
            models: models.clone(),
            runs: runs.clone(),
            identity: identity.clone(),
            access: access.clone(),
            store: store.clone(),
            settings: options.agents,
            trials: Default::default(),
        });
        delegation.bind(&agents);
        runs.take_up_abandoned().await?;
        background.spawn(runs.clone().keep_time(shared, stop.clone()));
        background.spawn(runs.clone().keep_tidy(options.retention, stop.clone()));
        let upkeep = Upkeep::new(store.clone(), catalog.clone(), options.generation);
        if let Err(error) = upkeep.at_start(&identity.all_realms().await?).await {
            // One type that cannot be read must not keep everything else from starting.
            tracing::error!(error = &error as &dyn std::error::Error, "what follows from types is not up to date");
        }
        let registry = Registry::new(store.clone(), catalog.clone(), models, access.clone(), upkeep, tables);
        let calls = Calls::new(executor, catalog.clone(), runs.clone(), access.clone(), client_wait);
        let references = References::new(store.clone(), registry.clone(), calls.clone(), shelf, clock);
        background.spawn(references.clone().keep_fresh(stop.clone()));
        background.spawn(scribe.write(stop.clone()));
        let engine = Self {
            imports: Imports::new(registry.clone(), calls.clone(), http, lookout),
            references,
            drift: Findings::new(store.clone(), registry.clone()),
            registry,
            identity,
            vault: Vault::new(store.clone(), access.clone()),
            blobs,
            calls,
            agents,
            records,
            conversations: Conversations::new(store.clone(), access, runs.clone()),
            runs,
            store,
            signing_key,
            background,
            stop,
            stopping: CancellationToken::new(),
        };
        if shared {
            let seen = engine.store.generation().await.map_err(crate::Unavailable::from)?;
            engine.background.spawn(catalog.follow(seen, engine.stop.clone()));
        }
        Ok((engine, issued))
    }

    /// Cancelled when the server is told to stop: what would go on for ever ends then.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// A key that all servers with the same seal key have, for signing what clients carry back and forth.
    pub fn signing_key(&self) -> &[u8; 32] {
        &self.signing_key
    }

    /// Runs something beside requests, until it ends; closing the engine waits for it.
    pub fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(work);
    }

    /// Whether the database answers.
    pub async fn ready(&self) -> Result<(), crate::Unavailable> {
        Ok(self.store.ping().await?)
    }

    /// Lets the calls and runs under way finish for as long as `grace`, then cancels the rest.
    pub async fn finish_calls(&self, grace: Duration) {
        tokio::join!(self.calls.finish(grace), self.runs.finish(grace));
    }

    /// Ends what runs in the background and closes the database.
    pub async fn close(&self) {
        self.stopping.cancel();
        self.stop.cancel();
        self.background.close();
        self.background.wait().await;
        self.registry.tables().close().await;
        self.store.close().await;
    }
}

fn model_shop(
    http: &HttpClient,
    defaults: ModelDefaults,
    prices: PriceList,
    scripts: Vec<(String, Script)>,
    secrets: Arc<dyn Secrets>,
) -> Result<ModelShop, OpenError> {
    let no_client = |failure: ToolFailure| OpenError::HttpClient(failure.error.message);
    let models = Models::new(http.plain().map_err(no_client)?);
    let models = models.with_operators_client(http.unguarded().map_err(no_client)?);
    let models = scripts.into_iter().fold(models, |models, (name, script)| models.with_script(name, script));
    let of_realms =
        prices.realms().map(|(realm, prices)| (realm.to_owned(), models.clone().with_prices(prices))).collect();
    let models = models.with_prices(prices.everywhere());
    Ok(ModelShop::new(models, of_realms, defaults, http.egress().clone(), secrets))
}

fn backends(
    functions: Sandboxed,
    http: HttpClient,
    delegation: Arc<Delegation>,
    records: &Records,
) -> Vec<(ToolType, Arc<dyn Backend>)> {
    let on_records: Arc<dyn Backend> = Arc::new(RecordTools::new(records));
    let rest: Arc<dyn Backend> = Arc::new(HttpBackend::new(http.clone()));
    let grpc: Arc<dyn Backend> = Arc::new(GrpcBackend::new(http));
    vec![
        (ToolType::Helix, Arc::new(ControlPlane { http: Arc::clone(&rest), grpc: Arc::clone(&grpc) })),
        (ToolType::ExternalRest, rest),
        (ToolType::Grpc, grpc),
        (ToolType::Function, Arc::new(functions)),
        (ToolType::Agent, delegation),
        (ToolType::QuantumQuery, Arc::clone(&on_records)),
        (ToolType::QuantumApi, on_records),
    ]
}

type SharedPorts = (Arc<dyn ResultCache>, Arc<dyn RateLimiter>);

async fn shared_ports(redis_url: Option<&str>) -> Result<SharedPorts, OpenError> {
    match redis_url {
        None => Ok((Arc::new(MemoryCache::default()), Arc::new(MemoryLimiter::default()))),
        #[cfg(feature = "redis")]
        Some(url) => {
            let connection =
                crate::redis_ports::connect(url).await.map_err(|error| OpenError::Redis(Box::new(error)))?;
            let cache = crate::redis_ports::RedisCache::new(connection.clone());
            Ok((Arc::new(cache), Arc::new(crate::redis_ports::RedisLimiter::new(connection))))
        }
        #[cfg(not(feature = "redis"))]
        Some(_) => Err(OpenError::RedisNotBuiltIn),
    }
}
