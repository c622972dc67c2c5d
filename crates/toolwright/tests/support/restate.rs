//! A real Restate per test, which can be killed.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use toolwright_tools::http::{Egress, HttpClient};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ports of loopback that nobody listens on. They are below those that the kernel gives to whoever wants any, so only another test
/// that asks here could take one before we do; the test fails then, and says so.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let taken = [(); N].map(|()| {
        let mut ports = std::iter::repeat_with(|| rand::random_range(10_240..32_768_u16)).take(1_000);
        ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).unwrap()
    });
    taken.map(|listener| listener.local_addr().unwrap().port())
}

/// A Restate of its own, that ends with the test. Its ports stay the same when it is killed and started again.
pub struct Restate {
    child: Option<Child>,
    ports: [u16; 3],
    folder: TempDir,
    /// Whether it signs its requests, as [`IDENTITY`].
    signs: bool,
}

/// The public key of a Restate that signs. The private one is made of sevens.
pub const IDENTITY: &str = "publickeyv1_GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB";

impl Restate {
    /// Starts it and waits until it serves.
    pub async fn start() -> Self {
        Self::starting(false).await
    }

    /// The same, and it signs its requests.
    pub async fn start_signing() -> Self {
        Self::starting(true).await
    }

    async fn starting(signs: bool) -> Self {
        let mut restate = Self { child: None, ports: free_ports(), folder: tempfile::tempdir().unwrap(), signs };
        restate.restart().await;
        restate
    }

    /// The ingress.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// The admin API.
    pub fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// What a server needs to know, with a callback address that stays the same.
    pub fn settings(&self, callback: u16) -> Vec<(&'static str, String)> {
        vec![
            ("TOOLWRIGHT_RESTATE_URL", self.url()),
            ("TOOLWRIGHT_RESTATE_ADMIN_URL", self.admin_url()),
            ("TOOLWRIGHT_RESTATE_BIND", format!("127.0.0.1:{callback}")),
        ]
    }

    /// Kills it without a word.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it on what was left, without waiting.
    pub fn launch(&mut self) {
        let program = std::env::var("TOOLWRIGHT_TEST_RESTATE_SERVER").unwrap_or_else(|_| {
            panic!("TOOLWRIGHT_TEST_RESTATE_SERVER is not set: run the tests by `make test` or `scripts/with-services COMMAND`")
        });
        let log = OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let [ingress, admin, fabric] = self.ports.map(|port| port.to_string());
        let mut command = Command::new(program);
        if self.signs {
            command.env("RESTATE_WORKER__INVOKER__REQUEST_IDENTITY_PRIVATE_KEY_PEM_FILE", self.identity());
        }
        // It would listen on every interface, and tell its makers that it runs.
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

    /// Starts it on what was left, and waits until it serves.
    pub async fn restart(&mut self) {
        self.launch();
        self.ready().await;
    }

    /// Waits until it serves.
    pub async fn ready(&self) {
        let http = HttpClient::new(Egress::everything()).unguarded().unwrap();
        let served = async {
            for url in [format!("{}/health", self.admin_url()), format!("{}/restate/health", self.url())] {
                while !http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        let ready = tokio::time::timeout(PATIENCE, served).await;
        ready.unwrap_or_else(|_| panic!("Restate does not start:\n{}", self.last_words()));
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// A file with the private key of [`IDENTITY`]: Ed25519 in PKCS #8.
    fn identity(&self) -> PathBuf {
        let key = [&b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..], &[7; 32]].concat();
        let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} PRIVATE KEY-----"));
        let path = self.folder.path().join("identity.pem");
        std::fs::write(&path, format!("{begin}\n{}\n{end}\n", data_encoding::BASE64.encode(&key))).unwrap();
        path
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("restate.log")
    }
}

impl Drop for Restate {
    #[expect(clippy::print_stdout, reason = "the test harness shows this next to the failure")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("the last words of Restate:\n{}", self.last_words());
        }
    }
}
