//! Models of the providers that the `genai` crate supports.
//!
//! Only the streaming API of `genai` is used, because its other API loses the whole reply if the arguments of one call
//! are not JSON. `genai` builds requests and parses streams. Its gaps and defects are worked around here, each covered
//! by a test:
//!
//! | genai 0.7.2 | workaround |
//! |---|---|
//! | drops refusals in OpenAI's `refusal` fields, and reports Google's `promptFeedback` as an error | [`frames`] reads them from the raw stream |
//! | drops the reason why a Responses reply is incomplete or failed | [`frames`] reads it from the raw stream |
//! | gives Google's calls in different chunks of one reply the same id | [`calls`] assigns unique ids |
//! | duplicates calls of a stream whose `index` starts at 1 | [`calls`] keeps the complete one |
//! | does not distinguish malformed arguments from a JSON string | [`calls`] compares the arguments with the streamed text |
//! | reports a delta of an unknown block type as an error | [`reply`] ignores it |
//! | may report an interrupted stream as complete | [`reply`] requires a stop reason |
//! | has no error flag for tool results | [`request`] writes Anthropic's block itself, and a prefix for the others |
//! | has no images in tool results | [`request`] writes Anthropic's block itself, and an additional message for the others |
//! | treats tools named `web_search` and the like as the provider's own | `names` encodes the names |
//! | removes `-max`, `-medium` … from the end of a model's name | [`options`] prevents it |
//! | lets extra parameters replace whole objects, such as Google's `generationConfig` | [`options`] builds those objects itself |
//! | captures reasoning only with parameters that other models reject | [`options`] requests it where it is supported |
//!
//! The remaining limits are listed at [`RemoteModel`].

mod calls;
mod error;
mod frames;
mod options;
mod protocol;
mod reply;
mod request;
mod thinking;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint, ProviderConfig};
use genai::{Client, ModelIden};
use secrecy::{ExposeSecret, SecretString};
use toolwright_types::{ModelReply, ModelRequest, StopReason};
use url::Url;

use self::frames::FrameObserver;
use self::protocol::Protocol;
use crate::names::NameTable;
use crate::{ErrorKind, Model, ModelConfig, ModelError, Price, Sink};

/// A model of a provider that `genai` supports.
///
/// Known limits: if text and reasoning alternate within one reply, all text is merged into one block, and so is all
/// reasoning. Streams of OpenAI-compatible servers that contain several calls without index and id cannot be parsed.
pub(crate) struct RemoteModel {
    client: Client,
    target: Target,
    key: SecretString,
    price: Option<Price>,
}

/// The model and the protocol of its provider.
struct Target {
    /// The provider's name, for error messages.
    provider: &'static str,
    adapter: AdapterKind,
    protocol: Protocol,
    model: String,
    timeout: Duration,
}

impl RemoteModel {
    pub(crate) fn new(
        http: reqwest::Client,
        config: &ModelConfig,
        url: Option<Url>,
        key: SecretString,
        price: Option<Price>,
    ) -> Result<Self, ModelError> {
        let provider = config.provider.as_str();
        let unsupported =
            || ModelError::new(ErrorKind::Unsupported, format!("provider {provider} is not supported by this client"));
        let adapter = config.provider.adapter().ok_or_else(unsupported)?;
        let auth = AuthData::from_single(key.expose_secret());
        let endpoint = url.map(|url| Endpoint::from_owned(format!("{url}{}", version_path(adapter))));
        let client = Client::builder()
            .with_reqwest(http)
            .append_provider_config(adapter, ProviderConfig { endpoint, auth: Some(auth) })
            .build()
            .map_err(|_| unsupported())?;
        let protocol = Protocol::from_adapter(adapter);
        let target = Target { provider, adapter, protocol, model: config.model.clone(), timeout: config.timeout };
        Ok(Self { client, target, key, price })
    }

    async fn send(&self, request: &ModelRequest, sink: &mut dyn Sink) -> Result<ModelReply, ModelError> {
        let observer = Arc::new(FrameObserver::new(self.target.protocol));
        let options = options::build_options(&self.target, request)?.with_raw_frame_sink_arc(observer.clone());
        let chat_request = request::build_request(&self.target, request);
        let iden = ModelIden::new(self.target.adapter, self.target.model.as_str());
        let stream = self.client.exec_chat_stream(iden, chat_request, Some(&options)).await;
        let stream = stream.map_err(|error| self.convert_error(error))?.stream;
        let collected = reply::collect(self.target.protocol, stream, &observer, sink).await;
        let collected = collected.map_err(|error| self.convert_error(error))?;
        let names = NameTable::new(request);
        let mut reply = reply::build_reply(&self.target, collected, &observer, &names)?;
        if reply.stop == StopReason::Refusal && !observer.refusal().is_empty() {
            sink.text(&observer.refusal());
        }
        reply.cost_usd = self.price.map(|price| price.cost(reply.usage));
        Ok(reply)
    }

    fn convert_error(&self, error: genai::Error) -> ModelError {
        error::from_genai(self.target.provider, error, self.key.expose_secret())
    }
}

/// The version segment of the path. The vendors' SDKs append it to the base URL, but `genai` does not.
fn version_path(adapter: AdapterKind) -> &'static str {
    match adapter {
        AdapterKind::Anthropic => "v1/",
        AdapterKind::Gemini => "v1beta/",
        _ => "",
    }
}

impl Model for RemoteModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let reply = self.send(request, sink).await;
            reply.map_err(|error| error.redact(self.key.expose_secret()))
        })
    }

    fn supports_images(&self) -> bool {
        self.target.protocol.supports_images(&self.target.model)
    }
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteModel({}/{})", self.target.provider, self.target.model)
    }
}
