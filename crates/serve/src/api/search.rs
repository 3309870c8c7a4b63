//! How many packets of recordings match, and what it takes to find them.

use crate::extract::Query;
use crate::limits::FILTER_CHARS_MAX;
use crate::problem::{Error, Problem};
use crate::service::{Service, blocking};
use axum::Json;
use axum::extract::State;
use ringside_core::Source;
use ringside_search::{Answer, CopyLimits, Counter, Output, Span, copy};
use ringside_session::filters::programs;
use ringside_store::Query as StoredQuery;
use ringside_terminal::units::{self, When};
use serde::Deserialize;
use serde_json::Value;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use utoipa::IntoParams;

/// Which packets.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Question {
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
    /// Packets after which it ends.
    pub limit: Option<u64>,
}

/// The same, checked.
#[derive(Clone, Debug)]
pub struct Search {
    /// Files and directories.
    pub inputs: Vec<PathBuf>,
    /// A pcap-filter(7) expression, or nothing.
    pub filter: String,
    span: Span,
    count_max: u64,
}

/// A search that has begun.
pub struct Opened {
    search: ringside_search::Opened,
    count_max: u64,
}

/// Set once the client has gone, so that what works for it ends.
#[derive(Debug, Default)]
pub struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// To be asked on another thread.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How many packets match, with the plan: which files and blocks were read, what was lost while it
/// was recorded, and whether the answer is complete (docs/find.md).
#[utoipa::path(
    get, path = "/api/v1/find", tag = "packets", params(Question),
    responses(
        (status = 200, body = Object, description = "As `ringside find --count --json` has it"),
        (status = 400, body = Error), (status = 404, body = Error), (status = 503, body = Error),
        (status = 504, body = Error),
    )
)]
pub async fn find(
    State(service): State<Arc<Service>>,
    Query(question): Query<Question>,
) -> Result<Json<Value>, Problem> {
    let place = service.searches.enter()?;
    let search = Search::of(&service, &question)?;
    let abandoned = Abandoned::default();
    let is_gone = abandoned.flag();
    blocking(service.config.limits.search_time_max, move || {
        let _place = place;
        let is_stopped = || is_gone.load(Ordering::Relaxed);
        let mut opened = search.open()?;
        let found =
            opened.copy(&mut Counter, &|_| is_stopped()).map_err(|e| Problem::failed(&e))?;
        Ok(Json(opened.answer(found, is_stopped()).object()))
    })
    .await
}

impl Search {
    /// Of recordings of this service alone: what clients name is looked up, and is no path.
    ///
    /// # Errors
    /// There is no such recording, or something is not written as it has to be.
    pub fn of(service: &Service, question: &Question) -> Result<Search, Problem> {
        let inputs = inputs(service, question.recording.as_deref())?;
        if question.filter.chars().count() > FILTER_CHARS_MAX {
            let text = format!("a filter has at most {FILTER_CHARS_MAX} characters");
            return Err(Problem::bad(text));
        }
        let filter = question.filter.trim().to_owned();
        let count_max = question.limit.unwrap_or(u64::MAX);
        Ok(Search { inputs, filter, span: span(question)?, count_max })
    }

    /// Opens the recordings, and compiles the filter.
    ///
    /// # Errors
    /// libpcap refuses the filter, or a recording cannot be read.
    pub fn open(&self) -> Result<Opened, Problem> {
        self.try_open().map_err(|error| Problem::bad(format!("{error:#}")))
    }

    fn try_open(&self) -> anyhow::Result<Opened> {
        let search = self.search()?.open(|_| ())?;
        Ok(Opened { search, count_max: self.count_max })
    }

    fn search(&self) -> anyhow::Result<ringside_search::Search> {
        let (inputs, programs) = (self.inputs.clone(), programs(&self.filter)?);
        Ok(ringside_search::Search { inputs, span: self.span, programs })
    }

    /// Frames of which time: for what reads them without an index.
    ///
    /// # Errors
    /// As [`open`](Search::open).
    pub fn query(&self) -> Result<StoredQuery, Problem> {
        let query = self.search().and_then(|search| search.query());
        query.map_err(|error| Problem::bad(format!("{error:#}")))
    }
}

impl Opened {
    /// Hands on what matches; returns how many. `is_stopped` gets the number of packets that were
    /// read so far, every few of them.
    ///
    /// # Errors
    /// A recording cannot be read, or `output` not be written.
    pub fn copy(
        &mut self,
        output: &mut dyn Output,
        is_stopped: &dyn Fn(u64) -> bool,
    ) -> anyhow::Result<u64> {
        let read = Cell::new(0);
        let limits = CopyLimits {
            count_max: self.count_max,
            is_stream: false,
            is_stopped: &|| is_stopped(read.get()),
            look: &|packets, _| read.set(packets),
        };
        copy(&mut self.search.source, &mut self.search.filter, output, &limits)
    }

    /// What is to be said of it.
    pub fn answer(self, found: u64, is_stopped: bool) -> Answer {
        let Opened { search, count_max } = self;
        let is_early = !search.source.is_finished() && (is_stopped || found == count_max);
        search.answer(found, is_early)
    }
}

fn inputs(service: &Service, name: Option<&str>) -> Result<Vec<PathBuf>, Problem> {
    let all = &service.recordings;
    if all.is_empty() {
        let text = "no recordings are served: start the service with --recordings DIR";
        return Err(Problem::not_found(text));
    }
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(all.iter().map(|one| one.path.clone()).collect());
    };
    let found = all.iter().find(|one| one.name == name);
    let found = found.ok_or_else(|| Problem::not_found("there is no recording of that name"))?;
    Ok(vec![found.path.clone()])
}

fn span(question: &Question) -> Result<Span, Problem> {
    let Question { from, to, last, .. } = question;
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let when = |name: &str, text: &Option<String>| {
        let when = given(text).map(|text| units::when(&text)).transpose();
        when.map_err(|error| Problem::bad(format!("{name}: {error}")))
    };
    let Some(last) = given(last) else {
        return Ok(Span { from: when("from", from)?, to: when("to", to)? });
    };
    if given(from).or(given(to)).is_some() {
        return Err(Problem::bad("last does not go together with from and to"));
    }
    let last = units::duration(&last).map_err(|error| Problem::bad(format!("last: {error}")))?;
    Ok(Span { from: Some(When::BeforeNewest(last)), to: None })
}
