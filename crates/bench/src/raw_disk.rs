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
                 --time_based";
    let mut args: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
    args.push(format!("--directory={}", dir.display()));
    args.push(format!("--size={FILE_BYTES}"));
    args.push(format!("--runtime={}", LENGTH.as_secs()));
    let Some(report) = fio(&args)? else { return Ok(None) };
    let rate = report["jobs"][0]["write"]["bw_bytes"].as_f64().context("fio's rate")?;
    Ok(Some(rate / 1e6))
}

/// fio's report; `None` if it is not installed.
///
/// # Errors
/// It cannot be started, it failed, or its report is no JSON.
pub(super) fn fio(args: &[String]) -> anyhow::Result<Option<serde_json::Value>> {
    let output =
        Command::new("fio").args(args).arg("--output-format=json").stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.context("starting fio")?,
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fio failed ({}): {}", output.status, messages.trim());
    parse(&String::from_utf8_lossy(&output.stdout)).context("fio's report").map(Some)
}

/// The report; notes may stand before it.
fn parse(output: &str) -> Option<serde_json::Value> {
    serde_json::from_str(&output[output.find('{')?..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_may_stand_before_the_report() {
        let report = r#"{"fio version": "fio-3.33", "jobs": [{"write": {"bw_bytes": 5000}}]}"#;
        let noted = format!("note: both iodepth >= 1\n{report}");
        for text in [report, &noted] {
            assert_eq!(parse(text).unwrap()["jobs"][0]["write"]["bw_bytes"], 5000, "{text}");
        }
        for wrong in ["", "fio: failed", "{\"jobs\": ["] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
