//! Handshakes of real captures: what is known of them is what tshark, openssl and nDPI say.

use crate::support::Kept;
use ringside_core::{LaneId, Source};
use ringside_inspect::{Observer, Pump};
use ringside_streams::Limits;
use ringside_testkit::{
    Agreement, Difference, Messages, by_run, capture_dir, capture_sample, judge, need_tool,
};
use ringside_tls::{Certificate, Handshake, TlsObserver};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files in which we say something else than tshark, with the number of hellos that only one of us
/// has (theirs, ours), and why.
const DIFFERENCES: &[Difference] = &[
    ("arkime-tls13.pcap", 1, 0, "a draft of TLS 1.3 whose ServerHello had another form"),
    ("ndpi-merged-16.pcap", 5, 4, MERGED),
    ("ndpi-quic-28.pcap", 0, 1, "a second hello behind a Version Negotiation, which tshark skips"),
    ("ndpi-tls_cipher_lens.pcap", 3, 0, "hellos that are malformed"),
    ("pcpp-ssl-malformed1.pcap", 1, 1, "tshark gives no JA3 of a malformed hello"),
    ("tcpdump-quic_handshake_truncated.pcap", 1, 0, "a packet that is cut, which no key opens"),
];

const MERGED: &str = "tshark has all hellos of three handshakes that were retried; it does not put \
    in order the segments of two ServerHellos, and takes a port of BitTorrent's for no TLS";

/// The captures of TLS and QUIC; in the long run all.
fn captures(test: &str) -> Vec<PathBuf> {
    let is_tls = |path: &PathBuf| {
        path.parent().is_some_and(|folder| folder.ends_with("tls") || folder.ends_with("quic"))
    };
    let is_taken = |path: &PathBuf| by_run(is_tls(path), true);
    capture_sample(test, 2).into_iter().filter(is_taken).collect()
}

/// All handshakes of a file.
fn handshakes(path: &Path) -> Vec<Handshake> {
    let kept = Kept::default();
    let mut observer = TlsObserver::new(Limits::default(), kept.sinks());
    let Ok(mut source) = ringside_store::open(&[path.to_owned()]) else { return Vec::new() };
    let pump = Pump::new(vec![Box::new(&mut observer as &mut dyn Observer)]);
    let source: &mut dyn Source = &mut *source;
    pump.run(source, LaneId(0), &|| false);
    assert!(observer.balances(), "{}", path.display());
    assert_eq!((observer.open(), observer.kept_memory()), (0, 0));

    kept.0.lock().unwrap().clone()
}

/// With how many handshakes were retried: of those the first ClientHello and the last ServerHello
/// are kept, and tshark has two of each.
fn ours(path: &Path) -> (Messages, usize) {
    let (mut hellos, mut retried) = (Messages::new(), 0);
    for found in handshakes(path) {
        retried += usize::from(found.is_retried);
        if let Some(hello) = &found.hello {
            let name = hello.server_name.as_deref().unwrap_or_default();
            let (version, protocols) = (hello.version, hello.protocols.join(","));
            let text = format!("? {version:#06x} {name} {protocols} {}", hello.ja3);
            *hellos.entry(text).or_default() += 1;
        }
        if let Some(answer) = &found.answer {
            let (version, cipher) = (answer.version, answer.cipher_suite);
            let protocol = answer.protocol.as_deref().unwrap_or_default();
            let text = format!("! {version:#06x} {cipher:#06x} {protocol} {}", answer.ja3s);
            *hellos.entry(text).or_default() += 1;
        }
    }
    (hellos, retried)
}

/// Protocols of a hello that are kept.
const PROTOCOLS_MAX: usize = 8;

const CLIENT: [&str; 5] = [
    "tls.handshake.version",
    "tls.handshake.extensions.supported_version",
    "tls.handshake.extensions_server_name",
    "tls.handshake.extensions_alpn_str",
    "tls.handshake.ja3",
];
const SERVER: [&str; 5] = [
    "tls.handshake.version",
    "tls.handshake.extensions.supported_version",
    "tls.handshake.ciphersuite",
    "tls.handshake.extensions_alpn_str",
    "tls.handshake.ja3s",
];

fn theirs(path: &Path) -> Messages {
    let mut hellos = Messages::new();
    for (kind, fields, mark) in [("1", CLIENT, '?'), ("2", SERVER, '!')] {
        let filter = format!("tls.handshake.type == {kind} && (tcp || quic)");
        let mut args = vec!["-n", "-Y", &filter, "-T", "fields", "-E", "aggregator=\u{1}"];
        fields.iter().for_each(|field| args.extend(["-e", field]));
        args.push("-r");
        for line in judge::ask("tshark", &args, path).text().lines() {
            let values: Vec<Vec<&str>> =
                line.split('\t').map(|value| value.split('\u{1}').collect()).collect();
            *hellos.entry(hello(mark, &values)).or_default() += 1;
        }
    }
    hellos
}

/// One hello, by the fields that tshark gives of its frame.
fn hello(mark: char, values: &[Vec<&str>]) -> String {
    let [legacy, versions, third, protocols, print] = values else { panic!("{values:?}") };
    let number = |text: &&str| u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let known = versions.iter().filter_map(number);
    let known = known.filter(|version| !ringside_tls::fingerprint::is_grease(*version)).max();
    let version = known.or_else(|| number(&legacy[0])).unwrap_or_default();
    // tshark reads what is encrypted where the file has the keys.
    let is_encrypted = mark == '!' && known.is_some();
    let kept = if is_encrypted { 0 } else { PROTOCOLS_MAX };
    let protocols = protocols[..protocols.len().min(kept)].join(",");
    match mark {
        '?' => format!("? {version:#06x} {} {protocols} {}", third[0], print[0]),
        _ => format!("! {version:#06x} {} {protocols} {}", third[0], print[0]),
    }
}

#[test]
fn tshark_finds_the_same_hellos() {
    let test = "tshark_finds_the_same_hellos";
    if !need_tool(test, "tshark") {
        return;
    }
    let mut agreement = Agreement::default();
    for path in captures(test) {
        let ((ours, retried), theirs) = (ours(&path), theirs(&path));
        agreement.compare(&path, [&ours, &theirs], DIFFERENCES, (2 * retried, 0));
    }
    agreement.check(test);
}

/// Files in which we have other certificates than tshark.
const OTHER_CERTIFICATES: &[Difference] = &[("ndpi-merged-16.pcap", 8, 5, OTHERS)];

const OTHERS: &str = "six that come behind the client's reset, which ends a connection for us; \
    three of the handshakes that tshark does not read; two negative serial numbers, which openssl \
    writes with a sign";

#[test]
fn certificates_are_those_of_tshark_as_openssl_reads_them() {
    let test = "certificates_are_those_of_tshark_as_openssl_reads_them";
    if !need_tool(test, "tshark") || !need_tool(test, "openssl") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut agreement = Agreement::default();
    for path in captures(test) {
        let mut ours = Messages::new();
        for found in handshakes(&path).iter().filter_map(|found| found.certificate.as_ref()) {
            *ours.entry(certificate(found)).or_default() += 1;
        }
        let filter = "tls.handshake.type == 11 && tcp && !tls.record.opaque_type";
        let mut args = vec!["-n", "-Y", filter, "-T", "fields", "-E", "occurrence=f"];
        args.extend(["-e", "tls.handshake.certificate", "-e", "tcp.srcport", "-r"]);
        let mut theirs = Messages::new();
        for line in judge::ask("tshark", &args, &path).text().lines() {
            let digits = line.split('\t').next().unwrap_or_default();
            let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
            let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16);
            let der: Vec<u8> = digits.chunks(2).map(|two| byte(two).unwrap()).collect();
            let file = folder.path().join("certificate.der");
            std::fs::write(&file, der).unwrap();
            *theirs.entry(by_openssl(&file)).or_default() += 1;
        }
        agreement.compare(&path, [&ours, &theirs], OTHER_CERTIFICATES, (0, 0));
    }
    agreement.check(test);
}

/// `SUBJECT ISSUER SERIAL FROM TO`, without what each program has its own way of writing.
fn certificate(found: &Certificate) -> String {
    // openssl has other names for these.
    let of = |name: &str| {
        plain(name)
            .replace("msJurisdictionCountry", "jurisdictionC")
            .replace("msJurisdictionStateOrProvince", "jurisdictionST")
            .replace("msJurisdictionLocality", "jurisdictionL")
            .replace("streetAddress", "street")
            .replace("Email", "emailAddress")
    };
    let [subject, issuer] = [&found.subject, &found.issuer].map(|name| of(name));
    let serial = found.serial.trim_start_matches('0');
    format!("{subject} {issuer} {serial} {} {}", found.not_before, found.not_after)
}

/// The letters and digits of a name.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric()).collect()
}

fn by_openssl(file: &Path) -> String {
    let mut args = vec!["x509", "-inform", "der", "-noout", "-subject", "-issuer", "-serial"];
    args.extend(["-dates", "-dateopt", "iso_8601", "-nameopt", "utf8,sep_comma_plus", "-in"]);
    let answer = judge::ask("openssl", &args, file);
    let of = |name: &str| {
        let mut lines = answer.text().lines();
        lines.find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let [from, to] = ["notBefore=", "notAfter="].map(|name| {
        let time: jiff::Timestamp = of(name).parse().unwrap();
        time.as_second()
    });
    let [subject, issuer] = ["subject=", "issuer="].map(|name| plain(&of(name)));
    let serial = of("serial=").to_lowercase();
    format!("{subject} {issuer} {} {from} {to}", serial.trim_start_matches('0'))
}

/// What nDPI and we have in common of a JA4. It has its own way of saying that no server is named,
/// takes the first two characters of a protocol where the rules have the first and the last, and
/// hashes nothing where they have zeros.
fn in_common(print: &str) -> String {
    let print = print.replace("e3b0c44298fc", "000000000000");
    format!("{}{}{}", &print[..3], &print[4..8], &print[10..])
}

#[test]
fn ja4_is_that_of_ndpi() {
    let Some(folder) = capture_dir() else { return };
    let (mut compared, mut wrong) = (0, Vec::new());
    for path in captures("ja4_is_that_of_ndpi") {
        let name = path.strip_prefix(&folder).unwrap().display();
        let expected = folder.join("expected").join(format!("{name}.ndpi.out"));
        let Ok(text) = std::fs::read_to_string(expected) else { continue };
        let prints = text.split("[JA4: ").skip(1).filter_map(|rest| rest.split(']').next());
        let ours =
            handshakes(&path).into_iter().filter_map(|found| Some(in_common(&found.hello?.ja4)));
        let ours: BTreeSet<String> = ours.collect();
        // Those of DTLS begin with a `d`.
        for print in prints.filter(|print| print.starts_with(['t', 'q'])).map(in_common) {
            if !ours.contains(&print) {
                wrong.push(format!("{name}: {print}, ours {ours:?}"));
            }
            compared += 1;
        }
    }
    eprintln!("{compared} fingerprints");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
