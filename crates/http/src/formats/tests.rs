use super::*;
use crate::names::tests::transaction;
use ringside_record::{Names, Row, object};

fn line(make: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<String> {
    let mut out = Vec::new();
    make(&mut out).map(|()| String::from_utf8(out).unwrap())
}

#[test]
fn lines_of_web_servers_and_proxies() {
    let transaction = transaction();
    assert_eq!(
        line(|out| combined(&transaction, out)).unwrap(),
        "128.232.110.120 - me [14/Nov/2023:22:13:20 +0000] \
         \"POST /a b?c=\\x22d\\x22&e HTTP/1.1\" 201 9 \"http://r/\" \"Agent 1.0 (\\x22x\\x22)\"\n"
    );
    let squid_line = "1700000001.123   1000 128.232.110.120 TCP_MISS/201 109 POST \
         http://www.example.org/a\\x20b?c=\\x22d\\x22&e me HIER_DIRECT/66.35.250.204 text/html\n";
    assert_eq!(line(|out| squid(&transaction, None, out)).unwrap(), squid_line);
    let with_prefix = format!("Nov 14 22:13:21 probe squid: {squid_line}");
    assert_eq!(line(|out| squid(&transaction, Some("probe"), out)).unwrap(), with_prefix);
    assert_eq!(
        line(|out| w3c(&transaction, out)).unwrap(),
        "2023-11-14 22:13:21 66.35.250.204 POST /a+b c=\"d\"&e 80 me 128.232.110.120 \
         Agent+1.0+(\"x\") http://r/ 201 0 0 1000\n"
    );
}

#[test]
fn what_no_server_writes_is_left_out() {
    let whole = transaction();
    let unanswered = Transaction { response: None, ..whole.clone() };
    let unasked = Transaction { request: None, ..whole.clone() };
    for transaction in [unanswered, unasked] {
        assert_eq!(line(|out| combined(&transaction, out)), None);
        assert_eq!(line(|out| squid(&transaction, None, out)), None);
        assert_eq!(line(|out| w3c(&transaction, out)), None);
    }
    // What is absent is a dash, and the port stands in the URL of a request without a host.
    let mut bare = whole;
    bare.server.1 = 8080;
    let request = bare.request.as_mut().unwrap();
    (request.host, request.user, request.user_agent, request.referrer) = (None, None, None, None);
    request.target = b"/".as_slice().into();
    let text = line(|out| squid(&bare, None, out)).unwrap();
    assert!(text.contains(" http://66.35.250.204:8080/ - HIER_DIRECT/"), "{text}");
    assert!(line(|out| combined(&bare, out)).unwrap().ends_with("\"-\" \"-\"\n"));
    assert!(line(|out| w3c(&bare, out)).unwrap().contains(" / - 8080 - "));
}

#[test]
fn no_byte_of_an_url_is_lost() {
    let mut latin = transaction();
    let request = latin.request.as_mut().unwrap();
    request.target = b"/caf\xe9".as_slice().into();
    let text = line(|out| squid(&latin, None, out)).unwrap();
    assert!(text.contains(r" http://www.example.org/caf\xE9 "), "{text}");
    let row = Row { record: &latin, interface: "" };
    let url = &object(Names::Ecs, &row)["url"]["original"];
    assert_eq!(url, "http://www.example.org/caf\u{e9}");
}

#[test]
fn path_and_query_of_all_forms() {
    for (target, stem, query) in [
        ("/", "/", ""),
        ("/a?b?c", "/a", "b?c"),
        ("http://h/a?b", "/a", "b"),
        ("http://h?b", "", "b"),
        ("http://h", "/", ""),
        ("*", "*", ""),
        ("/?u=http://x/", "/", "u=http://x/"),
        ("h:443", "h:443", ""),
    ] {
        let parts = path_and_query(target.as_bytes());
        assert_eq!(parts, (stem.as_bytes(), query.as_bytes()), "{target}");
    }
}
