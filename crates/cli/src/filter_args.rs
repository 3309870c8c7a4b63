//! The filter of a subcommand, as tcpdump and dumpcap take it.

use clap::Args;
use std::io::Read;

/// Longest text of a filter in a file; the compiler refuses long ones for less.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A filter by an option.
#[derive(Args)]
pub struct FilterOptions {
    /// Read the filter from this file.
    #[arg(short = 'F', long = "filter-file", value_name = "FILE", value_parser = read_file)]
    #[arg(id = "filter_file", conflicts_with = "filter_text")]
    file: Option<FilterText>,

    /// The filter in one word, as dumpcap takes it.
    #[arg(short = 'f', id = "filter_text", value_name = "FILTER")]
    text: Option<String>,
}

/// A filter by an option or by the words at the end.
#[derive(Args)]
pub struct FilterArgs {
    #[command(flatten)]
    options: FilterOptions,

    /// pcap-filter(7) expression; frames that do not match are counted as filtered.
    #[arg(value_name = "FILTER", conflicts_with_all = ["filter_file", "filter_text"])]
    filter: Vec<String>,
}

/// The text of a filter's file.
#[derive(Clone)]
struct FilterText(String);

impl FilterOptions {
    /// The filter, if an option has it.
    pub fn expression(&self) -> Option<String> {
        self.file.as_ref().map(|FilterText(text)| text.clone()).or_else(|| self.text.clone())
    }
}

impl FilterArgs {
    /// The filter as one text; empty for none.
    pub fn expression(&self) -> String {
        self.options.expression().unwrap_or_else(|| self.filter.join(" "))
    }
}

fn read_file(path: &str) -> Result<FilterText, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| error.to_string())? as u64;
    match bytes {
        0..=FILE_BYTES_MAX => Ok(FilterText(text)),
        _ => Err(format!("it is longer than {FILE_BYTES_MAX} bytes, which no filter is")),
    }
}
