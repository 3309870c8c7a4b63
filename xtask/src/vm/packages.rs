//! Debian's packages, downloaded and unpacked into a folder of ours; nothing is installed.
//!
//! apt is given a configuration of its own: its lists and archives are ours, the hooks of the
//! machine are cleared, and the sources are the mirror that the machine itself uses, with the
//! suites that hold a kernel and a QEMU which are new enough.

use super::Programs;
use anyhow::{Context, bail, ensure};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The suite whose kernel runs: the first whose igb and virtio-net have AF_XDP zero-copy, with
/// modules for every card (the cloud flavour has few).
const KERNEL_SUITE: &str = "trixie-backports";
const KERNEL_PREFIX: &str = "linux-image-6.18.";
const KERNEL_SUFFIX: &str = "-amd64";

/// The emulator, and a shell that needs no library for the time before the host's files are there.
const PACKAGES: [&str; 2] = ["qemu-system-x86", "busybox-static"];

/// Name of the folder of unpacked packages; another one when what belongs into it changes.
const TREE: &str = "debian-1";

/// What the messages say that the download costs, and what stays on the disk.
const COST: &str = "about 200 MB to download once, 280 MB to keep";

/// Longest time of one call of apt or dpkg-deb, for a slow mirror.
const CALL_TIME_MAX: Duration = Duration::from_secs(300);

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The unpacked packages.
pub struct Packages {
    /// Folder that stands for their `/`.
    pub tree: PathBuf,
    /// The kernel's release, as `6.18.15+deb13-amd64`.
    pub release: String,
}

impl Packages {
    /// Finds the packages in `cache`, or downloads and unpacks them there.
    ///
    /// # Errors
    /// They cannot be had here; the error says why.
    pub fn obtain(cache: &Path, programs: &Programs) -> anyhow::Result<Packages> {
        ensure!(std::env::consts::ARCH == "x86_64", "the emulated machine is an x86-64");
        let tree = cache.join(TREE);
        if !tree.is_dir() {
            download(cache, &tree, programs).context("the packages cannot be had")?;
        }
        let release = release(&tree)?;
        Ok(Packages { tree, release })
    }

    /// A file of a package, by its path there.
    pub fn path(&self, path: &str) -> PathBuf {
        self.tree.join(path)
    }
}

/// The release of the one kernel in `tree`.
fn release(tree: &Path) -> anyhow::Result<String> {
    let modules = tree.join("usr/lib/modules");
    let mut folders = fs::read_dir(&modules).with_context(|| modules.display().to_string())?;
    let folder = folders.next().context("no kernel modules")??;
    folder.file_name().into_string().ok().context("the kernel's release is no text")
}

fn download(cache: &Path, tree: &Path, programs: &Programs) -> anyhow::Result<()> {
    println!("fetching Debian's kernel and QEMU into {}: {COST}", cache.display());
    let apt = Apt::begin(&cache.join("apt"), programs)?;
    apt.call("apt-get", &["-q", "update"])?;
    let names = output(apt.command("apt-cache").args(["pkgnames", KERNEL_PREFIX]))?;
    let kernel = newest_kernel(&names)
        .with_context(|| format!("no {KERNEL_PREFIX}…{KERNEL_SUFFIX} in {KERNEL_SUITE}"))?;
    // Its dependencies (an initrd maker, a boot loader's hooks) are for a machine that keeps it.
    apt.call("apt-get", &["-q", "download", &kernel])?;
    // What the machine lacks; the rest of the libraries it has.
    let mut install = vec!["-q", "-y", "--no-install-recommends", "--download-only"];
    install.extend(["--reinstall", "install"]);
    install.extend(PACKAGES);
    apt.call("apt-get", &install)?;
    // A folder with the final name is whole.
    let part = cache.join(format!("{TREE}.part"));
    remove(&part)?;
    for entry in fs::read_dir(&apt.archives)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            let mut unpack = Command::new("dpkg-deb");
            programs.run(unpack.arg("-x").arg(&archive).arg(&part), CALL_TIME_MAX)?;
        }
    }
    fs::rename(&part, tree).with_context(|| tree.display().to_string())?;
    remove(&apt.folder)
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// apt with lists, archives and sources of its own.
struct Apt<'p> {
    folder: PathBuf,
    archives: PathBuf,
    programs: &'p Programs<'p>,
}

impl<'p> Apt<'p> {
    fn begin(folder: &Path, programs: &'p Programs<'p>) -> anyhow::Result<Apt<'p>> {
        let codename = codename(&fs::read_to_string("/etc/os-release").unwrap_or_default())?;
        let targets = output(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
            "Identifier: Packages",
        ]))?;
        let mirror = mirror(&targets, &codename)
            .with_context(|| format!("apt has no source for the main part of {codename}"))?;
        let archives = folder.join("archives");
        for part in ["lists/partial", "archives/partial"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).with_context(|| part.display().to_string())?;
        }
        fs::write(folder.join("sources.list"), sources(&mirror, &codename))?;
        fs::write(folder.join("apt.conf"), configuration(folder, &codename))?;
        Ok(Apt { folder: folder.to_owned(), archives, programs })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.folder.join("apt.conf")).current_dir(&self.archives);
        command
    }

    fn call(&self, program: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let ended = self.programs.run(self.command(program).args(arguments), CALL_TIME_MAX);
        ended.with_context(|| format!("{program} {}", arguments.join(" ")))
    }
}

/// Standard output of a short command that must end well.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("its output is no text")
}

/// The release of Debian that os-release(5) names.
fn codename(os_release: &str) -> anyhow::Result<String> {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    ensure!(value("ID=").as_deref() == Some("debian"), "this is no Debian");
    value("VERSION_CODENAME=").context("/etc/os-release names no release")
}

/// The mirror of `codename` in what `apt-get indextargets` printed: `URI|SUITE|COMPONENT` a line.
fn mirror(targets: &str, codename: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut fields = line.split('|');
        let uri = fields.next()?;
        let wanted = fields.eq([codename, "main"]);
        wanted.then(|| uri.to_owned())
    })
}

/// One-line sources: the machine's own suite for libraries, its backports for QEMU, the kernel's.
fn sources(mirror: &str, codename: &str) -> String {
    let signed =
        if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
    let mut suites = vec![codename.to_owned(), format!("{codename}-backports")];
    if !suites.iter().any(|suite| suite == KERNEL_SUITE) {
        suites.push(KERNEL_SUITE.to_owned());
    }
    let mut text = String::new();
    for suite in suites {
        writeln!(text, "deb {signed}{mirror} {suite} main").expect("a String takes every write");
    }
    text
}

/// apt's configuration, read after the machine's own, so that its proxies stay.
fn configuration(folder: &Path, codename: &str) -> String {
    let folder = folder.display();
    format!(
        "#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
Dir::Etc::sourcelist \"{folder}/sources.list\";
Dir::Etc::sourceparts \"-\";
Dir::Etc::preferences \"-\";
Dir::Etc::preferencesparts \"-\";
Dir::State::lists \"{folder}/lists\";
Dir::Cache \"{folder}\";
Dir::Cache::archives \"{folder}/archives\";
Dir::Cache::pkgcache \"\";
Dir::Cache::srcpkgcache \"\";
APT::Default-Release \"{codename}-backports\";
APT::Sandbox::User \"\";
APT::Install-Recommends \"false\";
APT::Update::Error-Mode \"any\";
Debug::NoLocking \"true\";
Acquire::Languages \"none\";
Acquire::Retries \"1\";
Acquire::http::Timeout \"20\";
Acquire::https::Timeout \"20\";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";
Acquire::IndexTargets::deb::CNF::DefaultEnabled \"false\";
"
    )
}

/// The newest kernel of the wanted series among package names, flavours left out.
fn newest_kernel(names: &str) -> Option<String> {
    let point = |name: &str| {
        let version = name.strip_prefix(KERNEL_PREFIX)?.strip_suffix(KERNEL_SUFFIX)?;
        let (point, build) = version.split_once('+')?;
        (!build.contains('-')).then(|| point.parse::<u32>().ok())?
    };
    let newest = names.lines().filter_map(|name| Some((point(name)?, name))).max()?;
    Some(newest.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_kernel_is_taken() {
        let names = "linux-image-6.18.9+deb13-amd64\nlinux-image-6.18.15+deb13-cloud-amd64\n\
                     linux-image-6.18.12+deb13-amd64\nlinux-image-6.18.15+deb13-rt-amd64\n\
                     linux-image-6.18.13+deb13-amd64-unsigned\nlinux-image-6.18.x+deb13-amd64\n";
        assert_eq!(newest_kernel(names).as_deref(), Some("linux-image-6.18.12+deb13-amd64"));
        assert_eq!(newest_kernel("linux-image-6.12.1+deb13-amd64\n"), None);
    }

    #[test]
    fn the_mirror_is_that_of_the_machine() {
        let targets = "http://s/debian-security/|bookworm-security|main\n\
                       http://m/debian/|bookworm|contrib\nhttp://m/debian/|bookworm|main\n";
        assert_eq!(mirror(targets, "bookworm").as_deref(), Some("http://m/debian/"));
        assert_eq!(mirror(targets, "trixie"), None);
        let sources = sources("http://m/debian/", "trixie");
        assert_eq!(sources.matches("trixie-backports main\n").count(), 1, "{sources}");
    }

    #[test]
    fn another_system_gets_the_reason() {
        let debian = "PRETTY_NAME=\"Debian\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(codename(debian).unwrap(), "bookworm");
        let error = codename("ID=fedora\n").unwrap_err();
        assert_eq!(error.to_string(), "this is no Debian");
    }
}
