//! Blobs as objects in a bucket of S3 or of a compatible service.

use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The environment variables that set the region, the endpoint and the credentials. Without credentials in these
/// variables, the machine's own credentials (such as an instance role) are used.
const VARIABLES: [(&str, AmazonS3ConfigKey); 13] = [
    ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
    ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
    ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ("AWS_REGION", AmazonS3ConfigKey::Region),
    ("AWS_DEFAULT_REGION", AmazonS3ConfigKey::DefaultRegion),
    ("AWS_ENDPOINT_URL", AmazonS3ConfigKey::Endpoint),
    ("AWS_ENDPOINT_URL_S3", AmazonS3ConfigKey::S3Endpoint),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
];
/// The time limit of one request. At 2 MB/s, the largest output (64 MB) is transferred within about this time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the result of a check is reused. The health check needs no API key, so anyone can cause a check, and S3
/// charges for each request.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The objects of a bucket whose keys start with a prefix.
pub(super) struct Bucket {
    objects: AmazonS3,
    prefix: Path,
    /// When the bucket was last checked, and the error if it did not answer. The lock allows one check at a time.
    last_check: Mutex<Option<(Instant, Option<String>)>>,
}

impl Bucket {
    /// Creates the client of a bucket. Does not connect to the bucket. `variable` returns the value of an environment
    /// variable.
    pub(super) fn new(
        bucket: &str,
        prefix: Path,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, object_store::Error> {
        // An error means that a crypto provider is already installed. In that case, the installed provider is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let values = VARIABLES.into_iter().filter_map(|(name, key)| {
            let value = variable(name).filter(|value| !value.is_empty())?;
            Some((key, value))
        });
        let is_http = |name| variable(name).is_some_and(|url: String| url.starts_with("http://"));
        let client = ClientOptions::new()
            .with_timeout(REQUEST_TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_allow_http(is_http("AWS_ENDPOINT_URL_S3") || is_http("AWS_ENDPOINT_URL"));
        // A repeated PUT writes the same bytes to the same key, so the client may repeat every request.
        let retry = RetryConfig {
            backoff: BackoffConfig { max_backoff: Duration::from_secs(1), ..BackoffConfig::default() },
            max_retries: 2,
            retry_timeout: REQUEST_TIMEOUT,
        };
        let builder = AmazonS3Builder::new().with_bucket_name(bucket).with_client_options(client).with_retry(retry);
        let builder = values.fold(builder, |builder, (key, value)| builder.with_config(key, value));
        Ok(Self { objects: builder.build()?, prefix, last_check: Mutex::default() })
    }

    /// Writes an object. S3 shows it only when it is complete.
    pub(super) async fn put(&self, location: &Path, bytes: Bytes) -> object_store::Result<()> {
        self.objects.put(&self.key(location), bytes.into()).await.map(drop)
    }

    /// Reads an object.
    pub(super) async fn get(&self, location: &Path) -> object_store::Result<Bytes> {
        self.objects.get(&self.key(location)).await?.bytes().await
    }

    /// Checks that the bucket exists and that it can be listed. The result is reused for [`CHECK_INTERVAL`].
    pub(super) async fn check(&self) -> Result<(), BoxError> {
        let mut last = self.last_check.lock().await;
        let problem = match &*last {
            Some((at, problem)) if at.elapsed() < CHECK_INTERVAL => problem.clone(),
            _ => {
                let problem = self.list_nothing().await.err().map(|error| error.to_string());
                *last = Some((Instant::now(), problem.clone()));
                problem
            }
        };
        problem.map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// Lists the objects under a prefix that no realm uses, so the list is empty. Fails if the bucket does not exist.
    async fn list_nothing(&self) -> Result<(), BoxError> {
        let nothing = self.key(&Path::from("readiness-check"));
        let mut objects = self.objects.list(Some(&nothing));
        tokio::time::timeout(CHECK_TIMEOUT, objects.try_next()).await??;
        Ok(())
    }

    fn key(&self, location: &Path) -> Path {
        self.prefix.parts().chain(location.parts()).collect()
    }
}
