//! What recorded packets meant: flows, transactions and calls, as the commands write them, and
//! which addresses talk most.

mod finding;
mod kept;
pub mod ladder;
mod talkers;

use super::audit;
use super::search::{Abandoned, Question, Search};
use crate::extract::{Path, Query};
use crate::limits::{RECORDS_MAX, RECORDS_USUAL};
use crate::problem::{Error, Problem};
use crate::service::{Caller, Service, blocking};
use axum::extract::State;
use axum::{Extension, Json};
use finding::{Bounds, Kind};
pub use kept::Cause;
use ringside_terminal::units;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// Of which packets, and how many records.
#[derive(Clone, Debug, Deserialize, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct RecordsQuestion {
    /// pcap-filter(7) expression; all packets match an empty one.
    #[serde(default)]
    pub filter: String,
    /// From this moment on: 2026-03-01T12:00:00Z, seconds since 1970, or -10m before the newest
    /// packet.
    pub from: Option<String>,
    /// Before this moment, written as `from`.
    pub to: Option<String>,
    /// The last packets of this time, as 10m, up to the newest.
    pub last: Option<String>,
    /// Name of a recording; all without one.
    pub recording: Option<String>,
    /// Records of the answer, from 1 to 10,000; 1,000 without it.
    #[param(minimum = 1, maximum = 10000)]
    pub limit: Option<u64>,
    /// Of flows alone: one that goes on has a record for each such time, as 2h [default: 60s]
    pub active: Option<String>,
}

/// Records, and whether all are here.
#[derive(Serialize, ToSchema)]
pub struct Records {
    /// Objects, as `--json` of the command has them: flows and addresses by their bytes, the
    /// largest first; others in the order in which they were over.
    #[schema(value_type = Vec<Object>)]
    pub records: Vec<Box<RawValue>>,
    /// Why something may be missing; empty if nothing is.
    pub incomplete: Vec<Missing>,
    /// The packets that were looked at, as `/api/v1/find` has it.
    #[schema(value_type = Object)]
    pub search: Value,
}

/// Why an answer is not complete.
#[derive(Serialize, ToSchema)]
pub struct Missing {
    /// For programs.
    pub cause: Cause,
    /// For people, with what helps.
    pub text: String,
}

/// What recorded packets meant: flows (the largest first), HTTP, DNS, TLS or calls, each record as
/// `ringside flows --json` (`http`, `dns`, `tls`, `calls`) has it.
///
/// Reading ends with the answer's last record, after a number of packets, or after some seconds;
/// `incomplete` says so. Each answer is noted in the log.
#[utoipa::path(
    get, path = "/api/v1/records/{kind}", tag = "packets",
    params(
        ("kind" = String, Path, description = "flows, http, dns, tls or calls"),
        RecordsQuestion,
    ),
    responses(
        (status = 200, body = Records), (status = 400, body = Error), (status = 403, body = Error),
        (status = 404, body = Error), (status = 503, body = Error), (status = 504, body = Error),
    )
)]
pub async fn list(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Path(kind): Path<String>,
    Query(question): Query<RecordsQuestion>,
) -> Result<Json<Records>, Problem> {
    answer(&service, caller, Kind::named(&kind)?, question).await
}

/// Addresses with the packets and bytes of flows that they sent and received, the largest first.
#[utoipa::path(
    get, path = "/api/v1/talkers", tag = "packets", params(RecordsQuestion),
    responses(
        (status = 200, body = Records), (status = 400, body = Error), (status = 403, body = Error),
        (status = 404, body = Error), (status = 503, body = Error), (status = 504, body = Error),
    )
)]
pub async fn talkers(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(question): Query<RecordsQuestion>,
) -> Result<Json<Records>, Problem> {
    answer(&service, caller, Kind::Talkers, question).await
}

async fn answer(
    service: &Arc<Service>,
    caller: Caller,
    kind: Kind,
    question: RecordsQuestion,
) -> Result<Json<Records>, Problem> {
    let place = service.searches.enter()?;
    let search = Search::of(service, &question.packets())?;
    let count_max = question.count_max()?;
    let active = question.active(kind)?;
    let bounds = Bounds::of(&service.config.limits, count_max);
    let abandoned = Abandoned::default();
    let is_gone = abandoned.flag();
    blocking(service.config.limits.search_time_max, move || {
        let _place = place;
        let is_gone = || is_gone.load(Ordering::Relaxed);
        let (kept, found) = finding::find(&search, kind, active, &bounds, &is_gone)?;
        let causes: Vec<Cause> = kept.missing().collect();
        let records = kept.into_records()?;
        let details = json!({
            "kind": kind.name(), "asked": question, "packets": found.found,
            "records": records.len(), "incomplete": causes,
        });
        audit::note(&caller, "records", &details);
        let missing = |cause| Missing { cause, text: bounds.text(cause, kind) };
        let incomplete = causes.into_iter().map(missing).collect();
        Ok(Json(Records { records, incomplete, search: found.object() }))
    })
    .await
}

impl RecordsQuestion {
    /// Which packets are asked for.
    fn packets(&self) -> Question {
        let RecordsQuestion { filter, from, to, last, recording, .. } = self.clone();
        Question { filter, from, to, last, recording, limit: None }
    }

    fn count_max(&self) -> Result<usize, Problem> {
        let limit = self.limit.unwrap_or(RECORDS_USUAL);
        let counts = (1..=RECORDS_MAX).contains(&limit);
        let text = || format!("limit: {limit} records; an answer has from 1 to {RECORDS_MAX}");
        if counts { Ok(limit as usize) } else { Err(Problem::bad(text())) }
    }

    fn active(&self, kind: Kind) -> Result<Option<Duration>, Problem> {
        let Some(text) = self.active.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        if kind != Kind::Flows {
            return Err(Problem::bad("active is for flows: other records have no such time"));
        }
        let active = units::duration(text);
        active.map(Some).map_err(|error| Problem::bad(format!("active: {error}")))
    }
}
