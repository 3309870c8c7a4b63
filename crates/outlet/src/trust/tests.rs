use crate::address::Address;
use crate::options::{Options, SpoolOptions};
use crate::outlet::Outlet;
use crate::probe::Probe;
use crate::status::{State, Status};
use ringside_core::Timestamp;
use ringside_flow::{RecordSink, RecordSums};
use ringside_record::Row;
use ringside_testkit::certificates::{Authority, Certified};
use ringside_testkit::server::{Answer, HttpServer, Table};
use ringside_testkit::wait_for;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

const RECORDS: u64 = 30;

/// A file of an authority's certificate.
fn file(folder: &Path, name: &str, authority: &Authority) -> Option<PathBuf> {
    let path = folder.join(name);
    std::fs::write(&path, authority.pem()).unwrap();
    Some(path)
}

fn options(folder: &Path, authorities: Option<PathBuf>) -> Options {
    Options {
        spool: Some(SpoolOptions { folder: folder.join("spool"), bytes_max: 16 << 20 }),
        authorities,
        pause: Duration::from_millis(1),
        pause_max: Duration::from_millis(4),
        // For a delivery; one that fails ends it at once, as there is a spool.
        finish: Duration::from_secs(60),
        ..Options::default()
    }
}

fn open(address: &str, options: &Options) -> Result<Outlet, String> {
    let address: Address = address.parse().unwrap();
    Outlet::open::<Probe>(&address, "probe", options).map_err(|error| error.to_string())
}

/// What an outlet says at its end that was given some records.
fn run(address: &str, options: &Options, records: u64) -> Status {
    // The threads of an earlier one hold the spool until they are over.
    let mut outlet = wait_for("the spool", || match open(address, options) {
        Err(error) if error.contains("in use") => None,
        opened => Some(opened.unwrap()),
    });
    for number in 0..records {
        let held = RecordSums { records: 1, ..RecordSums::default() };
        outlet.take(&Row { record: &Probe(Some(number)), interface: "x" }, held);
    }
    outlet.finish(Timestamp::default());
    let watch = outlet.watch();
    drop(outlet);
    let status = watch.status();
    assert_eq!(status.counts.given().records, records, "{status:?}");
    status
}

/// Where a server answers handshakes by HTTP.
fn without_tls() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    address
}

fn serve(table: &Table, certified: &Certified) -> HttpServer {
    let there = table.clone();
    HttpServer::start_tls(0, certified, move |request| {
        there.take(request);
        Answer::Say(200, Vec::new())
    })
}

#[test]
fn an_authority_that_is_named_lets_records_through_and_no_other_one() {
    let (folder, table) = (tempfile::tempdir().unwrap(), Table::default());
    let [right, wrong] = ["right", "wrong"].map(Authority::new);
    let server = serve(&table, &right.certify(&["127.0.0.1"]));
    let address = format!("clickhouses://127.0.0.1:{}/net", server.port());
    let kept =
        run(&address, &options(folder.path(), file(folder.path(), "wrong", &wrong)), RECORDS);
    assert_eq!((kept.state, kept.counts.spooled.records), (State::Away, RECORDS), "{kept:?}");
    assert!(kept.vain_tries > 0 && table.content().rows.is_empty(), "{kept:?}");
    let sent =
        run(&address, &options(folder.path(), file(folder.path(), "right", &right)), RECORDS);
    assert_eq!(sent.counts.inherited.records, RECORDS, "{sent:?}");
    assert_eq!(sent.counts.delivered.records, 2 * RECORDS, "{sent:?}");
    assert_eq!(sent.counts.lost(), RecordSums::default(), "{sent:?}");
    assert_eq!((table.content().rows.len() as u64, table.content().repeated), (2 * RECORDS, 0));
}

#[test]
fn why_a_server_is_not_trusted_is_said_with_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let right = Authority::new("right");
    let authorities = file(folder.path(), "right", &right);
    let table = Table::default();
    for (certified, words) in [
        (Authority::new("wrong").certify(&["127.0.0.1"]), "--outlet-ca FILE"),
        (right.certify_expired(&["127.0.0.1"]), "has expired"),
        (right.certify(&["127.0.0.2", "db.example"]), "is for other names"),
        (right.own().clone(), "basicConstraints=CA:FALSE"),
    ] {
        let server = serve(&table, &certified);
        let address = format!("clickhouses://127.0.0.1:{}/net", server.port());
        let status = run(&address, &options(folder.path(), authorities.clone()), RECORDS);
        assert_eq!(status.state, State::Away, "{status:?}");
        assert!(status.error.as_ref().unwrap().contains(words), "{status:?}");
        assert_eq!(status.counts.spooled.records, RECORDS, "{status:?}");
    }
    let address = format!("clickhouses://{}/net", without_tls());
    let status = run(&address, &options(folder.path(), authorities), RECORDS);
    assert!(status.error.as_ref().unwrap().contains("speaks no TLS"), "{status:?}");
    assert_eq!(status.counts.spooled.records, RECORDS, "{status:?}");
    assert!(table.content().rows.is_empty());
}

#[test]
fn a_file_of_authorities_that_holds_none_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca");
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, words) in [
        ("", "-----BEGIN CERTIFICATE-----"),
        ("hello", "-----BEGIN CERTIFICATE-----"),
        (damaged, "holds no certificate of an authority"),
        (&"x".repeat(2 << 20), "longer than"),
    ] {
        std::fs::write(&path, text).unwrap();
        let options = options(folder.path(), Some(path.clone()));
        let error = open("otlps://127.0.0.1:1", &options).err().unwrap();
        assert!(error.contains(words), "{error}");
    }
    // Without TLS none are asked for.
    open("otlp://127.0.0.1:1", &options(folder.path(), Some(path))).unwrap();
}
