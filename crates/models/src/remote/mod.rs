//! Providers that the `genai` crate speaks to.
//!
//! Always its streaming path: the other one loses a whole reply when one call's arguments are not JSON. Requests and
//! streams are its work; what it leaves out or gets wrong is put right around it, each point held by a test:
//!
//! | genai 0.7.2 | here |
//! |---|---|
//! | a refusal in OpenAI's `refusal` fields and Google's `promptFeedback` is dropped or an error | [`frames`] reads it beside the stream |
//! | why a Responses reply is incomplete or failed is dropped | the same |
//! | Google's calls in different chunks of one reply get the same id | [`calls`] numbers them anew |
//! | calls of a stream whose `index` begins at 1 come twice | [`calls`] keeps the complete one |
//! | malformed arguments and a JSON text look alike | [`calls`] compares with what was streamed |
//! | a piece of an unknown kind of block is an error | [`reply`] passes over it |
//! | a stream that breaks off may look finished | [`reply`] demands a reason for the end |
//! | a result has no mark for a failure | [`request`] writes Anthropic's block itself, and a word for the others |
//! | a result holds no pictures | [`request`] writes Anthropic's block itself, and a message after it for the others |
//! | tools called `web_search` and the like are taken for the provider's own | `names` gives them another name |
//! | `-max`, `-medium` … at the end of a model's name are cut off | [`options`] keeps them |
//! | extra parameters replace whole objects, such as Google's `generationConfig` | [`options`] builds those itself |
//! | reasoning is captured only with parameters that other models refuse | [`options`] asks where it is possible |
//!
//! No own wire code was needed. What remains is listed in [`Remote`].

mod calls;
mod failure;
mod family;
mod frames;
mod options;
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
use toolwright_types::{ModelReply, ModelRequest};
use url::Url;

use self::family::Family;
use self::frames::Frames;
use crate::names::NameTable;
use crate::{ErrorKind, Model, ModelConfig, ModelError, Price, Sink};

/// A model of one of these providers.
///
/// Known limits: text and thinking that alternate within one reply come out as one of each; an OpenAI imitation that
/// streams several calls without telling them apart cannot be understood.
pub(crate) struct Remote {
    client: Client,
    target: Target,
    key: SecretString,
    price: Option<Price>,
}

/// What is asked, and how it speaks.
struct Target {
    /// The provider's name in messages.
    provider: &'static str,
    adapter: AdapterKind,
    family: Family,
    model: String,
    timeout: Duration,
}

impl Remote {
    pub fn new(
        http: reqwest::Client,
        config: &ModelConfig,
        url: Option<Url>,
        key: SecretString,
        price: Option<Price>,
    ) -> Result<Self, ModelError> {
        let provider = config.provider.as_str();
        let unsupported = || ModelError::new(ErrorKind::Unsupported, format!("{provider} is not reached this way"));
        let adapter = config.provider.adapter().ok_or_else(unsupported)?;
        let auth = AuthData::from_single(key.expose_secret());
        let endpoint = url.map(|url| Endpoint::from_owned(format!("{url}{}", path(adapter))));
        let client = Client::builder()
            .with_reqwest(http)
            .append_provider_config(adapter, ProviderConfig { endpoint, auth: Some(auth) })
            .build()
            .map_err(|_| unsupported())?;
        let family = Family::of(adapter);
        let target = Target { provider, adapter, family, model: config.model.clone(), timeout: config.timeout };
        Ok(Self { client, target, key, price })
    }

    async fn ask(&self, request: &ModelRequest, sink: &mut dyn Sink) -> Result<ModelReply, ModelError> {
        let frames = Arc::new(Frames::new(self.target.family));
        let options = options::of(&self.target, request)?.with_raw_frame_sink_arc(frames.clone());
        let asked = request::of(&self.target, request);
        let iden = ModelIden::new(self.target.adapter, self.target.model.as_str());
        let stream = self.client.exec_chat_stream(iden, asked, Some(&options)).await;
        let stream = stream.map_err(|error| self.failure(error))?.stream;
        let gathered = reply::gather(self.target.family, stream, sink).await;
        let gathered = gathered.map_err(|error| self.failure(error))?;
        let names = NameTable::of(request);
        let mut reply = reply::finish(&self.target, gathered, &frames, &names)?;
        if reply.stop == toolwright_types::StopReason::Refusal && !frames.refusal().is_empty() {
            sink.text(&frames.refusal());
        }
        reply.cost_usd = self.price.map(|price| price.cost(reply.usage));
        Ok(reply)
    }

    fn failure(&self, error: genai::Error) -> ModelError {
        failure::of(self.target.provider, error, self.key.expose_secret())
    }
}

/// What vendors' SDKs add to an address and genai does not.
fn path(adapter: AdapterKind) -> &'static str {
    match adapter {
        AdapterKind::Anthropic => "v1/",
        AdapterKind::Gemini => "v1beta/",
        _ => "",
    }
}

impl Model for Remote {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let asked = self.ask(request, sink).await;
            asked.map_err(|error| error.without(self.key.expose_secret()))
        })
    }

    fn sees_images(&self) -> bool {
        self.target.family.sees_images(&self.target.model)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({}/{})", self.target.provider, self.target.model)
    }
}
