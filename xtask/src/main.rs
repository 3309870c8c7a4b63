#![forbid(unsafe_code)]
//! `cargo xtask`: the project's own chores. `tidy` checks the rules that docs/STYLE.md states and
//! the compiler does not know; `test` is the run behind `make test`, in short, and `make test-all`.

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use xtask::test::{Length, Order, Step};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the house rules; one line a finding
    Tidy,
    /// Copy what the site of the documentation is built from to target/book-source (`make book`)
    Book,
    /// Run the checks and tests in short, and end with one line of counts
    Test {
        /// Only these steps, in the order of the run
        #[arg(long, value_delimiter = ',', value_name = "STEP,…")]
        only: Vec<Step>,
        /// Everything: the long counts, all captures, the emulated machine; takes hours
        #[arg(long)]
        all: bool,
        /// Write the summary to this file too
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        /// Only tests whose names contain one of these, as `store/all repair::`; implies
        /// `--only tests`
        names: Vec<String>,
    },
    /// Run the fuzz tests guided by what their inputs reach, one after the other
    Fuzz {
        /// For all targets together
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// Write the smallest inputs that reach something into the tree, as seeds
        #[arg(long)]
        keep: bool,
        /// Append the summary to this file
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        /// Only these of crates/testkit/fuzz/targets.txt
        targets: Vec<String>,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let root = ringside_testkit::project_root();
    let well = match Arguments::parse().chore {
        Chore::Tidy => {
            let findings = xtask::tidy::check(&root)?;
            findings.iter().for_each(|finding| println!("{finding}"));
            eprintln!("tidy: {} findings", findings.len());
            findings.is_empty()
        }
        Chore::Book => {
            let count = xtask::book::lay_out(&root)?;
            eprintln!("book: {count} files");
            true
        }
        Chore::Test { mut only, all, record, names } => {
            if only.is_empty() && !names.is_empty() {
                only.push(Step::Tests);
            }
            let length = if all { Length::Long } else { Length::Short };
            xtask::test::run(&root, &Order { only, names, length, record })?
        }
        Chore::Fuzz { seconds, keep, record, targets } => {
            let order = xtask::fuzz::Order { seconds, keep, record, names: targets };
            xtask::fuzz::run(&root, &order)?
        }
    };
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
