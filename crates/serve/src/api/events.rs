//! One stream of events a page: browsers allow six connections to a host, over all tabs.

use crate::problem::{Error, Problem};
use crate::service::Service;
use crate::watch::Sample;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt};
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

/// The captures each second.
///
/// The first event, `history`, holds what charts show of the last minutes, those behind
/// `Last-Event-ID` alone if a client comes back; each further one, `captures`, is what
/// `/api/v1/captures` gives, with its sequence as id.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "captures",
    params(
        ("Last-Event-ID" = Option<u64>, Header, description = "Sequence of the last event seen"),
    ),
    responses(
        (status = 200, body = Vec<Sample>, content_type = "text/event-stream"),
        (status = 503, body = Error),
    )
)]
pub async fn stream(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let place = service.streams.enter()?;
    let seen = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let history = service.watch.history(seen.unwrap_or(0));
    let history = serde_json::to_string(&history).unwrap_or_default();
    let first = stream::once(ready(Event::default().event("history").data(history)));
    let events = first.chain(looks(&service)).map(move |event| {
        // Held as long as the stream is.
        let _ = &place;
        Ok::<Event, Infallible>(event)
    });
    let alive = KeepAlive::new().interval(service.config.limits.keep_alive);
    // Proxies would gather events.
    Ok(([("x-accel-buffering", "no")], Sse::new(events).keep_alive(alive)).into_response())
}

/// The captures now, and each time they were asked.
fn looks(service: &Service) -> impl Stream<Item = Event> + use<> {
    let mut looks = service.watch.subscribe();
    looks.mark_changed();
    stream::unfold(looks, async |mut looks| {
        looks.changed().await.ok()?;
        let look = looks.borrow_and_update().clone();
        let id = look.captures.sequence.to_string();
        Some((Event::default().event("captures").id(id).data(&look.json), looks))
    })
}
