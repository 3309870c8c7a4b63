//! SDP (RFC 8866): where a session's media go, and in which codecs.

use core::net::IpAddr;

/// Lines that are looked at: offers of browsers have some hundred.
const LINES_MAX: usize = 1_000;

/// A description of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdp<'a> {
    bytes: &'a [u8],
}

/// One medium of a session, from its `m=` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media<'a> {
    /// `audio`, `video`, `image`.
    pub kind: &'a [u8],
    /// Where it is to be sent; 0 refuses it.
    pub port: u16,
    /// Transport, as `RTP/AVP`.
    pub transport: &'a [u8],
    /// Address where it is to be sent, of its own `c=` or the session's; `None` for a name.
    pub address: Option<IpAddr>,
    formats: &'a [u8],
    lines: Lines<'a>,
}

/// What `a=rtpmap` says of a payload type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding<'a> {
    /// Name, as `PCMU`. Its case means nothing.
    pub name: &'a [u8],
    /// Units of the timestamp in a second.
    pub clock_rate: u32,
}

impl<'a> Sdp<'a> {
    /// Reads a body. `None` if it does not begin as a description.
    pub fn new(bytes: &'a [u8]) -> Option<Sdp<'a>> {
        bytes.starts_with(b"v=").then_some(Sdp { bytes })
    }

    /// The media, in order.
    pub fn media(self) -> impl Iterator<Item = Media<'a>> + use<'a> {
        let mut lines = Lines::new(self.bytes);
        let mut session = None;
        core::iter::from_fn(move || {
            loop {
                let (kind, value) = lines.next()?;
                match kind {
                    b'c' => session = address(value),
                    b'm' => match media(value, session, &mut lines) {
                        Some(found) => return Some(found),
                        None => continue,
                    },
                    _ => {}
                }
            }
        })
    }
}

/// Takes the lines that belong to a medium.
fn media<'a>(value: &'a [u8], session: Option<IpAddr>, lines: &mut Lines<'a>) -> Option<Media<'a>> {
    let own = *lines;
    let mut found = session;
    while let Some((kind, value)) = lines.peek() {
        if kind == b'm' {
            break;
        }
        if kind == b'c' {
            found = address(value);
        }
        lines.next();
    }
    let mut words = value.splitn(4, |&byte| byte == b' ');
    let (kind, port, transport) = (words.next()?, words.next()?, words.next()?);
    let port = port.split(|&byte| byte == b'/').next()?;
    Some(Media {
        kind,
        port: core::str::from_utf8(port).ok()?.parse().ok()?,
        transport,
        address: found,
        formats: words.next().unwrap_or_default(),
        lines: own,
    })
}

/// The address in a `c=`.
fn address(value: &[u8]) -> Option<IpAddr> {
    let mut words = value.split(|&byte| byte == b' ');
    if words.next()? != b"IN" {
        return None;
    }
    let _version = words.next()?;
    let address = words.next()?.split(|&byte| byte == b'/').next()?;
    core::str::from_utf8(address).ok()?.parse().ok()
}

impl<'a> Media<'a> {
    /// True if the transport is RTP, in whatever profile.
    pub fn is_rtp(&self) -> bool {
        self.transport.windows(4).any(|part| part == b"RTP/")
    }

    /// Payload types, as the sender of the description prefers them.
    pub fn payload_types(&self) -> impl Iterator<Item = u8> + use<'a> {
        let words = self.formats.split(|&byte| byte == b' ');
        let parsed = words.filter_map(|word| core::str::from_utf8(word).ok()?.parse().ok());
        parsed.filter(|&kind: &u8| kind < 128)
    }

    /// What `a=rtpmap` says of a payload type.
    pub fn encoding(&self, payload_type: u8) -> Option<Encoding<'a>> {
        self.attributes(b"rtpmap:").find_map(|value| {
            let mut words = value.splitn(2, |&byte| byte == b' ');
            let number: u8 = core::str::from_utf8(words.next()?).ok()?.parse().ok()?;
            let mut parts = words.next()?.split(|&byte| byte == b'/');
            let (name, rate) = (parts.next()?.trim_ascii(), parts.next()?.trim_ascii());
            let clock_rate = core::str::from_utf8(rate).ok()?.parse().ok()?;
            (number == payload_type && !name.is_empty()).then_some(Encoding { name, clock_rate })
        })
    }

    /// Where RTCP goes: by `a=rtcp` (RFC 3605), or to the same port with `a=rtcp-mux`, or to the
    /// next one.
    pub fn rtcp(&self) -> (Option<IpAddr>, u16) {
        let own = self.attributes(b"rtcp:").find_map(|value| {
            let mut words = value.splitn(2, |&byte| byte == b' ');
            let port = core::str::from_utf8(words.next()?).ok()?.parse().ok()?;
            Some((words.next().map_or(self.address, address), port))
        });
        let is_mux = self.attributes(b"rtcp-mux").next().is_some();
        own.unwrap_or((self.address, if is_mux { self.port } else { self.port.saturating_add(1) }))
    }

    /// What follows `name` in each attribute that begins so.
    fn attributes(&self, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let own = self.lines.take_while(|&(kind, _)| kind != b'm');
        own.filter_map(move |(kind, value)| (kind == b'a').then(|| value.strip_prefix(name))?)
    }
}

/// Lines: a letter, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lines<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Lines<'a> {
    fn new(rest: &'a [u8]) -> Lines<'a> {
        Lines { rest, left: LINES_MAX }
    }

    fn peek(&self) -> Option<(u8, &'a [u8])> {
        let mut ahead = *self;
        ahead.next()
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        loop {
            self.left = self.left.checked_sub(1)?;
            if self.rest.is_empty() {
                return None;
            }
            let end = self.rest.iter().position(|&byte| byte == b'\n');
            let line = self.rest.get(..end.unwrap_or(self.rest.len()))?;
            self.rest = self.rest.get(end.map_or(self.rest.len(), |end| end + 1)..)?;
            if let [kind, b'=', value @ ..] = line {
                return Some((*kind, value.trim_ascii_end()));
            }
        }
    }
}
