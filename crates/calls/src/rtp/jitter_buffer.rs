//! A jitter buffer as a phone has one: which packets come too late to be played.

/// How long each of the two spans is in which the fastest packet is looked for.
const SPAN_NS: u64 = 5_000_000_000;

/// A buffer of a fixed depth: each packet is played `depth` after the fastest one of the last five
/// to ten seconds would have had to be. So it follows clocks that drift, and a change of route
/// within that time.
#[derive(Clone, Copy, Debug)]
pub struct JitterBuffer {
    depth_ns: u64,
    /// The shortest time under way, up to a constant, of the last whole span and of the one that
    /// goes on, and when that began.
    pub(super) fastest: [i64; 2],
    pub(super) span_begun_ns: u64,
}

impl JitterBuffer {
    /// As deep as phones have it unless they adapt: three packets of 20 ms.
    pub const DEPTH_NS: u64 = 60_000_000;

    /// An empty buffer of a depth.
    pub fn new(depth_ns: u64) -> JitterBuffer {
        JitterBuffer { depth_ns, fastest: [i64::MAX; 2], span_begun_ns: 0 }
    }

    /// As the kernel left it.
    pub(super) fn counted(fastest: [i64; 2], span_begun_ns: u64) -> JitterBuffer {
        JitterBuffer { depth_ns: JitterBuffer::DEPTH_NS, fastest, span_begun_ns }
    }

    /// A packet came at a time, after `transit_ns`, up to a constant. True if it is played.
    pub fn plays(&mut self, now_ns: u64, transit_ns: i64) -> bool {
        if now_ns.saturating_sub(self.span_begun_ns) >= SPAN_NS {
            self.fastest = [self.fastest[1], i64::MAX];
            self.span_begun_ns = now_ns;
        }
        self.fastest[1] = self.fastest[1].min(transit_ns);
        let fastest = self.fastest[0].min(self.fastest[1]);
        // It is no less than the fastest.
        (transit_ns as u64).wrapping_sub(fastest as u64) <= self.depth_ns
    }

    /// The times of the packets began anew.
    pub fn restart(&mut self) {
        self.fastest = [i64::MAX; 2];
    }
}
