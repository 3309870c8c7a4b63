//! One term: a word and what belongs to it.

use super::cursor::Cursor;
use super::{address, application, bytes, list};
use crate::language::error::{Fault, Outcome, meant, quoted};
use crate::language::names::{PROTOCOLS, SHORTHANDS, TCP_FLAGS, names, value};
use crate::language::ranges::Ranges;
use crate::language::sets::Sets;
use crate::language::term::{FlagPattern, IpVersion, Side, TcpFlags, Term};
use crate::language::words::{directed_meant, match_meant};

/// What a term is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The frame, and its outer headers.
    Frame,
    /// The innermost IP header of a tunnel.
    Inner,
}

/// Reads a term.
pub fn term(cursor: &mut Cursor<'_>, scope: Scope, sets: &mut Sets) -> Outcome<Term> {
    cursor.skip_blanks();
    let at = cursor.at();
    let word = cursor.word();
    match word {
        "ip" => address::addresses(cursor, Side::Either, sets),
        "src" => directed(cursor, Side::Source, word, sets),
        "dst" => directed(cursor, Side::Destination, word, sets),
        "port" => port(cursor, Side::Either),
        "any" => Ok(Term::Any),
        "ip4" => Ok(Term::IpVersion(IpVersion::V4)),
        "ip6" => Ok(Term::IpVersion(IpVersion::V6)),
        "mac" => address::mac(cursor, Side::Either),
        "vlan" if cursor.eat_word("any") => Ok(Term::Vlan(Ranges::all())),
        "vlan" => {
            list::ranges(cursor, "write `vlan 5`, `vlan 100-199,300` or `vlan any`").map(Term::Vlan)
        }
        "mpls" => list::ranges(cursor, "write `mpls 16` or `mpls 100-199`").map(Term::Mpls),
        "ethertype" => {
            list::ranges(cursor, "write `ethertype arp` or `ethertype 0x88cc`").map(Term::EtherType)
        }
        "proto" => list::ranges(cursor, "write `proto tcp,udp` or `proto 89`").map(Term::Protocol),
        "tcpflags" => tcp_flags(cursor),
        "payload" => bytes::payload(cursor),
        "bytes" => bytes::bytes(cursor, scope),
        "length" if scope == Scope::Frame => {
            list::ranges(cursor, "write `length 64-1500`, `length 1000-` or `length -128`")
                .map(Term::WireBytes)
        }
        "filter" if scope == Scope::Frame => bytes::filter(cursor),
        "length" | "filter" => Err(outside(word, at)),
        "http.status" => application::status(cursor),
        "" => Err(cursor.unexpected("a match is expected here, as `tcp` or `any`")),
        _ => named(cursor, word, at),
    }
}

/// A term about the frame as a whole has no place within `inner`.
pub fn outside(word: &str, at: usize) -> Fault {
    let problem = format!("`{word}` is about the whole frame, not about what is in a tunnel");
    Fault::new(at, problem, "write it outside of `inner (…)`")
}

/// A term whose word is in a table.
fn named(cursor: &mut Cursor<'_>, word: &str, at: usize) -> Outcome<Term> {
    if SHORTHANDS.contains(&word)
        && let Some(protocol) = value(PROTOCOLS, word)
    {
        return Ok(Term::Protocol(Ranges::single(protocol)));
    }
    if let Some(term) = application::field(cursor, word)? {
        return Ok(term);
    }
    if ["and", "or"].contains(&word) {
        let problem = format!("`{word}` stands between two matches, and one is missing");
        return Err(Fault::new(at, problem, "write a match on both sides"));
    }
    Err(Fault::new(at, format!("unknown match {}", quoted(word)), match_meant(word)))
}

/// What follows `src` and `dst`.
fn directed(cursor: &mut Cursor<'_>, side: Side, word: &str, sets: &mut Sets) -> Outcome<Term> {
    cursor.skip_blanks();
    let at = cursor.at();
    match cursor.word() {
        "ip" => address::addresses(cursor, side, sets),
        "port" => port(cursor, side),
        "mac" => address::mac(cursor, side),
        "" => Err(cursor.unexpected(directed_meant(word, ""))),
        other => {
            let problem = format!("{} cannot follow `{word}`", quoted(other));
            Err(Fault::new(at, problem, directed_meant(word, other)))
        }
    }
}

fn port(cursor: &mut Cursor<'_>, side: Side) -> Outcome<Term> {
    let ports = list::ranges(cursor, "write `port 80,443` or `port 1024-`")?;
    Ok(Term::Port(side, ports))
}

fn tcp_flags(cursor: &mut Cursor<'_>) -> Outcome<Term> {
    let mut pattern = FlagPattern::default();
    loop {
        let is_clear = cursor.eat("!");
        cursor.skip_blanks();
        let (at, word) = (cursor.at(), cursor.word());
        let Some(flag) = value(&TCP_FLAGS, word) else {
            let fix = "write `tcpflags syn,!ack`; flags are fin syn rst psh ack urg ece cwr";
            return Err(match word {
                "" => cursor.unexpected(fix),
                _ => {
                    let fix = meant(word, names(&TCP_FLAGS), fix);
                    Fault::new(at, format!("{} is no flag of TCP", quoted(word)), fix)
                }
            });
        };
        let (wanted, other) = match is_clear {
            true => (&mut pattern.clear, pattern.set),
            false => (&mut pattern.set, pattern.clear),
        };
        if other.0 & flag.0 != 0 {
            let problem = format!("`{word}` and `!{word}` exclude each other");
            return Err(Fault::new(at, problem, "remove one of them"));
        }
        *wanted = TcpFlags(wanted.0 | flag.0);
        if !cursor.eat(",") {
            return Ok(Term::TcpFlags(pattern));
        }
    }
}
