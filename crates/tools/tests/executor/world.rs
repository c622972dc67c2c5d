//! The fixture of one test: in-memory ports that tests can inspect, a server that simulates faults, and an executor
//! that uses them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use semver::VersionReq;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK, faults};
use toolwright_tools::executor::{Backend, CacheKey, MemoryCache, Ports};
use toolwright_tools::http::{CompiledProvider, DnsResolver, HttpBackend, HttpClient, HttpOptions};
use toolwright_tools::ports::{self, Denial, Payload, Permit, PortError, ResultCache, SecretRevision};
use toolwright_tools::{
    CallContext, CallOutcome, CallRequest, CompiledTool, Executor, FunctionBackend, Issues, Library, Preparation,
    builtin,
};
use toolwright_types::{
    Attachment, DefinitionSource, Document, DocumentId, DocumentMeta, ErrorCode, OrgId, Principal, PrincipalId,
    RealmId, RealmScope, RefName, Role, RunId, Timestamp, ToolDefinition, ToolEnvelope, ToolError, ToolProviderConfig,
    ToolStatus, ToolType, json as canonical,
};

/// The fixture of these tests: an executor with its ports, and a server that simulates faults. The fields are public, so
/// that tests can inspect the ports.
pub(crate) struct World {
    pub faults: faults::Handle,
    pub executor: Executor,
    pub catalog: Arc<TestCatalog>,
    pub authorizer: Arc<TestAuthorizer>,
    pub secrets: Arc<TestSecrets>,
    pub blobs: Arc<TestBlobs>,
    pub cache: Arc<RecordingCache>,
    pub http: HttpClient,
    pub cx: CallContext,
}

impl World {
    /// Starts a world with the built-in functions. Only tools with a provider may reach loopback.
    pub(crate) async fn start() -> Self {
        Self::with(builtin::library(), HttpOptions::default()).await
    }

    /// Starts a world with the functions of `library`.
    pub(crate) async fn with_functions(library: Library) -> Self {
        Self::with(library, HttpOptions::default()).await
    }

    pub(crate) async fn with_http(options: HttpOptions) -> Self {
        Self::with(builtin::library(), options).await
    }

    async fn with(library: Library, options: HttpOptions) -> Self {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        let library = Arc::new(library);
        let http = HttpClient::with_options(options);
        let ports = TestPorts {
            catalog: Arc::new(TestCatalog::new(Arc::clone(&library))),
            authorizer: Arc::default(),
            secrets: Arc::default(),
            blobs: Arc::default(),
            cache: Arc::default(),
        };
        let executor = ports.executor(library, &http);
        let TestPorts { catalog, authorizer, secrets, blobs, cache } = ports;
        let world =
            Self { faults, executor, catalog, authorizer, secrets, blobs, cache, http, cx: context("admin", 1) };
        world.provider(json!({ "refName": "faults" }));
        world
    }

    /// Returns an executor with the same ports and the functions of another library.
    pub(crate) fn executor_with(&self, library: Library) -> Executor {
        let ports = TestPorts {
            catalog: Arc::clone(&self.catalog),
            authorizer: Arc::clone(&self.authorizer),
            secrets: Arc::clone(&self.secrets),
            blobs: Arc::clone(&self.blobs),
            cache: Arc::clone(&self.cache),
        };
        ports.executor(Arc::new(library), &self.http)
    }

    /// Adds a provider. The default `baseUrl` is the faults server; the default `egressAllow` allows loopback.
    pub(crate) fn provider(&self, mut body: Value) -> Arc<CompiledProvider> {
        let fields = body.as_object_mut().unwrap();
        fields.entry("baseUrl").or_insert(json!(self.faults.base_url()));
        fields.entry("egressAllow").or_insert(json!(["127.0.0.1/32"]));
        let config: ToolProviderConfig = serde_json::from_value(body).unwrap();
        let compiled = Arc::new(CompiledProvider::compile(document(config.ref_name.clone(), config)).unwrap());
        self.catalog.providers.lock().unwrap().insert(compiled.config.ref_name.to_string(), Arc::clone(&compiled));
        compiled
    }

    /// Adds a tool, or returns the problems of its definition.
    pub(crate) fn try_tool(&self, body: Value) -> Result<Arc<CompiledTool>, Issues> {
        self.catalog.add(body)
    }

    /// Adds a tool.
    pub(crate) fn tool(&self, body: Value) -> Arc<CompiledTool> {
        self.try_tool(body).unwrap()
    }

    /// Adds a GET tool of the faults server.
    pub(crate) fn get(&self, name: &str, path: &str, extra: Value) -> Arc<CompiledTool> {
        self.rest(name, json!({ "method": "GET", "path": path }), extra)
    }

    /// Adds a tool of the faults server.
    pub(crate) fn rest(&self, name: &str, invocation: Value, extra: Value) -> Arc<CompiledTool> {
        let body =
            json!({ "refName": name, "toolType": "EXTERNAL_REST", "providerRef": "faults", "invocation": invocation });
        self.tool(merged(body, extra))
    }

    /// Adds a tool that calls a function of the library.
    pub(crate) fn function(&self, name: &str, path: &str, extra: Value) -> Arc<CompiledTool> {
        self.tool(merged(json!({ "refName": name, "toolType": "FUNCTION", "invocation": { "path": path } }), extra))
    }

    pub(crate) fn secret(&self, name: &str, value: &str) {
        self.secrets.put(name, value, "realm", 1);
    }

    /// Calls a tool that must return an envelope.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> ToolEnvelope {
        done(execute(&self.executor, &self.cx, request(tool, input)).await)
    }

    /// Calls a tool that must succeed, and returns its output.
    pub(crate) async fn output(&self, tool: &str, input: Value) -> Value {
        let envelope = self.call(tool, input).await;
        assert!(envelope.is_success(), "{:?}", envelope.error);
        envelope.output
    }
}

struct TestPorts {
    catalog: Arc<TestCatalog>,
    authorizer: Arc<TestAuthorizer>,
    secrets: Arc<TestSecrets>,
    blobs: Arc<TestBlobs>,
    cache: Arc<RecordingCache>,
}

impl TestPorts {
    fn executor(&self, library: Arc<Library>, http: &HttpClient) -> Executor {
        let local = Ports::local(
            Arc::clone(&self.catalog) as _,
            Arc::clone(&self.authorizer) as _,
            Arc::clone(&self.secrets) as _,
            Arc::clone(&self.blobs) as _,
        );
        let ports = Ports { cache: Arc::clone(&self.cache) as _, ..local };
        let rest: Arc<dyn Backend> = Arc::new(HttpBackend::new(http.clone()));
        let functions: Arc<dyn Backend> = Arc::new(FunctionBackend::new(library, http.clone()));
        Executor::new(
            ports,
            [(ToolType::ExternalRest, Arc::clone(&rest)), (ToolType::Helix, rest), (ToolType::Function, functions)],
        )
    }
}

pub(crate) fn request(tool: &str, input: Value) -> CallRequest {
    CallRequest { tool: tool.to_owned(), version: None, input }
}

/// Prepares, checks and performs a call, as direct calls do.
pub(crate) async fn execute(executor: &Executor, cx: &CallContext, request: CallRequest) -> CallOutcome {
    match executor.prepare_direct(cx, request).await {
        Preparation::Ready(ready) => executor.call(cx, *ready).await,
        Preparation::Refused(envelope) => CallOutcome::Done(envelope),
    }
}

pub(crate) fn done(outcome: CallOutcome) -> ToolEnvelope {
    match outcome {
        CallOutcome::Done(envelope) => *envelope,
        CallOutcome::Client(action) => panic!("unexpected client action: {action:?}"),
    }
}

/// Formats the error of a failed call as `CODE reason: message`.
pub(crate) fn failure(envelope: &ToolEnvelope) -> String {
    let error = envelope.error.as_ref().unwrap_or_else(|| panic!("the call succeeded with {}", envelope.output));
    assert!(envelope.output.is_null(), "a failure must have no output: {}", envelope.output);
    format!("{} {}: {}", error.code, detail(envelope, "reason").as_str().unwrap_or("-"), error.message)
}

pub(crate) fn detail(envelope: &ToolEnvelope, key: &str) -> Value {
    let details = envelope.error.as_ref().and_then(|error| error.details.as_ref());
    details.and_then(|details| details.get(key)).cloned().unwrap_or_default()
}

/// Returns `body` with the fields of `extra`, which take precedence.
pub(crate) fn merged(mut body: Value, extra: Value) -> Value {
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

/// Returns the context of a direct call by `name` in the realm with this number.
pub(crate) fn context(name: &str, realm: u128) -> CallContext {
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
    let meta = DocumentMeta {
        id: format!("tool_{ref_name}"),
        ref_name,
        source: DefinitionSource::Manual,
        apply_set: None,
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
pub(crate) struct TestCatalog {
    library: Arc<Library>,
    providers: Mutex<HashMap<String, Arc<CompiledProvider>>>,
    tools: Mutex<HashMap<String, Vec<Arc<CompiledTool>>>>,
    pub broken: Mutex<bool>,
}

impl TestCatalog {
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

    pub(crate) fn put(&self, tool: Arc<CompiledTool>) {
        let mut tools = self.tools.lock().unwrap();
        let versions = tools.entry(tool.definition.ref_name.key()).or_default();
        versions.retain(|other| other.definition.version != tool.definition.version);
        versions.push(tool);
        versions.sort_by(|a, b| b.definition.version.cmp(&a.definition.version));
    }

    /// Returns every tool, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<CompiledTool>> {
        let mut all: Vec<_> = self.tools.lock().unwrap().values().flatten().cloned().collect();
        all.sort_by_key(|tool| tool.definition.ref_name.key());
        all
    }
}

impl ports::ToolCatalog for TestCatalog {
    fn resolve<'a>(
        &'a self,
        _realm: &'a RealmScope,
        name: &'a str,
        version: Option<&'a VersionReq>,
    ) -> BoxFuture<'a, Result<Option<Arc<CompiledTool>>, PortError>> {
        Box::pin(async move {
            if *self.broken.lock().unwrap() {
                return Err(PortError { port: "the catalog", source: "disk on fire at /var/secret-path".into() });
            }
            let tools = self.tools.lock().unwrap();
            let versions = tools.get(&name.to_ascii_lowercase()).map(Vec::as_slice).unwrap_or_default();
            let fits =
                |tool: &&Arc<CompiledTool>| version.is_none_or(|wanted| wanted.matches(&tool.definition.version));
            let by_status = |status| versions.iter().filter(fits).find(|tool| tool.definition.status == status);
            let order = [ToolStatus::Active, ToolStatus::Deprecated, ToolStatus::Blocked];
            Ok(order.into_iter().find_map(by_status).cloned())
        })
    }
}

/// An authorizer that allows everything except calls to the listed tools.
#[derive(Default)]
pub(crate) struct TestAuthorizer {
    pub denied: Mutex<BTreeSet<String>>,
}

impl ports::Authorizer for TestAuthorizer {
    fn may_execute(&self, _principal: &Principal, _realm: &RealmScope, tool: &CompiledTool) -> Result<Permit, Denial> {
        let name = tool.definition.ref_name.to_string();
        if self.denied.lock().unwrap().contains(&name) {
            return Err(Denial { permission: format!("ai://tools/{name}/execute"), policies: vec!["no-entry".into()] });
        }
        Ok(Permit { policy: "everything".into() })
    }
}

/// Secrets by name, with a counter of opened secrets.
#[derive(Default)]
pub(crate) struct TestSecrets {
    secrets: Mutex<HashMap<String, (SecretRevision, String)>>,
    pub reveals: AtomicU32,
    pub refused: Mutex<Vec<SecretRevision>>,
}

impl TestSecrets {
    pub(crate) fn put(&self, name: &str, value: &str, scope: &'static str, revision: i64) {
        let identity = SecretRevision { id: format!("secret_{name}"), scope, revision };
        self.secrets.lock().unwrap().insert(name.to_owned(), (identity, value.to_owned()));
    }

    pub(crate) fn reveals(&self) -> u32 {
        self.reveals.load(Ordering::SeqCst)
    }
}

impl ports::SecretResolver for TestSecrets {
    fn identify<'a>(
        &'a self,
        _realm: &'a RealmScope,
        _principal: &'a Principal,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SecretRevision>, PortError>> {
        let found = self.secrets.lock().unwrap().get(name).map(|(identity, _)| identity.clone());
        Box::pin(async move { Ok(found) })
    }

    fn reveal<'a>(
        &'a self,
        _realm: &'a RealmScope,
        identity: &'a SecretRevision,
    ) -> BoxFuture<'a, Result<SecretString, PortError>> {
        self.reveals.fetch_add(1, Ordering::SeqCst);
        let name = identity.id.trim_start_matches("secret_");
        let value = self.secrets.lock().unwrap()[name].1.clone();
        Box::pin(async move { Ok(SecretString::from(value)) })
    }

    /// Returns the stored value of the secret as the token. An empty value represents a login that has ended.
    fn token<'a>(
        &'a self,
        realm: &'a RealmScope,
        identity: &'a SecretRevision,
        _provider: &'a ToolProviderConfig,
    ) -> BoxFuture<'a, Result<Result<SecretString, ToolError>, PortError>> {
        Box::pin(async move {
            let token = self.reveal(realm, identity).await?;
            let ended = || ToolError::new(ErrorCode::AuthRequired, "the login has ended").reason("login_ended");
            Ok(if token.expose_secret().is_empty() { Err(ended()) } else { Ok(token) })
        })
    }

    fn token_rejected<'a>(
        &'a self,
        _realm: &'a RealmScope,
        identity: &'a SecretRevision,
    ) -> BoxFuture<'a, Result<(), PortError>> {
        self.refused.lock().unwrap().push(identity.clone());
        Box::pin(async move { Ok(()) })
    }
}

/// Stored payloads, in order.
#[derive(Default)]
pub(crate) struct TestBlobs {
    pub payloads: Mutex<Vec<Payload>>,
}

impl ports::BlobStorage for TestBlobs {
    fn put<'a>(&'a self, _realm: &'a RealmScope, payload: Payload) -> BoxFuture<'a, Result<Attachment, PortError>> {
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

/// An in-memory cache that records everything that is stored.
#[derive(Default)]
pub(crate) struct RecordingCache {
    inner: MemoryCache,
    pub stored: Mutex<Vec<(CacheKey, bytes::Bytes)>>,
}

impl ResultCache for RecordingCache {
    fn get<'a>(&'a self, key: &'a CacheKey) -> BoxFuture<'a, Option<bytes::Bytes>> {
        self.inner.get(key)
    }

    fn put<'a>(&'a self, key: CacheKey, value: bytes::Bytes, ttl: Option<std::time::Duration>) -> BoxFuture<'a, ()> {
        self.stored.lock().unwrap().push((key.clone(), value.clone()));
        self.inner.put(key, value, ttl)
    }
}

/// DNS answers by host name. Each lookup returns the next answer; the last one repeats.
#[derive(Default)]
pub(crate) struct FakeDns {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: Mutex<HashMap<String, usize>>,
}

impl FakeDns {
    pub(crate) fn answering(mut self, host: &str, answers: &[&[&str]]) -> Self {
        let parsed = answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.answers.insert(host.to_owned(), parsed);
        self
    }
}

impl DnsResolver for FakeDns {
    fn lookup(&self, host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let turn = asked.entry(host.clone()).or_default();
        let answers = self.answers.get(&host);
        let answer = answers.map(|answers| answers[(*turn).min(answers.len() - 1)].clone());
        *turn += 1;
        Box::pin(async move { answer.ok_or_else(|| std::io::Error::other("no such host")) })
    }
}
