//! The messages of one call, and the quality of its media.

use super::super::audit;
use super::super::search::{Abandoned, Search};
use super::finding::{Bounds, Kind, json as lines, of_calls, read};
use super::kept::{Cause, KeptLog};
use super::{Missing, RecordsQuestion};
use crate::extract::{Path, Query};
use crate::limits::{CALL_ID_BYTES_MAX, RECORDS_MAX};
use crate::problem::{Error, Problem};
use crate::service::{Caller, Service, blocking};
use axum::extract::State;
use axum::{Extension, Json};
use ringside_calls::{Call, CallsObserver, Ladder, Options, Step};
use ringside_logs::{Log, LogCounts, RecordSink};
use ringside_terminal::units::grouped;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use utoipa::ToSchema;

/// A call: who said what to whom, and how well its media arrived.
#[derive(Serialize, ToSchema)]
pub struct CallLadder {
    /// Who sent or received messages, in the order in which they appeared; 16 at most.
    pub hosts: Vec<Host>,
    /// The SIP messages, in the order in which they came.
    pub messages: Vec<SipMessage>,
    /// Messages of the call that are not among these.
    pub left_out: u64,
    /// The call with its streams, as `/api/v1/records/calls` has it; several if the Call-ID was
    /// used again, none if its beginning is not among the packets.
    #[schema(value_type = Vec<Object>)]
    pub calls: Vec<Box<RawValue>>,
    /// Why something may be missing; empty if nothing is.
    pub incomplete: Vec<Missing>,
    /// The packets that were looked at, as `/api/v1/find` has it.
    #[schema(value_type = Object)]
    pub search: Value,
}

/// One end of messages.
#[derive(Serialize, ToSchema)]
pub struct Host {
    /// Its address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
}

/// A SIP message. A request has a method, a response a status.
#[derive(Serialize, ToSchema)]
pub struct SipMessage {
    /// When it came, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Nanoseconds since the first message; negative if the clock went back.
    pub since_ns: i64,
    /// Who sent it, as an index of `hosts`.
    pub from: usize,
    /// Who received it, as an index of `hosts`.
    pub to: usize,
    /// Method of a request.
    pub method: Option<String>,
    /// Status code of a response.
    pub status: Option<u16>,
    /// Number of CSeq.
    pub cseq: u32,
    /// Method of CSeq: of a response that of the request which it answers.
    pub cseq_method: String,
    /// It describes media (SDP).
    pub sdp: bool,
}

/// The SIP messages of the call with this Call-ID, as `ringside calls --ladder` has them, with the
/// quality of its media.
///
/// `limit` is the number of messages. Reading ends at the end of the packets, after a number of
/// packets, or after some seconds; `incomplete` says so. Each answer is noted in the log.
#[utoipa::path(
    get, path = "/api/v1/calls/{call_id}/ladder", tag = "packets",
    params(("call_id" = String, Path, description = "Call-ID"), RecordsQuestion),
    responses(
        (status = 200, body = CallLadder), (status = 400, body = Error),
        (status = 403, body = Error), (status = 404, body = Error), (status = 503, body = Error),
        (status = 504, body = Error),
    )
)]
pub async fn one(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Path(call_id): Path<String>,
    Query(question): Query<RecordsQuestion>,
) -> Result<Json<CallLadder>, Problem> {
    let place = service.searches.enter()?;
    if call_id.len() > CALL_ID_BYTES_MAX {
        return Err(Problem::bad(format!("a Call-ID has at most {CALL_ID_BYTES_MAX} bytes")));
    }
    let search = Search::of(&service, &question.packets())?;
    let count_max = question.count_max()?;
    question.active(Kind::Calls)?;
    // Of messages, not of calls with this Call-ID.
    let bounds = Bounds::of(&service.config.limits, RECORDS_MAX as usize);
    let abandoned = Abandoned::default();
    let is_gone = abandoned.flag();
    blocking(service.config.limits.search_time_max, move || {
        let _place = place;
        let is_gone = || is_gone.load(Ordering::Relaxed);
        let (answer, causes) = find(&search, &call_id, &bounds, count_max, &is_gone)?;
        let details = json!({
            "kind": "ladder", "call_id": call_id, "asked": question,
            "packets": answer.search["packets"], "records": answer.messages.len(),
            "incomplete": causes,
        });
        audit::note(&caller, "records", &details);
        Ok(Json(answer))
    })
    .await
}

/// The ladder of a call, of at most `count_max` messages, and why something may be missing in it.
fn find(
    search: &Search,
    call_id: &str,
    bounds: &Bounds,
    count_max: usize,
    is_gone: &dyn Fn() -> bool,
) -> Result<(CallLadder, Vec<Cause>), Problem> {
    let kept = Mutex::new(bounds.kept());
    let log = Log::new(Box::new(KeptLog(&kept)), lines(ringside_calls::text));
    let sink: Box<dyn RecordSink<Call> + '_> = Box::new(OfCall { call_id, log });
    let ladder = Some(call_id.to_owned());
    let options = Options { limits: of_calls(), ladder, ..Options::default() };
    let mut observer = CallsObserver::new(options, vec![("answer".into(), sink)]);
    // All has to be seen: what is counted of media ends with the call.
    let (found, mut causes) = read(search, Box::new(&mut observer), bounds, is_gone, &|| None)?;
    let ladder = observer.ladder().cloned().unwrap_or_else(|| Ladder::new(call_id));
    drop(observer);
    let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    causes.extend(kept.missing());
    let beyond = ladder.messages().len().saturating_sub(count_max) as u64;
    let left_out = ladder.left_out() + beyond;
    if left_out > 0 {
        causes.push(Cause::Limit);
    }
    causes.sort_unstable();
    causes.dedup();
    let text = |cause| match cause {
        Cause::Limit => format!(
            "{} messages are left out: {} are the most here, between {} hosts; raise limit, or ask \
             for a shorter time",
            grouped(left_out),
            grouped(count_max as u64),
            Ladder::HOSTS_MAX
        ),
        cause => bounds.text(cause, Kind::Calls),
    };
    let incomplete = causes.iter().map(|&cause| Missing { cause, text: text(cause) }).collect();
    let hosts = ladder.hosts().iter().map(|&(address, port)| Host { address, port }).collect();
    let messages = messages(&ladder, count_max);
    let calls = kept.into_records()?;
    let search = found.object();
    Ok((CallLadder { hosts, messages, left_out, calls, incomplete, search }, causes))
}

fn messages(ladder: &Ladder, count_max: usize) -> Vec<SipMessage> {
    let all = ladder.messages();
    let begun_ns = all.first().map_or(0, |step| step.now_ns);
    let message = |step: &Step| {
        let (cseq, cseq_method) = step.cseq.clone();
        SipMessage {
            time_ns: step.now_ns,
            since_ns: step.now_ns.wrapping_sub(begun_ns) as i64,
            from: step.from,
            to: step.to,
            method: step.method.clone(),
            status: step.status,
            cseq,
            cseq_method,
            sdp: step.has_sdp,
        }
    };
    all.iter().take(count_max).map(message).collect()
}

/// Hands on the calls with a Call-ID.
struct OfCall<'k> {
    call_id: &'k str,
    log: Log<'k, Call>,
}

impl RecordSink<Call> for OfCall<'_> {
    fn put(&mut self, call: &Call, interface: &str) {
        if call.dialog.as_ref().is_some_and(|dialog| dialog.call_id == self.call_id) {
            self.log.put(call, interface);
        }
    }

    fn counts(&self) -> LogCounts {
        self.log.counts()
    }
}
