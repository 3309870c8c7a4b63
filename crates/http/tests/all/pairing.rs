//! Which response belongs to which request, and how transactions end.

use crate::support::{ACK, Connection, RST, find, find_with, text, texts};
use ringside_http::Options;

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const GET_B: &str = "GET /b HTTP/1.1\r\nHost: h\r\n\r\n";
const GET_C: &str = "GET /c HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
const FOUND: &str = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";

fn open() -> Connection {
    Connection::new(40_000)
}

#[test]
fn keep_alive_and_pipelining() {
    let kept = open().ask(GET).answer(OK).ask(GET_B).answer(NOT_FOUND).end();
    assert_eq!(texts(&kept), ["GET /a 200 5 complete", "GET /b 404 2 complete"]);
    let both = open().ask(&[GET, GET_B].concat()).answer(&[OK, NOT_FOUND].concat()).end();
    assert_eq!(texts(&both), texts(&kept));
    // However the connection ends.
    let forced = open().ask(GET).answer(OK);
    assert_eq!(texts(&forced), ["GET /a 200 5 complete"]);
}

#[test]
fn bodies_that_are_none() {
    let head = GET.replace("GET", "HEAD");
    let no_body = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let unchanged = "HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n";
    let made = open().ask(&head).answer(no_body).ask(GET_B).answer(unchanged).ask(GET).answer(OK);
    let expected = ["HEAD /a 200 0 complete", "GET /b 304 0 complete", "GET /a 200 5 complete"];
    assert_eq!(texts(&made), expected);
}

#[test]
fn interim_responses_belong_to_what_follows() {
    let post = "POST /p HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let made = open().ask(post).answer(go_on).ask("data").answer(OK).end();
    let found = find(&made);
    assert_eq!(found.iter().map(text).collect::<Vec<_>>(), ["POST /p 200 5 complete"]);
    assert_eq!(found[0].interim, Some(100));
    let request = &found[0].request.as_ref().unwrap().message;
    assert_eq!((request.body_bytes, request.declared_bytes), (4, Some(4)));
    // A body that the response does not wait for.
    let early = open().ask(post).answer(OK).ask("data").ask(GET_B).answer(NOT_FOUND);
    assert_eq!(texts(&early), ["POST /p 200 5 complete", "GET /b 404 2 complete"]);
}

#[test]
fn tunnels_are_left_alone() {
    let connect = "CONNECT h:443 HTTP/1.1\r\n\r\n";
    let made = open().ask(connect).answer("HTTP/1.1 200 OK\r\n\r\n").ask("\x16\x03").answer(OK);
    assert_eq!(texts(&made), ["CONNECT h:443 200 0 tunnel"]);
    let refused = open().ask(connect).answer(NOT_FOUND).ask(GET).answer(OK);
    assert_eq!(texts(&refused), ["CONNECT h:443 404 2 complete", "GET /a 200 5 complete"]);
    let upgrade = open().ask(GET).answer("HTTP/1.1 101 X\r\n\r\n").ask(GET).answer("\0\0");
    assert_eq!(texts(&upgrade), ["GET /a 101 0 tunnel"]);
}

#[test]
fn bodies_in_chunks_and_up_to_the_end() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let until = "HTTP/1.0 200 OK\r\n\r\nall of it";
    let made = open().ask(GET).answer(chunked).ask(GET_B).answer(until).end();
    assert_eq!(texts(&made), ["GET /a 200 3 complete", "GET /b 200 9 complete"]);
    let mut reset = open().ask(GET_B).answer(until);
    reset.push(true, RST | ACK, b"");
    assert_eq!(texts(&reset), ["GET /b 200 9 reset"]);
    let short = "HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nonly";
    assert_eq!(texts(&open().ask(GET).answer(short).end()), ["GET /a 200 4 closed"]);
    assert_eq!(texts(&open().ask(GET).answer(short)), ["GET /a 200 4 forced"]);
    assert_eq!(texts(&open().ask(GET).end()), ["GET /a - - closed"]);
    let old = open().ask("GET /old\r\n\r\n").answer("<html>").end();
    assert_eq!(texts(&old), ["GET /old 0 6 complete"]);
}

#[test]
fn lost_segments_are_named_and_the_rest_is_found() {
    // In a body.
    let (head, body) = OK.split_at(OK.len() - 5);
    let body = open().ask(GET).answer(head).answer(body).lose().ask(GET_B).answer(NOT_FOUND);
    assert_eq!(texts(&body), ["GET /a 200 0+5 complete", "GET /b 404 2 complete"]);
    // A whole response, of a client that waits for each.
    let gone = open().ask(GET).answer(OK).lose().ask(GET_B).answer(NOT_FOUND).ask(GET_C);
    let gone = gone.answer(FOUND).end();
    let expected = ["GET /a - - lost", "GET /b 404 2 complete", "GET /c 302 0 complete"];
    assert_eq!(texts(&gone), expected);
    // A whole request.
    let gone = open().ask(GET).answer(OK).ask(GET_B).lose().answer(NOT_FOUND).ask(GET_C);
    let gone = gone.answer(FOUND).end();
    let mut found = texts(&gone);
    found.sort();
    let expected = ["- - 404 2 request_unseen", "GET /a 200 5 complete", "GET /c 302 0 complete"];
    assert_eq!(found, expected);
    // The beginning of the connection.
    let mut late = open().answer("middle of a body").answer(OK).ask(GET_B).answer(NOT_FOUND);
    late.packets.drain(..2);
    let expected = ["- - 200 5 request_unseen", "GET /b 404 2 complete"];
    assert_eq!(texts(&late), expected);
}

#[test]
fn a_response_that_comes_before_its_request_waits_for_it() {
    let mut made = open().ask(GET).answer(OK).ask(GET_B).answer(NOT_FOUND).end();
    made.packets.swap(2, 3);
    (made.packets[2].stamp, made.packets[3].stamp) = (made.packets[3].stamp, made.packets[2].stamp);
    assert_eq!(texts(&made), ["GET /a 200 5 complete", "GET /b 404 2 complete"]);
    assert_eq!(find(&made)[0].first_byte_ns(), None, "no time goes backwards");
}

#[test]
fn what_is_not_http_is_passed_over() {
    assert!(
        texts(&open().answer("220 mail\r\n").ask("EHLO h\r\n").answer("250 ok\r\n")).is_empty()
    );
    // Behind the greeting of a proxy.
    let made = open().ask("\x05\x01\0").answer("\x05\0").ask(GET).answer(OK).end();
    assert_eq!(texts(&made), ["GET /a 200 5 complete"]);
    let odd = open().ask(GET).answer("what is that?\r\n").ask(GET_B).answer(NOT_FOUND);
    assert_eq!(texts(&odd), ["GET /a - - not_http", "GET /b 404 2 complete"]);
}

#[test]
fn a_request_that_cannot_be_read_shifts_no_pair() {
    let odd = open().ask(GET).answer(OK).ask("what is that?\r\n").answer(NOT_FOUND);
    let mut found = texts(&odd.ask(GET_C).answer(FOUND).end());
    found.sort();
    let expected = ["- - 404 2 request_unseen", "GET /a 200 5 complete", "GET /c 302 0 complete"];
    assert_eq!(found, expected);
}

#[test]
fn behind_missing_responses_there_is_room_again() {
    let many = open().ask(&GET.repeat(102)).answer("what is that?\r\n");
    let found = texts(&many.ask(GET_B).answer(NOT_FOUND).ask(GET_C).answer(FOUND).end());
    let count = |ending| found.iter().filter(|text| text.ends_with(ending)).count();
    assert_eq!((count("no_room"), count("not_http"), count("lost")), (2, 1, 99));
    assert_eq!(found[102..], ["GET /b 404 2 complete", "GET /c 302 0 complete"]);
}

#[test]
fn times_are_those_of_the_packets() {
    let (head, body) = OK.split_at(OK.len() - 2);
    let found = find(&open().ask(GET).answer(head).answer(body).end());
    let ms = 1_000_000;
    assert_eq!((found[0].first_byte_ns(), found[0].duration_ns()), (Some(ms), Some(2 * ms)));
    assert_eq!(found[0].first_ns(), 1_002 * ms);
}

#[test]
fn without_bodies_heads_are_enough() {
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n{}", "x".repeat(1_000));
    let rest = "x".repeat(1_000);
    let made = open().ask(GET).answer(&long).answer(&rest).lose().answer(&rest).lose();
    let cut = "GET /b HTTP/1.1\r\nHost: h\r\nCookie: lon";
    let made = made.ask(cut).ask("g\r\n\r\n").lose().answer(NOT_FOUND);
    // No SYN, no FIN.
    let options = Options { headers_only: true, ..Options::default() };
    let found = find_with(options, &made.packets[2..]);
    let texts: Vec<_> = found.iter().map(text).collect();
    assert_eq!(texts, ["GET /a 200 0 headers_only", "GET /b 404 0 headers_only"]);
    let response = &found[0].response.as_ref().unwrap().message;
    assert_eq!((response.declared_bytes, response.is_whole), (Some(3_000), false));
}
