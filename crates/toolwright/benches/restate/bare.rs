//! Executes the steps of a run with Restate's SDK alone, for comparison. A service has a handler that executes one
//! named operation per step.

use std::net::SocketAddr;

use restate_sdk::prelude::*;
use tokio_util::sync::CancellationToken;
use toolwright_durable::serve_endpoint;

struct Bare;

#[restate_sdk::service(name = "Bare")]
impl Bare {
    #[handler]
    async fn run(&self, ctx: Context<'_>, steps: Json<usize>) -> HandlerResult<()> {
        for step in 0..steps.into_inner() {
            ctx.run(|| async move { Ok(format!("step {step} is done")) }).name("step").await?;
        }
        Ok(())
    }
}

/// Serves the service on a separate thread until the process ends. Returns the address.
pub(crate) fn serve() -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            serve_endpoint(Endpoint::builder().bind(Bare).build(), listener, CancellationToken::new()).await;
        });
    });
    receiver.recv().unwrap()
}
