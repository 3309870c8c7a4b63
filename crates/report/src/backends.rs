//! What a machine can capture with.

use ringside_doctor::backends::{Backend, Report};
use std::fmt::Write;

/// The backends and the interfaces, as tables.
pub fn text(report: &Report) -> String {
    let mut out = table(&report.backends);
    out.push('\n');
    let _ = writeln!(
        out,
        "{:<16} {:<5} {:<12} {:<10} {:<7} {:<9} hardware stamps",
        "interface", "state", "driver", "link type", "queues", "GRO/LRO"
    );
    for interface in &report.interfaces {
        let _ = writeln!(
            out,
            "{:<16} {:<5} {:<12} {:<10} {:<7} {:<9} {}",
            interface.name,
            if interface.up { "up" } else { "down" },
            interface.driver.as_deref().unwrap_or("-"),
            interface.link_type.map_or("pcap only".into(), |link_type| link_type.to_string()),
            interface.receive_queues.map_or("-".into(), |count| count.to_string()),
            answer(interface.merges_frames, "on", "off"),
            answer(interface.hardware_timestamps, "yes", "no"),
        );
    }
    out
}

/// The survey's table: a line for each property, a column for each backend.
fn table(backends: &[Backend]) -> String {
    let mut out = String::new();
    let values = backends.iter().flat_map(|backend| &backend.properties);
    let width = values.map(|property| property.value.chars().count()).max().unwrap_or(0);
    let mut line = |name: &str, cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:<width$}")).collect();
        let _ = writeln!(out, "{}", format!("{name:<27} {}", cells.join(" ")).trim_end());
    };
    let names: Vec<String> = backends.iter().map(|backend| backend.name.into()).collect();
    line("", &names);
    let usable = |b: &Backend| if b.usable { "yes".to_owned() } else { "no".to_owned() };
    line("usable", &backends.iter().map(usable).collect::<Vec<_>>());
    // The columns have the same properties in the same order.
    let rows = backends.first().map_or(&[][..], |first| &first.properties);
    for (row, property) in rows.iter().enumerate() {
        let value = |b: &Backend| b.properties.get(row).map_or(String::new(), |p| p.value.clone());
        line(property.name, &backends.iter().map(value).collect::<Vec<_>>());
    }
    for backend in backends {
        if let Some(reason) = &backend.reason {
            let _ = writeln!(out, "{}: {reason}", backend.name);
        }
    }
    out
}

fn answer(value: Option<bool>, yes: &'static str, no: &'static str) -> &'static str {
    match value {
        Some(true) => yes,
        Some(false) => no,
        None => "-",
    }
}
