//! SDP, RTP, RTCP and whole SIP messages: the examples of their RFCs, and any bytes.

use crate::support::messages::{SIP_INVITE, SIP_TORTUOUS};
use ringside_proto::rtcp::{self, Part};
use ringside_proto::rtp::{self, TelephoneEvent};
use ringside_proto::{Outcome, Sdp, sip};

/// The example of RFC 8866, section 5, with a second medium of its own address.
const SDP: &[u8] = b"v=0\r\no=jdoe 3724394400 3724394405 IN IP4 198.51.100.1\r\ns=Call\r\n\
    c=IN IP4 198.51.100.1\r\nt=0 0\r\nm=audio 49170 RTP/AVP 0 97\r\na=rtpmap:97 iLBC/8000\r\n\
    m=video 51372/2 RTP/SAVPF 99\r\nc=IN IP6 2001:db8::2/127\r\na=rtpmap:99 h263-1998/90000\r\n\
    a=rtcp:53020 IN IP4 126.16.64.4\r\nm=audio 7 RTP/AVP 8\r\na=rtcp-mux\r\n";

#[test]
fn a_description_says_where_media_go() {
    let media: Vec<_> = Sdp::new(SDP).unwrap().media().collect();
    let [audio, video, second] = media.as_slice() else { panic!("{media:?}") };
    assert_eq!((audio.kind, audio.port), (&b"audio"[..], 49_170));
    assert_eq!(audio.address, Some("198.51.100.1".parse().unwrap()));
    assert_eq!(audio.payload_types().collect::<Vec<_>>(), [0, 97]);
    let encoding = audio.encoding(97).unwrap();
    assert_eq!((encoding.name, encoding.clock_rate), (&b"iLBC"[..], 8_000));
    assert_eq!((audio.encoding(0), audio.encoding(99)), (None, None));
    assert_eq!(audio.rtcp(), (audio.address, 49_171));
    assert_eq!((video.port, video.address), (51_372, Some("2001:db8::2".parse().unwrap())));
    assert_eq!(video.rtcp(), (Some("126.16.64.4".parse().unwrap()), 53_020));
    assert_eq!((second.address, second.rtcp().1), (audio.address, 7));
    assert!(media.iter().all(|one| one.is_rtp()));
    assert_eq!(Sdp::new(b"hello"), None);
    let fax = b"v=0\nm=image 5000 udptl t38\n";
    assert!(Sdp::new(fax).unwrap().media().all(|one| !one.is_rtp() && one.address.is_none()));
}

#[test]
fn a_packet_of_sound() {
    let mut packet = vec![0x80, 0x88, 0x12, 0x34, 0, 0, 0, 160, 1, 2, 3, 4];
    packet.extend([0xd5; 160]);
    let found = rtp::parse(&packet, packet.len()).found().unwrap();
    assert_eq!((found.marker, found.payload_type, found.sequence), (true, 8, 0x1234));
    assert_eq!((found.timestamp, found.ssrc), (160, 0x0102_0304));
    assert_eq!((found.payload.len(), found.is_malformed), (160, false));
    assert!(matches!(rtp::parse(&packet[..20], packet.len()), Outcome::Incomplete(_)));
    assert_eq!(rtp::parse(&packet[..8], packet.len()), Outcome::NotThis);
    // Two sources, an extension of one word, four bytes of padding.
    packet[0] = 0xb2;
    packet.splice(12..12, [[0; 8], [0xbe, 0xde, 0, 1, 9, 9, 9, 9]].concat());
    packet.extend([0, 0, 0, 4]);
    let found = rtp::parse(&packet, packet.len()).found().unwrap();
    assert_eq!((found.payload, found.is_malformed), (&[0xd5; 160][..], false));
    // More padding than there is.
    *packet.last_mut().unwrap() = 255;
    assert!(rtp::parse(&packet, packet.len()).found().unwrap().is_malformed);
    assert_eq!(rtp::parse(&[0x40; 20], 20), Outcome::NotThis);
    let event = TelephoneEvent::new(&[11, 0x8a, 3, 0x20]).unwrap();
    assert_eq!((event.digit(), event.is_end, event.duration), (Some('#'), true, 800));
}

#[test]
fn what_receivers_report() {
    let mut packet = vec![0x81, 200, 0, 12, 0, 0, 0, 7];
    packet.extend([0, 0, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 50, 0, 0, 0x1f, 0x40]);
    packet.extend([0, 0, 0, 8, 64, 0xff, 0xff, 0xfe, 0, 0, 0, 1, 0, 0, 0, 30]);
    packet.extend([0, 1, 0x80, 0, 0, 1, 0, 0]);
    packet.extend([0x81, 203, 0, 1, 0, 0, 0, 7]);
    // An extended report of an unknown block, and of quality.
    packet.extend([0x80, 207, 0, 11, 0, 0, 0, 7, 200, 0, 0, 0]);
    packet.extend([7, 0, 0, 8, 0, 0, 0, 8, 5, 2, 0, 0, 0, 0, 0, 0]);
    packet.extend([0, 100, 0, 60, 0, 0, 0, 16, 93, 127, 42, 127, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(rtcp::looks_like(&packet));
    let parts: Vec<_> = rtcp::parts(&packet).collect();
    let [sender, reception, bye, voip] = parts.as_slice() else { panic!("{parts:?}") };
    let Part::Sender(sender) = sender else { panic!("{sender:?}") };
    assert_eq!((sender.ssrc, sender.ntp, sender.packets), (7, 0x1_8000_0000, 50));
    let Part::Reception(report) = reception else { panic!("{reception:?}") };
    assert_eq!((report.reporter, report.ssrc), (7, 8));
    assert_eq!((report.fraction_lost, report.lost, report.jitter), (64, -2, 30));
    assert_eq!((report.last_sender_report, report.delay), (0x18000, 0x10000));
    assert_eq!(*bye, Part::Bye { ssrc: 7 });
    let Part::Voip(metrics) = voip else { panic!("{voip:?}") };
    assert_eq!((metrics.ssrc, metrics.loss_rate, metrics.discard_rate), (8, 5, 2));
    assert_eq!((metrics.round_trip_ms, metrics.end_system_ms), (100, 60));
    assert_eq!((metrics.r_factor, metrics.mos_lq, metrics.mos_cq), (Some(93), Some(42), None));
}

#[test]
fn a_whole_message() {
    let found = match sip::message(SIP_INVITE) {
        Outcome::Fields(found) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found.cseq, Some((314_159, &b"INVITE"[..])));
    assert_eq!(found.start.from.unwrap().tag(), Some(&b"1928301774"[..]));
    assert_eq!(found.start.to.unwrap().tag(), None);
    assert_eq!(found.head_bytes + found.body.len(), SIP_INVITE.len());
    let tortuous = sip::message(SIP_TORTUOUS).found().unwrap();
    assert_eq!(tortuous.cseq, Some((9, &b"INVITE"[..])));
    assert_eq!(tortuous.start.from.unwrap().tag(), Some(&b"98asjd8"[..]));
    let compact = b"BYE sip:b SIP/2.0\nf: x <sip:a;tag=no>;p=\";tag=no\"; tag = yes\nl: 2\n\
        c: application/SDP;x=y\nCSeq: 1\n\tBYE\n\nv=";
    let found = sip::message(compact).found().unwrap();
    assert_eq!(found.start.from.unwrap().tag(), Some(&b"yes"[..]));
    assert_eq!((found.content_length, found.body), (Some(2), &b"v="[..]));
    assert!(found.has_sdp());
    assert_eq!(found.cseq, Some((1, &b"BYE"[..])));
    let two = b"BYE sip:b SIP/2.0\r\nl: 2\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(sip::message(two), Outcome::NotThis, "it is not known where it ends");
    assert!(matches!(sip::message(b"BYE sip:b SIP/2.0\r\nl: 2\r\n"), Outcome::Incomplete(_)));
}

/// Whatever the bytes: parts lie within them, and a longer payload takes nothing back.
#[test]
fn any_media_bytes_hold() {
    let sound = [&[0x90, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1][..], &[7; 20]];
    let report = [&[0x81, 200, 0, 12, 0, 0, 0, 7][..], &[1; 44], &[0x80, 207, 0, 1, 0, 0, 0, 7]];
    let seeds = [SDP.to_vec(), sound.concat(), report.concat(), SIP_INVITE.to_vec()];
    let tried = ringside_testkit::fuzz("proto-media", 100_000, &seeds, |input| {
        for media in Sdp::new(input).into_iter().flat_map(|sdp| sdp.media()) {
            let _ = (media.rtcp(), media.is_rtp());
            media.payload_types().for_each(|number| {
                assert!(media.encoding(number).is_none_or(|one| !one.name.is_empty()))
            });
        }
        if let Some(found) = rtp::parse(input, input.len()).found() {
            assert!(found.payload.len() + rtp::HEADER_BYTES <= input.len());
            assert!(!found.is_malformed || found.payload.is_empty());
            let _ = TelephoneEvent::new(found.payload);
        }
        assert!(rtcp::parts(input).count() <= input.len());
        if let Some(found) = sip::message(input).found() {
            assert!(found.head_bytes + found.body.len() <= input.len());
            let _ = (found.has_sdp(), found.start.to.map(|to| to.tag()));
            if let (Some(cut), Outcome::Fields(whole)) =
                (input.get(..found.head_bytes), sip::message(input))
            {
                let again = sip::message(cut).found().unwrap();
                assert_eq!((again.cseq, again.content_length), (whole.cseq, whole.content_length));
            }
        }
    });
    assert!(tried >= 100_000);
}
