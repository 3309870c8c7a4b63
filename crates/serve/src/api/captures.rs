//! What runs, and what is lost.

use crate::extract::Path;
use crate::health::Health;
use crate::problem::{Error, Problem};
use crate::service::Service;
use crate::watch::{Capture, Captures};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use ringside_core::Ledger;
use std::sync::Arc;

/// All running captures, as asked in the last second.
#[utoipa::path(
    get, path = "/api/v1/captures", tag = "captures",
    responses((status = 200, body = Captures), (status = 403, body = Error))
)]
pub async fn list(State(service): State<Arc<Service>>) -> impl IntoResponse {
    super::of_type("application/json", service.watch.latest().json.clone())
}

/// One capture.
#[utoipa::path(
    get, path = "/api/v1/captures/{id}", tag = "captures",
    params(("id" = u32, Path, description = "Process id")),
    responses((status = 200, body = Capture), (status = 404, body = Error))
)]
pub async fn one(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
) -> Result<Json<Capture>, Problem> {
    running(&service, id).map(Json)
}

/// The ledger of a capture: every frame, by what became of it (docs/LEDGER.md).
#[utoipa::path(
    get, path = "/api/v1/captures/{id}/ledger", tag = "captures",
    params(("id" = u32, Path, description = "Process id")),
    responses((status = 200, body = Object), (status = 404, body = Error))
)]
pub async fn ledger(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
) -> Result<Json<Ledger>, Problem> {
    running(&service, id).map(|capture| Json(capture.status.ledger))
}

/// Whether anything is lost, and where: what went in and out of each stage.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "captures",
    responses((status = 200, body = Health), (status = 403, body = Error))
)]
pub async fn health(State(service): State<Arc<Service>>) -> Json<Health> {
    Json(Health::of(&service.watch.latest().captures))
}

/// The capture of this process id, as last asked.
///
/// # Errors
/// It does not run.
pub fn running(service: &Service, id: u32) -> Result<Capture, Problem> {
    let look = service.watch.latest();
    let found = look.captures.get(id).cloned();
    found.ok_or_else(|| Problem::not_found(format!("no capture runs as process {id}")))
}
