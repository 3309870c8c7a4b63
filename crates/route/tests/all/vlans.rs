//! Tags, in the program. The kernel of a test may have no VLANs: other interfaces stand for them.

use crate::frames::{changed, framed, packet, udp};
use crate::model::{Settings, decide};
use crate::testbed::{IN_MAC, MACS, ifindexes, testbed};
use ringside_ebpf::Verdict;
use ringside_ebpf::route::{
    Cause, DevicePlace, Port, ReversePath, RouteProgram, RouteTables, egress_program,
};
use ringside_testkit::need_root;
use std::os::fd::AsFd;

/// A frame with a tag of this content.
fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    [&frame[..12], &[0x81, 0x00], &tci.to_be_bytes(), &frame[12..]].concat()
}

/// The router's tables: `in0` and `out0`, `out1` as VLAN 7 of `out0`, `other0` as VLAN 5 of `in0`.
fn tables(all: [u32; 4]) -> RouteTables {
    let tables = RouteTables::new().unwrap();
    let [input, out, vlan_7, vlan_5] = all;
    for (slot, ifindex, through, mac, vlan) in [
        (0, input, input, IN_MAC, 0),
        (1, out, out, MACS[1], 0),
        (2, vlan_7, out, MACS[2], 7),
        (3, vlan_5, input, IN_MAC, 5),
    ] {
        let program = egress_program(&tables, slot).unwrap();
        let reverse_path = ReversePath::Unasked;
        let port = Port { ifindex, mac, reverse_path, asks_for_ports: true, vlan };
        tables.set_port(slot, &port).unwrap();
        tables.join(slot, (ifindex, through), program.as_fd()).unwrap();
    }
    tables.set_vlan(1, 7, 2).unwrap();
    tables.set_vlan(0, 5, 3).unwrap();
    tables
}

#[test]
fn tags_come_and_go_on_the_way() {
    if !need_root("tags_come_and_go_on_the_way") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    let to = |destination: &str| {
        let source = if destination.contains(':') { "fd01::2" } else { "10.1.0.2" };
        framed(packet(source, destination, 17, &udp((1, 2), 30)))
    };
    net.inside("r", || {
        let tables = tables(all);
        let place = DevicePlace { device: 0, slot: Some(0) };
        let program = RouteProgram::unattached(&tables, place, true, false).unwrap();
        for (destination, out) in [
            ("198.18.0.1", None),
            ("10.3.0.5", Some(7)),
            ("2001:db8:1::1", None),
            ("fd03::2", Some(7)),
        ] {
            let frame = to(destination);
            let model = decide(&frame, Settings::default());
            let plain = &model.ways[0].2;
            let expected = out.map_or(plain.clone(), |vlan| tagged(plain, vlan));
            for came in [frame.clone(), tagged(&frame, 5), tagged(&frame, 0xa005)] {
                let (run, report) = program.explain(&tables, &came).unwrap();
                assert_eq!(report.cause, Cause::Forwarded, "{destination} {came:02x?}");
                assert_eq!(run.verdict, Verdict::Redirect);
                assert_eq!(run.frame, expected, "{destination} {came:02x?}");
            }
        }
        let flows = |from| [1, 2].map(|to| tables.flow(from, to).unwrap().frames);
        assert_eq!((flows(0), flows(3)), ([2, 2], [4, 4]));
        let counts = [0, 3].map(|slot| tables.counts(slot).unwrap());
        assert_eq!((counts[0].received, counts[1].received), (4, 8));
    });
}

#[test]
fn tags_of_others_and_frames_that_pass_are_left_as_they_are() {
    if !need_root("tags_of_others_and_frames_that_pass") {
        return;
    }
    let net = testbed();
    let all = ifindexes(&net);
    net.inside("r", || {
        let tables = tables(all);
        let load = |slot, has_vlans| {
            let place = DevicePlace { device: 0, slot };
            RouteProgram::unattached(&tables, place, has_vlans, false).unwrap()
        };
        let frame = framed(packet("10.1.0.2", "198.18.0.1", 17, &udp((1, 2), 30)));
        let ends = changed(packet("10.1.0.2", "198.18.0.1", 17, &udp((1, 2), 30)), |ip| ip[8] = 1);
        let service = [&frame[..12], &[0x88, 0xa8, 0, 5], &frame[12..]].concat();
        let both = load(Some(0), true);
        for (name, program, frame, cause) in [
            ("another VLAN", &both, tagged(&frame, 6), Cause::Tagged),
            ("of no VLAN", &both, tagged(&frame, 0), Cause::Tagged),
            ("a provider's", &both, service, Cause::Tagged),
            ("two", &both, tagged(&tagged(&frame, 9), 5), Cause::Tagged),
            ("TTL 1", &both, tagged(&ends, 5), Cause::HopLimit),
            ("cut", &both, tagged(&frame, 5)[..17].to_vec(), Cause::Tagged),
            ("cut behind the tag", &both, tagged(&frame, 5)[..30].to_vec(), Cause::Malformed),
            ("no VLANs here", &load(Some(0), false), tagged(&frame, 5), Cause::Tagged),
            ("none without a tag", &load(None, true), frame.clone(), Cause::Tagged),
        ] {
            let (run, report) = program.explain(&tables, &frame).unwrap();
            assert_eq!((run.verdict, report.cause), (Verdict::Pass, cause), "{name}");
            assert_eq!(run.frame, frame, "{name}");
        }
        // A frame that is of none of the router's interfaces is not counted.
        assert_eq!(tables.counts(0).unwrap().received, 5);
        assert_eq!(tables.counts(3).unwrap().received, 3);
    });
}
