//! Compiles every program of `bpf/` with clang into objects that the crate embeds.

use std::path::{Path, PathBuf};
use std::process::Command;

const FIX: &str = "install it with `apt-get install clang` (or `make deps`), or name another one \
                    in the environment variable CLANG";

fn main() {
    println!("cargo:rerun-if-env-changed=CLANG");
    let manifest = PathBuf::from(environment("CARGO_MANIFEST_DIR"));
    let sources = manifest.join("../../bpf");
    let out = PathBuf::from(environment("OUT_DIR"));
    println!("cargo:rerun-if-changed={}", sources.display());

    let entries = std::fs::read_dir(&sources)
        .unwrap_or_else(|e| panic!("cannot list the eBPF sources {}: {e}", sources.display()));
    for entry in entries {
        let path =
            entry.unwrap_or_else(|e| panic!("cannot list {}: {e}", sources.display())).path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        println!("cargo:rerun-if-changed={}", path.display());
        if let Some(stem) = name.strip_suffix(".bpf.c") {
            compile(&path, &out.join(format!("{stem}.bpf.o")));
        }
    }
}

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// `-g` keeps BTF, which names the maps of global variables; `-mcpu=v3` is Linux 5.1 and later.
fn compile(source: &Path, object: &Path) {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let result = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror"])
        .args(["-fno-strict-aliasing", "-nostdinc", "-c"])
        .arg(source)
        .arg("-o")
        .arg(object)
        .output();
    match result {
        Err(e) => panic!("cannot run {clang}, which compiles {}: {e}; {FIX}", source.display()),
        Ok(done) if !done.status.success() => panic!(
            "{clang} cannot compile {}:\n{}",
            source.display(),
            String::from_utf8_lossy(&done.stderr)
        ),
        Ok(_) => {}
    }
}
