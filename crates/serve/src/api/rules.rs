//! The rules of a capture: looked at, changed, and changed back.

use super::captures::running;
use super::search::{Abandoned, Question, Search};
use crate::extract::{JsonBody, Path, Query};
use crate::problem::{Error, Problem};
use crate::service::{Caller, Change, Service, blocking};
use axum::extract::State;
use axum::{Extension, Json};
use ringside_control::{Client, RuleStatus, RulesClient, RulesReply};
use ringside_rules::engine::Counts;
use ringside_rules::language::{self, Sets};
use ringside_session::judge_stored;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use utoipa::{IntoParams, ToSchema};

/// Rules of one order: it can be undone as a whole, and is.
const ORDER_MAX: usize = 100;

/// From where a list goes on.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct After {
    /// Id of the last rule that was seen.
    after: Option<u32>,
}

/// Rules by id, as many as fit an answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct Rules {
    /// Each with what it counted: `id`, `frames`, `bytes`, `place`, `text`.
    #[schema(value_type = Vec<Object>)]
    pub rules: Vec<RuleStatus>,
    /// There are others behind the last one.
    pub more: bool,
    /// What becomes of other frames: `verdict`, `frames`, `bytes`.
    #[schema(value_type = Object)]
    pub default: serde_json::Value,
    /// How many rules there are.
    pub count: usize,
    /// Changes by this service that can be undone.
    pub undo: usize,
}

/// A change: rules that come, or rules that go.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Rules, each a text as `src ip 192.0.2.7 => drop` (docs/rules.md).
    #[serde(default)]
    pub add: Vec<String>,
    /// Ids of rules.
    #[serde(default)]
    pub delete: Vec<u32>,
}

/// What was changed. It is in force.
#[derive(Debug, Serialize, ToSchema)]
pub struct Changed {
    /// How many rules there are now.
    pub count: usize,
    /// Ids of rules that came or went.
    pub changed: Vec<u32>,
    /// Nanoseconds until all frames were judged so.
    pub took_ns: u64,
    /// Changes that can be undone.
    pub undo: usize,
}

/// Rules to be tried.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Rules, each a text.
    pub rules: Vec<String>,
}

/// What rules would have done with recorded packets.
#[derive(Debug, Serialize, ToSchema)]
pub struct Tried {
    /// In order of ids.
    pub rules: Vec<TriedRule>,
    /// Packets that no rule would have decided about.
    pub undecided: u64,
    /// False if it was ended before all packets were judged.
    pub complete: bool,
    /// What is to be said of the recordings.
    pub notices: Vec<String>,
}

/// What a rule would have matched.
#[derive(Debug, Serialize, ToSchema)]
pub struct TriedRule {
    /// Its id.
    pub id: u32,
    /// The rule as it is understood.
    pub text: String,
    /// Packets.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// The rules of a capture, with what each counted.
#[utoipa::path(
    get, path = "/api/v1/captures/{id}/rules", tag = "rules",
    params(("id" = u32, Path, description = "Process id"), After),
    responses((status = 200, body = Rules), (status = 400, body = Error),
        (status = 404, body = Error),
        (status = 409, body = Error, description = "The capture judges by no rules"))
)]
pub async fn list(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
    Query(After { after }): Query<After>,
) -> Result<Json<Rules>, Problem> {
    let reply = ask(&service, id, move |client| client.list(after)).await?;
    let default = json!(reply.default);
    let (rules, undo) = (reply.list.unwrap_or_default(), service.changes_of(id));
    Ok(Json(Rules { rules, more: reply.more, default, count: reply.rules, undo }))
}

/// Adds rules, or deletes some.
#[utoipa::path(
    post, path = "/api/v1/captures/{id}/rules", tag = "rules", request_body = Order,
    params(("id" = u32, Path, description = "Process id")),
    responses((status = 200, body = Changed), (status = 400, body = Error),
        (status = 404, body = Error), (status = 409, body = Error))
)]
pub async fn change(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<u32>,
    JsonBody(order): JsonBody<Order>,
) -> Result<Json<Changed>, Problem> {
    let Order { add, delete } = order;
    if add.is_empty() == delete.is_empty() {
        return Err(Problem::bad("name rules to add, or ids to delete, one of both"));
    }
    if add.len().max(delete.len()) > ORDER_MAX {
        return Err(Problem::bad(format!("one order is about {ORDER_MAX} rules at most")));
    }
    super::audit::note(&caller, "rules", &json!({ "capture": id, "add": add, "delete": delete }));
    let changed = ask(&service, id, move |client| match delete.is_empty() {
        true => {
            let reply = client.add(&add, &Sets::none())?;
            Ok((Change::Added(reply.changed.clone()), reply))
        }
        false => {
            let texts = texts(client, &delete)?;
            Ok((Change::Deleted(texts), client.delete(&delete)?))
        }
    });
    let (change, reply) = changed.await?;
    if !reply.changed.is_empty() {
        service.note_change(id, change);
    }
    Ok(Json(Changed::of(&reply, service.changes_of(id))))
}

/// Undoes the last change that was made by this service.
#[utoipa::path(
    post, path = "/api/v1/captures/{id}/rules/undo", tag = "rules",
    params(("id" = u32, Path, description = "Process id")),
    responses((status = 200, body = Changed), (status = 404, body = Error))
)]
pub async fn undo(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<u32>,
) -> Result<Json<Changed>, Problem> {
    let change = service.take_change(id);
    let change = change.ok_or_else(|| Problem::not_found("nothing is left to be undone"))?;
    super::audit::note(&caller, "undo", &json!({ "capture": id, "change": format!("{change:?}") }));
    let again = change.clone();
    let undone = ask(&service, id, move |client| match change {
        Change::Added(ids) => client.delete(&ids),
        Change::Deleted(texts) => client.add(&texts, &Sets::none()),
    });
    let reply = undone.await.inspect_err(|_| service.note_change(id, again))?;
    Ok(Json(Changed::of(&reply, service.changes_of(id))))
}

/// What rules would have done with recorded packets. Nothing is changed.
#[utoipa::path(
    post, path = "/api/v1/rules/test", tag = "rules", params(Question), request_body = Trial,
    responses((status = 200, body = Tried), (status = 400, body = Error),
        (status = 404, body = Error), (status = 503, body = Error), (status = 504, body = Error))
)]
pub async fn test(
    State(service): State<Arc<Service>>,
    Query(question): Query<Question>,
    JsonBody(trial): JsonBody<Trial>,
) -> Result<Json<Tried>, Problem> {
    let place = service.searches.enter()?;
    let search = Search::of(&service, &question)?;
    if !search.filter.is_empty() {
        return Err(Problem::bad("rules are tried on all packets of a time: leave the filter out"));
    }
    let text = trial.rules.join("\n");
    let set = language::parse(text.as_bytes(), &mut Sets::none()).map_err(Problem::bad)?;
    let abandoned = Abandoned::default();
    let is_gone = abandoned.flag();
    blocking(service.config.limits.search_time_max, move || {
        let _place = place;
        let is_stopped = || is_gone.load(Ordering::Relaxed);
        let query = search.query()?;
        let judged = judge_stored(set, &query, &is_stopped);
        let (report, notices) = judged.map_err(|error| Problem::bad(format!("{error:#}")))?;
        let rule = |(rule, counts): &(language::Rule, Counts)| {
            let (id, text) = (rule.id.0, rule.to_string());
            TriedRule { id, text, frames: counts.frames, bytes: counts.bytes }
        };
        let rules = report.rules.iter().map(rule).collect();
        let (undecided, complete) = (report.undecided.frames, !is_stopped());
        Ok(Json(Tried { rules, undecided, complete, notices }))
    })
    .await
}

/// Rules as texts, which begin with their ids, of those that are there.
fn texts(client: &mut RulesClient, ids: &[u32]) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for &id in ids {
        let reply = client.list(id.checked_sub(1))?;
        let rules = reply.list.unwrap_or_default();
        let rule = rules.into_iter().find(|rule| rule.id == id);
        texts.extend(rule.map(|rule| rule.text));
    }
    Ok(texts)
}

/// Has `work` ask the capture with this process id.
async fn ask<T: Send + 'static>(
    service: &Service,
    id: u32,
    work: impl FnOnce(&mut RulesClient) -> anyhow::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let place = service.changes.enter()?;
    let socket = PathBuf::from(running(service, id)?.socket);
    blocking(service.config.limits.answer_time_max, move || {
        let _place = place;
        let client = Client::connect(&socket).map_err(|error| Problem::of_capture(&error))?;
        let client = client.ok_or_else(|| Problem::not_found("the capture has ended"))?;
        work(&mut RulesClient::new(client)).map_err(|error| Problem::of_capture(&error))
    })
    .await
}

impl Changed {
    fn of(reply: &RulesReply, undo: usize) -> Changed {
        let (count, changed) = (reply.rules, reply.changed.clone());
        Changed { count, changed, took_ns: reply.took_ns, undo }
    }
}
