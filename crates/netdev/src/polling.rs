//! Where in the machine an interface is served: the NUMA node of the card, and the CPUs on which
//! its receive queues are polled.

use super::{NetDevice, napis, queue_list};
use ringside_sys::numa::{cpu_list, node_of};
use ringside_sys::{SysError, thread};
use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// Where /sys lists the interfaces of the namespace in which it was mounted.
const INTERFACES: &str = "/sys/class/net";
/// Interrupts of a device that are looked at: one for each queue of a large card, and some.
const INTERRUPTS_MAX: usize = 4096;
/// Devices above the one of the interface that may hold its interrupts (virtio's is one below).
const LEVELS_MAX: usize = 2;

/// Who polls a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poller {
    /// The CPU that takes the interrupt, or it is unknown: a veth pair is polled where frames are
    /// sent.
    Unknown,
    /// The softirq of this interrupt.
    Interrupt(u32),
    /// This kernel thread.
    Thread(u32),
}

/// A receive queue and where it is polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolledQueue {
    /// The queue's number.
    pub queue: u32,
    /// Its NAPI, if known.
    pub napi: Option<u32>,
    /// By whom.
    pub by: Poller,
    /// On which CPUs; empty if unknown.
    pub cpus: Vec<usize>,
}

/// The receive queues of an interface in order, each with where it is polled.
///
/// # Errors
/// The interface is gone, or the kernel's answer is damaged.
pub fn polled_queues(device: &NetDevice) -> Result<Vec<PolledQueue>, SysError> {
    let queues: Vec<_> = queue_list(device.ifindex)?.into_iter().filter(|q| q.receives).collect();
    let napis = napis(device.ifindex)?;
    let interrupts = interrupts_of_queues(device);
    let place = |(index, queue): (usize, &super::Queue)| {
        let known = napis.iter().find(|napi| Some(napi.id) == queue.napi);
        // A driver that does not tell which is whose has as many of them, made in order.
        let guessed = || napis.get(index).filter(|_| napis.len() == queues.len());
        let napi = known.or_else(guessed);
        let interrupt = || interrupts.get(&queue.id).copied();
        let by = match (napi.and_then(|napi| napi.thread), napi.and_then(|napi| napi.irq)) {
            (Some(thread), _) => Poller::Thread(thread),
            (None, irq) => irq.or_else(interrupt).map_or(Poller::Unknown, Poller::Interrupt),
        };
        PolledQueue { queue: queue.id, napi: napi.map(|napi| napi.id), by, cpus: cpus_of(by) }
    };
    Ok(queues.iter().enumerate().map(place).collect())
}

fn cpus_of(poller: Poller) -> Vec<usize> {
    match poller {
        Poller::Unknown => Vec::new(),
        Poller::Thread(thread) => thread::allowed_cpus_of(thread).unwrap_or_default(),
        Poller::Interrupt(number) => {
            // The second is what was asked for, for controllers that do not tell what they do.
            let files = ["effective_affinity_list", "smp_affinity_list"];
            let texts = files.map(|file| read_to_string(format!("/proc/irq/{number}/{file}")));
            let lists = texts.into_iter().flatten().map(|text| cpu_list(&text));
            lists.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or_default()
        }
    }
}

/// The NUMA node of an interface's card; `None` for an interface without one, or where the machine
/// has none.
pub fn node(device: &NetDevice) -> Option<usize> {
    node_of(&card(device)?)
}

/// Where /sys has the card of an interface; `None` for virtual ones, and where /sys shows another
/// namespace.
fn card(device: &NetDevice) -> Option<PathBuf> {
    let folder = Path::new(INTERFACES).join(&device.name);
    let text = |file: &str| Some(read_to_string(folder.join(file)).ok()?.trim().to_owned());
    let address: Vec<_> = device.hardware_address.iter().map(|b| format!("{b:02x}")).collect();
    let is_same =
        text("ifindex")? == device.ifindex.to_string() && text("address")? == address.join(":");
    is_same.then(|| std::fs::canonicalize(folder.join("device")).ok())?
}

/// The interrupts of an interface's card by receive queue, as far as their names tell.
fn interrupts_of_queues(device: &NetDevice) -> BTreeMap<u32, u32> {
    let Some(card) = card(device) else { return BTreeMap::new() };
    let numbers = card.ancestors().take(LEVELS_MAX).find_map(|place| {
        let entries = read_dir(place.join("msi_irqs")).ok()?.flatten().take(INTERRUPTS_MAX);
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        Some(entries.filter_map(number).collect::<Vec<u32>>())
    });
    let table = read_to_string("/proc/interrupts").unwrap_or_default();
    queues_of_interrupts(&table, &numbers.unwrap_or_default())
}

/// Receive queue by its interrupt's name in the text of /proc/interrupts, for the interrupts of one
/// card. Drivers put the queue's number last, or first after a common word: `eth1-TxRx-3`,
/// `i40e-eth1-rx-3`, `virtio2-input.3`, `mlx5_comp3@pci:0000:02:00.0`.
fn queues_of_interrupts(table: &str, numbers: &[u32]) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
    for line in table.lines() {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse::<u32>() else { continue };
        let Some(name) = rest.split_whitespace().last().filter(|_| numbers.contains(&number))
        else {
            continue;
        };
        if let Some(queue) = queue_of_name(name) {
            found.entry(queue).or_insert(number);
        }
    }
    found
}

fn queue_of_name(name: &str) -> Option<u32> {
    let name = name.split('@').next().unwrap_or_default().to_ascii_lowercase();
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let queue = name[word.len()..].parse().ok()?;
    let receives = ["txrx", "rx", "input", "comp", "queue"];
    let word = word.trim_end_matches(['-', '.', '_']);
    receives.iter().any(|end| word.ends_with(end)).then_some(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interrupts_tell_their_queue() {
        for (name, queue) in [
            ("eth1-TxRx-3", Some(3)),
            ("i40e-eth1-TxRx-12", Some(12)),
            ("virtio2-input.0", Some(0)),
            ("mlx5_comp7@pci:0000:02:00.0", Some(7)),
            ("enp1s0-rx-1", Some(1)),
            ("virtio2-output.0", None),
            ("enp1s0-tx-1", None),
            ("virtio2-config", None),
            ("eth1", None),
            ("mlx5_async0@pci:0000:02:00.0", None),
            ("", None),
            ("rx99999999999", None),
        ] {
            assert_eq!(queue_of_name(name), queue, "{name}");
        }
    }

    #[test]
    fn only_interrupts_of_the_card_count() {
        let table = "           CPU0       CPU1\n\
             \x20 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config\n\
             \x20 38:          0      10189 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
             \x20 40:          0      10189 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.1\n\
             \x20 41:       9431          0 PCI-MSIX-0000:00:04.0   1-edge      virtio3-input.0\n\
             NMI:          0          0   Non-maskable interrupts\n\
             garbage\n";
        let found = queues_of_interrupts(table, &[37, 38, 39, 40]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(0, 38), (1, 40)]);
        assert!(queues_of_interrupts(table, &[]).is_empty());
    }

    #[test]
    fn whatever_the_table_says_only_interrupts_of_the_card_are_found() {
        let table = "           CPU0       CPU1\n\
             \x20 38:          0      10189 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
             \x20 39:          0          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0\n\
             \x20 40:          0      10189 PCI-MSIX-0000:00:03.0   1-edge   eth1-TxRx-4294967295\n\
             4294967296:   0 PCI mlx5_comp7@pci:0000:02:00.0\n\
             NMI:          0          0   Non-maskable interrupts\n";
        let numbers = [37, 38, 39, 40];
        ringside_testkit::fuzz("proc-interrupts", 100_000, &[table.into()], |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let found = queues_of_interrupts(&text, &numbers);
            assert!(found.values().all(|number| numbers.contains(number)));
            let names: Vec<_> = text.split_whitespace().filter_map(queue_of_name).collect();
            assert!(found.keys().all(|queue| names.contains(queue)));
        });
    }

    #[test]
    fn another_interface_of_the_same_name_has_no_card() {
        let lo = super::super::by_name("lo").unwrap().unwrap();
        assert_eq!(node(&lo), None);
        let Some(other) = super::super::list().unwrap().into_iter().find(|d| card(d).is_some())
        else {
            return;
        };
        let elsewhere = NetDevice { ifindex: other.ifindex + 1, ..other };
        assert_eq!(card(&elsewhere), None);
    }

    #[test]
    fn the_loopback_interface_is_polled_by_whoever_sends() {
        let lo = super::super::by_name("lo").unwrap().unwrap();
        for queue in polled_queues(&lo).unwrap() {
            assert_eq!((queue.by, queue.cpus), (Poller::Unknown, vec![]));
        }
    }
}
