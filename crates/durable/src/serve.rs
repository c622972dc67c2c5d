//! Serves an endpoint of the Restate SDK over HTTP/2.
//!
//! The SDK has a server of its own, which does not turn off Nagle's algorithm. Together with the delayed
//! acknowledgements of the peer, this algorithm costs up to 40 ms for each message of an invocation.

use std::io;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::prelude::Endpoint;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long invocations may take to end after the server was stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after an attempt to accept a connection failed, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `stop` is cancelled. Then waits until the open connections have ended, for at most
/// [`SHUTDOWN_TIMEOUT`].
pub async fn serve_endpoint(endpoint: Endpoint, listener: TcpListener, stop: CancellationToken) {
    let endpoint = HyperEndpoint::new(endpoint);
    let (http, graceful) = (auto::Builder::new(TokioExecutor::new()).http2_only(), GracefulShutdown::new());
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            // Removes the connections that have ended.
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener) => accepted,
        };
        match stream {
            Ok(stream) => {
                let connection = http.serve_connection(TokioIo::new(stream), endpoint.clone()).into_owned();
                let connection = graceful.watch(connection);
                connections.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(error = &*error, "a connection from Restate ended");
                    }
                });
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "a connection from Restate was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("invocations of Restate did not end in time; Restate repeats them");
    }
}

async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nagle_algorithm_is_off_for_accepted_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!client.nodelay().unwrap(), "the option is off by default");
        assert!(accept(&listener).await.unwrap().nodelay().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn server_stops_although_a_connection_is_open() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stop = CancellationToken::new();
        let serving = serve_endpoint(Endpoint::builder().build(), listener, stop.clone());
        tokio::join!(serving, async {
            client.writable().await.unwrap();
            stop.cancel();
        });
    }
}
