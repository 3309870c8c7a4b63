//! The page: what `web/build` made of `web/src`, part of this program.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

const PAGE: &str = include_str!("../web/dist/index.html");
const SCRIPT: &str = include_str!("../web/dist/app.js");
const STYLE: &str = include_str!("../web/dist/app.css");
const ICON: &str = include_str!("../web/dist/icon.svg");

/// The page and what it loads.
pub fn router() -> Router {
    Router::new()
        .route("/", get(async || asset("text/html; charset=utf-8", PAGE)))
        .route("/app.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/app.css", get(async || asset("text/css; charset=utf-8", STYLE)))
        .route("/icon.svg", get(async || asset("image/svg+xml", ICON)))
}

fn asset(content_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, content_type)], text)
}
