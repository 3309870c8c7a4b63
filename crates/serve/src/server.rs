//! Connections: one task each, on one thread; what blocks is done on others.

use crate::access::guard;
use crate::handshake::shake;
use crate::identity::Identity;
use crate::limits::{
    ADDRESS_CONNECTIONS_MAX, ADDRESS_HANDSHAKES_MAX, CONNECTIONS_MAX, HANDSHAKES_MAX,
    HEAD_BYTES_MAX, Limits, THREADS_MAX,
};
use crate::listen::{Accepted, Bound, Listen};
use crate::peer::Peer;
use crate::places::{Place, Places};
use crate::service::{Config, Service};
use crate::stall::Stalling;
use crate::{api, assets};
use anyhow::Context;
use axum::{Extension, Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ringside_terminal::say;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// How often the order to stop is looked for.
const STOP_TICK: Duration = Duration::from_millis(100);
/// How long the threads may take that read files when it stops.
const END_TIME_MAX: Duration = Duration::from_secs(2);

/// A service that listens.
pub struct Server {
    bound: Bound,
    service: Arc<Service>,
    reaches_others: bool,
}

/// What is asked of a running service, looked at several times a second.
pub struct Orders<'a> {
    /// To end.
    pub stop: &'a dyn Fn() -> bool,
    /// To read the certificate and its key again; true once for each order.
    pub renew: &'a dyn Fn() -> bool,
}

impl Server {
    /// Listens; connections wait until it [`run`](Server::run)s.
    ///
    /// # Errors
    /// The address is taken, or must not be listened at so, or the system refused.
    pub fn bind(config: Config, listen: &Listen) -> anyhow::Result<Server> {
        // Of others than the own user the kernel or a token says who they are.
        let is_open = !config.users.is_empty() || config.tokens.is_some() || config.metrics_only;
        listen.check(config.tls.is_some(), config.tokens.is_some())?;
        let bound = Bound::at(listen, is_open)?;
        let service = Arc::new(Service::new(config, bound.port()));
        Ok(Server { bound, service, reaches_others: listen.reaches_others() })
    }

    /// Where it listens, for people.
    pub fn address(&self) -> String {
        self.bound.shown(self.service.config.tls.is_some())
    }

    /// Why the certificate and its key could not be read again as this process is now, if so.
    pub fn cannot_renew(&self) -> Option<anyhow::Error> {
        self.service.config.tls.as_ref()?.renew().err()
    }

    /// Serves until it is to stop.
    ///
    /// # Errors
    /// The system gives no runtime.
    pub fn run(self, orders: &Orders<'_>) -> anyhow::Result<()> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS_MAX)
            .thread_name("serve")
            .build()
            .context("starting the runtime")?;
        let result = runtime.block_on(serve(self, orders));
        // What is being downloaded ends as its connection does.
        runtime.shutdown_timeout(END_TIME_MAX);
        result
    }
}

async fn serve(server: Server, orders: &Orders<'_>) -> anyhow::Result<()> {
    let Server { bound, service, reaches_others } = server;
    let listener = bound.listener().context("listening")?;
    // So that the first client sees them.
    service.watch.look().await;
    let watched = service.clone();
    tokio::spawn(async move { watched.watch.run(watched.config.limits.tick).await });
    let door = Door {
        router: router(&service),
        service,
        reaches_others,
        connections: Places::new(CONNECTIONS_MAX, ADDRESS_CONNECTIONS_MAX),
        handshakes: Places::new(HANDSHAKES_MAX, ADDRESS_HANDSHAKES_MAX),
    };
    while !(orders.stop)() {
        if (orders.renew)() {
            renew(&door.service);
        }
        let Ok(accepted) = tokio::time::timeout(STOP_TICK, listener.accept()).await else {
            continue;
        };
        match accepted {
            Ok(accepted) => door.accept(accepted),
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

/// Reads the certificate again, on another thread.
fn renew(service: &Arc<Service>) {
    let service = Arc::clone(service);
    tokio::task::spawn_blocking(move || {
        let Some(tls) = &service.config.tls else { return };
        match tls.renew() {
            Ok(()) => {
                say::message("ringside: the certificate was read again");
                let warnings = tls.warnings(SystemTime::now());
                warnings.iter().for_each(|text| say::message(format!("ringside: warning: {text}")));
            }
            Err(error) => say::message(format!(
                "ringside: warning: {error:#}; the certificate stays the one that was read before"
            )),
        }
    });
}

/// What every connection comes through.
struct Door {
    router: Router,
    service: Arc<Service>,
    reaches_others: bool,
    connections: Arc<Places>,
    handshakes: Arc<Places>,
}

impl Door {
    /// Begins with a connection; without a place it is closed at once.
    fn accept(&self, accepted: Accepted) {
        let (router, limits) = (self.router.clone(), self.service.config.limits.clone());
        match accepted {
            Accepted::Unix(stream) => {
                let Some(place) = self.connections.enter(None) else { return };
                let Ok(cred) = stream.peer_cred() else { return };
                let peer = Peer::local(cred.uid(), cred.pid());
                tokio::spawn(connection(stream, peer, router, limits, place));
            }
            Accepted::Tcp(stream, client) => {
                let Ok(server) = stream.local_addr() else { return };
                let peer = Peer::remote(client, server);
                let Some(place) = self.connections.enter(peer.other_host()) else { return };
                match &self.service.config.tls {
                    None => drop(tokio::spawn(async move {
                        connection(stream, peer.found().await, router, limits, place).await;
                    })),
                    Some(tls) => self.shake(stream, peer, tls.identity(), place),
                }
            }
        }
    }

    /// Begins with a connection that is to be encrypted.
    fn shake(&self, stream: TcpStream, peer: Peer, identity: Arc<Identity>, place: Place) {
        let Some(in_handshake) = self.handshakes.enter(peer.other_host()) else { return };
        let (router, limits) = (self.router.clone(), self.service.config.limits.clone());
        let reaches_others = self.reaches_others;
        tokio::spawn(async move {
            let time_max = limits.handshake_time_max;
            let shaken = shake(stream, identity.config.clone(), time_max).await;
            drop(in_handshake);
            let Some(stream) = shaken else { return };
            let peer = if reaches_others { peer } else { peer.found().await };
            connection(stream, peer, router, limits, place).await;
        });
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    router: Router,
    limits: Limits,
    _place: Place,
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
