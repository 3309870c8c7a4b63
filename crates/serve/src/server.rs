//! Connections: one task each, on one thread; what blocks is done on others.

use crate::access::guard;
use crate::limits::{CONNECTIONS_MAX, HEAD_BYTES_MAX, Limits, THREADS_MAX};
use crate::listen::{Accepted, Bound, Listen};
use crate::peer::Peer;
use crate::service::{Config, Service};
use crate::stall::Stalling;
use crate::{api, assets};
use anyhow::Context;
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How often the order to stop is looked for.
const STOP_TICK: Duration = Duration::from_millis(100);
/// How long the threads may take that read files when it stops.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// A service that listens.
pub struct Server {
    bound: Bound,
    service: Arc<Service>,
}

impl Server {
    /// Listens; connections wait until it [`run`](Server::run)s.
    ///
    /// # Errors
    /// The address is taken, or the system refused.
    pub fn bind(config: Config, listen: &Listen) -> anyhow::Result<Server> {
        // Of others than the own user the kernel or a token says who they are.
        let is_open = !config.users.is_empty() || config.tokens.is_some() || config.metrics_only;
        let bound = Bound::at(listen, is_open)?;
        let service = Arc::new(Service::new(config, bound.port()));
        Ok(Server { bound, service })
    }

    /// Where it listens, for people.
    pub fn address(&self) -> String {
        self.bound.shown()
    }

    /// Serves until `is_stopped`.
    ///
    /// # Errors
    /// The system gives no runtime.
    pub fn run(self, is_stopped: &dyn Fn() -> bool) -> anyhow::Result<()> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS_MAX)
            .thread_name("serve")
            .build()
            .context("starting the runtime")?;
        let result = runtime.block_on(serve(self.bound, self.service, is_stopped));
        // What is being downloaded ends as its connection does.
        runtime.shutdown_timeout(END_TIME_MAX);
        result
    }
}

async fn serve(
    bound: Bound,
    service: Arc<Service>,
    is_stopped: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let listener = bound.listener().context("listening")?;
    // So that the first client sees them.
    service.watch.look().await;
    let watched = service.clone();
    tokio::spawn(async move { watched.watch.run(watched.config.limits.tick).await });
    let router = router(&service);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while !is_stopped() {
        let Ok(accepted) = tokio::time::timeout(STOP_TICK, listener.accept()).await else {
            continue;
        };
        match accepted {
            // Without a place it is closed at once.
            Ok(accepted) => {
                if let Ok(place) = places.clone().try_acquire_owned() {
                    accept(accepted, router.clone(), &service, place);
                }
            }
            Err(error) => {
                tracing::info!("accepting a connection: {error}");
                tokio::time::sleep(STOP_TICK).await;
            }
        }
    }
    Ok(())
}

/// Everything that is answered, behind the guard.
fn router(service: &Arc<Service>) -> Router {
    let guarded = middleware::from_fn_with_state(service.clone(), guard);
    let answered = match service.config.metrics_only {
        true => api::metrics_router(service.clone()),
        false => api::router(service.clone()).merge(assets::router()),
    };
    answered.layer(guarded)
}

fn accept(accepted: Accepted, router: Router, service: &Arc<Service>, place: OwnedSemaphorePermit) {
    let limits = service.config.limits.clone();
    match accepted {
        Accepted::Unix(stream) => {
            let Ok(cred) = stream.peer_cred() else { return };
            let peer = Peer::local(cred.uid(), cred.pid());
            tokio::spawn(connection(stream, peer, router, limits, place));
        }
        Accepted::Tcp(stream, client) => {
            let Ok(server) = stream.local_addr() else { return };
            tokio::spawn(async move {
                let peer = tokio::task::spawn_blocking(move || Peer::tcp(client, server)).await;
                let Ok(peer) = peer else { return };
                connection(stream, peer, router, limits, place).await;
            });
        }
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    router: Router,
    limits: Limits,
    _place: OwnedSemaphorePermit,
) {
    let io = TokioIo::new(Stalling::new(stream, limits.stall_time_max));
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(io, service)
        .await;
    if let Err(error) = served {
        tracing::debug!("a connection ended: {error}");
    }
}
