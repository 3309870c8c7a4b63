//! How an outlet behaves.

use std::path::PathBuf;
use std::time::Duration;

/// How an outlet behaves. The default is right for a meter of live packets without a spool.
#[derive(Clone, Debug)]
pub struct Options {
    /// Observation domain; of NetFlow v9 the source id, of v5 the engine.
    pub domain: u32,
    /// Where messages go while a collector by TCP is away or slow; without one they are lost when
    /// the queue is full.
    pub spool: Option<SpoolOptions>,
    /// Most bytes of messages that wait in memory for the outlet's thread.
    pub queue_bytes: usize,
    /// The meter reads from files: it waits for room in the queue rather than lose records. While a
    /// collector by TCP is away it does not wait.
    pub waits_for_room: bool,
    /// Most datagrams a second, for collectors by UDP that would lose more; else as they come.
    pub datagrams_per_second: Option<u32>,
    /// How long the end waits for delivery.
    pub finish: Duration,
    /// Pause after a first vain try to connect; it doubles up to [`Options::pause_max`].
    pub pause: Duration,
    /// Longest pause between tries to connect.
    pub pause_max: Duration,
}

/// A spool.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// Folder of this collector alone; it is made if it is not there.
    pub folder: PathBuf,
    /// Most bytes of its files.
    pub bytes_max: u64,
}

/// Some 30,000 records: a third of a second at a hundred thousand a second, so that a disk or a
/// network that is slow for a moment costs nothing.
const QUEUE_BYTES: usize = 4 << 20;

impl Default for Options {
    fn default() -> Options {
        Options {
            domain: 1,
            spool: None,
            queue_bytes: QUEUE_BYTES,
            waits_for_room: false,
            datagrams_per_second: None,
            finish: Duration::from_secs(5),
            pause: Duration::from_millis(100),
            pause_max: Duration::from_secs(30),
        }
    }
}
