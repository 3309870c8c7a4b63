//! What is recorded.

use crate::limits::FILES_MAX;
use crate::problem::{Error, Problem};
use crate::service::{Recording, Service, blocking};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::fs::{DirEntry, Metadata};
use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use utoipa::ToSchema;

/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// A recording, or a capture file.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordingFiles {
    /// By which it is asked for.
    pub name: String,
    /// How many files it has.
    pub count: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The last ones by name, which is by time: at most 2,000.
    pub files: Vec<StoredFile>,
    /// Why it cannot be read.
    pub error: Option<String>,
}

/// A file.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct StoredFile {
    /// Name; a recorder's begins with the time of its first packet.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// When it was last written, in milliseconds since 1970.
    pub written_ms: u64,
}

/// The recordings that are searched, with their files.
#[utoipa::path(
    get, path = "/api/v1/recordings", tag = "packets",
    responses((status = 200, body = Vec<RecordingFiles>), (status = 403, body = Error))
)]
pub async fn list(
    State(service): State<Arc<Service>>,
) -> Result<Json<Vec<RecordingFiles>>, Problem> {
    let time_max = service.config.limits.answer_time_max;
    blocking(time_max, move || {
        Ok(Json(service.recordings.iter().map(RecordingFiles::of).collect()))
    })
    .await
}

impl RecordingFiles {
    fn of(recording: &Recording) -> RecordingFiles {
        let name = recording.name.clone();
        let (mut files, error) = match files_of(recording) {
            Ok(files) => (files, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let (count, bytes) = (files.len() as u64, files.iter().map(|file| file.bytes).sum());
        files.drain(..files.len().saturating_sub(FILES_MAX));
        RecordingFiles { name, count, bytes, files, error }
    }
}

fn files_of(recording: &Recording) -> io::Result<Vec<StoredFile>> {
    let metadata = std::fs::metadata(&recording.path)?;
    if !metadata.is_dir() {
        return Ok(vec![StoredFile::of(recording.name.clone(), &metadata)]);
    }
    let entries = std::fs::read_dir(&recording.path)?.take(ENTRIES_MAX);
    Ok(entries.filter_map(|entry| capture_file(&entry.ok()?)).collect())
}

/// A capture file of a directory. Hidden ones are not ended yet, or none.
fn capture_file(entry: &DirEntry) -> Option<StoredFile> {
    let name = entry.file_name().into_string().ok()?;
    let ends = [".pcapng", ".pcap", ".pcapng.zst", ".pcapng.gz", ".pcap.gz"];
    let is_capture = !name.starts_with('.') && ends.iter().any(|end| name.ends_with(end));
    let metadata = entry.metadata().ok().filter(|found| is_capture && found.is_file())?;
    Some(StoredFile::of(name, &metadata))
}

impl StoredFile {
    fn of(name: String, metadata: &Metadata) -> StoredFile {
        let written = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let written_ms = written.map_or(0, |since| since.as_millis() as u64);
        StoredFile { name, bytes: metadata.len(), written_ms }
    }
}
