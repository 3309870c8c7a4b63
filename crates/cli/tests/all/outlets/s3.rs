//! `--outlet s3://`: an object store has the records, which SeaweedFS judges by its own reading of
//! signatures, and curl by getting them back.

use super::store::{in_order, stored};
use super::*;
use std::fs;

const BUCKET: &str = "records";
const KEY: &str = "ringside";
/// As AWS makes them, with characters that no address could hold.
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// SeaweedFS, where it is (docs/howto/outlets.md).
fn weed(folder: &Path) -> Option<Server> {
    let paths = std::env::var_os("PATH")?;
    let mut programs = std::env::split_paths(&paths).map(|path| path.join("weed"));
    let program = programs.find(|path| path.exists())?;
    let port = free_port();
    let mut command = Command::new(program);
    command.arg("mini").arg(format!("-dir={}", arg(folder))).arg(format!("-s3.port={port}"));
    command.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false"]);
    for part in ["admin", "filer", "master", "volume"] {
        command.arg(format!("-{part}.port={}", free_port()));
        command.arg(format!("-{part}.port.grpc={}", free_port()));
    }
    command.arg(format!("-s3.port.grpc={}", free_port()));
    command.arg(format!("-s3.port.iceberg={}", free_port()));
    command.arg(format!("-s3.port.lance={}", free_port()));
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.env("S3_BUCKET", BUCKET);
    Some(Server::start(command, port))
}

/// What a signed request of curl's answers.
fn get(port: u16, path: &str, more: &[&str]) -> Outcome {
    let (user, url) = (format!("{KEY}:{SECRET}"), format!("http://127.0.0.1:{port}/{path}"));
    let own = ["--silent", "--show-error", "--fail", "--user", &user];
    run("curl", &[&own[..], &["--aws-sigv4", "aws:amz:us-east-1:s3"], more, &[&url]].concat())
}

/// Brings all objects below a prefix into a folder.
fn fetch(port: u16, prefix: &str, folder: &Path) {
    // curl does not encode what it signs of a query, so that nothing in it may need that.
    let list = get(port, &format!("{BUCKET}?list-type=2"), &[]);
    assert_eq!(list.code(), Some(0), "{list:?}");
    let list = list.text();
    let keys = list.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
    for (number, key) in keys.filter(|key| key.starts_with(prefix)).enumerate() {
        let file = folder.join(format!("{number}.parquet"));
        let path = format!("{BUCKET}/{}", key.replace('=', "%3D"));
        let got = get(port, &path, &["--output", arg(&file)]);
        assert_eq!(got.code(), Some(0), "{key}: {got:?}");
    }
}

#[test]
fn an_object_store_has_the_records_of_each_analyzer_once() {
    let test = "an_object_store_has_the_records_of_each_analyzer_once";
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = weed(folder.path()) else {
        return skip(test, "weed is not in PATH (docs/howto/outlets.md)");
    };
    wait_until("the bucket", || {
        get(server.port, &format!("{BUCKET}?list-type=2"), &[]).code() == Some(0)
    });
    let user = folder.path().join("user");
    fs::write(&user, format!("{KEY}:{SECRET}\n")).unwrap();
    fs::set_permissions(&user, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let outlet = format!("s3://127.0.0.1:{}/{BUCKET}/sensor=1", server.port);
    for analyzer in ANALYZERS {
        let got = folder.path().join(analyzer);
        fs::create_dir(&got).unwrap();
        let more = ["--outlet-user-file", arg(&user)];
        let outcome = run_into(analyzer, &captures, &outlet, &more);
        assert_eq!(outcome.code(), Some(0), "{analyzer}: {}", outcome.stderr);
        let records = records(&outcome);
        let shown = format!("s3://{KEY}@127.0.0.1:{}/{BUCKET}/sensor=1", server.port);
        let written = account(analyzer, &outcome, &shown);
        assert_eq!(written, counts([("delivered", records.len())]), "{analyzer}");
        fetch(server.port, &format!("sensor=1/{analyzer}/"), &got);
        assert!(in_order(stored(&got)) == in_order(records), "{analyzer}");
    }
    // A wrong secret is not let in, and loses nothing that a spool keeps.
    fs::write(&user, format!("{KEY}:wrong\n")).unwrap();
    let spool = folder.path().join("spool");
    let more = ["--outlet-user-file", arg(&user), "--outlet-spool", arg(&spool)];
    let outcome = run_into("flows", &captures, &outlet, &more);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("does not let this user in"), "{}", outcome.stderr);
}
