//! The raw speed of a disk, which a recorder cannot pass: fio, with the recorder's kind of writes.

use super::place::Workspace;
use anyhow::{Context, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long the disk is written.
pub(super) const LENGTH: Duration = Duration::from_secs(2);
/// Size of the file, written again from its start if the time is not over.
const FILE_BYTES: u64 = 4 << 30;

/// Sequential O_DIRECT writes of 4 MiB, four in flight, to a new file, in million bytes a second;
/// `None` if fio is not installed.
///
/// # Errors
/// fio failed.
pub(super) fn mb_per_s(disk: &Workspace) -> anyhow::Result<Option<f64>> {
    let dir = disk.fresh()?;
    let speed = run_fio(&dir);
    std::fs::remove_dir_all(&dir)?;
    speed
}

fn run_fio(dir: &Path) -> anyhow::Result<Option<f64>> {
    let fixed = "--name=raw --rw=write --bs=4M --direct=1 --ioengine=io_uring --iodepth=4 \
                 --time_based --output-format=json";
    let output = Command::new("fio")
        .args(fixed.split_whitespace())
        .arg(format!("--directory={}", dir.display()))
        .arg(format!("--size={FILE_BYTES}"))
        .arg(format!("--runtime={}", LENGTH.as_secs()))
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.context("starting fio")?,
    };
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "fio failed: {}", messages.trim());
    parse(&String::from_utf8_lossy(&output.stdout)).context("fio's figures").map(Some)
}

/// `jobs[0].write.bw_bytes`; warnings may stand before the JSON.
fn parse(output: &str) -> Option<f64> {
    let report: serde_json::Value = serde_json::from_str(&output[output.find('{')?..]).ok()?;
    Some(report["jobs"][0]["write"]["bw_bytes"].as_f64()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_stands_in_the_report() {
        let report = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "raw",
            "read": {"bw_bytes": 0}, "write": {"bw_bytes": 2516582400, "bw": 2457600}}]}"#;
        assert_eq!(parse(report), Some(2516.5824));
        assert_eq!(parse(&format!("note: both iodepth >= 1\n{report}")), Some(2516.5824));
        for wrong in ["", "fio: failed", "{}", r#"{"jobs": []}"#] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
