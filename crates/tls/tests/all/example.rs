//! The example of docs/howto/analyzer.md finds what was said, however it was cut, and is what the
//! document shows.

#[path = "../../examples/ssh_versions/versions.rs"]
mod versions;

use crate::support::{see, tcp};
use ringside_inspect::Observer;
use ringside_logs::{LogCounts, RecordSink};
use std::sync::{Arc, Mutex};
use versions::{SshObserver, Versions};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Versions>>>);

impl RecordSink<Versions> for Kept {
    fn put(&mut self, found: &Versions, _interface: &str) {
        self.0.lock().unwrap().push(found.clone());
    }

    fn counts(&self) -> LogCounts {
        LogCounts { delivered: self.0.lock().unwrap().len() as u64, ..LogCounts::default() }
    }
}

/// What both ends have said in the only connection that is SSH.
fn found(said: &[(bool, &[u8])]) -> Vec<[String; 2]> {
    let kept = Kept::default();
    let mut observer = SshObserver::new(vec![("kept".into(), Box::new(kept.clone()))]);
    let mut sequence = [1; 2];
    for is_back in [false, true] {
        see(&mut observer, &tcp(1000, is_back, 0, b""), 1_000_000_000);
    }
    for (is_back, bytes) in said {
        let next = &mut sequence[usize::from(*is_back)];
        see(&mut observer, &tcp(1000, *is_back, *next, bytes), 2_000_000_000);
        *next += bytes.len() as u32;
        assert!(observer.balances());
    }
    observer.finish();
    assert!(observer.balances());
    let found = kept.0.lock().unwrap();
    found.iter().map(|found| found.lines.clone()).collect()
}

#[test]
fn both_ends_of_ssh_are_found() {
    let expected = [["SSH-2.0-client".to_owned(), "SSH-2.0-server".to_owned()]];
    let server = (true, &b"SSH-2.0-server\r\n..."[..]);
    assert_eq!(found(&[server, (false, b"SSH-2.0-client\n")]), expected);
    assert_eq!(
        found(&[(false, b"SS"), server, (false, b"H-2.0-client"), (false, b"\n")]),
        expected
    );
    assert!(found(&[(false, b"GET / HTTP/1.1\r\n"), server]).is_empty());
    assert!(found(&[(false, &[b"SSH-", &[b'a'; 300][..], b"\n"].concat()), server]).is_empty());
}

#[test]
fn the_how_to_shows_the_example() {
    let root = ringside_testkit::project_root();
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let example = text("crates/tls/examples/ssh_versions/versions.rs")
        + &text("crates/tls/examples/ssh_versions/main.rs");
    let howto = text("docs/howto/analyzer.md");
    let blocks: Vec<&str> = howto.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 4);
    for block in blocks {
        let code = block.split("```").next().unwrap();
        assert!(example.contains(code), "not in the example:\n{code}");
    }
}
