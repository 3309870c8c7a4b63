//! What a user without rights does.

use super::{Outcome, Running, ringside};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `nobody`, with these capabilities only, in a network namespace; to be completed.
pub fn as_nobody(namespace: &str, capabilities: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "setpriv", "--reuid=65534", "--regid=65534"]);
    command.args(["--clear-groups", &format!("--inh-caps={capabilities}")]);
    if capabilities != "-all" {
        command.arg(format!("--ambient-caps={capabilities}"));
    }
    // Under `scripts/coverage`: that user may not write there, and what says so is not the command.
    command.env("LLVM_PROFILE_FILE", "/dev/null");
    command
}

/// The same with a program, to its end.
pub fn nobody(namespace: &str, capabilities: &str, program: &Path, args: &[&str]) -> Outcome {
    let mut command = as_nobody(namespace, capabilities);
    command.arg(program).args(args);
    Running::start(command).finish()
}

/// A copy of the binary where every user may execute it.
pub fn public_folder() -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let program = folder.path().join("ringside");
    std::fs::copy(ringside(), &program).unwrap();
    (folder, program)
}
