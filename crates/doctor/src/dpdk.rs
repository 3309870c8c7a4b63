//! What DPDK finds here: its libraries, the cards that were given to it, and what these need.

use super::check::{Checks, State};
use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;

/// Drivers that a card is bound to for programs in user space.
const FOR_PROGRAMS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// The class of network controllers (PCI), in front of what kind it is.
const NETWORK_CLASS: &str = "0x02";

/// Cards that are listed.
const CARDS_MAX: usize = 64;

/// A network card that a driver for programs has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Card {
    /// As `0000:03:00.0`.
    address: String,
    /// As `vfio-pci`.
    driver: String,
}

/// Looks at a machine whose /sys and /dev are below `root`, and what /proc/meminfo says there.
pub fn checks(checks: &mut Checks, root: &Path, meminfo: &str) {
    let release = ringside_dpdk::release();
    match &release {
        Ok(release) => checks.good("dpdk", release.clone()),
        Err(error) => checks.good("dpdk", error.to_string()),
    }
    let cards = cards(&root.join("sys/bus/pci/devices"));
    for card in &cards {
        bound(checks, card);
    }
    if !cards.is_empty() {
        reachable(checks, root, &cards);
        memory(checks, meminfo);
    }
}

/// The network cards that programs in user space may have.
fn cards(devices: &Path) -> Vec<Card> {
    let entries = read_dir(devices).into_iter().flatten().flatten();
    let card = |entry: std::fs::DirEntry| {
        let class = read_to_string(entry.path().join("class")).ok()?;
        let driver = read_link(entry.path().join("driver")).ok()?;
        let driver = driver.file_name()?.to_str()?.to_owned();
        let is_ours = class.starts_with(NETWORK_CLASS) && FOR_PROGRAMS.contains(&&*driver);
        is_ours.then_some(Card { address: entry.file_name().into_string().ok()?, driver })
    };
    let mut cards: Vec<Card> = entries.filter_map(card).take(CARDS_MAX).collect();
    cards.sort_by(|a, b| a.address.cmp(&b.address));
    cards
}

/// It has no interface; how it gets one again.
fn bound(checks: &mut Checks, card: &Card) {
    let Card { address, driver } = card;
    let found = format!("{address} is bound to {driver}: -i dpdk:{address}");
    let back = format!(
        "to give it back to the kernel: echo {address} > /sys/bus/pci/drivers/{driver}/unbind; \
         echo > /sys/bus/pci/devices/{address}/driver_override; \
         echo {address} > /sys/bus/pci/drivers_probe"
    );
    checks.add("dpdk card", State::Ok, found, "").fix(back);
}

/// A card writes where its driver says: only an IOMMU keeps it to the memory of its process.
fn reachable(checks: &mut Checks, root: &Path, cards: &[Card]) {
    let groups = read_dir(root.join("sys/kernel/iommu_groups"));
    let has_groups = groups.is_ok_and(|mut groups| groups.next().is_some());
    if has_groups {
        checks.good("iommu", "on");
    } else {
        let why = "without it vfio-pci takes no card, and any other driver lets a card write to \
                   all memory";
        let check = checks.add("iommu", State::Problem, "off", why);
        check.fix("add intel_iommu=on (or amd_iommu=on) to the kernel's command line");
    }
    let wants_vfio = cards.iter().any(|card| card.driver == "vfio-pci");
    if wants_vfio && !root.join("dev/vfio/vfio").exists() {
        let why = "programs reach their cards by it";
        let check = checks.add("vfio", State::Problem, "/dev/vfio/vfio is not there", why);
        check.fix("modprobe vfio-pci");
    }
}

/// Cards read and write huge pages only.
fn memory(checks: &mut Checks, meminfo: &str) {
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    let free = free.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
    if free > 0 {
        checks.good("dpdk memory", format!("{free} huge pages are free"));
        return;
    }
    let why = "DPDK has the frames of cards in huge pages";
    let check = checks.add("dpdk memory", State::Problem, "no huge page is free", why);
    check.fix("echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn cards_of_programs_are_told_with_what_they_need_and_the_way_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let devices = root.join("sys/bus/pci/devices");
        for (address, class, driver) in [
            ("0000:03:00.0", "0x020000\n", Some("vfio-pci")),
            ("0000:04:00.0", "0x020000\n", Some("igb")),
            ("0000:05:00.0", "0x010802\n", Some("vfio-pci")),
            ("0000:06:00.0", "0x020000\n", None),
        ] {
            let device = devices.join(address);
            create_dir_all(&device).unwrap();
            write(device.join("class"), class).unwrap();
            if let Some(driver) = driver {
                symlink(format!("../../drivers/{driver}"), device.join("driver")).unwrap();
            }
        }
        let look = |meminfo: &str| {
            let mut found = Checks::of("machine");
            checks(&mut found, root, meminfo);
            found.into_vec()
        };
        let found = look("HugePages_Total: 8\nHugePages_Free:        0\n");
        let names: Vec<_> = found.iter().map(|check| (check.name, check.state)).collect();
        let problem = State::Problem;
        let expected = [
            ("dpdk", State::Ok),
            ("dpdk card", State::Ok),
            ("iommu", problem),
            ("vfio", problem),
            ("dpdk memory", problem),
        ];
        assert_eq!(names, expected);
        assert!(found[1].found.contains("-i dpdk:0000:03:00.0"), "{found:?}");
        assert!(found[1].fix.as_ref().unwrap().contains("vfio-pci/unbind"), "{found:?}");
        assert!(found[2..].iter().all(|check| check.fix.is_some() && !check.why.is_empty()));
        create_dir_all(root.join("sys/kernel/iommu_groups/0")).unwrap();
        create_dir_all(root.join("dev/vfio/vfio")).unwrap();
        let found = look("HugePages_Free:  7\n");
        assert!(found.iter().all(|check| check.state == State::Ok), "{found:?}");
        std::fs::remove_dir_all(&devices).unwrap();
        assert_eq!(look("").len(), 1);
    }
}
