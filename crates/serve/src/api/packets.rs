//! Packets of recordings, as a pcapng stream.

use super::audit;
use super::search::{Opened, Question, Search};
use crate::extract::Query;
use crate::problem::{Error, Problem};
use crate::service::{Caller, Service};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use ringside_core::{Frame, SourceInterface};
use ringside_search::{Copier, Output};
use ringside_store::Format;
use serde_json::json;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::unix::pipe::{Receiver, pipe};
use tokio::sync::oneshot;

/// Bytes that are handed on at once: as many as a pipe holds.
const PIECE_BYTES: usize = 64 << 10;

/// Packets that match, as pcapng, in the order of time. Each download is noted in the log.
///
/// A download that would be larger than the service allows breaks off, without the end of its
/// transfer, so that a program sees that something is missing; `limit` ends one in order.
#[utoipa::path(
    get, path = "/api/v1/packets", tag = "packets", params(Question),
    responses(
        (status = 200, body = [u8], content_type = "application/x-pcapng"),
        (status = 400, body = Error), (status = 404, body = Error), (status = 503, body = Error),
    )
)]
pub async fn download(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    Query(question): Query<Question>,
) -> Result<Response, Problem> {
    let place = service.downloads.enter()?;
    let search = Search::of(&service, &question)?;
    let (sender, receiver) = pipe().map_err(|error| Problem::failed(&error.into()))?;
    let pipe = sender.into_blocking_fd().map_err(|error| Problem::failed(&error.into()))?;
    let (opened, is_opened) = oneshot::channel();
    let whole = Arc::new(AtomicBool::new(false));
    let (is_whole, bytes_max) = (whole.clone(), service.config.limits.download_bytes_max);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let mut packets = match search.open() {
            Ok(packets) => packets,
            Err(problem) => return drop(opened.send(Err(problem))),
        };
        if opened.send(Ok(())).is_err() {
            return;
        }
        let sent = Sent::write(&mut packets, File::from(pipe), bytes_max, &is_whole);
        sent.note(&caller, &question);
    });
    is_opened.await.map_err(|error| Problem::failed(&error.into()))??;
    let headers = [
        (header::CONTENT_TYPE, "application/x-pcapng"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"packets.pcapng\""),
    ];
    Ok((headers, Body::from_stream(pieces(receiver, whole))).into_response())
}

/// What comes out of the pipe; an error at its end unless all was written.
fn pieces(receiver: Receiver, is_whole: Arc<AtomicBool>) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some(receiver), move |receiver| {
        let is_whole = is_whole.clone();
        async move {
            let mut receiver: Receiver = receiver?;
            match piece(&mut receiver).await {
                Ok(piece) if !piece.is_empty() => Some((Ok(piece), Some(receiver))),
                Ok(_) if is_whole.load(Ordering::Acquire) => None,
                Ok(_) => Some((Err(io::ErrorKind::UnexpectedEof.into()), None)),
                Err(error) => Some((Err(error), None)),
            }
        }
    })
}

/// The next bytes; none at the end.
async fn piece(receiver: &mut Receiver) -> io::Result<Bytes> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        receiver.readable().await?;
        match receiver.try_read(&mut piece) {
            Ok(length) => {
                piece.truncate(length);
                return Ok(piece.into());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// What was handed over.
struct Sent {
    packets: u64,
    bytes: u64,
    end: String,
}

impl Sent {
    /// Writes what matches into `pipe`, of packets at most `bytes_max`.
    fn write(packets: &mut Opened, pipe: File, bytes_max: u64, is_whole: &AtomicBool) -> Sent {
        let (bytes, count, is_full) = (Cell::new(0), Cell::new(0), Cell::new(false));
        let copied = Copier::to_stream(pipe, Format::Pcapng).and_then(|copier| {
            let (bytes, packets_put, is_full) = (&bytes, &count, &is_full);
            let mut output = Bounded { copier, bytes, packets: packets_put, is_full, bytes_max };
            packets.copy(&mut output, &|_| is_full.get())?;
            output.finish()?;
            // Before the pipe is closed, so that its reader knows.
            is_whole.store(!is_full.get(), Ordering::Release);
            Ok(())
        });
        let end = match copied {
            Ok(()) if is_full.get() => format!("broken off: more than {bytes_max} bytes"),
            Ok(()) => "complete".into(),
            Err(error) => format!("broken off: {error:#}"),
        };
        Sent { packets: count.get(), bytes: bytes.get(), end }
    }

    fn note(&self, caller: &Caller, question: &Question) {
        let Question { filter, from, to, last, recording, limit } = question;
        let Sent { packets, bytes, end } = self;
        let asked = json!({
            "filter": filter, "from": from, "to": to, "last": last, "recording": recording,
            "limit": limit,
        });
        let details = json!({ "asked": asked, "packets": packets, "bytes": bytes, "end": end });
        audit::note(caller, "download", &details);
    }
}

/// A copy of bounded size. The file is whole, whatever is missing in it.
struct Bounded<'a> {
    copier: Copier,
    packets: &'a Cell<u64>,
    bytes: &'a Cell<u64>,
    is_full: &'a Cell<bool>,
    bytes_max: u64,
}

impl Output for Bounded<'_> {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.copier.add_interface(interface)
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        let bytes = self.bytes.get().saturating_add(frame.bytes.len() as u64);
        if self.is_full.get() || bytes > self.bytes_max {
            self.is_full.set(true);
            return Ok(());
        }
        self.copier.put(frame)?;
        self.bytes.set(bytes);
        self.packets.set(self.packets.get() + 1);
        Ok(())
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        self.copier.idle()
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.copier.finish()
    }

    fn abandon(&mut self) -> Option<(PathBuf, u64)> {
        self.copier.abandon()
    }
}
