//! Names of Zeek's ssl.log, with those that its packages for JA3 and JA4 add.

use super::*;

pub(super) const COLUMNS: &[Column<Handshake>] = &[
    FIRST.called("ts"),
    Column::new("uid", Kind::Text, |row| {
        // Connections over QUIC have numbers of their own.
        let of = if row.record.quic.is_some() { "CQ" } else { "C" };
        format!("{of}{:x}", row.record.connection).into()
    }),
    CLIENT.called("id.orig_h"),
    CLIENT_PORT.called("id.orig_p"),
    SERVER.called("id.resp_h"),
    SERVER_PORT.called("id.resp_p"),
    Column::new("version", Kind::Text, |row| {
        let name = row.record.version().map(version);
        name.map(|name| name.replace("TLS ", "TLSv").replace("SSL ", "SSLv").replace('.', ""))
            .into()
    }),
    CIPHER.called("cipher"),
    NAME.called("server_name"),
    RESUMED.called("resumed"),
    PROTOCOL.called("next_protocol"),
    Column::new("established", Kind::Bool, |row| (row.record.ending == Ending::Complete).into()),
    SUBJECT.called("subject"),
    ISSUER.called("issuer"),
    JA3.called("ja3"),
    JA3S.called("ja3s"),
    JA4.called("ja4"),
];
