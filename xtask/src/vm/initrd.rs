//! The first files of the emulated machine, as an archive in the form that the kernel unpacks
//! (Documentation/driver-api/early-userspace/buffer-format.rst of Linux: "newc").

use super::packages::Packages;
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// What runs first: it puts the host's files in place of these and runs the script.
const INIT: &[u8] = include_bytes!("init.sh");

/// Modules in the order of their dependencies: the host's files by 9p, then the cards, veth pairs,
/// VLANs, bridges, IPVS, tunnels, vfio. One that the kernel package has not as a file is built in.
const MODULES: [&str; 36] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "netfs",
    "9pnet",
    "9pnet_virtio",
    "9p",
    "pps_core",
    "ptp",
    "dca",
    "i2c-algo-bit",
    "igb",
    "failover",
    "net_failover",
    "veth",
    "llc",
    "stp",
    "garp",
    "mrp",
    "8021q",
    "bridge",
    "nf_defrag_ipv4",
    "nf_defrag_ipv6",
    "nf_conntrack",
    "ip_vs",
    "ip_vs_rr",
    "ip_tunnel",
    "tunnel4",
    "ipip",
    "irqbypass",
    "vfio",
    "vfio_iommu_type1",
    "vfio-pci-core",
    "vfio-pci",
];
/// Loaded last: its interfaces come after those of igb.
const LAST_MODULE: &str = "virtio_net";

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// The archive for `packages`.
///
/// # Errors
/// A file of a package is missing.
pub fn build(packages: &Packages) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "host", "modules", "proc", "sys"] {
        archive.put(folder, DIRECTORY, (0, 0), &[]);
    }
    // Without it the first process has no standard streams.
    archive.put("dev/console", CHARACTER_DEVICE, (5, 1), &[]);
    archive.put("init", PROGRAM, (0, 0), INIT);
    archive.put("bin/busybox", PROGRAM, (0, 0), &read(&packages.path("bin/busybox"))?);
    let folder = packages.path(&format!("usr/lib/modules/{}/kernel", packages.release));
    let mut files = Vec::new();
    find_modules(&folder, &mut files)?;
    for (number, name) in MODULES.iter().chain([&LAST_MODULE]).enumerate() {
        let file = files.iter().find(|file| module_name(file).as_deref() == Some(*name));
        if let Some(file) = file {
            archive.put(&format!("modules/{number:02}-{name}"), PROGRAM, (0, 0), &read(file)?);
        }
    }
    ensure!(archive.bytes.len() < 64 << 20, "the first files grew to {}", archive.bytes.len());
    Ok(archive.end())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// Collects all files below `folder`.
fn find_modules(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find_modules(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// `igb` of `…/igb.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    name.split_once(".ko").map(|(name, _)| name.to_owned())
}

/// Entries of a header of hexadecimal fields, the name and the contents, each padded to 4 bytes.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn put(&mut self, name: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.entries += 1;
        let length = u32::try_from(contents.len()).expect("a module is shorter than 4 GiB");
        let name_length = name.len() as u32 + 1;
        let (major, minor) = device;
        // inode, mode, uid, gid, links, mtime, size, device, device of the node, name, checksum
        let inode = self.entries;
        let fields = [inode, mode, 0, 0, 1, 0, length, 0, 0, major, minor, name_length, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(contents);
        self.pad();
    }

    fn end(mut self) -> Vec<u8> {
        self.put("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_header_of_110_bytes_with_name_and_contents_padded() {
        let mut archive = Archive::default();
        archive.put("dev/console", CHARACTER_DEVICE, (5, 1), b"");
        archive.put("a", PROGRAM, (0, 0), b"12345");
        // 110 + 12 is 122, padded 124; 110 + 2 is 112, with contents 117, padded 120.
        assert_eq!(archive.bytes.len(), 124 + 120);
        let header = std::str::from_utf8(&archive.bytes[..110]).unwrap();
        assert!(header.starts_with("0707010000000100002180"), "{header}");
        assert!(header.ends_with("00000005000000010000000c00000000"), "{header}");
        assert_eq!(&archive.bytes[124 + 112..124 + 117], b"12345");
        assert!(archive.end().windows(10).any(|window| window == b"TRAILER!!!"));
    }

    #[test]
    fn modules_are_known_by_name() {
        assert_eq!(module_name(Path::new("a/igb.ko.xz")).as_deref(), Some("igb"));
        assert_eq!(module_name(Path::new("a/igb.ko")).as_deref(), Some("igb"));
        assert_eq!(module_name(Path::new("a/modules.order")), None);
    }
}
