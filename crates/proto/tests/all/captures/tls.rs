//! The server's name in a ClientHello as tshark reads it.

use super::rows::{Differences, Row, plain, rows};
use ringside_proto::{Name, tls};

#[test]
fn tshark_finds_the_same_tls() {
    let test = "tshark_finds_the_same_tls";
    let rows = rows(test);
    if rows.is_empty() {
        return;
    }
    let mut differences = Differences::default();
    for row in rows.iter().filter(|row| row.is_tcp) {
        compare(row, &mut differences);
    }
    differences.check(test, &[]);
}

fn compare(row: &Row, differences: &mut Differences) {
    let mut name = Name::new();
    let ours = tls::parse(&row.payload, &mut name).found().unwrap_or_default();
    let field = "tls.handshake.extensions_server_name";
    let theirs = row.first(field).map(str::to_ascii_lowercase);
    differences.compare(row, (ours.sni.map(plain), theirs), |_, _| None);
}
