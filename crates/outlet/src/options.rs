//! How an outlet behaves.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How an outlet behaves. The default is right for records of live packets without a spool.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where batches are until they are delivered; without one they are in memory, and lost when
    /// the queue is full or the run ends.
    pub spool: Option<SpoolOptions>,
    /// Most bytes of records that wait in memory.
    pub queue_bytes: usize,
    /// Records of a batch.
    pub batch_records: u64,
    /// Bytes of a batch.
    pub batch_bytes: usize,
    /// A batch is as old as this when it goes though it is not full.
    pub batch_age: Duration,
    /// Records come from files: who brings them waits for room in the queue rather than lose some.
    /// Without a spool that is not so while the server is away.
    pub waits_for_room: bool,
    /// A table that is missing is made.
    pub creates_table: bool,
    /// File of the authorities that vouch for servers with TLS; without one those of the system.
    pub authorities: Option<PathBuf>,
    /// How long the end waits for delivery.
    pub finish: Duration,
    /// How long one try to deliver may take.
    pub try_time: Duration,
    /// Pause after a first vain try; it doubles up to [`Options::pause_max`].
    pub pause: Duration,
    /// Longest pause between tries.
    pub pause_max: Duration,
    /// What each thread of the outlet does first.
    pub begin: Begin,
}

/// What a thread does first: gives up rights that it does not need, say.
#[derive(Clone)]
pub struct Begin(pub Arc<dyn Fn() + Send + Sync>);

impl Default for Begin {
    /// Nothing.
    fn default() -> Begin {
        Begin(Arc::new(|| ()))
    }
}

impl fmt::Debug for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begin")
    }
}

/// A spool.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// Folder of all outlets; each has one of its own there, which is made if it is missing.
    pub folder: PathBuf,
    /// Most bytes of the outlet's files.
    pub bytes_max: u64,
}

impl Options {
    /// For a store of files on this machine: a minute of records is a file, up to some megabytes.
    pub fn of_store() -> Options {
        Options {
            // A batch that is written, one that is full, and one that is filled.
            queue_bytes: 128 << 20,
            batch_records: 100_000,
            // Below what a batch may have ([`BODY_BYTES_MAX`](crate::batch::BODY_BYTES_MAX)).
            batch_bytes: 32 << 20,
            batch_age: Duration::from_secs(60),
            // A disk that is slow is waited for: nothing else has the records.
            finish: Duration::from_secs(60),
            ..Options::default()
        }
    }

    /// For an object store: a minute of records is an object, and a spool of the least size holds
    /// some.
    pub fn of_objects() -> Options {
        Options {
            batch_records: 100_000,
            batch_bytes: 8 << 20,
            batch_age: Duration::from_secs(60),
            ..Options::default()
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            spool: None,
            // A few batches: a disk that is slow for a moment costs nothing.
            queue_bytes: 32 << 20,
            // ClickHouse asks for inserts of 10,000 rows or more, and not many a second.
            batch_records: 10_000,
            batch_bytes: 4 << 20,
            batch_age: Duration::from_secs(2),
            waits_for_room: false,
            creates_table: false,
            authorities: None,
            finish: Duration::from_secs(5),
            try_time: Duration::from_secs(30),
            pause: Duration::from_millis(100),
            pause_max: Duration::from_secs(30),
            begin: Begin::default(),
        }
    }
}
