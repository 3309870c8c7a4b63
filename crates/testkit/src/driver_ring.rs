//! What the program of a driver ring does to find room (`find_room` of `bpf/xdp_ring.bpf.c`),
//! again: for models, for tests without the kernel, and next to the program itself.

/// The program's own words (`struct ring_control`), and what it is configured with. Places and
/// lengths are in bytes, or in whatever the records of a model are counted in.
#[derive(Default)]
pub struct Program {
    window: u64,
    all: u64,
    /// Of the end of a lap.
    end_bytes: u64,
    /// Beyond a window, between two looks at the tail.
    step: u64,
    /// Its position: the number of a lap in the upper half, a place in the lower.
    pub head: u64,
    limit: u64,
    lap: u64,
    run: u64,
    floor: u64,
    ahead: u64,
    /// Laps that began, by [`Kind`].
    pub begun: [u64; Kind::ALL],
}

/// Where a lap begins.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A window back, over what was just read.
    Back,
    /// Where the writer had been before it went back.
    Ahead,
    /// The same, but at 0: there was no room behind it.
    AheadAtStart,
    /// At 0, behind the end of the ring.
    Round,
}

impl Kind {
    /// How many there are.
    pub const ALL: usize = 4;
}

/// The end of a lap.
pub struct LapEnd {
    /// Position of it.
    pub at: u64,
    /// Where the next one begins.
    pub place: u32,
    /// The same, as a position.
    pub next: u64,
}

impl Program {
    /// The program of a ring of `all` bytes before the first frame.
    pub fn new(window: u64, all: u64, end_bytes: u64, step: u64) -> Program {
        Program { window, all, end_bytes, step, ..Program::default() }
    }

    /// As if it had come to `position`.
    pub fn starting_at(self, position: u64) -> Program {
        Program { head: position, run: position, ..self }
    }

    /// Where a record of `bytes` bytes goes; none if there is no room. If the lap ends before it,
    /// `write` gets the end of the lap, which is to be written and published.
    pub fn find_room(
        &mut self,
        needed: u64,
        tail: impl FnOnce() -> u64,
        write: impl FnOnce(LapEnd),
    ) -> Option<u64> {
        let (needed, here) = (needed + self.end_bytes, place(self.head));
        if here + needed <= self.limit {
            return Some(self.head);
        }
        let tail = tail();
        let read = place(tail);
        let is_run_read_to = tail.wrapping_sub(self.run).cast_signed() >= 0;
        let barrier = if is_run_read_to || self.ahead > 0 { read } else { self.floor };
        let limit = if barrier > here { barrier } else { self.all };
        if is_run_read_to {
            self.run = tail;
        }
        let is_same_lap = tail >> 32 == self.head >> 32;
        if is_same_lap && here - self.lap >= self.window && here - read <= self.window / 2 {
            let back = self.lap.max(read.saturating_sub(self.window));
            self.ahead = here + self.end_bytes;
            self.begin(Kind::Back, back, read, write);
            self.run = self.head;
            return Some(self.head);
        }
        if here + needed <= limit {
            let look = (here + needed + self.step).max(self.lap + self.window);
            self.limit = look.min(limit);
            return Some(self.head);
        }
        if self.ahead > 0 && !is_run_read_to {
            let floor = self.lap;
            let (kind, ahead, limit) = match self.ahead + needed <= self.all {
                true => (Kind::Ahead, self.ahead, self.all),
                false => (Kind::AheadAtStart, 0, floor),
            };
            if ahead + needed > limit {
                return None;
            }
            (self.floor, self.ahead) = (floor, 0);
            self.begin(kind, ahead, limit, write);
            self.run = self.head;
            return Some(self.head);
        }
        if limit != self.all || needed > barrier {
            return None;
        }
        self.begin(Kind::Round, 0, barrier, write);
        Some(self.head)
    }

    fn begin(&mut self, kind: Kind, place: u64, limit: u64, write: impl FnOnce(LapEnd)) {
        let next = (self.head >> 32).wrapping_add(1) << 32 | place;
        write(LapEnd { at: self.head, place: place as u32, next });
        (self.head, self.lap) = (next, place);
        self.limit = limit.min(place + self.window);
        self.begun[kind as usize] += 1;
    }
}

fn place(position: u64) -> u64 {
    position & u64::from(u32::MAX)
}
