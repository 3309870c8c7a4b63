//! What clients may cost.

use std::time::Duration;

/// Connections at once, of other hosts and as many of this one: a hundred pages, each with a stream
/// of events and one request.
pub const CONNECTIONS_MAX: usize = 256;
/// Of those, by one address of another host: a site behind one address, and three more get in. A
/// proxy on this host may bring all of this host's.
pub const ADDRESS_CONNECTIONS_MAX: usize = 64;
/// Handshakes of TLS at once, of other hosts and as many of this one. A client in one costs some
/// 20 KB and has shown no token yet; one that goes on takes a few milliseconds.
pub const HANDSHAKES_MAX: usize = 64;
/// Of those, by one address of another host: a browser opens six connections at once, and others
/// get in while one client leaves all of its own unfinished.
pub const ADDRESS_HANDSHAKES_MAX: usize = 16;
/// Wrong tokens of an address of another host within [`WRONG_TOKENS_TIME`], after which it is left
/// out for as long: more than a person who pastes one needs, far too few to find one.
pub const WRONG_TOKENS_MAX: u32 = 10;
/// See [`WRONG_TOKENS_MAX`].
pub const WRONG_TOKENS_TIME: Duration = Duration::from_secs(60);
/// Addresses whose wrong tokens are counted: some 100 KB. Who has more than this gains no more than
/// by that he has them.
pub const GUESSERS_MAX: usize = 1024;
/// Streams of events at once.
pub const STREAMS_MAX: usize = 128;
/// Searches at once: each reads a disk as fast as it goes.
pub const SEARCHES_MAX: usize = 2;
/// Downloads of packets at once.
pub const DOWNLOADS_MAX: usize = 2;
/// Orders about rules at once.
pub const CHANGES_MAX: usize = 4;
/// Bytes of a request's head. Hyper asks for 8 KiB at least.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of a request's body: as many as a line of the control socket.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// Characters of a filter: libpcap refuses long ones for less.
pub const FILTER_CHARS_MAX: usize = 4096;
/// Captures that are asked.
pub const CAPTURES_MAX: usize = 64;
/// Seconds that the page sees of the past when it opens.
pub const HISTORY_MAX: usize = 300;
/// Changes of the rules of one capture that can be undone.
pub const UNDO_MAX: usize = 100;
/// Files of a recording that are listed.
pub const FILES_MAX: usize = 2000;
/// Records of an answer that names no limit: some screens of a table.
pub const RECORDS_USUAL: u64 = 1_000;
/// Records of an answer at most: a page sorts them at once. Who wants all has the commands.
pub const RECORDS_MAX: u64 = 10_000;
/// Addresses whose traffic is kept apart: some 10 MB.
pub const TALKERS_MAX: usize = 100_000;
/// Memory of a flow table: room for a quarter of a million flows at once, in each of the searches.
pub const FLOW_MEMORY_BYTES: usize = 64 << 20;
/// Calls that are followed at once: some 30 MB, a tenth of what a capture of an operator's needs.
pub const CALLS_MAX: usize = 10_000;
/// Streams of media, two for each call.
pub const CALL_STREAMS_MAX: usize = 2 * CALLS_MAX;
/// Bytes of the Call-ID of a ladder: calls with longer ones are not followed.
pub const CALL_ID_BYTES_MAX: usize = 256;
/// Memory of a question in SQL, in each of the searches: groups of some million rows.
pub const SQL_MEMORY_BYTES: u64 = 256 << 20;
/// Threads of such a question: half of a small machine, next to what captures.
pub const SQL_THREADS_MAX: usize = 2;
/// What is read of why it has no answer. An error may quote values of records.
pub const SQL_WORDS_BYTES_MAX: usize = 400;
/// Threads that wait for captures, or read files.
pub const THREADS_MAX: usize = 16;

/// How long clients may take, and how much they get.
#[derive(Clone, Debug)]
pub struct Limits {
    /// For a handshake of TLS, or for the first bytes of what is none.
    pub handshake_time_max: Duration,
    /// For a request's head, and until the next one: a client that sends it byte by byte is gone.
    pub head_time_max: Duration,
    /// In which a client takes nothing of an answer.
    pub stall_time_max: Duration,
    /// For an answer, but for those below; for the body of a request, too.
    pub answer_time_max: Duration,
    /// For a search.
    pub search_time_max: Duration,
    /// Between two questions to the captures.
    pub tick: Duration,
    /// Between two comments of a stream of events, by which both ends see that the other lives.
    pub keep_alive: Duration,
    /// Bytes of packets in one download.
    pub download_bytes_max: u64,
    /// Bytes of the records of one answer.
    pub records_bytes_max: usize,
    /// Packets that are read for an answer of records, also those that do not match.
    pub records_packets_max: u64,
    /// For reading them; then comes what was found until then.
    pub records_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Four ways through a slow network, and what a phone takes to reckon.
            handshake_time_max: Duration::from_secs(10),
            head_time_max: Duration::from_secs(10),
            stall_time_max: Duration::from_secs(30),
            // Longer than a capture may take to answer.
            answer_time_max: Duration::from_secs(15),
            search_time_max: Duration::from_secs(60),
            tick: Duration::from_secs(1),
            keep_alive: Duration::from_secs(15),
            download_bytes_max: 1 << 30,
            // Ten thousand of a usual size.
            records_bytes_max: 16 << 20,
            // At some million a second, as long as the time allows.
            records_packets_max: 20_000_000,
            // Well within that of a search, so that an answer comes.
            records_time_max: Duration::from_secs(20),
        }
    }
}
