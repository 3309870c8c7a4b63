//! Frames that an Initial packet may carry (RFC 9000 sections 17.2.2 and 19).

use super::{number, take};
use crate::outcome::Stop;

/// A frame that says something of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A piece of what TLS says.
    Crypto {
        /// Its place in all of it.
        offset: u64,
        /// The piece.
        bytes: &'a [u8],
    },
    /// The connection is over, with this error.
    Close {
        /// 0x100 and more are alerts of TLS.
        error: u64,
    },
}

/// The frames of a packet; what fills it up and what acknowledges others is passed over. Ends after
/// one that is malformed, or that no Initial packet may carry.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a>(&'a [u8]);

const PADDING: u64 = 0;
const PING: u64 = 1;
const ACK: u64 = 2;
const ACK_WITH_ECN: u64 = 3;
const CRYPTO: u64 = 6;
const CLOSE: u64 = 0x1c;

impl<'a> Frames<'a> {
    /// Of this payload.
    pub fn new(payload: &'a [u8]) -> Frames<'a> {
        Frames(payload)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Stop>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = core::mem::take(&mut self.0);
        while !rest.is_empty() {
            match read(&mut rest) {
                Ok(None) => {}
                Ok(Some(frame)) => {
                    self.0 = rest;
                    return Some(Ok(frame));
                }
                // The packet is whole: nothing of it is to come.
                Err(_) => return Some(Err(Stop::Malformed)),
            }
        }
        None
    }
}

fn read<'a>(rest: &mut &'a [u8]) -> Result<Option<Frame<'a>>, Stop> {
    match number(rest)? {
        PADDING | PING => Ok(None),
        kind @ (ACK | ACK_WITH_ECN) => acknowledgment(rest, kind == ACK_WITH_ECN).map(|()| None),
        CRYPTO => {
            let offset = number(rest)?;
            let bytes = number(rest)?;
            Ok(Some(Frame::Crypto { offset, bytes: take(rest, bytes)? }))
        }
        CLOSE => {
            let error = number(rest)?;
            number(rest)?; // type of the frame that it is about
            let reason = number(rest)?;
            take(rest, reason)?;
            Ok(Some(Frame::Close { error }))
        }
        _ => Err(Stop::Malformed),
    }
}

/// Passes over the largest number, the delay, and ranges; each takes bytes, so that they end.
fn acknowledgment(rest: &mut &[u8], has_ecn: bool) -> Result<(), Stop> {
    number(rest)?;
    number(rest)?;
    let ranges = number(rest)?;
    number(rest)?;
    for _ in 0..ranges {
        number(rest)?;
        number(rest)?;
    }
    for _ in 0..if has_ecn { 3 } else { 0 } {
        number(rest)?;
    }
    Ok(())
}
