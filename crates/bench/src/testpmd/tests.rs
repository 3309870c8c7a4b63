use super::*;

/// What testpmd 22.11 printed for two ports.
const SAID: &str = "Press enter to exit\n\nTelling cores to stop...\nWaiting for lcores to \
finish...\n\n  ---------------------- Forward statistics for port 0  ----------------------\n  \
RX-packets: 1000000        RX-dropped: 26782         RX-total: 1026782\n  \
TX-packets: 0              TX-dropped: 0             TX-total: 0\n  \
----------------------------------------------------------------------------\n\n  \
+++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++\n  \
RX-packets: 1955682        RX-dropped: 26783         RX-total: 1982465\n  \
TX-packets: 7              TX-dropped: 5             TX-total: 12\n  \
++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++\n\nDone.\n";

#[test]
fn what_it_says_of_all_ports_is_understood() {
    let received = summary(SAID, "RX-dropped:").unwrap();
    assert_eq!((received.frames, received.lost), (1_955_682, Some(26_783)));
    assert_eq!(summary(SAID, "TX-dropped:").unwrap().lost, Some(5));
    for wrong in ["", "RX-packets: 5 RX-dropped: 0", "Accumulated forward statistics for all ports"]
    {
        assert_eq!(summary(wrong, "RX-dropped:"), None, "{wrong}");
    }
    let cut = SAID.replace("1955682", "many");
    assert_eq!(summary(&cut, "RX-dropped:"), None, "no count of one port stands for all");
}

#[test]
fn it_forwards_between_ports() {
    let ports = ["rx0".to_owned(), "rx1".to_owned()];
    let tool = program("it".into(), (Device::Xdp, Forwarding::MacSwap), &ports);
    let line = tool.command.join(" ".as_ref()).to_string_lossy().into_owned();
    let parts = ["--vdev net_af_xdp0,iface=rx0 --vdev net_af_xdp1,iface=rx1 ", "=macswap "];
    for part in parts {
        assert!(line.contains(part), "{part} in {line}");
    }
}
