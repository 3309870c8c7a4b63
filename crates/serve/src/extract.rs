//! What a request says, read into types. What cannot be read is answered as every other problem is:
//! axum's own answers are plain text, with statuses that no route declares.

use crate::problem::Problem;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// What stands in the path: a number or a name of something.
pub struct Path<T>(pub T);

/// What stands behind `?`.
pub struct Query<T>(pub T);

/// The body, in JSON.
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        // What is no number is the number of nothing.
        let problem = |_| Problem::not_found("there is nothing of that number or name");
        read.map(|axum::extract::Path(value)| Path(value)).map_err(problem)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        let problem =
            |error: axum::extract::rejection::QueryRejection| Problem::bad(error.body_text());
        read.map(|axum::extract::Query(value)| Query(value)).map_err(problem)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>, Problem> {
        let read = axum::Json::from_request(request, state).await;
        let problem =
            |error: axum::extract::rejection::JsonRejection| Problem::bad(error.body_text());
        read.map(|axum::Json(value)| JsonBody(value)).map_err(problem)
    }
}
