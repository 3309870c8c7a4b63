//! Wrong tokens by address: who tries many is left out for a while.

use crate::limits::{GUESSERS_MAX, WRONG_TOKENS_MAX, WRONG_TOKENS_TIME};
use crate::places::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The addresses that lately sent wrong tokens.
#[derive(Debug, Default)]
pub struct Guesses(Mutex<HashMap<IpAddr, Guesser>>);

#[derive(Debug)]
struct Guesser {
    wrong: u32,
    /// When it is forgotten.
    until: Instant,
}

impl Guesses {
    /// For how long `address` is left out, if it is.
    pub fn left_out(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let guessers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let guesser = guessers.get(&network(address))?;
        let time = guesser.until.saturating_duration_since(now);
        (guesser.wrong >= WRONG_TOKENS_MAX && !time.is_zero()).then_some(time)
    }

    /// Notes a wrong token. Where there is no room, the address is forgotten whose time is over
    /// first.
    pub fn note(&self, address: IpAddr, now: Instant) {
        let mut guessers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        guessers.retain(|_, guesser| guesser.until > now);
        let address = network(address);
        if guessers.len() >= GUESSERS_MAX && !guessers.contains_key(&address) {
            let first = guessers.iter().min_by_key(|(_, guesser)| guesser.until);
            if let Some(first) = first.map(|(address, _)| *address) {
                guessers.remove(&first);
            }
        }
        let until = now + WRONG_TOKENS_TIME;
        let guesser = guessers.entry(address).or_insert(Guesser { wrong: 0, until });
        guesser.wrong += 1;
        if guesser.wrong == WRONG_TOKENS_MAX {
            guesser.until = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_wrong_tokens_leave_an_address_out_for_a_while() {
        let (guesses, begin) = (Guesses::default(), Instant::now());
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let second = Duration::from_secs(1);
        for number in 0..WRONG_TOKENS_MAX {
            assert_eq!(guesses.left_out(one, begin + second * number), None);
            guesses.note(one, begin + second * number);
        }
        let last = begin + second * (WRONG_TOKENS_MAX - 1);
        assert_eq!(guesses.left_out(one, last), Some(WRONG_TOKENS_TIME));
        assert_eq!(guesses.left_out(other, last), None);
        assert_eq!(guesses.left_out(one, last + WRONG_TOKENS_TIME), None);
        // One at a time, slowly, is a page whose token was taken back.
        guesses.note(one, last + WRONG_TOKENS_TIME);
        assert_eq!(guesses.left_out(one, last + WRONG_TOKENS_TIME), None);
    }

    #[test]
    fn the_table_is_bounded() {
        let (guesses, begin) = (Guesses::default(), Instant::now());
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..2 * GUESSERS_MAX as u32 {
            guesses.note(address(number), begin + Duration::from_millis(number.into()));
        }
        let guessers = guesses.0.lock().unwrap();
        assert_eq!(guessers.len(), GUESSERS_MAX);
        assert!(guessers.contains_key(&address(2 * GUESSERS_MAX as u32 - 1)));
    }
}
