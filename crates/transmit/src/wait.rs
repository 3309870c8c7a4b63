//! Waits for room, none of which is without an end.

use crate::Error;
use ringside_core::SinkCounters;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a wait for room may see nothing move at all. A link that takes anything gives room
/// within milliseconds; one that is down never does.
pub(crate) const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Longest sleep, so that the end is seen soon.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(50);

/// How long what is in flight at the end may take.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

/// When a stream is to end, whatever it waits for.
#[derive(Clone, Default)]
pub(crate) struct Until(Option<Rc<dyn Fn() -> bool>>);

impl Until {
    pub fn when(is_over: impl Fn() -> bool + 'static) -> Until {
        Until(Some(Rc::new(is_over)))
    }

    pub fn has_come(&self) -> bool {
        self.0.as_ref().is_some_and(|is_over| is_over())
    }
}

/// One wait for room.
#[derive(Default)]
pub(crate) struct Patience {
    /// Frames of which it was known then what became of them, and when that was.
    last: Option<(u64, Instant)>,
}

impl Patience {
    /// Gives others the CPU, and says whether to try again; false if the end has come.
    ///
    /// # Errors
    /// Nothing moved for [`ROOM_WAIT`].
    pub fn goes_on(
        &mut self,
        until: &Until,
        counters: &SinkCounters,
        interface: &str,
    ) -> Result<bool, Error> {
        if until.has_come() {
            return Ok(false);
        }
        let settled = counters.accepted + counters.refused_total();
        match self.last {
            Some((before, since)) if before == settled => {
                if since.elapsed() >= ROOM_WAIT {
                    let interface = interface.to_owned();
                    return Err(Error::NoRoom { interface, waited: ROOM_WAIT });
                }
            }
            _ => self.last = Some((settled, Instant::now())),
        }
        std::thread::yield_now();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_wait_ends_by_its_end_or_when_nothing_moves() {
        let (over, mut patience) = (Rc::new(Cell::new(false)), Patience::default());
        let asked = Rc::clone(&over);
        let until = Until::when(move || asked.get());
        let mut counters = SinkCounters::default();
        // What moves is waited for, however long: each time the clock begins anew.
        for _ in 0..3 {
            counters.accepted += 1;
            assert!(patience.goes_on(&until, &counters, "x0").unwrap());
            patience.last = patience.last.map(|(n, at)| (n, at.checked_sub(ROOM_WAIT).unwrap()));
        }
        let refused = patience.goes_on(&until, &counters, "x0").unwrap_err().to_string();
        assert!(refused.contains("x0 had no room for 1s"), "{refused}");
        over.set(true);
        assert!(!patience.goes_on(&until, &counters, "x0").unwrap());
    }
}
