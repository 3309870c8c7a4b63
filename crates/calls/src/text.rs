//! A call for people.

use crate::call::Call;
use crate::stream::Stream;
use ringside_record::text_of_time;
use std::fmt::Write;

/// A line for the call, and one for each of its streams. What is unknown is `-`.
pub fn text(call: &Call) -> String {
    let mut out = String::new();
    let time = text_of_time(call.first_ns().unwrap_or(0), "%Y-%m-%dT%H:%M:%S%.3fZ");
    let time = time.as_str().unwrap_or("-").to_owned();
    match &call.dialog {
        Some(dialog) => {
            let party = |uri: &Option<String>| uri.as_deref().map_or("-".into(), plain);
            let status = dialog.status.map_or("-".into(), |status| status.to_string());
            let _ = writeln!(
                out,
                "{time} {} -> {} {} {status} dial {} ring {} talk {} id {}",
                party(&dialog.caller),
                party(&dialog.callee),
                call.ending.name(),
                seconds(dialog.post_dial_ns()),
                seconds(dialog.ring_ns()),
                seconds(dialog.talk_ns()),
                plain(&dialog.call_id),
            );
        }
        None => {
            let _ = writeln!(out, "{time} media that no call announced");
        }
    }
    call.streams.iter().for_each(|stream| of_stream(&mut out, stream));
    out.truncate(out.trim_end().len());
    out
}

fn of_stream(out: &mut String, stream: &Stream) {
    let (key, statistics) = (&stream.key, &stream.statistics);
    let (expected, lost) = (statistics.expected(), statistics.lost());
    let percent = 100.0 * lost as f64 / expected.max(1) as f64;
    let codec = stream.codec.as_ref().map_or("-".into(), |codec| plain(&codec.name));
    let jitter = statistics.timing.jitters.values().map(|[_, mean, _]| mean);
    let mos = stream.quality().map_or("-".into(), |quality| format!("{:.2}", quality.mos));
    let endpoint = |(address, port)| match address {
        std::net::IpAddr::V6(address) => format!("[{address}]:{port}"),
        std::net::IpAddr::V4(address) => format!("{address}:{port}"),
    };
    let _ = write!(
        out,
        "    {} -> {} {codec} {} packets, {lost} of {expected} lost ({percent:.2} %), \
         {} duplicates, {} out of order, jitter {}, MOS {mos}",
        endpoint(key.source),
        endpoint(key.destination),
        statistics.packets,
        statistics.duplicates,
        statistics.out_of_order,
        jitter.map_or("-".into(), |ns| format!("{:.3} ms", ns / 1e6)),
    );
    if !stream.digits.is_empty() {
        let _ = write!(out, ", keys {}", stream.digits);
    }
    out.push('\n');
}

fn seconds(ns: Option<u64>) -> String {
    ns.map_or("-".into(), |ns| format!("{:.3} s", ns as f64 / 1e9))
}

/// Without what a terminal obeys.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
