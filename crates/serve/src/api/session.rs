//! Signing in: a token for a cookie, which a stream of events needs.

use crate::access::{COOKIE, bearer, known};
use crate::peer::Peer;
use crate::problem::{Error, Problem};
use crate::service::{Caller, Service};
use crate::tokens::Scope;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Who somebody is here.
#[derive(Debug, Serialize, ToSchema)]
pub struct Who {
    /// As the log has it.
    pub name: String,
    /// Of `read`, `packets`, `control`.
    pub scopes: Vec<String>,
}

/// Who the client is, and what it may do.
#[utoipa::path(
    get, path = "/api/v1/session", tag = "service",
    responses((status = 200, body = Who), (status = 401, body = Error),
        (status = 403, body = Error), (status = 429, body = Error))
)]
pub async fn who(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Json<Who>, Problem> {
    known(&service, &peer, &headers).map(|caller| Json(Who::of(caller)))
}

/// Gives a cookie for a token, which no script can read and no other site makes a browser send.
#[utoipa::path(
    post, path = "/api/v1/session", tag = "service",
    responses((status = 200, body = Who), (status = 401, body = Error),
        (status = 429, body = Error))
)]
pub async fn sign_in(
    State(service): State<Arc<Service>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let token = bearer(&headers).ok_or_else(|| Problem::unknown_client("name a token"))?;
    let caller = known(&service, &peer, &headers)?;
    let cookie = format!("{COOKIE}={token}; {}", attributes(&service));
    Ok(([(header::SET_COOKIE, cookie)], Json(Who::of(caller))).into_response())
}

/// Takes the cookie back.
#[utoipa::path(
    delete, path = "/api/v1/session", tag = "service",
    responses((status = 204))
)]
pub async fn sign_out(State(service): State<Arc<Service>>) -> Response {
    let cookie = format!("{COOKIE}=; {}; Max-Age=0", attributes(&service));
    (axum::http::StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

/// How a browser keeps it: where TLS is spoken it sends it in no other way.
fn attributes(service: &Service) -> &'static str {
    match service.config.tls {
        Some(_) => "Path=/; HttpOnly; SameSite=Strict; Secure",
        None => "Path=/; HttpOnly; SameSite=Strict",
    }
}

impl Who {
    fn of(caller: Caller) -> Who {
        let scopes = [Scope::Read, Scope::Packets, Scope::Control].into_iter();
        let held = scopes.filter(|&scope| caller.scopes.allow(scope));
        Who { name: caller.name, scopes: held.map(|scope| scope.name().to_owned()).collect() }
    }
}
