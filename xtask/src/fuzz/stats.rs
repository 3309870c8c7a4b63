//! What libFuzzer says of a run.

use anyhow::Context;
use std::path::Path;
use std::time::Duration;

/// The numbers of one target's run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Processor time.
    pub cpu: Duration,
    executions: u64,
    /// Edges of the code that were passed.
    edges: u64,
    /// Edges with how often they were passed, and comparisons, as libFuzzer counts what is new.
    features: u64,
}

impl Stats {
    /// Reads a line as `#4096 pulse  cov: 812 ft: 2207 corp: 301/14Kb …` or
    /// `stat::number_of_executed_units: 81920`; passes by any other.
    pub fn line(&mut self, line: &str) {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = count.trim().parse().unwrap_or(self.executions);
        }
        let Some((count, rest)) = line.strip_prefix('#').and_then(|line| line.split_once('\t'))
        else {
            return;
        };
        let number = |mark: &str| {
            let (_, rest) = rest.split_once(mark)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        if let (Some(edges), Some(features)) = (number("cov: "), number("ft: ")) {
            (self.edges, self.features) = (edges, features);
            self.executions = count.parse().unwrap_or(self.executions);
        }
    }

    /// The target's line of the summary.
    pub fn summary(&self, name: &str, kept: Option<usize>, found: Option<&Path>) -> String {
        let kept = kept.map_or("-".into(), |kept| kept.to_string());
        let found = match found.and_then(Path::file_name) {
            Some(_) => format!("FAILED, see target/guided/{name}/log.txt"),
            None => "none".into(),
        };
        let Stats { executions, edges, features, .. } = self;
        let cpu = self.cpu.as_secs();
        format!("{name:22} {cpu:6} {executions:11} {edges:7} {features:8} {kept:>5}  {found}")
    }
}

/// The first line of a summary.
pub fn head(seconds: u64) -> String {
    format!(
        "\n== cargo xtask fuzz --seconds {seconds}\n{:22} {:>6} {:>11} {:>7} {:>8} {:>5}  {}\n",
        "target", "CPU s", "executions", "edges", "features", "kept", "findings"
    )
}

/// Processor time of the children that have ended and were waited for.
pub fn children_cpu() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    let ticks = ticks(&stat).with_context(|| format!("/proc/self/stat: {stat}"))?;
    Ok(Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32)
}

/// `cutime` and `cstime`, the 16th and 17th field (proc_pid_stat(5)); the second, a name in
/// parentheses, may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(13);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_are_kept() {
        let mut stats = Stats::default();
        for line in [
            "INFO: Loaded 1 modules (64 inline 8-bit counters)",
            "#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 40Mb",
            "#81920\tDONE   cov: 812 ft: 2207 corp: 301/14Kb lim: 80 exec/s: 20 rss: 60Mb",
            "#7\tGENERATE\tvalid: 1 (3.00%)",
            "stat::number_of_executed_units: 81921",
        ] {
            stats.line(line);
        }
        let wanted = Stats { cpu: Duration::ZERO, executions: 81_921, edges: 812, features: 2207 };
        assert_eq!(stats, wanted);
    }

    #[test]
    fn times_of_children_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 30 12 20 0 1 0 9";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7"), None);
    }
}
