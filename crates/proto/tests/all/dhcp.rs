//! DHCP messages: fields, options, and what is cut.

use ringside_proto::Dhcp;
use ringside_proto::dhcp::DhcpOption;

/// A request with a padding, a kind of message, a name and the end.
fn request() -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..4].copy_from_slice(&[1, 1, 6, 2]);
    message[4..8].copy_from_slice(&[0, 0, 0x3d, 0x1d]);
    message[8..12].copy_from_slice(&[0, 5, 0x80, 0]);
    message[12..16].copy_from_slice(&[10, 0, 0, 7]);
    message[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    message[108..112].copy_from_slice(b"boot");
    message.extend_from_slice(&[0x63, 0x82, 0x53, 0x63, 0, 53, 1, 3, 12, 4]);
    message.extend_from_slice(b"host\xff");
    message
}

#[test]
fn fields_and_options_are_found() {
    let bytes = request();
    let message = Dhcp::new(&bytes).unwrap();
    assert_eq!((message.operation(), message.hardware(), message.hops()), (1, (1, 6), 2));
    assert_eq!((message.transaction(), message.seconds(), message.flags()), (0x3d1d, 5, 0x8000));
    assert_eq!(message.addresses()[0].octets(), [10, 0, 0, 7]);
    assert_eq!(message.client_mac(), Some([2, 0, 0, 0, 0, 9]));
    assert_eq!((message.server_name(), message.boot_file()), (Some(&b""[..]), Some(&b"boot"[..])));
    assert_eq!(message.cookie(), Some(Dhcp::MAGIC_COOKIE));
    let options: Vec<(u8, &[u8])> = message.options().map(|o| (o.code, o.value)).collect();
    assert_eq!(options, [(0, &b""[..]), (53, &[3]), (12, b"host"), (DhcpOption::END, b"")]);
}

#[test]
fn a_cut_message_gives_what_is_there() {
    let bytes = request();
    assert!(Dhcp::new(&bytes[..33]).is_none());
    let message = Dhcp::new(&bytes[..34]).unwrap();
    assert_eq!((message.server_name(), message.cookie()), (None, None));
    assert_eq!(message.options().next(), None);
    let message = Dhcp::new(&bytes[..bytes.len() - 3]).unwrap();
    let last = message.options().last().unwrap();
    assert_eq!((last.code, last.length, last.value), (12, Some(4), &b"ho"[..]));
    assert!(!last.is_whole());
    let message = Dhcp::new(&bytes[..245]).unwrap();
    assert!(message.options().last().is_some_and(|option| option.length.is_none()));
}

#[test]
fn dhcp_holds() {
    ringside_testkit::fuzz("proto dhcp", 100_000, &[request()], |bytes| {
        let Some(message) = Dhcp::new(bytes) else { return };
        let _ = (message.server_name(), message.boot_file(), message.client_mac());
        let mut options = 0;
        for option in message.options() {
            options += 1;
            assert!(option.value.len() <= usize::from(option.length.unwrap_or(0)));
        }
        assert!(options <= bytes.len());
    });
}
