//! tshark finds the same checksums right and wrong.

use ringside_testkit::{capture_files, judge, need_tool};
use ringside_wire::{Ipv4, LayerKind, Level, Verdict, dissect, verify_network, verify_transport};

/// tshark's word: 0 bad, 1 good, 2 not verified, 3 not present.
fn status(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Correct => "1",
        Verdict::Wrong { .. } => "0",
        Verdict::Absent => "3",
        Verdict::Unknown => "2",
    }
}

#[test]
fn checksums_are_judged_alike() {
    let test = "checksums_are_judged_alike";
    if !need_tool(test, "tshark") {
        return;
    }
    let (mut compared, mut wrong) = (0, 0);
    for path in capture_files(test) {
        let folder = path.parent().and_then(|dir| dir.file_name()).and_then(|name| name.to_str());
        if folder != Some("ip") {
            continue;
        }
        let fields = ["ip", "tcp", "udp", "icmp", "icmpv6", "sctp"];
        let names = fields.map(|name| format!("{name}.checksum.status"));
        let mut args = vec!["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"];
        args.extend(["-o", "udp.check_checksum:TRUE", "-o", "ip.defragment:FALSE"]);
        args.extend(["-o", "ipv6.defragment:FALSE", "-o", "sctp.checksum:CRC 32c"]);
        args.extend(["-T", "fields", "-E", "occurrence=f", "-E", "separator=,"]);
        args.extend(names.iter().flat_map(|name| ["-e", name]));
        args.push("-r");
        let answer = judge::ask("tshark", &args, &path);
        for (number, (line, (link, bytes))) in
            answer.text().lines().zip(crate::support::frames(&path)).enumerate()
        {
            let context = format!("{} frame {}: {line}", path.display(), number + 1);
            let theirs: Vec<&str> = line.split(',').collect();
            let layers = dissect(&bytes, link);
            let Some(network) = layers.network(Level::Outer) else { continue };
            if network.kind == LayerKind::Ipv4 {
                let ours = verify_network(&bytes, &layers, Level::Outer);
                assert_eq!(status(ours), theirs[0], "{context}");
                // A packet without a length (BIG TCP) has no known end; tshark takes the frame's.
                if Ipv4::new(&bytes[network.start()..]).unwrap().total_length() == 0 {
                    continue;
                }
            }
            let Some(transport) = layers.transport(Level::Outer) else { continue };
            let name = transport.kind.name();
            let Some(index) = fields.iter().position(|field| *field == name) else { continue };
            let ours = status(verify_transport(&bytes, &layers, Level::Outer));
            // tshark leaves more unverified than it must; its word counts where it has one.
            if !matches!(theirs[index], "" | "2") {
                assert_eq!(ours, theirs[index], "{context}");
                compared += 1;
                wrong += usize::from(ours == "0");
            }
        }
    }
    eprintln!("{compared} transport checksums compared, {wrong} of them wrong");
    assert!(ringside_testkit::capture_dir().is_none() || (compared > 500 && wrong > 0));
}
