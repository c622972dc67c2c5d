//! A small world for one test: ports in memory that can be looked into, a faults server, and an executor over both.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use semver::VersionReq;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK, faults};
use toolwright_tools::executor::{Backend, MemoryCache, Ports};
use toolwright_tools::http::{CompiledProvider, HttpBackend, HttpClient, HttpOptions, Lookup};
use toolwright_tools::ports::{self, Allowed, Denied, Payload, ResultCache, SecretIdentity, Unavailable};
use toolwright_tools::{
    CallContext, CallRequest, CompiledTool, Executor, Functions, Issues, Library, Outcome, builtin,
};
use toolwright_types::{
    Attachment, Document, DocumentId, ErrorCode, Meta, OrgId, Principal, PrincipalId, RealmId, RealmScope, RefName,
    Role, RunId, Source, Status, Timestamp, ToolDefinition, ToolEnvelope, ToolError, ToolProviderConfig, ToolType,
    json as canonical,
};

/// Everything one test needs. Fields are public, because tests look behind the scenes.
pub struct World {
    pub faults: faults::Handle,
    pub executor: Executor,
    pub shelf: Arc<Shelf>,
    pub gate: Arc<Gate>,
    pub vault: Arc<Vault>,
    pub blobs: Arc<BlobShelf>,
    pub cache: Arc<SeenCache>,
    pub http: HttpClient,
    pub cx: CallContext,
}

impl World {
    /// A world with the built-in functions, in which only providers may reach loopback.
    pub async fn start() -> Self {
        Self::with(builtin::library(), HttpOptions::default()).await
    }

    /// A world with these functions beside the built-in `echo`.
    pub async fn with_functions(library: Library) -> Self {
        Self::with(library, HttpOptions::default()).await
    }

    pub async fn with_http(options: HttpOptions) -> Self {
        Self::with(builtin::library(), options).await
    }

    async fn with(library: Library, options: HttpOptions) -> Self {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let library = Arc::new(library);
        let http = HttpClient::with_options(options);
        let (shelf, gate) = (Arc::new(Shelf::new(Arc::clone(&library))), Arc::new(Gate::default()));
        let (vault, blobs) = (Arc::new(Vault::default()), Arc::new(BlobShelf::default()));
        let cache = Arc::new(SeenCache::default());
        let ports = Ports {
            cache: Arc::clone(&cache) as _,
            ..Ports::local(
                Arc::clone(&shelf) as _,
                Arc::clone(&gate) as _,
                Arc::clone(&vault) as _,
                Arc::clone(&blobs) as _,
            )
        };
        let rest: Arc<dyn Backend> = Arc::new(HttpBackend::new(http.clone()));
        let functions: Arc<dyn Backend> = Arc::new(Functions::new(library, http.clone()));
        let executor = Executor::new(
            ports,
            [(ToolType::ExternalRest, Arc::clone(&rest)), (ToolType::Helix, rest), (ToolType::Function, functions)],
        );
        let world = Self { faults, executor, shelf, gate, vault, blobs, cache, http, cx: context("admin", 1) };
        world.provider(json!({ "refName": "faults" }));
        world
    }

    /// Adds a provider; without a `baseUrl` it is the faults server, without `egressAllow` it may reach loopback.
    pub fn provider(&self, mut body: Value) -> Arc<CompiledProvider> {
        let fields = body.as_object_mut().unwrap();
        fields.entry("baseUrl").or_insert(json!(self.faults.base_url()));
        fields.entry("egressAllow").or_insert(json!(["127.0.0.1/32"]));
        let config: ToolProviderConfig = serde_json::from_value(body).unwrap();
        let compiled = Arc::new(CompiledProvider::compile(document(config.ref_name.clone(), config)).unwrap());
        self.shelf.providers.lock().unwrap().insert(compiled.config.ref_name.to_string(), Arc::clone(&compiled));
        compiled
    }

    /// Adds a tool, or says why it cannot be one.
    pub fn try_tool(&self, body: Value) -> Result<Arc<CompiledTool>, Issues> {
        self.shelf.add(body)
    }

    /// Adds a tool.
    pub fn tool(&self, body: Value) -> Arc<CompiledTool> {
        self.try_tool(body).unwrap()
    }

    /// Adds a GET tool of the faults server.
    pub fn get(&self, name: &str, path: &str, extra: Value) -> Arc<CompiledTool> {
        self.rest(name, json!({ "method": "GET", "path": path }), extra)
    }

    /// Adds a tool of the faults server.
    pub fn rest(&self, name: &str, invocation: Value, extra: Value) -> Arc<CompiledTool> {
        let body =
            json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": "faults", "invocation": invocation });
        self.tool(merged(body, extra))
    }

    /// Adds a tool around a function of the library.
    pub fn function(&self, name: &str, path: &str, extra: Value) -> Arc<CompiledTool> {
        self.tool(merged(json!({ "refName": name, "toolType": "FUNCTION", "invocation": { "path": path } }), extra))
    }

    pub fn secret(&self, name: &str, value: &str) {
        self.vault.put(name, value, "realm", 1);
    }

    /// Calls a tool and expects an envelope.
    pub async fn call(&self, tool: &str, input: Value) -> ToolEnvelope {
        done(self.executor.execute(&self.cx, request(tool, input)).await)
    }

    /// What the tool returned, which must not have failed.
    pub async fn output(&self, tool: &str, input: Value) -> Value {
        let envelope = self.call(tool, input).await;
        assert!(envelope.is_success(), "{:?}", envelope.error);
        envelope.output
    }
}

pub fn request(tool: &str, input: Value) -> CallRequest {
    CallRequest { tool: tool.to_owned(), version: None, input }
}

pub fn done(outcome: Outcome) -> ToolEnvelope {
    match outcome {
        Outcome::Done(envelope) => *envelope,
        Outcome::Client(action) => panic!("a client action: {action:?}"),
    }
}

/// The code, `details.reason` and message of a failed call, as `CODE reason: message`.
pub fn failure(envelope: &ToolEnvelope) -> String {
    let error = envelope.error.as_ref().unwrap_or_else(|| panic!("it succeeded with {}", envelope.output));
    assert!(envelope.output.is_null(), "a failure has no output: {}", envelope.output);
    format!("{} {}: {}", error.code, detail(envelope, "reason").as_str().unwrap_or("-"), error.message)
}

pub fn detail(envelope: &ToolEnvelope, key: &str) -> Value {
    let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
    details.and_then(|details| details.get(key)).cloned().unwrap_or_default()
}

/// `body` with the fields of `extra`, which win.
pub fn merged(mut body: Value, extra: Value) -> Value {
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

/// A direct call by `name` in the realm of this number.
pub fn context(name: &str, realm: u128) -> CallContext {
    let org = OrgId::from_bits(1);
    let scope = RealmScope { org, realm: RealmId::from_bits(realm), name: format!("realm{realm}").parse().unwrap() };
    let principal = Principal {
        id: PrincipalId::from_bits(1),
        name: name.parse().unwrap(),
        org,
        home: scope.realm,
        roles: vec![Role::Admin],
    };
    CallContext::direct(Arc::new(scope), Arc::new(principal), RunId::generate())
}

fn document<T: serde::Serialize>(ref_name: RefName, body: T) -> Document<T> {
    let content_hash = canonical::hex_digest(&serde_json::to_value(&body).unwrap());
    let at = Timestamp::from_micros(0);
    let meta = Meta {
        id: format!("tool_{ref_name}"),
        ref_name,
        source: Source::Manual,
        revision: 1,
        content_hash,
        created_by: "test".into(),
        created_at: at,
        updated_by: "test".into(),
        updated_at: at,
    };
    Document { meta, body }
}

/// Tools and providers by name.
pub struct Shelf {
    library: Arc<Library>,
    providers: Mutex<HashMap<String, Arc<CompiledProvider>>>,
    tools: Mutex<HashMap<String, Vec<Arc<CompiledTool>>>>,
    pub broken: Mutex<bool>,
}

impl Shelf {
    fn new(library: Arc<Library>) -> Self {
        Self { library, providers: Mutex::default(), tools: Mutex::default(), broken: Mutex::default() }
    }

    fn add(&self, body: Value) -> Result<Arc<CompiledTool>, Issues> {
        let definition: ToolDefinition = serde_json::from_value(body).unwrap();
        let provider =
            definition.provider_ref.as_ref().and_then(|name| self.providers.lock().unwrap().get(name).cloned());
        let compiled = Arc::new(CompiledTool::compile(
            document(definition.ref_name.clone(), definition),
            provider,
            &self.library,
        )?);
        self.put(Arc::clone(&compiled));
        Ok(compiled)
    }

    pub fn put(&self, tool: Arc<CompiledTool>) {
        let mut tools = self.tools.lock().unwrap();
        let versions = tools.entry(tool.definition.ref_name.key()).or_default();
        versions.retain(|other| other.definition.version != tool.definition.version);
        versions.push(tool);
        versions.sort_by(|a, b| b.definition.version.cmp(&a.definition.version));
    }

    /// Every tool, by name.
    pub fn all(&self) -> Vec<Arc<CompiledTool>> {
        let mut all: Vec<_> = self.tools.lock().unwrap().values().flatten().cloned().collect();
        all.sort_by_key(|tool| tool.definition.ref_name.key());
        all
    }
}

impl ports::Catalog for Shelf {
    fn resolve<'a>(
        &'a self,
        _realm: &'a RealmScope,
        name: &'a str,
        version: Option<&'a VersionReq>,
    ) -> BoxFuture<'a, Result<Option<Arc<CompiledTool>>, Unavailable>> {
        Box::pin(async move {
            if *self.broken.lock().unwrap() {
                return Err(Unavailable { port: "the catalog", source: "disk on fire at /var/secret-path".into() });
            }
            let tools = self.tools.lock().unwrap();
            let versions = tools.get(&name.to_ascii_lowercase()).map(Vec::as_slice).unwrap_or_default();
            let fits =
                |tool: &&Arc<CompiledTool>| version.is_none_or(|wanted| wanted.matches(&tool.definition.version));
            let by_status = |status| versions.iter().filter(fits).find(|tool| tool.definition.status == status);
            let order = [Status::Active, Status::Deprecated, Status::Blocked];
            Ok(order.into_iter().find_map(by_status).cloned())
        })
    }
}

/// Allows everything but what is listed.
#[derive(Default)]
pub struct Gate {
    pub closed: Mutex<BTreeSet<String>>,
}

impl ports::Authorizer for Gate {
    fn may_execute(&self, _principal: &Principal, _realm: &RealmScope, tool: &CompiledTool) -> Result<Allowed, Denied> {
        let name = tool.definition.ref_name.to_string();
        if self.closed.lock().unwrap().contains(&name) {
            return Err(Denied { permission: format!("ai://tools/{name}/execute"), policies: vec!["no-entry".into()] });
        }
        Ok(Allowed { policy: "everything".into() })
    }
}

/// Secrets by name, and how often any was opened.
#[derive(Default)]
pub struct Vault {
    secrets: Mutex<HashMap<String, (SecretIdentity, String)>>,
    pub reveals: AtomicU32,
    pub refused: Mutex<Vec<SecretIdentity>>,
}

impl Vault {
    pub fn put(&self, name: &str, value: &str, scope: &'static str, revision: i64) {
        let identity = SecretIdentity { id: format!("secret_{name}"), scope, revision };
        self.secrets.lock().unwrap().insert(name.to_owned(), (identity, value.to_owned()));
    }

    pub fn reveals(&self) -> u32 {
        self.reveals.load(Ordering::SeqCst)
    }
}

impl ports::Secrets for Vault {
    fn identify<'a>(
        &'a self,
        _realm: &'a RealmScope,
        _principal: &'a Principal,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretIdentity>, Unavailable>> {
        let found = self.secrets.lock().unwrap().get(name).map(|(identity, _)| identity.clone());
        Box::pin(async move { Ok(found) })
    }

    fn reveal<'a>(
        &'a self,
        _realm: &'a RealmScope,
        identity: &'a SecretIdentity,
    ) -> BoxFuture<'a, Result<SecretString, Unavailable>> {
        self.reveals.fetch_add(1, Ordering::SeqCst);
        let name = identity.id.trim_start_matches("secret_");
        let value = self.secrets.lock().unwrap()[name].1.clone();
        Box::pin(async move { Ok(SecretString::from(value)) })
    }

    /// What is granted is the value itself; an empty one has ended.
    fn token<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretIdentity,
        _provider: &'a ToolProviderConfig,
    ) -> BoxFuture<'a, Result<Result<SecretString, ToolError>, Unavailable>> {
        Box::pin(async move {
            let token = self.reveal(realm, identity).await?;
            let ended = || ToolError::new(ErrorCode::AuthRequired, "the login has ended").reason("login_ended");
            Ok(if token.expose_secret().is_empty() { Err(ended()) } else { Ok(token) })
        })
    }

    fn refused<'a>(
        &'a self,
        _realm: &'a RealmScope,
        identity: &'a SecretIdentity,
    ) -> BoxFuture<'a, Result<(), Unavailable>> {
        self.refused.lock().unwrap().push(identity.clone());
        Box::pin(async move { Ok(()) })
    }
}

/// Payloads in the order they came.
#[derive(Default)]
pub struct BlobShelf {
    pub payloads: Mutex<Vec<Payload>>,
}

impl ports::Blobs for BlobShelf {
    fn put<'a>(&'a self, _realm: &'a RealmScope, payload: Payload) -> BoxFuture<'a, Result<Attachment, Unavailable>> {
        let mut payloads = self.payloads.lock().unwrap();
        let attachment = Attachment {
            kind: payload.kind,
            url: format!("blob://{}", payloads.len()),
            content_type: Some(payload.content_type.clone()),
            bytes: Some(payload.bytes.len() as u64),
        };
        payloads.push(payload);
        Box::pin(async move { Ok(attachment) })
    }
}

/// A memory cache that remembers all it was ever given.
#[derive(Default)]
pub struct SeenCache {
    inner: MemoryCache,
    pub stored: Mutex<Vec<(String, bytes::Bytes)>>,
}

impl ResultCache for SeenCache {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<bytes::Bytes>> {
        self.inner.get(key)
    }

    fn put<'a>(&'a self, key: String, value: bytes::Bytes, ttl: Option<std::time::Duration>) -> BoxFuture<'a, ()> {
        self.stored.lock().unwrap().push((key.clone(), value.clone()));
        self.inner.put(key, value, ttl)
    }
}

/// Answers by name, each time with the next of its answers; the last one stays.
#[derive(Default)]
pub struct FakeDns {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Mutex<HashMap<String, usize>>,
}

impl FakeDns {
    pub fn answering(mut self, host: &str, answers: &[&[&str]]) -> Self {
        let parsed = answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.answers.insert(host.to_owned(), parsed);
        self
    }
}

impl Lookup for FakeDns {
    fn lookup(&self, host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let turn = asked.entry(host.clone()).or_default();
        let answers = self.answers.get(&host);
        let answer = answers.map(|answers| answers[(*turn).min(answers.len() - 1)].clone());
        *turn += 1;
        Box::pin(async move { answer.ok_or_else(|| std::io::Error::other("no such host")) })
    }
}
