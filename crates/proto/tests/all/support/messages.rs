//! Messages as the RFCs print them.

/// RFC 9110 section 3.9.
pub const HTTP_GET: &[u8] = b"GET /hello.txt HTTP/1.1\r\n\
    User-Agent: curl/7.64.1\r\n\
    Host: www.example.com\r\n\
    Accept-Language: en, mi\r\n\
    \r\n";

/// RFC 9110 section 3.9.
pub const HTTP_OK: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Date: Mon, 27 Jul 2009 12:28:53 GMT\r\n\
    Server: Apache\r\n\
    Content-Length: 51\r\n\
    \r\n\
    Hello World! My content includes a trailing CRLF.\r\n";

/// RFC 9112 section 3.2.2.
pub const HTTP_PROXY: &[u8] =
    b"GET http://www.example.org/pub/WWW/TheProject.html HTTP/1.1\r\nHost: proxy\r\n\r\n";

/// RFC 9112 section 3.2.3, with the Host that section 3.2 demands.
pub const HTTP_CONNECT: &[u8] =
    b"CONNECT www.example.com:80 HTTP/1.1\r\nHost: www.example.com\r\n\r\n";

/// RFC 9112 section 3.2.4.
pub const HTTP_OPTIONS: &[u8] = b"OPTIONS * HTTP/1.1\r\nHost: www.example.org:8001\r\n\r\n";

/// UPnP Device Architecture 1.1 section 1.3.2.
pub const HTTP_SSDP: &[u8] = b"M-SEARCH * HTTP/1.1\r\n\
    HOST: 239.255.255.250:1900\r\n\
    MAN: \"ssdp:discover\"\r\n\
    MX: 3\r\n\
    ST: upnp:rootdevice\r\n\
    \r\n";

/// RFC 3261 section 24.2, F1.
pub const SIP_INVITE: &[u8] = b"INVITE sip:bob@biloxi.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8\r\n\
    Max-Forwards: 70\r\n\
    To: Bob <sip:bob@biloxi.com>\r\n\
    From: Alice <sip:alice@atlanta.com>;tag=1928301774\r\n\
    Call-ID: a84b4c76e66710\r\n\
    CSeq: 314159 INVITE\r\n\
    Contact: <sip:alice@pc33.atlanta.com>\r\n\
    Content-Type: application/sdp\r\n\
    Content-Length: 142\r\n\
    \r\n";

/// RFC 3261 section 24.2, F8.
pub const SIP_RINGING: &[u8] = b"SIP/2.0 180 Ringing\r\n\
    Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bKnashds8\r\n \
    ;received=192.0.2.1\r\n\
    To: Bob <sip:bob@biloxi.com>;tag=a6c85cf\r\n\
    From: Alice <sip:alice@atlanta.com>;tag=1928301774\r\n\
    Call-ID: a84b4c76e66710\r\n\
    Contact: <sip:bob@192.0.2.4>\r\n\
    CSeq: 314159 INVITE\r\n\
    Content-Length: 0\r\n\
    \r\n";

/// RFC 4475 section 3.1.1.1: as hard to read as a valid message can be.
pub const SIP_TORTUOUS: &[u8] =
    b"INVITE sip:vivekg@chair-dnrc.example.com;unknownparam SIP/2.0\r\n\
TO :\r\n sip:vivekg@chair-dnrc.example.com ;   tag    = 1918181833n\r\n\
from   : \"J Rosenberg \\\\\\\"\"       <sip:jdrosen@example.com>\r\n  ;\r\n  tag = 98asjd8\r\n\
MaX-fOrWaRdS: 0068\r\n\
Call-ID: wsinv.ndaksdj@192.0.2.1\r\n\
Content-Length   : 150\r\n\
cseq: 0009\r\n  INVITE\r\n\
Via  : SIP  /   2.0\r\n /UDP\r\n    192.0.2.2;branch=390skdjuw\r\n\
s :\r\n\
NewFangledHeader:   newfangled value\r\n continued newfangled value\r\n\
UnknownHeaderWithUnusualValue: ;;,,;;,;\r\n\
Content-Type: application/sdp\r\n\
Route:\r\n <sip:services.example.com;lr;unknownwith=value;unknown-no-value>\r\n\
v:  SIP  / 2.0  / TCP     spindle.example.com   ;\r\n  branch  =   z9hG4bK9ikj8  ,\r\n \
SIP  /    2.0   / UDP  192.168.255.111   ; branch=\r\n z9hG4bK30239\r\n\
m:\"Quoted string \\\"\\\"\" <sip:jdrosen@example.com> ; newparam =\r\n      newvalue ;\r\n  \
secondparam ; q = 0.33\r\n\
\r\n";

/// RFC 4475 section 3.1.1.2: a method and a URI of unusual but allowed characters.
pub const SIP_WIDE: &[u8] =
    b"!interesting-Method0123456789_*+`.%indeed'~ sip:1_unusual.URI~(to-be!sure)&isn't+it$/\
    crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com SIP/2.0\r\n\
    Via: SIP/2.0/TCP host1.example.com;branch=z9hG4bK-.!%66*_+`'~\r\n\
    To: \"BEL:\\\x07 NUL:\\\0 DEL:\\\x7f\" <sip:1_unusual.URI~(to-be!sure)@example.com>\r\n\
    \r\n";

/// A query for A of the name that RFC 1035 section 4.1.4 compresses.
pub const DNS_QUERY: &[u8] =
    b"\x24\x1a\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01F\x03ISI\x04ARPA\x00\x00\x01\x00\x01";

/// The ClientHello of RFC 8448 section 3, for a server that is called "server".
pub const TLS_HELLO: &[u8] = &[
    0x16, 0x03, 0x01, 0x00, 0xc4, 0x01, 0x00, 0x00, 0xc0, 0x03, 0x03, 0xcb, 0x34, 0xec, 0xb1, 0xe7,
    0x81, 0x63, 0xba, 0x1c, 0x38, 0xc6, 0xda, 0xcb, 0x19, 0x6a, 0x6d, 0xff, 0xa2, 0x1a, 0x8d, 0x99,
    0x12, 0xec, 0x18, 0xa2, 0xef, 0x62, 0x83, 0x02, 0x4d, 0xec, 0xe7, 0x00, 0x00, 0x06, 0x13, 0x01,
    0x13, 0x03, 0x13, 0x02, 0x01, 0x00, 0x00, 0x91, 0x00, 0x00, 0x00, 0x0b, 0x00, 0x09, 0x00, 0x00,
    0x06, 0x73, 0x65, 0x72, 0x76, 0x65, 0x72, 0xff, 0x01, 0x00, 0x01, 0x00, 0x00, 0x0a, 0x00, 0x14,
    0x00, 0x12, 0x00, 0x1d, 0x00, 0x17, 0x00, 0x18, 0x00, 0x19, 0x01, 0x00, 0x01, 0x01, 0x01, 0x02,
    0x01, 0x03, 0x01, 0x04, 0x00, 0x23, 0x00, 0x00, 0x00, 0x33, 0x00, 0x26, 0x00, 0x24, 0x00, 0x1d,
    0x00, 0x20, 0x99, 0x38, 0x1d, 0xe5, 0x60, 0xe4, 0xbd, 0x43, 0xd2, 0x3d, 0x8e, 0x43, 0x5a, 0x7d,
    0xba, 0xfe, 0xb3, 0xc0, 0x6e, 0x51, 0xc1, 0x3c, 0xae, 0x4d, 0x54, 0x13, 0x69, 0x1e, 0x52, 0x9a,
    0xaf, 0x2c, 0x00, 0x2b, 0x00, 0x03, 0x02, 0x03, 0x04, 0x00, 0x0d, 0x00, 0x20, 0x00, 0x1e, 0x04,
    0x03, 0x05, 0x03, 0x06, 0x03, 0x02, 0x03, 0x08, 0x04, 0x08, 0x05, 0x08, 0x06, 0x04, 0x01, 0x05,
    0x01, 0x06, 0x01, 0x02, 0x01, 0x04, 0x02, 0x05, 0x02, 0x06, 0x02, 0x02, 0x02, 0x00, 0x2d, 0x00,
    0x02, 0x01, 0x01, 0x00, 0x1c, 0x00, 0x02, 0x40, 0x01,
];

/// [`TLS_HELLO`] in records of `fragment_bytes`.
pub fn tls_hello_in_records(fragment_bytes: usize) -> Vec<u8> {
    let record = |fragment: &[u8]| {
        [&[22, 3, 1], &(fragment.len() as u16).to_be_bytes()[..], fragment].concat()
    };
    TLS_HELLO[5..].chunks(fragment_bytes).flat_map(record).collect()
}

/// `message` behind its length, as TCP carries it.
pub fn dns_over_tcp(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Everything above.
pub fn all() -> Vec<Vec<u8>> {
    let whole: [&[u8]; 12] = [
        HTTP_GET,
        HTTP_OK,
        HTTP_PROXY,
        HTTP_CONNECT,
        HTTP_OPTIONS,
        HTTP_SSDP,
        SIP_INVITE,
        SIP_RINGING,
        SIP_TORTUOUS,
        SIP_WIDE,
        DNS_QUERY,
        TLS_HELLO,
    ];
    let made = [tls_hello_in_records(1), tls_hello_in_records(60), dns_over_tcp(DNS_QUERY)];
    whole.iter().map(|message| message.to_vec()).chain(made).collect()
}
