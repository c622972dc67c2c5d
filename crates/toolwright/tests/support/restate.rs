//! Starts a real Restate server for each test. The test can kill the server.
#![allow(dead_code, reason = "each test binary uses some of these helpers")]

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use toolwright_tools::http::{EgressPolicy, HttpClient};

/// How long Restate may take to start.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns free loopback ports below the kernel's ephemeral range. Until a port is used, only another call to this
/// function can return the same port. The second test that binds the port then fails.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| {
        let mut ports = std::iter::repeat_with(|| rand::random_range(10_240..32_768_u16)).take(1_000);
        ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).unwrap()
    });
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// A Restate server that is killed when the value is dropped. It keeps its ports across restarts.
pub(crate) struct Restate {
    child: Option<Child>,
    ports: [u16; 3],
    folder: TempDir,
    /// Whether Restate signs its requests with the private key that belongs to [`IDENTITY_KEY`].
    signs_requests: bool,
}

/// The public key of the Restate server that [`Restate::start_signing`] starts. All bytes of the private key are 7.
pub(crate) const IDENTITY_KEY: &str = "publickeyv1_GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB";

impl Restate {
    /// Starts Restate and waits until it is ready.
    pub(crate) async fn start() -> Self {
        Self::start_configured(false).await
    }

    /// Starts Restate with signed requests.
    pub(crate) async fn start_signing() -> Self {
        Self::start_configured(true).await
    }

    async fn start_configured(signs_requests: bool) -> Self {
        let mut restate =
            Self { child: None, ports: free_ports(), folder: tempfile::tempdir().unwrap(), signs_requests };
        restate.restart().await;
        restate
    }

    /// The URL of the ingress.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// The URL of the admin API.
    pub(crate) fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// The id of the process, which must be running.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// The environment variables of a Toolwright server that uses this Restate. Restarts of the server must use the
    /// same callback port.
    pub(crate) fn server_env(&self, callback_port: u16) -> Vec<(&'static str, String)> {
        vec![
            ("TOOLWRIGHT_RESTATE_URL", self.url()),
            ("TOOLWRIGHT_RESTATE_ADMIN_URL", self.admin_url()),
            ("TOOLWRIGHT_RESTATE_BIND", format!("127.0.0.1:{callback_port}")),
        ]
    }

    /// Kills Restate with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts Restate with its existing data, without waiting until it is ready.
    pub(crate) fn launch(&mut self) {
        let program = std::env::var("TOOLWRIGHT_TEST_RESTATE_SERVER").unwrap_or_else(|_| {
            panic!("TOOLWRIGHT_TEST_RESTATE_SERVER is not set: run the tests by `make test` or `scripts/with-services COMMAND`")
        });
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let [ingress, admin, fabric] = self.ports.map(|port| port.to_string());
        let mut command = Command::new(program);
        if self.signs_requests {
            command.env("RESTATE_WORKER__INVOKER__REQUEST_IDENTITY_PRIVATE_KEY_PEM_FILE", self.write_identity_key());
        }
        // These settings limit Restate to loopback and disable its telemetry.
        let child = command
            .args(["--no-logo", "--node-name", "tests", "--listen-mode", "tcp", "--bind-ip", "127.0.0.1"])
            .args(["--bind-port", &fabric, "--base-dir"])
            .arg(self.folder.path().join("data"))
            .env("RESTATE_INGRESS__BIND_PORT", ingress)
            .env("RESTATE_ADMIN__BIND_PORT", admin)
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
            .env("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256 MiB")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Starts Restate with its existing data and waits until it is ready.
    pub(crate) async fn restart(&mut self) {
        self.launch();
        self.wait_until_ready().await;
    }

    /// Waits until Restate is ready.
    pub(crate) async fn wait_until_ready(&self) {
        let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
        let healthy = async {
            for url in [format!("{}/health", self.admin_url()), format!("{}/restate/health", self.url())] {
                while !http.get(&url).send().await.is_ok_and(|response| response.status().is_success()) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        let wait_until_ready = tokio::time::timeout(TIMEOUT, healthy).await;
        wait_until_ready.unwrap_or_else(|_| panic!("Restate did not start in time:\n{}", self.log_tail()));
    }

    /// Executes an SQL query on the state of Restate.
    pub(crate) async fn query(&self, sql: &str) -> serde_json::Value {
        let http = HttpClient::new(EgressPolicy::unrestricted()).unrestricted_client().unwrap();
        let request = http.post(format!("{}/query", self.admin_url())).header("accept", "application/json");
        let response = request.json(&serde_json::json!({ "query": sql })).send().await.unwrap();
        response.error_for_status().unwrap().json().await.unwrap()
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Writes the private key of [`IDENTITY_KEY`] to a file, as Ed25519 in PKCS #8.
    fn write_identity_key(&self) -> PathBuf {
        let key = [&b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..], &[7; 32]].concat();
        let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} PRIVATE KEY-----"));
        let path = self.folder.path().join("identity.pem");
        std::fs::write(&path, format!("{begin}\n{}\n{end}\n", data_encoding::BASE64.encode(&key))).unwrap();
        path
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("restate.log")
    }
}

impl Drop for Restate {
    #[expect(clippy::print_stdout, reason = "the test harness shows this next to the failure")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("end of the Restate log:\n{}", self.log_tail());
        }
    }
}
