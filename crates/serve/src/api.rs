//! The routes. Each is declared once, for the router and for the OpenAPI document.

mod audit;
mod captures;
mod events;
mod metrics;
mod packets;
mod recordings;
mod records;
mod rules;
mod search;
mod session;
mod sql;

use crate::service::Service;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa::openapi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ringside",
        description = "Running captures, their ledgers and rules, and packets of recordings. \
                       Errors are objects with a text for people in `error`."
    ),
    tags(
        (name = "captures", description = "What runs, and what is lost"),
        (name = "packets", description = "What is recorded, packets of it, and what they meant"),
        (name = "rules", description = "By which a capture judges frames"),
        (name = "service", description = "The service itself"),
    )
)]
struct Document;

/// All routes but those of the page.
pub fn router(service: Arc<Service>) -> Router {
    let (router, document) = routes().split_for_parts();
    let document = Arc::new(document);
    let answer = move || std::future::ready(Json(&*document).into_response());
    router.route("/api/v1/openapi.json", get(answer)).with_state(service)
}

/// The one route of a service of metrics alone.
pub fn metrics_router(service: Arc<Service>) -> Router {
    Router::from(OpenApiRouter::new().routes(routes!(metrics::text))).with_state(service)
}

/// The OpenAPI document.
pub fn document() -> openapi::OpenApi {
    routes().into_openapi()
}

fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(captures::list))
        .routes(routes!(captures::one))
        .routes(routes!(captures::ledger))
        .routes(routes!(captures::health))
        .routes(routes!(events::stream))
        .routes(routes!(rules::list, rules::change))
        .routes(routes!(rules::undo))
        .routes(routes!(rules::test))
        .routes(routes!(recordings::list))
        .routes(routes!(search::find))
        .routes(routes!(packets::download))
        .routes(routes!(records::list))
        .routes(routes!(records::talkers))
        .routes(routes!(records::ladder::one))
        .routes(routes!(sql::ask))
        .routes(routes!(metrics::text))
        .routes(routes!(session::who, session::sign_in, session::sign_out))
}

/// A text that is none of ours to format.
fn of_type(content_type: &'static str, text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, content_type)], text)
}
