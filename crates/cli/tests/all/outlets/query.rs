//! `query`: SQL about a store, answered by a program that can only read it.

use super::store::{store, sums};
use super::*;
use ringside_testkit::need_tool;
use std::fs;

/// The program that answers, if it was built.
fn program(test: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../release/ringside-query");
    let is_there = program.is_file();
    if !is_there {
        skip(test, "ringside-query is not there: `make query` builds it");
    }
    is_there.then_some(program)
}

/// `ringside query`, if that is so.
fn query(test: &str) -> Option<impl Fn(&Path, &[&str]) -> Outcome> {
    let program = program(test)?;
    Some(move |store: &Path, args: &[&str]| {
        let mut command = Command::new(ringside());
        command.env("RINGSIDE_QUERY", &program).args(["query", "--store", arg(store)]).args(args);
        Running::start(command).finish()
    })
}

#[test]
fn sql_finds_what_was_stored() {
    let test = "sql_finds_what_was_stored";
    let captures = captures(test);
    let Some(query) = (!captures.is_empty()).then(|| query(test)).flatten() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut there = Vec::new();
    for analyzer in ANALYZERS {
        let records = store(analyzer, &captures, folder.path());
        if records.is_empty() {
            continue;
        }
        there.push((analyzer, records.len()));
        let sums = sums(&records);
        let sum = |name: &&str| format!("sum(CAST(\"{name}\" AS DECIMAL(38, 0)))");
        let columns: Vec<_> = sums.keys().map(sum).collect();
        let sql = format!(
            "SELECT count(*), sum(CASE WHEN to_char(time, '%Y-%m-%d/%H') = date || '/' || hour \
             THEN 0 ELSE 1 END), {} FROM {analyzer}",
            columns.join(", ")
        );
        let answer = query(folder.path(), &["--csv", &sql]);
        assert_eq!(answer.code(), Some(0), "{analyzer}: {}", answer.stderr);
        let sums: Vec<_> = sums.values().map(u128::to_string).collect();
        let expected = format!("{},0,{}", records.len(), sums.join(","));
        assert_eq!(answer.text().lines().nth(1), Some(&*expected), "{analyzer}");

        let answer = query(folder.path(), &["--json", &format!("SELECT * FROM {analyzer}")]);
        assert_eq!(answer.json_lines().len(), records.len());
    }
    let answer = query(folder.path(), &["--json"]);
    let of =
        |value: &Value| (value["table"].as_str().unwrap().to_owned(), value["records"].clone());
    let found: Vec<_> = answer.json_lines().iter().map(of).collect();
    there.sort_unstable();
    let there: Vec<_> =
        there.into_iter().map(|(name, records)| (name.to_owned(), json!(records))).collect();
    assert_eq!(found, there);
}

/// A frame with a datagram of UDP over IPv4.
fn datagram(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let udp_bytes = 8 + payload.len() as u16;
    let mut frame = [&[2; 12][..], &[8, 0, 0x45, 0]].concat();
    frame.extend((20 + udp_bytes).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([from, to, udp_bytes, 0].iter().flat_map(|number| number.to_be_bytes()));
    frame.extend(payload);
    frame
}

/// A store with a few records of DNS, whose names have control characters.
fn small(folder: &Path) {
    let lookup = |id: u8| {
        // An answer without its query: `a` ESC U+009B `b`, of type A.
        let mut dns = vec![0, id, 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0, 5, b'a', 0x1b, 0xc2, 0x9b];
        dns.extend([b'b', 0, 0, 1, 0, 1]);
        datagram(53, 5_353 + u16::from(id), &dns)
    };
    let capture = folder.join("dns.pcap");
    let frames: Vec<_> = (0..5).map(lookup).collect();
    write_pcap(&capture, frames.iter().map(Vec::as_slice));
    let records = folder.join("records");
    let outcome = run_ringside(&["dns", "-r", arg(&capture), "--json", "--store", arg(&records)]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
}

/// A file below a folder.
fn find_file(folder: &Path) -> PathBuf {
    let entry = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    if entry.is_dir() { find_file(&entry) } else { entry }
}

#[test]
fn a_statement_reads_the_store_and_nothing_else_within_limits() {
    let test = "a_statement_reads_the_store_and_nothing_else_within_limits";
    let Some(query) = query(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    let records = folder.path().join("records");
    fs::write(folder.path().join("other.csv"), "a\n1\n").unwrap();
    let other = folder.path().join("other.csv");
    let copied = records.join("copied.csv");
    let endless = "SELECT count(*) FROM dns a, dns b, dns c, dns d, dns e, dns f, dns g, dns h, \
                   dns i, dns j, dns k, dns l, dns m, dns n, dns o WHERE a.id + o.id > b.id";
    let large = "SELECT count(*) FROM (SELECT DISTINCT a.value, b.value FROM \
                 generate_series(1, 100000) a, generate_series(1, 1000) b)";
    let cases = [
        (vec![format!("COPY dns TO '{}'", arg(&copied))], "not supported"),
        (vec!["CREATE TABLE t AS SELECT 1".into()], "not supported"),
        (vec!["INSERT INTO dns SELECT * FROM dns".into()], "not supported"),
        (vec!["DROP TABLE dns".into()], "not supported"),
        (vec!["SET datafusion.execution.batch_size = 1".into()], "not supported"),
        (vec![format!("SELECT * FROM '{}'", arg(&other))], "tables here: dns"),
        (vec!["SELECT nothing FROM dns".into()], "nothing"),
        (vec!["SELEC 1".into()], "SELEC"),
        (vec!["--timeout".into(), "1s".into(), endless.into()], "no answer after 1s"),
        (vec!["--memory".into(), "16MiB".into(), large.into()], "Resources exhausted"),
    ];
    for (args, words) in cases {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let answer = query(&records, &args);
        assert_eq!(answer.code(), Some(2), "{args:?}: {}", answer.stderr);
        assert!(answer.stderr.contains(words), "{args:?}: {}", answer.stderr);
        assert!(!copied.exists());
    }
    // A file that is none is named by what to do; one of another kind of name is not looked at for
    // the columns.
    let foreign = find_file(&records).with_file_name("zzz.parquet");
    fs::write(&foreign, "PAR1").unwrap();
    let answer = query(&records, &["SELECT id FROM dns"]);
    assert!(answer.stderr.contains("is damaged, or none that"), "{}", answer.stderr);
    fs::remove_file(&foreign).unwrap();
    assert_eq!(query(&records, &["SELECT id FROM dns"]).code(), Some(0));
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for (store, words) in [(&empty, "holds no records"), (&other, "--store")] {
        let answer = query(store, &["SELECT 1"]);
        assert_eq!(answer.code(), Some(2), "{}", answer.stderr);
        assert!(answer.stderr.contains(words), "{}", answer.stderr);
    }
}

#[test]
fn an_answer_is_cut_with_a_word_and_has_no_control_characters() {
    let test = "an_answer_is_cut_with_a_word_and_has_no_control_characters";
    let Some(query) = query(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    let records = folder.path().join("records");
    for (format, lines) in [(&[][..], 4), (&["--csv"], 4), (&["--json"], 3)] {
        let args = [format, &["--limit", "3", "SELECT id, name FROM dns ORDER BY id"]].concat();
        let answer = query(&records, &args);
        assert_eq!(answer.code(), Some(1), "{}", answer.stderr);
        assert!(answer.stderr.contains("more than 3 rows"), "{}", answer.stderr);
        let text = answer.text();
        assert_eq!(text.lines().count(), lines, "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
    // Lists are their text in CSV, and who reads one row of many has enough.
    let flags = query(&records, &["--csv", "SELECT id, flags FROM dns ORDER BY id LIMIT 1"]);
    assert_eq!(flags.code(), Some(0), "{}", flags.stderr);
    assert!(flags.text().ends_with("0,\"[QR, RD, RA]\"\n"), "{}", flags.text());
    let whole = query(&records, &["SELECT id FROM dns"]);
    assert_eq!((whole.code(), whole.text().lines().count()), (Some(0), 6), "{}", whole.stderr);
}

#[test]
fn a_service_answers_sql_within_its_limits() {
    let test = "a_service_answers_sql_within_its_limits";
    let Some(program) = program(test).filter(|_| need_tool(test, "curl")) else { return };
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    let socket = folder.path().join("serve.sock");
    let mut command = Command::new(ringside());
    command.env("RINGSIDE_QUERY", program).args(["serve", "--store"]);
    command.arg(folder.path().join("records"));
    command.arg("--listen").arg(format!("unix:{}", arg(&socket)));
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    let ask = |query: &[&str]| -> (String, Value) {
        let mut args = vec!["--silent", "--get", "--unix-socket", arg(&socket)];
        args.extend(["--write-out", "\n%{http_code}", "http://localhost/api/v1/sql"]);
        query.iter().for_each(|text| args.extend(["--data-urlencode", text]));
        let answer = run("curl", &args).text();
        let (body, status) = answer.rsplit_once('\n').unwrap();
        (status.to_owned(), serde_json::from_str(body).unwrap())
    };
    let (status, there) = ask(&[]);
    assert_eq!((&*status, &there["rows"][0]["records"]), ("200", &json!(5)), "{there}");
    let (_, all) = ask(&["sql=SELECT id, name FROM dns ORDER BY id"]);
    let ids: Vec<_> = all["rows"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4], "{all}");
    assert_eq!(all["incomplete"], json!([]));
    let (_, first) = ask(&["sql=SELECT id FROM dns ORDER BY id", "limit=2"]);
    assert_eq!(first["rows"], json!([{"id": 0}, {"id": 1}]));
    assert_eq!(first["incomplete"][0]["cause"], "limit");
    for (sql, words) in [
        ("sql=SELEC 1", "SELEC"),
        ("sql=DROP TABLE dns", "not supported"),
        ("sql=SELECT * FROM '/etc/passwd'", "tables here: dns"),
        ("limit=0", "from 1 to 10000"),
    ] {
        let (status, answer) = ask(&[sql]);
        assert_eq!(status, "400", "{sql}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{sql}: {answer}");
    }
    // An error may quote what is stored: in short, and not without a line in the log.
    let (_, quoted) = ask(&["sql=SELECT CAST(repeat(name, 1000) AS INT) FROM dns"]);
    assert!(quoted["error"].as_str().unwrap().len() <= 400, "{quoted}");
    // What is passed by is no answer's end, however much there is to say of it.
    for number in 0..8 {
        let link = folder.path().join("records").join(format!("link{number}"));
        std::os::unix::fs::symlink("/etc", link).unwrap();
    }
    assert_eq!(ask(&["sql=SELECT 1"]).0, "200");
    // One whose client goes ends, and gives its place back.
    let slow = "sql=SELECT count(*) FROM dns a, dns b, dns c, dns d, dns e, dns f, dns g, dns h, \
                dns i, dns j, dns k, dns l, dns m, dns n, dns o WHERE a.id + o.id > b.id";
    for _ in 0..4 {
        let mut args = vec!["--silent", "--get", "--unix-socket", arg(&socket), "--max-time", "1"];
        args.extend(["--data-urlencode", slow, "http://localhost/api/v1/sql"]);
        assert_eq!(run("curl", &args).code(), Some(28), "it takes too long for this client");
        wait_until("a place", || ask(&["sql=SELECT 1"]).0 == "200");
    }
    let said = running.stop().stderr;
    for end in ["answered", "refused", "abandoned"] {
        assert!(said.contains(&format!("\"end\":\"{end}\"")), "{end}: {said}");
    }
}
