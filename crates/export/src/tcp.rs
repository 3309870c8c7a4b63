//! Messages over TCP: connections that come and go, and what is kept meanwhile.
//!
//! Messages are delivered when the other host has acknowledged them; until then they are here. A
//! connection that breaks costs no message: those that were not acknowledged are sent again, whole,
//! on the next, behind its templates and with its sequence numbers.
//!
//! Order: what is in `outgoing` is older than what the spool has unread, and that is older than
//! what the desk has. Once anything is in the spool, everything undelivered is.

mod dial;
mod link;

use crate::desk::{BATCH_BYTES, Desk};
use crate::message::Message;
use crate::spool::Spool;
use crate::status::State;
pub(crate) use dial::Dialer;
use link::Link;
use ringside_flow::RecordSums;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes of messages in memory, in addition to the desk's queue: as much as a connection may
/// have under way.
const OUTGOING_BYTES: usize = 1 << 20;

/// How often is looked what was acknowledged, while something is not; the kernel does not wake for
/// it. At the end something waits for it.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_AT_END: Duration = Duration::from_millis(1);

/// Longest sleep otherwise.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// A message that is to be delivered, or is not acknowledged yet.
struct Outgoing {
    message: Message,
    templates: Arc<[u8]>,
    /// It is in the spool too, where it stays until it is delivered.
    is_spooled: bool,
    /// Where it ends in what was given to the connection.
    end: u64,
}

pub(crate) struct Sender {
    desk: Arc<Desk>,
    templates: Arc<[u8]>,
    dialer: Dialer,
    link: Option<Link>,
    /// No connection, and the last try to make one was vain.
    is_away: bool,
    outgoing: VecDeque<Outgoing>,
    outgoing_bytes: usize,
    /// Most of that: [`OUTGOING_BYTES`], or what a spool surely has room for.
    outgoing_bytes_max: usize,
    /// How many of them, from the first on, were given to the connection.
    given: usize,
    spool: Option<Spool>,
}

impl Sender {
    pub fn new(
        desk: Arc<Desk>,
        templates: Arc<[u8]>,
        dialer: Dialer,
        spool: Option<Spool>,
    ) -> Sender {
        let of_spool = spool.as_ref().map_or(u64::MAX, |spool| spool.bytes_max() / 4);
        let of_spool = usize::try_from(of_spool).unwrap_or(usize::MAX);
        Sender {
            desk,
            templates,
            dialer,
            link: None,
            is_away: false,
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            outgoing_bytes_max: OUTGOING_BYTES.min(of_spool),
            given: 0,
            spool,
        }
    }

    /// Delivers what comes, until the desk is closed and nothing is left, or the time is over.
    pub fn run(mut self) {
        let mut closing = None;
        loop {
            let (taken, closes) = self.take_in();
            if closing.is_none() && closes.is_some() {
                closing = closes;
                // One more try is made at once, and the spool needs no second one.
                self.dialer.soon();
                self.is_away = false;
            }
            let moved = self.connect().and_then(|()| self.move_on()).unwrap_or_else(|error| {
                self.break_off(&error);
                true
            });
            self.publish();
            if closing.is_some_and(|deadline| self.is_over(deadline)) {
                break;
            }
            if !taken && !moved {
                self.sleep(closing);
            }
        }
        self.end();
    }

    /// True if the desk's messages may be taken: else they wait there.
    fn may_take(&self) -> bool {
        let has_room = self.outgoing_bytes < self.outgoing_bytes_max;
        // With a spool there is room always, but a meter that can wait needs none of its own.
        let is_held_back = self.desk.waits_for_room && self.link.is_some();
        has_room || (self.spool.is_some() && !is_held_back)
    }

    /// Takes messages from the desk; false if there were none.
    fn take_in(&mut self) -> (bool, Option<Instant>) {
        let (batch, closes) = self.desk.take(if self.may_take() { BATCH_BYTES } else { 0 });
        let taken = !batch.is_empty();
        for message in batch {
            let is_spooling = self.spool.as_ref().is_some_and(|spool| {
                self.is_away || !spool.is_empty() || self.outgoing_bytes >= self.outgoing_bytes_max
            });
            if is_spooling {
                self.spill();
                self.append(&message, false);
            } else {
                let templates = Arc::clone(&self.templates);
                self.push(message, templates, false);
            }
        }
        (taken, closes)
    }

    fn push(&mut self, message: Message, templates: Arc<[u8]>, is_spooled: bool) {
        self.outgoing_bytes += message.cost();
        self.outgoing.push_back(Outgoing { message, templates, is_spooled, end: 0 });
    }

    /// What is in memory alone goes to the spool, which is empty if there is any.
    fn spill(&mut self) {
        if self.outgoing.iter().all(|one| one.is_spooled) {
            return;
        }
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let mut given = self.given;
        let mut index = 0;
        outgoing.retain_mut(|one| {
            let is_kept = one.is_spooled || self.append(&one.message, true);
            one.is_spooled = true;
            if !is_kept {
                self.outgoing_bytes -= one.message.cost();
                given -= usize::from(index < self.given);
            }
            index += 1;
            is_kept
        });
        (self.outgoing, self.given) = (outgoing, given);
    }

    /// Adds a message to the spool; false if it is lost. One that `is_outgoing` is in memory too.
    fn append(&mut self, message: &Message, is_outgoing: bool) -> bool {
        let Some(spool) = &mut self.spool else { return false };
        let outcome = spool.append(message);
        if is_outgoing {
            spool.all_on_their_way();
        }
        let held = message.held;
        self.desk.change(|status| {
            let counts = &mut status.counts;
            counts.waiting -= held;
            match &outcome {
                Ok(appended) => {
                    counts.spooled -= appended.dropped;
                    counts.spool_full += appended.dropped;
                    let to = match appended.is_kept {
                        true => &mut counts.spooled,
                        false => &mut counts.spool_full,
                    };
                    *to += held;
                }
                Err(error) => {
                    counts.write_failed += held;
                    status.spool_error = Some(error.to_string());
                }
            }
        });
        outcome.is_ok_and(|appended| appended.is_kept)
    }

    /// Makes a connection, if there is none and it is time for it.
    fn connect(&mut self) -> io::Result<()> {
        if self.link.is_some() {
            return Ok(());
        }
        let Some(outcome) = self.dialer.poll(Instant::now()) else { return Ok(()) };
        let link = outcome.and_then(Link::new)?;
        self.link = Some(link);
        self.is_away = false;
        self.desk.change(|status| {
            status.state = State::Open;
            status.connections += 1;
        });
        Ok(())
    }

    /// Sends, and counts what was acknowledged; true if there may be more to do at once.
    fn move_on(&mut self) -> io::Result<bool> {
        self.refill();
        let Some(link) = &mut self.link else { return Ok(false) };
        while let Some(next) = self.outgoing.get_mut(self.given)
            && link.has_room()
        {
            if !link.is_of(&next.templates) {
                if self.given == 0 {
                    // Everything before was delivered: the other templates need a session anew.
                    link.close();
                    self.link = None;
                    self.dialer.soon();
                    return Ok(true);
                }
                break;
            }
            next.end = link.put(&next.message, &next.templates);
            self.given += 1;
        }
        link.write()?;
        link.look()?;
        Ok(self.count_acknowledged())
    }

    /// Reads from the spool what there is room for.
    fn refill(&mut self) {
        while self.link.is_some() && self.outgoing_bytes < self.outgoing_bytes_max {
            let Some(spool) = &mut self.spool else { return };
            match spool.next() {
                Ok(Some(spooled)) => self.push(spooled.message, spooled.templates, true),
                Ok(None) => return,
                Err(error) => {
                    let lost = spool.give_up_unread();
                    self.desk.change(|status| {
                        status.counts.spooled -= lost;
                        status.counts.write_failed += lost;
                        status.spool_error = Some(error.to_string());
                    });
                    if lost == RecordSums::default() {
                        return;
                    }
                }
            }
        }
    }

    /// True if anything was acknowledged.
    fn count_acknowledged(&mut self) -> bool {
        let Some(link) = &mut self.link else { return false };
        let acknowledged = link.acknowledged();
        let (mut of_memory, mut of_spool) = (RecordSums::default(), RecordSums::default());
        let mut messages = 0;
        while self.given > 0
            && let Some(first) = self.outgoing.pop_front_if(|one| one.end <= acknowledged)
        {
            self.given -= 1;
            self.outgoing_bytes -= first.message.cost();
            messages += 1;
            match (first.is_spooled, &mut self.spool) {
                (true, Some(spool)) => {
                    of_spool += first.message.held;
                    spool.delivered(&first.message);
                }
                _ => of_memory += first.message.held,
            }
        }
        if messages == 0 {
            return false;
        }
        self.dialer.worked();
        if let Some(spool) = &self.spool {
            spool.note();
        }
        self.desk.change(|status| {
            let counts = &mut status.counts;
            counts.waiting -= of_memory;
            counts.spooled -= of_spool;
            counts.delivered += of_memory;
            counts.delivered += of_spool;
            status.messages += messages;
        });
        true
    }

    /// The connection broke, or none could be made: what was not acknowledged waits for another.
    fn break_off(&mut self, error: &io::Error) {
        // Acknowledgements that came before the end count.
        self.count_acknowledged();
        let given = self.outgoing.iter().take(std::mem::take(&mut self.given));
        let written = self.link.take().map(|link| link.written());
        // Of some the connection had at least a part; others had not begun.
        let begun = |one: &Outgoing| one.end - one.message.bytes.len() as u64;
        let again = given.filter(|one| written.is_some_and(|to| begun(one) < to)).count() as u64;
        self.is_away = written.is_none();
        if self.is_away && self.spool.is_some() {
            self.spill();
            self.outgoing.clear();
            self.outgoing_bytes = 0;
            self.spool.iter_mut().for_each(Spool::rewind);
        }
        let is_away = self.is_away;
        self.desk.change(|status| {
            status.error = Some(error.to_string());
            status.sent_again += again;
            status.state = if is_away { State::Away } else { State::Connecting };
        });
    }

    fn publish(&self) {
        if let Some(spool) = &self.spool {
            let bytes = spool.bytes();
            self.desk.change(|status| status.spool_bytes = bytes);
        }
    }

    /// After the desk was closed: true if nothing more can or need be done.
    fn is_over(&self, deadline: Instant) -> bool {
        let is_empty = self.outgoing.is_empty()
            && self.spool.as_ref().is_none_or(Spool::is_empty)
            && !self.desk.has_news(true, true);
        let is_kept = self.is_away && self.spool.is_some();
        is_empty || is_kept || Instant::now() >= deadline
    }

    fn sleep(&self, closing: Option<Instant>) {
        let bell = &self.desk.bell;
        bell.listen();
        let has_news = self.desk.has_news(self.may_take(), closing.is_some());
        if !has_news && !self.dialer.has_result() {
            let mut wait = SLEEP_MAX;
            if self.given > 0 {
                wait = if closing.is_some() { LOOK_AT_END } else { LOOK };
            }
            let now = Instant::now();
            let ends = [closing, self.dialer.due().filter(|_| self.link.is_none())];
            for end in ends.into_iter().flatten() {
                wait = wait.min(end.saturating_duration_since(now));
            }
            self.poll(wait);
        }
        bell.stop_listening();
    }

    /// Sleeps until the bell rings, the connection wants something, or the time is over.
    fn poll(&self, wait: Duration) {
        let timeout = Timespec {
            // Rounded up: a sleep that ends too early would be followed by others.
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut fds = vec![PollFd::new(&self.desk.bell, PollFlags::IN)];
        if let Some(link) = &self.link {
            let writes = if link.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(link.stream(), PollFlags::IN | writes));
        }
        // An interrupted sleep is a short one.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// What was not delivered stays in the spool, or is lost.
    fn end(mut self) {
        if let Some(link) = &mut self.link {
            link.close();
        }
        if self.spool.is_some() {
            self.spill();
            // Those that came after the last look.
            while let (batch, _) = self.desk.take(BATCH_BYTES)
                && !batch.is_empty()
            {
                for message in &batch {
                    self.append(message, false);
                }
            }
        }
        if let Some(spool) = &mut self.spool {
            spool.note();
            if let Err(error) = spool.sync() {
                self.desk.change(|status| status.spool_error = Some(error.to_string()));
            }
        }
        self.publish();
    }
}
