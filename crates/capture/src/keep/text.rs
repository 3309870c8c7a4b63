//! Is a payload text? (Uceda et al., "Selective capping of packet payloads at multi-Gb/s rates",
//! 2015: by the share of printable bytes, and by runs of them.)

/// Bytes of a payload that are looked at: the head of a message says what it is, and the look
/// costs no more than the copy.
const LOOK_BYTES: usize = 256;

/// This number of printable bytes in a row is text, whatever surrounds it. 38 % of all bytes are
/// printable: 256 random ones have 24 in a row once in seventy million times, and 16 once in thirty
/// thousand, which is too often.
const RUN_BYTES: usize = 24;

/// Or this share of them anywhere, in per cent.
const SHARE_PERCENT: usize = 75;

/// True if there is text in the first bytes. An empty payload is none.
pub(super) fn is_text(payload: &[u8]) -> bool {
    let head = &payload[..payload.len().min(LOOK_BYTES)];
    let (mut printable, mut run) = (0usize, 0usize);
    for &byte in head {
        match is_printable(byte) {
            true => {
                printable += 1;
                run += 1;
                if run == RUN_BYTES {
                    return true;
                }
            }
            false => run = 0,
        }
    }
    printable > 0 && printable * 100 >= head.len() * SHARE_PERCENT
}

/// ASCII that people read: from the blank to `~`, tab and the ends of lines.
fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_what_is_none() {
        let head = &[b"Host: www.example.com\r\n\r\n".as_slice(), &[0xee; 99]].concat();
        let short = &[b"Host: example.com\r\n\r\n".as_slice(), &[0xee; 99]].concat();
        let cases: [(&[u8], bool); 10] = [
            (b"", false),
            (b"a", true),
            (b"\x00", false),
            (b"HELO x\r\n", true),
            (b"ab\x00\x01", false),
            (b"abc\x00", true),
            (head, true),
            (short, false),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false),
            ("Привет, мир".as_bytes(), false),
        ];
        for (payload, expected) in cases {
            assert_eq!(is_text(payload), expected, "{payload:?}");
        }
        let late = [vec![0; LOOK_BYTES], vec![b'a'; 100]].concat();
        assert!(!is_text(&late), "what is behind the look does not count");
    }

    #[test]
    fn random_bytes_are_no_text() {
        let mut state = 1u64;
        for _ in 0..2_000 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            let payload: Vec<u8> = (0..300).map(|_| next()).collect();
            assert!(!is_text(&payload));
        }
    }
}
