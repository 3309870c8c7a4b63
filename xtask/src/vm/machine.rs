//! The emulated machine: two cores, a pair of igb joined by a hub, a pair of virtio-net joined by a
//! bridge of the host, the host's files.

use super::initrd;
use super::packages::Packages;
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Kernel messages that are shown when the machine did not come to its end.
const LAST_LINES: usize = 50;

/// The hub inside QEMU has one queue, and virtio-net has those of its wire.
const WIRE: &str = include_str!("wire.sh");
/// Receive queues of virtio-net. With more than the machine has cores, its driver would enable
/// queues that no socket reads once an XDP program is attached.
const QUEUES: u32 = 2;

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Cards that the kernel has.
    Kernel,
    /// Cards that vfio-pci gives to programs.
    Vfio,
}

impl Purpose {
    /// As it is said, and as its files are called.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Kernel => "kernel",
            Purpose::Vfio => "vfio",
        }
    }

    /// What its tests are among all of the test program.
    pub fn tests(self) -> &'static str {
        match self {
            Purpose::Kernel => "--skip vfio::",
            Purpose::Vfio => "vfio::",
        }
    }
}

/// Words for a kernel behind an IOMMU: its own drivers' DMA passes, and no timer is tried by
/// interrupts that a busy host brings too late.
const IOMMU_WORDS: &str = "intel_iommu=on iommu=pt no_timer_check ";

/// A machine that is ready to be started.
pub struct Machine {
    purpose: Purpose,
    qemu: PathBuf,
    tree: PathBuf,
    kernel: PathBuf,
    initrd: PathBuf,
    script: PathBuf,
    /// Makes the wire of several queues; none if the host does not allow it.
    wire: Option<PathBuf>,
    /// Where its kernel's messages go.
    pub kernel_log: PathBuf,
}

impl Machine {
    /// Writes what the machine needs into `folder`; it will run `script`.
    ///
    /// # Errors
    /// A file is missing in the packages or cannot be written.
    pub fn prepare(
        purpose: Purpose,
        folder: &Path,
        packages: &Packages,
        script: &str,
    ) -> anyhow::Result<Machine> {
        let wire = folder.join("wire.sh");
        fs::write(&wire, WIRE).with_context(|| wire.display().to_string())?;
        let wire = can_run(&wire).then_some(wire);
        let machine = Machine {
            purpose,
            wire,
            qemu: packages.path("usr/bin/qemu-system-x86_64"),
            tree: packages.tree.clone(),
            kernel: packages.path(&format!("boot/vmlinuz-{}", packages.release)),
            initrd: folder.join("initrd"),
            script: folder.join("script.sh"),
            kernel_log: folder.join(format!("{}.log", purpose.name())),
        };
        let written = [&machine.initrd, &machine.script, &machine.kernel_log];
        let bad = |path: &&&PathBuf| path.display().to_string().contains([' ', ',', '"']);
        let bad = written.iter().find(bad);
        ensure!(bad.is_none(), "{bad:?} cannot stand on a kernel's command line");
        let contents = [&initrd::build(packages)?[..], script.as_bytes(), &[]];
        for (path, contents) in written.into_iter().zip(contents) {
            fs::write(path, contents).with_context(|| path.display().to_string())?;
        }
        Ok(machine)
    }

    /// The command that runs it to its end; the first serial line is the standard output.
    pub fn command(&self) -> Command {
        let tree = |path: &str| self.tree.join(path).display().to_string();
        let log = self.kernel_log.display();
        let append = format!(
            "console=ttyS1 panic=-1 net.ifnames=0 ipv6.disable=1 {}ringside.script={}",
            if self.has_iommu() { IOMMU_WORDS } else { "" },
            self.script.display()
        );
        let mut command = self.qemu_command();
        command
            .env(
                "LD_LIBRARY_PATH",
                format!("{}:{}", tree("usr/lib/x86_64-linux-gnu"), tree("lib/x86_64-linux-gnu")),
            )
            .env("QEMU_MODULE_DIR", tree("usr/lib/x86_64-linux-gnu/qemu"))
            .args(["-L", &tree("usr/share/qemu"), "-L", &tree("usr/share/seabios")])
            .args(["-L", &tree("usr/lib/ipxe/qemu"), "-L", "/usr/share/qemu"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            // Emulation: as fast on every host, and the same in every CI.
            .args(["-cpu", "max", "-smp", "2", "-m", "2G"])
            .args(self.board())
            .args(["-serial", "stdio", "-serial", &format!("file:{log}")])
            .args([
                "-fsdev",
                "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            ])
            .args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initrd)
            .args(["-append", &append])
            .stdin(Stdio::null());
        self.add_cards(&mut command);
        if self.has_iommu() {
            add_monitor(&mut command);
        }
        command
    }

    fn has_iommu(&self) -> bool {
        self.purpose == Purpose::Vfio
    }

    /// The board, who runs its cores, and its IOMMU, which must stand before what is behind it.
    fn board(&self) -> &'static [&'static str] {
        if !self.has_iommu() {
            return &["-M", "q35", "-accel", "tcg,thread=multi"];
        }
        // Cores by turns: with a thread for each, QEMU 10 aborts now and then while one of them
        // moves the cards' memory about and another uses it ("iotlb_to_section: Assertion").
        // Interrupts by it, else vfio takes no card; with a cache for the cards' own (ats).
        &[
            "-M",
            "q35,kernel-irqchip=off",
            "-accel",
            "tcg,thread=single",
            "-device",
            "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on",
        ]
    }

    /// QEMU, in the namespace of the wire if there is one.
    fn qemu_command(&self) -> Command {
        let Some(wire) = &self.wire else { return Command::new(&self.qemu) };
        let mut command = in_namespace(wire);
        command.arg(&self.qemu);
        command
    }

    fn add_cards(&self, command: &mut Command) {
        for number in 0..2 {
            let mac = format!("52:54:00:00:01:0{number}");
            command
                .args(["-netdev", &format!("hubport,id=igb{number},hubid=0")])
                .args(["-device", &format!("pcie-root-port,id=port{number},slot={number}")])
                .arg("-device")
                .arg(format!("igb,netdev=igb{number},mac={mac},bus=port{number},romfile="));
        }
        for number in (0..2).filter(|_| self.wire.is_some()) {
            let mac = format!("52:54:00:00:02:0{number}");
            let tap = "script=no,downscript=no,vhost=off";
            // The DMA interface, which zero-copy needs; a vector for each ring and two more; and a
            // hash of its own whose key can be set, which igb's cannot.
            let mut dma = "iommu_platform=on,disable-legacy=on".to_owned();
            let vectors = 2 * QUEUES + 2;
            let mut queues = format!("mq=on,rss=on,hash=on,vectors={vectors}");
            if self.has_iommu() {
                // Translations are asked for by the device; and a queue holds a burst of the tests.
                dma += ",ats=on";
                queues += ",rx_queue_size=1024";
            }
            command
                .arg("-netdev")
                .arg(format!("tap,id=virtio{number},ifname=wire{number},queues={QUEUES},{tap}"))
                .arg("-device")
                .arg(format!(
                    "virtio-net-pci,netdev=virtio{number},mac={mac},{queues},{dma},romfile="
                ));
        }
    }

    /// The end of what its kernel said.
    pub fn last_kernel_messages(&self) -> String {
        let text = fs::read(&self.kernel_log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// The third serial line is QEMU's monitor, by which a test takes a card's link down. A socket that
/// QEMU has to itself joins the two.
fn add_monitor(command: &mut Command) {
    let socket = format!("path=ringside-vm-{},abstract=on", std::process::id());
    command
        .args(["-chardev", &format!("socket,id=monitor,{socket},server=on,wait=off")])
        .args(["-mon", "chardev=monitor,mode=readline"])
        .args(["-chardev", &format!("socket,id=line,{socket}"), "-serial", "chardev:line"]);
}

/// `unshare --net sh SCRIPT`, to be followed by a command.
fn in_namespace(script: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh"]).arg(script);
    command
}

/// True if the wire can be made here, which takes root and /dev/net/tun.
fn can_run(wire: &Path) -> bool {
    let mut command = in_namespace(wire);
    command.arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
