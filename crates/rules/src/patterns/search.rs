//! One pattern, looked for by itself.

use super::Seam;
use crate::language::PayloadPattern;
use crate::language::limits::PATTERN_BYTES_MAX;
use memchr::memmem::Finder;

/// Bytes whose case is taken away at a time: the longest pattern several times, so that little is
/// looked at twice, and small enough for the stack.
const WINDOW_BYTES: usize = 4 * PATTERN_BYTES_MAX;

/// Where a pattern across a border lies, if it is as short as most are: to take the case of so few
/// bytes away costs little.
const SEAM_BYTES: usize = 128;

/// A pattern that is ready to be looked for, in linear time.
#[derive(Debug)]
pub(crate) struct Search {
    finder: Finder<'static>,
    ignore_case: bool,
    at: Option<usize>,
}

impl Search {
    pub(crate) fn new(pattern: &PayloadPattern) -> Search {
        let finder = Finder::new(&pattern.bytes).into_owned();
        // An offset that is no index lies behind every payload.
        let at = pattern.at.map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        Search { finder, ignore_case: pattern.ignore_case, at }
    }

    /// True if the pattern is in `payload`, at its place if it has one.
    pub(crate) fn finds(&self, payload: &[u8]) -> bool {
        let needle = self.finder.needle();
        match self.at {
            Some(at) => {
                let here = payload.get(at..).and_then(|rest| rest.get(..needle.len()));
                here.is_some_and(|here| match self.ignore_case {
                    true => here.eq_ignore_ascii_case(needle),
                    false => here == needle,
                })
            }
            None if self.ignore_case => self.finds_folded::<WINDOW_BYTES>(payload),
            None => self.finder.find(payload).is_some(),
        }
    }

    /// True if the pattern lies across the border between a flow and its next segment. One that has
    /// a place has it in a frame.
    pub(crate) fn finds_across(&self, seam: &Seam) -> bool {
        if self.at.is_some() || seam.is_empty() {
            return false;
        }
        let around = seam.around(self.finder.needle().len());
        match self.ignore_case {
            true if around.len() <= SEAM_BYTES => self.finds_folded::<SEAM_BYTES>(around),
            true => self.finds_folded::<WINDOW_BYTES>(around),
            false => self.finder.find(around).is_some(),
        }
    }

    /// Looks through copies in lower case, each overlapping the one before by less than the
    /// pattern. The parser keeps patterns far below a window; a longer one is never found.
    fn finds_folded<const BYTES: usize>(&self, payload: &[u8]) -> bool {
        let mut window = [0; BYTES];
        let overlap = self.finder.needle().len().saturating_sub(1);
        let step = BYTES.saturating_sub(overlap).max(1);
        let mut rest = payload;
        loop {
            let here = rest.get(..BYTES).unwrap_or(rest);
            let Some(folded) = window.get_mut(..here.len()) else { return false };
            folded.copy_from_slice(here);
            folded.make_ascii_lowercase();
            if self.finder.find(folded).is_some() {
                return true;
            }
            if here.len() == rest.len() {
                return false;
            }
            rest = rest.get(step..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_search_finds_what_lies_across_windows() {
        for needle_bytes in [1, 2, 7, PATTERN_BYTES_MAX] {
            let needle = vec![b'x'; needle_bytes];
            let pattern = PayloadPattern { bytes: needle.into(), ignore_case: true, at: None };
            let search = Search::new(&pattern);
            let length = 3 * WINDOW_BYTES + 5;
            for at in (0..=length - needle_bytes).step_by(61).chain([length - needle_bytes]) {
                let mut payload = vec![b'.'; length];
                payload[at..at + needle_bytes].fill(b'X');
                assert!(search.finds(&payload), "{needle_bytes} at {at}");
                payload[at + needle_bytes / 2] = b'y';
                assert!(!search.finds(&payload), "{needle_bytes} at {at}");
            }
            assert!(!search.finds(b""));
        }
    }
}
