//! IEEE 802.11: headers with `-e`, what manages and controls a network always.

use crate::application::names::{escaped, until_zero};
use crate::cursor::{Cursor, Stop};
use crate::{Line, put};
use ringside_wire::{Ieee80211, LayerKind, Radiotap, WlanKind};
use std::fmt::Write;

/// As it stands in the mark of a frame that is cut.
const NAME: &str = "802.11";
/// Bits of the field of capabilities.
const ESS: u16 = 0x01;
const PRIVACY: u16 = 0x10;
/// Rates and bytes of a name that an element has at most.
const RATES_MAX: usize = 16;
const NAME_MAX: usize = 32;

/// What the elements of a frame say, the first of each kind.
#[derive(Default)]
struct Elements<'a> {
    name: Option<&'a [u8]>,
    rates: &'a [u8],
    channel: Option<u8>,
}

impl Line<'_> {
    /// The view of the header at `index`: the radio before it knows of padding.
    pub(crate) fn wlan_at<'b>(&self, index: usize, here: &'b [u8]) -> Option<Ieee80211<'b>> {
        let radio = self.before(index).filter(|layer| layer.kind == LayerKind::Radiotap);
        let bytes = radio.and_then(|layer| self.frame.bytes.get(layer.start()..));
        let radio = bytes.and_then(|bytes| Radiotap::new(bytes).ok());
        Ieee80211::new(here, radio.is_some_and(|radio| radio.has_padding())).ok()
    }

    pub(crate) fn wlan(&mut self, index: usize, here: &[u8]) {
        let Some(wlan) = self.wlan_at(index, here) else { return };
        if !wlan.is_known() {
            return;
        }
        if self.options.link_header {
            self.wlan_header(&wlan);
        }
        let body = Cursor::new(wlan.payload());
        let done = match wlan.kind() {
            WlanKind::Management => self.management(&wlan, body),
            WlanKind::Control => self.control_frame(&wlan),
            WlanKind::Data if wlan.has_data() && wlan.is_protected() => {
                self.out.push_str("Data");
                self.encryption(body)
            }
            _ => Ok(()),
        };
        if let Err(stop) = done {
            stop.mark(self.out, NAME);
        }
    }

    /// A kind or number of a frame whose header is not known.
    pub(crate) fn unknown_wlan(&mut self, here: &[u8], subtype: u16) {
        let kind = Ieee80211::new(here, false).map(|wlan| wlan.kind());
        if let Ok(WlanKind::Control) = kind {
            put!(self, "unknown 802.11 ctrl frame subtype ({subtype})");
        } else {
            self.out.push_str("unknown 802.11 frame type (3)");
        }
    }

    fn wlan_header(&mut self, wlan: &Ieee80211<'_>) {
        if self.options.verbosity > 0 {
            let flags = [
                (wlan.has_more_data(), "More Data "),
                (wlan.has_more_fragments(), "More Fragments "),
                (wlan.saves_power(), "Pwr Mgmt "),
                (wlan.is_retry(), "Retry "),
                (wlan.is_ordered(), "Strictly Ordered "),
                (wlan.is_protected(), "Protected "),
            ];
            flags.iter().filter(|flag| flag.0).for_each(|(_, name)| self.out.push_str(name));
            // A station that wakes up has its number there.
            if (wlan.kind(), wlan.subtype()) != (WlanKind::Control, 10) {
                put!(self, "{}us ", wlan.duration());
            }
        }
        match wlan.kind() {
            WlanKind::Management => {
                let names = [("BSSID", 16), ("DA", 4), ("SA", 10)];
                self.addresses(wlan, &names);
            }
            WlanKind::Control => self.control_header(wlan),
            WlanKind::Data => self.data_header(wlan),
            WlanKind::Extension => {}
        }
    }

    fn addresses(&mut self, wlan: &Ieee80211<'_>, names: &[(&str, usize)]) {
        for (name, at) in names {
            put!(self, "{name}:{} ", wlan.address(*at));
        }
    }

    fn control_header(&mut self, wlan: &Ieee80211<'_>) {
        match wlan.subtype() {
            8 => self.block_request(wlan),
            9 | 12 | 13 => self.addresses(wlan, &[("RA", 4)]),
            10 => self.addresses(wlan, &[("BSSID", 4), ("TA", 10)]),
            11 => self.addresses(wlan, &[("RA", 4), ("TA", 10)]),
            _ => self.addresses(wlan, &[("RA", 4), ("BSSID", 10)]),
        }
    }

    fn data_header(&mut self, wlan: &Ieee80211<'_>) {
        let (acknowledges, polls) = (wlan.subtype() & 1 != 0, wlan.subtype() & 2 != 0);
        if acknowledges || polls || wlan.has_quality() {
            let free = match (acknowledges, polls) {
                (true, true) => "Ack/Poll",
                (true, false) => "Ack",
                (false, true) => "Poll",
                (false, false) => "",
            };
            let quality = if wlan.has_quality() { "+QoS" } else { "" };
            put!(self, "CF {free}{quality} ");
        }
        let names: &[_] = match (wlan.to_distribution(), wlan.from_distribution()) {
            (false, false) => &[("DA", 4), ("SA", 10), ("BSSID", 16)],
            (false, true) => &[("DA", 4), ("BSSID", 10), ("SA", 16)],
            (true, false) => &[("BSSID", 4), ("SA", 10), ("DA", 16)],
            (true, true) => &[("RA", 4), ("TA", 10), ("DA", 16), ("SA", 24)],
        };
        self.addresses(wlan, names);
    }

    fn block_request(&mut self, wlan: &Ieee80211<'_>) {
        self.out.push(' ');
        self.addresses(wlan, &[("RA", 4), ("TA", 10)]);
        put!(self, "CTL({:x}) SEQ({}) ", wlan.word(16), wlan.word(18));
    }

    fn control_frame(&mut self, wlan: &Ieee80211<'_>) -> Result<(), Stop> {
        self.out.push_str(match wlan.subtype() {
            8 => "BAR",
            9 => "BA",
            10 => "Power Save-Poll",
            11 => "Request-To-Send",
            12 => "Clear-To-Send",
            13 => "Acknowledgment",
            14 => "CF-End",
            _ => "CF-End+CF-Ack",
        });
        match wlan.subtype() {
            10 => {
                put!(self, " AID({:x})", wlan.duration());
            }
            _ if self.options.link_header => {}
            8 => self.block_request(wlan),
            11 => {
                put!(self, " TA:{} ", wlan.address(10));
            }
            _ => {
                put!(self, " RA:{} ", wlan.address(4));
            }
        }
        Ok(())
    }

    fn management(&mut self, wlan: &Ieee80211<'_>, mut body: Cursor<'_>) -> Result<(), Stop> {
        let subtype = wlan.subtype();
        match management_name(subtype) {
            Some(name) => self.out.push_str(name),
            None => {
                put!(self, "Unhandled Management subtype({subtype:x})");
            }
        }
        if wlan.is_protected() {
            return self.encryption(body);
        }
        match subtype {
            0 => {
                body.take(4)?;
                self.elements(body, true, None)
            }
            1 | 3 => self.association_answer(body),
            2 => {
                body.take(4)?;
                let access_point = body.mac()?;
                let done = self.elements(body, false, None);
                put!(self, " AP : {access_point}");
                done
            }
            4 => self.elements(body, true, None),
            5 | 8 => {
                body.take(10)?;
                let capabilities = little_endian(&mut body)?;
                let service = if subtype == 8 { Some(capabilities & ESS != 0) } else { None };
                let done = self.elements(body, true, Some(service));
                if capabilities & PRIVACY != 0 {
                    self.out.push_str(", PRIVACY");
                }
                done
            }
            10 => {
                put!(self, ": {}", reason(little_endian(&mut body)?));
                Ok(())
            }
            11 => self.wlan_authentication(body),
            12 => {
                let reason = reason(little_endian(&mut body)?);
                self.sender(wlan);
                put!(self, "{reason}");
                Ok(())
            }
            13 => {
                let [category, action] = body.array()?;
                self.sender(wlan);
                self.action(category, action);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Who sent it, unless the header said so.
    fn sender(&mut self, wlan: &Ieee80211<'_>) {
        if !self.options.link_header {
            put!(self, " ({})", wlan.source());
        }
        self.out.push_str(": ");
    }

    /// Name, rates, and of beacons and answers to probes (`service`, with the kind of the network
    /// for a beacon) the channel.
    fn elements(
        &mut self,
        body: Cursor<'_>,
        has_rates: bool,
        service: Option<Option<bool>>,
    ) -> Result<(), Stop> {
        let (elements, done) = elements(body);
        if let Some(name) = elements.name {
            self.out.push_str(" (");
            escaped(self.out, until_zero(name));
            self.out.push(')');
        }
        if has_rates && !elements.rates.is_empty() {
            let mut before = " [";
            for rate in elements.rates {
                let basic = if rate & 0x80 != 0 { "*" } else { "" };
                put!(self, "{before}{:.1}{basic}", f64::from(rate & 0x7f) / 2.0);
                before = " ";
            }
            self.out.push_str(" Mbit]");
        }
        if let Some(Some(is_infrastructure)) = service {
            self.out.push_str(if is_infrastructure { " ESS" } else { " IBSS" });
        }
        if let (Some(_), Some(channel)) = (service, elements.channel) {
            put!(self, " CH: {channel}");
        }
        done
    }

    fn association_answer(&mut self, mut body: Cursor<'_>) -> Result<(), Stop> {
        let capabilities = little_endian(&mut body)?;
        let (status, identifier) = (little_endian(&mut body)?, little_endian(&mut body)?);
        let (_, done) = elements(body);
        let privacy = if capabilities & PRIVACY != 0 { " PRIVACY " } else { "" };
        put!(self, " AID({:x}) :{privacy}: {}", identifier & 0x3fff, self::status(status));
        done
    }

    fn wlan_authentication(&mut self, mut body: Cursor<'_>) -> Result<(), Stop> {
        let (algorithm, step) = (little_endian(&mut body)?, little_endian(&mut body)?);
        let status = status(little_endian(&mut body)?);
        let (_, done) = elements(body);
        let names = ["Open System", "Shared Key", "EAP"];
        let name = names.get(usize::from(algorithm)).unwrap_or(&"Reserved");
        let challenge = algorithm == 1 && matches!(step, 2 | 3);
        let challenge = if challenge { " [Challenge Text]" } else { ":" };
        // A request has none.
        let status = if step % 2 == 1 { status } else { String::new() };
        put!(self, " ({name})-{step:x}{challenge} {status}");
        done
    }

    fn action(&mut self, category: u8, action: u8) {
        let name = match (category, action) {
            (3, 0) => "BA ADDBA Request",
            (3, 1) => "BA ADDBA Response",
            (3, 2) => "BA DELBA",
            (7, 0) => "HT TxChWidth",
            (7, 1) => "HT MIMOPwrSave",
            _ => "",
        };
        if !name.is_empty() {
            self.out.push_str(name);
            return;
        }
        let category_name = match category {
            0 => "Spectrum Management",
            1 => "QoS",
            2 => "DLS",
            3 => "BA",
            7 => "HT",
            13 => "MeshAction",
            14 => "MultiohopAction",
            15 => "SelfprotectAction",
            127 => "Vendor",
            _ => {
                put!(self, "Reserved({category}) Act#{action}");
                return;
            }
        };
        put!(self, "{category_name} Act#{action}");
    }

    /// The start of an encrypted body, in the way of WEP.
    fn encryption(&mut self, mut body: Cursor<'_>) -> Result<(), Stop> {
        let word = u32::from_le_bytes(body.array()?);
        put!(
            self,
            " IV:{:3x} Pad {:x} KeyID {:x}",
            word & 0xff_ffff,
            word >> 24 & 0x3f,
            word >> 30
        );
        Ok(())
    }
}

fn little_endian(body: &mut Cursor<'_>) -> Result<u16, Stop> {
    body.array().map(u16::from_le_bytes)
}

/// The elements up to one that is cut or longer than it may be, and whether there is one.
fn elements(mut body: Cursor<'_>) -> (Elements<'_>, Result<(), Stop>) {
    let mut found = Elements::default();
    while !body.is_empty() {
        let next = body.u8().and_then(|kind| {
            let bytes = body.u8()?;
            Ok((kind, body.take(usize::from(bytes))?))
        });
        match next {
            Ok((0, name)) if name.len() > NAME_MAX => return (found, Err(Stop::Cut)),
            Ok((0, name)) => _ = found.name.get_or_insert(name),
            Ok((1, rates)) if rates.len() > RATES_MAX => return (found, Err(Stop::Cut)),
            Ok((1, rates)) if found.rates.is_empty() => found.rates = rates,
            Ok((3, &[channel])) => _ = found.channel.get_or_insert(channel),
            Ok(_) => {}
            Err(stop) => return (found, Err(stop)),
        }
    }
    (found, Ok(()))
}

fn management_name(subtype: u8) -> Option<&'static str> {
    Some(match subtype {
        0 => "Assoc Request",
        1 => "Assoc Response",
        2 => "ReAssoc Request",
        3 => "ReAssoc Response",
        4 => "Probe Request",
        5 => "Probe Response",
        8 => "Beacon",
        9 => "ATIM",
        10 => "Disassociation",
        11 => "Authentication",
        12 => "DeAuthentication",
        13 => "Action",
        _ => return None,
    })
}

/// Status codes, the frequent ones by name (IEEE 802.11, 9.4.1.9).
fn status(code: u16) -> String {
    match code {
        0 => "Successful".into(),
        1 => "Unspecified failure".into(),
        other => format!("status {other}"),
    }
}

/// Reason codes, the frequent ones by name (IEEE 802.11, 9.4.1.7).
fn reason(code: u16) -> String {
    match code {
        0 => "Reserved".into(),
        1 => "Unspecified reason".into(),
        2 => "Previous authentication no longer valid".into(),
        4 => "Disassociated due to inactivity".into(),
        6 => "Class 2 frame received from nonauthenticated STA".into(),
        7 => "Class 3 frame received from nonassociated STA".into(),
        15 => "4-Way Handshake timeout".into(),
        other => format!("reason {other}"),
    }
}
