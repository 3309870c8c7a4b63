use super::*;

/// A ClientHello with these cipher suites and extensions.
fn hello(ciphers: &[u16], extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let words = |values: &[u16]| -> Vec<u8> {
        values.iter().flat_map(|value| value.to_be_bytes()).collect()
    };
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend((2 * ciphers.len() as u16).to_be_bytes());
    body.extend(words(ciphers));
    body.extend([1, 0]);
    let mut all = Vec::new();
    for (kind, data) in extensions {
        all.extend(words(&[*kind, data.len() as u16]));
        all.extend(data);
    }
    body.extend((all.len() as u16).to_be_bytes());
    body.extend(all);
    body
}

const CIPHERS: [u16; 16] = [
    0x0a0a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
    0x009c, 0x009d, 0x002f, 0x0035,
];

fn extensions(protocol: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut protocols = vec![0, protocol.len() as u8 + 1, protocol.len() as u8];
    protocols.extend(protocol);
    let algorithms = [0_u8, 16, 4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 5, 1, 8, 6, 6, 1].to_vec();
    let with = |kind: u16| match kind {
        PROTOCOLS => (kind, protocols.clone()),
        SIGNATURE_ALGORITHMS => (kind, algorithms.clone()),
        SUPPORTED_VERSIONS => (kind, vec![6, 0x1a, 0x1a, 3, 4, 3, 3]),
        kind => (kind, Vec::new()),
    };
    let kinds = [
        0x1a1a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023,
        0x0012, 0x002b, 0xff01, 0x000b, 0x000a, 0x0015,
    ];
    kinds.map(with).to_vec()
}

#[test]
fn ja4_is_that_of_its_specification() {
    let body = hello(&CIPHERS, &extensions(b"h2"));
    let parsed = ClientHelloBody::parse(&body).unwrap();
    assert_eq!(ja4(&parsed, 't'), "t13d1516h2_8daaf6152771_e5627efa2ab1");
    assert!(ja4(&parsed, 'q').starts_with("q13d1516h2_"));
}

#[test]
fn protocols_of_other_bytes_have_hexadecimal_digits() {
    for (protocol, expected) in
        [(b"\xab".as_slice(), "ab"), (b"\x30\xab", "3b"), (b"h", "hh"), (b"http/1.1", "h1")]
    {
        let body = hello(&CIPHERS, &extensions(protocol));
        let ja4 = ja4(&ClientHelloBody::parse(&body).unwrap(), 't');
        assert_eq!(&ja4[8..10], expected);
    }
    let body = hello(&[], &[]);
    let bare = ja4(&ClientHelloBody::parse(&body).unwrap(), 't');
    assert_eq!(bare, "t12i000000_000000000000_000000000000");
}
