//! Compiles the plug-in where DPDK's headers and libraries are, and puts it next to the binaries
//! that look for it there. Without them nothing is built, and nothing else changes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Oldest DPDK whose functions and names the plug-in uses.
const DPDK: &str = "libdpdk >= 22.11";

/// All that it calls is in these; drivers are opened by DPDK itself.
const LIBRARIES: [&str; 4] = ["-lrte_eal", "-lrte_mempool", "-lrte_mbuf", "-lrte_ethdev"];

const FILE: &str = "libringside_dpdk.so";

/// Folders that pkg-config looks into before all others, and in place of its own.
const SEARCHED_FIRST: &str = "PKG_CONFIG_PATH";
const SEARCHED: &str = "PKG_CONFIG_LIBDIR";

fn main() {
    println!("cargo:rerun-if-changed=plugin");
    for name in ["CC", SEARCHED_FIRST, SEARCHED, "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    for place in places().iter().filter(|place| place.is_dir()) {
        println!("cargo:rerun-if-changed={}", place.display());
    }
    let out = PathBuf::from(environment("OUT_DIR"));
    // OUT_DIR is build/NAME/out below the folder of the binaries.
    let placed = out.ancestors().nth(3).map(|folder| folder.join(FILE));
    let placed = placed.unwrap_or_else(|| out.join(FILE));
    let Some(flags) = pkg_config(&["--cflags", DPDK]) else {
        // One of another build would be opened, with another table perhaps.
        let _ = std::fs::remove_file(&placed);
        return;
    };
    let built = out.join(FILE);
    compile(&flags, &built);
    // Another process may have the file open: it gets a new one.
    std::fs::rename(&built, &placed)
        .unwrap_or_else(|e| panic!("cannot put {} there: {e}", placed.display()));
}

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Where the package may come to, or go from.
fn places() -> Vec<PathBuf> {
    let own = || pkg_config(&["--variable=pc_path", "pkg-config"]).unwrap_or_default();
    let searched = std::env::var(SEARCHED).unwrap_or_else(|_| own());
    let first = std::env::var(SEARCHED_FIRST).unwrap_or_default();
    let all = first.split(':').chain(searched.trim().split(':'));
    all.filter(|place| !place.is_empty()).map(PathBuf::from).collect()
}

/// What pkg-config says; `None` if it is not there, or does not know the package.
fn pkg_config(arguments: &[&str]) -> Option<String> {
    let output = Command::new("pkg-config").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn compile(flags: &str, built: &Path) {
    let folder = Path::new("plugin");
    let sources = ["ringside_dpdk.c", "start.c", "port.c", "receive.c", "send.c"];
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let result = Command::new(&compiler)
        .args(["-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        .args(["-fPIC", "-shared", "-fvisibility=hidden"])
        .args(flags.split_whitespace())
        .args(sources.map(|name| folder.join(name)))
        .args(LIBRARIES)
        .arg("-o")
        .arg(built)
        .output();
    match result {
        Err(e) => panic!("cannot run {compiler}, which compiles the plug-in for DPDK: {e}"),
        Ok(done) if !done.status.success() => panic!(
            "{compiler} cannot compile the plug-in for DPDK:\n{}",
            String::from_utf8_lossy(&done.stderr)
        ),
        Ok(_) => {}
    }
}
