//! What is refused and why, and the rules that random cases seldom meet.

use ringside_segment::{
    Checksum, Cut, Cwr, LinearChecksum, Offload, Pieces, Position, SegmentError, Segmenter,
    Settings, Template, TemplateError,
};
use ringside_testkit::stacks::{Header, Stack};
use ringside_wire::LayerKind;
use ringside_wire::checksum::Sum;

fn ipv4(dont_fragment: bool) -> Header {
    let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
    Header::Ipv4 { id: 7, dont_fragment, addresses, options: vec![] }
}

fn ipv6() -> Header {
    Header::Ipv6 { addresses: [0xfd; 32], extensions: vec![], before_fragment: 0 }
}

fn tcp(flags: u8, options: &[u8]) -> Header {
    Header::Tcp { ports: [1, 2], sequence: 9, flags, options: options.to_vec() }
}

fn udp(has_checksum: bool) -> Header {
    Header::Udp { ports: [1, 2], has_checksum }
}

fn stack(headers: &[Header]) -> Stack {
    Stack([&[Header::Ethernet], headers].concat())
}

fn header(headers: &[Header]) -> Vec<u8> {
    stack(headers).uncut(&[])
}

fn template(headers: &[Header]) -> Template {
    Template::parse(&header(headers)).unwrap()
}

fn mss(mss_bytes: usize) -> Settings {
    Settings { mss_bytes: Some(mss_bytes), ..Settings::mtu(1500) }
}

fn fragments(mss_bytes: Option<usize>) -> Settings {
    Settings { cut: Cut::Fragments { id: 5 }, mss_bytes, ..Settings::mtu(1500) }
}

#[test]
fn templates_that_cannot_be_repeated_are_refused() {
    let parse = |bytes: &[u8]| Template::parse(bytes).unwrap_err();
    let good = header(&[ipv4(true), tcp(0x10, &[])]);
    for length in 0..good.len() {
        let error = parse(&good[..length]);
        let is_short =
            matches!(error, TemplateError::Truncated { .. } | TemplateError::NoTransport { .. });
        assert!(is_short, "{length}: {error}");
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        parse(&bytes)
    };
    assert_eq!(with(20, 0x20), TemplateError::Fragment { header: LayerKind::Ipv4 });
    assert_eq!(with(21, 1), TemplateError::Fragment { header: LayerKind::Ipv4 });
    // A total length that ends within TCP; the length of TCP itself.
    assert_eq!(with(17, 30), TemplateError::Malformed { header: LayerKind::Tcp });
    assert_eq!(with(46, 0x40), TemplateError::Malformed { header: LayerKind::Tcp });
    assert_eq!(with(23, 1), TemplateError::Unsupported { header: LayerKind::Icmp });
    assert_eq!(with(23, 200), TemplateError::NoTransport { bytes: 54 });
    assert_eq!(with(12, 0), TemplateError::Malformed { header: LayerKind::Llc });
    assert_eq!(parse(&[&good[..], &[1, 2]].concat()), TemplateError::Trailing { bytes: 2 });
    assert_eq!(parse(&[0; 513]), TemplateError::TooLong { bytes: 513 });

    let jumbo = vec![0xc2, 4, 0, 1, 0, 0];
    let addresses = [0xfd; 32];
    let v6 =
        |kind, body| Header::Ipv6 { addresses, extensions: vec![(kind, body)], before_fragment: 1 };
    assert_eq!(parse(&header(&[v6(0, jumbo), udp(true)])), TemplateError::Jumbo);
    let fragment = header(&[v6(44, vec![0; 6]), udp(true)]);
    assert_eq!(parse(&fragment), TemplateError::Fragment { header: LayerKind::Fragment });
    let auth = parse(&header(&[v6(51, vec![0; 6]), udp(true)]));
    assert_eq!(auth, TemplateError::Unsupported { header: LayerKind::Auth });
    // A compressed source route hides the address that counts.
    let hidden = parse(&header(&[v6(43, [&[3, 1][..], &[0; 20]].concat()), udp(true)]));
    assert_eq!(hidden, TemplateError::Unsupported { header: LayerKind::Routing });
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let new = |settings| Segmenter::new(&template(&[ipv4(true), tcp(0x10, &[])]), settings);
    let refused = |settings| new(settings).unwrap_err();
    let limits = |mss_bytes| SegmentError::Mss { mss_bytes, mss_bytes_min: 1, mss_bytes_max: 1460 };
    assert_eq!(refused(mss(0)), limits(0));
    assert_eq!(refused(mss(1461)), limits(1461));
    assert_eq!(refused(Settings::mtu(65_536)), SegmentError::Mtu { mtu_bytes: 65_536 });
    let none = SegmentError::NoRoom { mtu_bytes: 40, header_bytes: 40 };
    assert_eq!(refused(Settings::mtu(40)), none);
    assert_eq!(new(Settings::mtu(1500)).unwrap().mss_bytes(), 1460);
    assert_eq!(new(Settings::mtu(41)).unwrap().frame_bytes_max(), 55);
    assert_eq!(refused(fragments(None)), SegmentError::NotUdp);

    let new = |df, settings| Segmenter::new(&template(&[ipv4(df), udp(true)]), settings);
    assert_eq!(new(true, fragments(None)).unwrap_err(), SegmentError::DontFragment);
    let odd = SegmentError::FragmentSize { mss_bytes: 20 };
    assert_eq!(new(false, fragments(Some(20))).unwrap_err(), odd);
    let segmenter = new(false, fragments(None)).unwrap();
    assert_eq!(segmenter.mss_bytes(), 1480);
    let plan = |bytes| segmenter.plan(Position::default(), bytes);
    assert_eq!(plan(1472).unwrap().frame_count(), 1);
    assert_eq!(plan(1473).unwrap().frame_count(), 2);
    assert_eq!(plan(65_507).unwrap().frame_count(), 45);
    let most = SegmentError::TooLong { payload_bytes: 65_508, payload_bytes_max: 65_507 };
    assert_eq!(plan(65_508).unwrap_err(), most);

    // Over IPv6 a fragment has 8 bytes less; what fits whole is not cut for that.
    let segmenter = Segmenter::new(&template(&[ipv6(), udp(true)]), fragments(None)).unwrap();
    assert_eq!((segmenter.mss_bytes(), segmenter.frame_bytes_max()), (1448, 1514));
    assert_eq!(segmenter.plan(Position::default(), 1452).unwrap().frame_count(), 1);
    assert_eq!(segmenter.plan(Position::default(), 1453).unwrap().frame_count(), 2);
}

#[test]
fn packets_that_must_stay_one_frame_do() {
    let md5 = [19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    let gre = vec![0x10, 0, 8, 0, 0, 0, 0, 1];
    let mut numbered = header(&[ipv4(true), ipv4(true), tcp(0x10, &[])]);
    numbered.splice(34..34, gre);
    numbered[23] = 47;
    numbered[17] += 8;
    for (template, word) in [
        (template(&[ipv4(true), tcp(0x02, &[])]), "SYN"),
        (template(&[ipv4(true), tcp(0x14, &[])]), "RST"),
        (template(&[ipv6(), tcp(0x30, &[])]), "urgent"),
        (template(&[ipv6(), tcp(0x10, &md5)]), "signature"),
        (Template::parse(&numbered).unwrap(), "sequence numbers"),
    ] {
        let segmenter = Segmenter::new(&template, mss(1000)).unwrap();
        assert_eq!(segmenter.plan(Position::default(), 1000).unwrap().frame_count(), 1);
        let error = segmenter.plan(Position::default(), 1001).unwrap_err();
        assert!(matches!(error, SegmentError::NotDivisible { frame_count: 2, .. }));
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn what_is_too_short_is_said() {
    let segmenter = Segmenter::new(&template(&[ipv4(true), tcp(0x10, &[])]), mss(100)).unwrap();
    let plan = segmenter.plan(Position::default(), 150).unwrap();
    let last = plan.segment(1).unwrap();
    assert!(plan.segment(2).is_none());
    assert_eq!((last.payload(), last.frame_bytes()), (100..150, 104));
    let bytes = [0; 149];
    let (short, mut slot) = ([&bytes[..]], [0; 200]);
    let short = Pieces::new(&short);
    let missing = Err(SegmentError::Payload { needed: 150, available: 149 });
    assert_eq!(last.write_header(&mut slot, Checksum::Payload(&short)), missing);
    assert_eq!(last.write_linear(&mut slot, &short, LinearChecksum::Offload), missing);
    let small = Err(SegmentError::Slot { needed: 54, available: 53 });
    assert_eq!(last.write_header(&mut slot[..53], Checksum::Offload), small);
    let first = plan.segment(0).unwrap();
    let small = Err(SegmentError::Slot { needed: 154, available: 153 });
    assert_eq!(first.write_linear(&mut slot[..153], &short, LinearChecksum::Full), small);

    // The checksum of a fragmented datagram covers what other frames carry.
    let segmenter = Segmenter::new(&template(&[ipv4(false), udp(true)]), fragments(Some(80)));
    let segmenter = segmenter.unwrap();
    let plan = segmenter.plan(Position::default(), 150).unwrap();
    let first = plan.segment(0).unwrap();
    let unknown = Err(SegmentError::DatagramSum);
    assert_eq!(first.write_header(&mut slot, Checksum::Offload), unknown);
    assert_eq!(first.write_header(&mut slot, Checksum::PayloadSum(Sum::new())), unknown);
    let missing = Err(SegmentError::Payload { needed: 150, available: 149 });
    assert_eq!(first.write_header(&mut slot, Checksum::Payload(&short)), missing);
    let later = plan.segment(1).unwrap();
    assert_eq!(later.write_header(&mut slot, Checksum::Offload).unwrap().offload, None);

    let long = plan.payload_bytes() + 70_000;
    let segmenter = Segmenter::new(&template(&[ipv6(), tcp(0x10, &[])]), mss(100)).unwrap();
    let error = segmenter.plan(Position::default(), long).unwrap().uncut().unwrap_err();
    let most = SegmentError::TooLong { payload_bytes: 70_150, payload_bytes_max: 65_515 };
    assert_eq!(error, most);
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_ones_and_none_stays_none() {
    let sent = |has_checksum: bool, payload: &[u8]| {
        let segmenter = Segmenter::new(&template(&[ipv4(true), udp(has_checksum)]), mss(100));
        let segmenter = segmenter.unwrap();
        let plan = segmenter.plan(Position::default(), payload.len()).unwrap();
        let (pieces, mut slot) = ([payload], [0; 200]);
        let segment = plan.segment(0).unwrap();
        segment.write_linear(&mut slot, &Pieces::new(&pieces), LinearChecksum::Full).unwrap();
        u16::from_be_bytes([slot[40], slot[41]])
    };
    // The checksum of two zero bytes, as payload, makes the sum 0xffff and the checksum 0.
    let balanced = sent(true, &[0, 0]).to_be_bytes();
    assert_eq!(sent(true, &balanced), 0xffff);
    assert_eq!(sent(false, &balanced), 0);
}

#[test]
fn what_is_left_to_the_interface_is_the_innermost_checksum() {
    let tunnel = |outer: bool, inner: Header| {
        let vxlan = [
            ipv4(true),
            Header::Udp { ports: [50_000, 4789], has_checksum: outer },
            Header::Vxlan { vni: 1 },
            Header::Ethernet,
            ipv4(true),
            inner,
        ];
        let segmenter = Segmenter::new(&template(&vxlan), mss(100)).unwrap();
        let plan = segmenter.plan(Position::default(), 50).unwrap();
        plan.segment(0).unwrap().write_header(&mut [0; 512], Checksum::Offload).unwrap().offload
    };
    let offload = |start, offset| Some(Offload { start, offset });
    assert_eq!(tunnel(true, tcp(0x10, &[])), offload(84, 16));
    assert_eq!(tunnel(false, udp(true)), offload(84, 6));
    assert_eq!(tunnel(true, udp(false)), offload(34, 6));
    assert_eq!(tunnel(false, udp(false)), None);
}

#[test]
fn cwr_stays_on_all_segments_where_it_counts() {
    for (cwr, expected) in [(Cwr::First, [0xd0, 0x50, 0x59]), (Cwr::All, [0xd0, 0xd0, 0xd9])] {
        let template = template(&[ipv6(), tcp(0xd9, &[])]);
        let segmenter = Segmenter::new(&template, Settings { cwr, ..mss(100) }).unwrap();
        let plan = segmenter.plan(Position::default(), 300).unwrap();
        let flags = plan.segments().map(|segment| {
            let mut slot = [0; 100];
            segment.write_header(&mut slot, Checksum::Offload).unwrap();
            slot[67]
        });
        assert_eq!(flags.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_received_frame_must_be_whole_and_consistent() {
    let payload = [7; 3000];
    let frame = stack(&[ipv4(true), udp(true)]).uncut(&payload);
    let error = |frame: &[u8]| Template::of_frame(frame).unwrap_err();
    let cut = TemplateError::Cut { header: LayerKind::Ipv4, missing: 1 };
    assert_eq!(error(&frame[..frame.len() - 1]), cut);
    let mut shorter = frame.clone();
    shorter[39] -= 1;
    assert_eq!(error(&shorter), TemplateError::Malformed { header: LayerKind::Udp });
    // Without lengths, as offloading leaves packets that are too long for them, all is payload.
    let mut unsaid = frame.clone();
    [16, 17, 38, 39].iter().for_each(|&at| unsaid[at] = 0);
    assert_eq!(Template::of_frame(&unsaid).unwrap().1, 42..3042);
    // A port of VXLAN alone makes no tunnel.
    let no_tunnel = Header::Udp { ports: [1, 4789], has_checksum: true };
    let frame = stack(&[ipv4(true), no_tunnel]).uncut(&[0; 100]);
    let (template, range) = Template::of_frame(&frame).unwrap();
    assert_eq!((template.header().len(), range), (42, 42..142));
}
