//! IP addresses, prefixes and ranges as text.

use super::address_set::{Address, AddressSet, AddressSpan};
use super::error::{Fault, Outcome, RuleErrors, quoted};
use super::limits::SET_ENTRIES_MAX;
use super::lines::each_line;
use super::ranges::{Ranges, Span};
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl AddressSet {
    /// Reads an address file: one address, prefix or range a line, `#` begins a comment.
    ///
    /// # Errors
    /// Every line that is wrong, as far as they are collected.
    pub fn parse(text: &[u8]) -> Result<AddressSet, RuleErrors> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        each_line(text, |_, line| {
            let entry = line.split_once('#').map_or(line, |(entry, _)| entry);
            let at = entry.len() - entry.trim_ascii_start().len();
            let entry = entry.trim_ascii();
            if entry.is_empty() {
                return Ok(());
            }
            if v4.len() + v6.len() == SET_ENTRIES_MAX {
                let problem = format!("more than {SET_ENTRIES_MAX} entries");
                return Err(Fault::new(at, problem, "write prefixes, or several files"));
            }
            match span(entry, at)? {
                AddressSpan::V4(span) => v4.push(span),
                AddressSpan::V6(span) => v6.push(span),
            }
            Ok(())
        })?;
        Ok(AddressSet { v4: Ranges::new(v4), v6: Ranges::new(v6) })
    }
}

/// Reads an address, a prefix or a range that stands at byte `at` of its line.
pub fn span(text: &str, at: usize) -> Outcome<AddressSpan> {
    if let Some((address, length)) = text.split_once('/') {
        return match self::address(address, at)? {
            IpAddr::V4(address) => prefix(address, length, at).map(AddressSpan::V4),
            IpAddr::V6(address) => prefix(address, length, at).map(AddressSpan::V6),
        };
    }
    if let Some((first, last)) = text.split_once('-') {
        let last_at = at + first.len() + 1;
        return match (address(first, at)?, address(last, last_at)?) {
            (IpAddr::V4(first), IpAddr::V4(last)) => range(first, last, at).map(AddressSpan::V4),
            (IpAddr::V6(first), IpAddr::V6(last)) => range(first, last, at).map(AddressSpan::V6),
            _ => {
                let problem = format!("{} mixes IPv4 and IPv6", quoted(text));
                Err(Fault::new(at, problem, "write both ends in one version"))
            }
        };
    }
    Ok(match address(text, at)? {
        IpAddr::V4(address) => AddressSpan::V4(Span::single(address)),
        IpAddr::V6(address) => AddressSpan::V6(Span::single(address)),
    })
}

fn address(text: &str, at: usize) -> Outcome<IpAddr> {
    // Nearly all are IPv4, and `IpAddr` would try both from the start.
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(IpAddr::V4(address));
    }
    text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| {
        let is_number = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':');
        let fix = match text.chars().all(is_number) {
            true => "write all four numbers, 0 to 255, as 192.0.2.1, or IPv6 as 2001:db8::1",
            false => "names are not looked up: write 192.0.2.1, 2001:db8::1, or @FILE",
        };
        Fault::new(at, format!("{} is no address", quoted(text)), fix)
    })
}

fn prefix<A: Address + Display>(address: A, length: &str, at: usize) -> Outcome<Span<A>> {
    let bits = length.parse::<u8>().ok().map(u32::from).filter(|&bits| bits <= A::BITS);
    let is_digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let Some(bits) = bits.filter(|_| is_digits) else {
        let problem = format!("{} is no prefix length", quoted(length));
        let fix = format!("write {address}/N with N from 0 to {}", A::BITS);
        return Err(Fault::new(at, problem, fix));
    };
    let (number, host_bits) = (address.number(), A::host_bits(bits));
    let first = A::of_number(number & !host_bits);
    if first != address {
        let problem = format!("{address}/{bits} has bits set behind its prefix");
        let fix = format!("write {first}/{bits}, or {address} for the one address");
        return Err(Fault::new(at, problem, fix));
    }
    range(first, A::of_number(number | host_bits), at)
}

fn range<A: Address + Display>(first: A, last: A, at: usize) -> Outcome<Span<A>> {
    Span::new(first, last).ok_or_else(|| {
        let problem = format!("the range {first}-{last} is empty");
        Fault::new(at, problem, format!("write {last}-{first}"))
    })
}
