//! Whose clock stamps the frames that libpcap gives.

use ringside_core::TimestampKind;

/// Who stamps the frames of a device. Of interfaces the kernel does; of netfilter's groups and of
/// D-Bus libpcap itself, when it has read the frame (gettimeofday in its pcap-netfilter-linux.c and
/// pcap-dbus.c).
pub(super) fn stamped_by(device: &str) -> TimestampKind {
    let group = ["nflog", "nfqueue"].iter().find_map(|kind| device.strip_prefix(kind));
    let is_group = group.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    let is_bus = matches!(device, "dbus-system" | "dbus-session") || device.starts_with("dbus://");
    if is_group || is_bus { TimestampKind::Poll } else { TimestampKind::Kernel }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libpcap_stamps_by_itself_is_not_taken_for_the_kernels() {
        for device in ["nflog", "nflog:7", "nfqueue:1,2", "dbus-system", "dbus://unix:path=/x"] {
            assert_eq!(stamped_by(device), TimestampKind::Poll, "{device}");
            assert!(stamped_by(device).remark().contains("polled"), "a file says so");
        }
        for device in ["eth1", "any", "nflogger0", "dbus0", "usbmon1"] {
            assert_eq!(stamped_by(device), TimestampKind::Kernel, "{device}");
            assert_eq!(stamped_by(device).remark(), "");
        }
    }
}
