//! Handshakes of real captures: names, cipher suites and fingerprints are those of tshark.

use crate::support::Kept;
use ringside_core::{LaneId, Source};
use ringside_inspect::{Observer, Pump};
use ringside_streams::Limits;
use ringside_testkit::{Agreement, Difference, Messages, by_run, capture_sample, judge, need_tool};
use ringside_tls::{Handshake, TlsObserver};
use std::path::{Path, PathBuf};

/// Files in which we say something else than tshark, with the number of hellos that only one of us
/// has (theirs, ours), and why.
const DIFFERENCES: &[Difference] =
    &[("arkime-tls13.pcap", 1, 0, "a draft of TLS 1.3 whose ServerHello had another form")];

/// The captures of TLS; in the long run all.
fn captures(test: &str) -> Vec<PathBuf> {
    let is_tls = |path: &PathBuf| path.parent().is_some_and(|folder| folder.ends_with("tls"));
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
            *hellos.entry(format!("? {name} {}", hello.ja3)).or_default() += 1;
        }
        if let Some(answer) = &found.answer {
            let text = format!("! {:#06x} {}", answer.cipher_suite, answer.ja3s);
            *hellos.entry(text).or_default() += 1;
        }
    }
    (hellos, retried)
}

fn theirs(path: &Path) -> Messages {
    const CLIENT: [&str; 2] = ["tls.handshake.extensions_server_name", "tls.handshake.ja3"];
    const SERVER: [&str; 2] = ["tls.handshake.ciphersuite", "tls.handshake.ja3s"];
    let mut hellos = Messages::new();
    for (kind, fields, mark) in [("1", CLIENT, '?'), ("2", SERVER, '!')] {
        let filter = format!("tls.handshake.type == {kind} && tcp");
        let mut args = vec!["-n", "-Y", &filter, "-T", "fields", "-E", "aggregator=\u{1}"];
        fields.iter().for_each(|field| args.extend(["-e", field]));
        args.push("-r");
        for line in judge::ask("tshark", &args, path).text().lines() {
            let mut values = line.split('\t').map(|value| value.split('\u{1}').next().unwrap());
            let [first, second] = [values.next(), values.next()].map(Option::unwrap_or_default);
            *hellos.entry(format!("{mark} {first} {second}")).or_default() += 1;
        }
    }
    hellos
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
