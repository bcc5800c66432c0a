//! `myelin-count`: what a message costs, counted instead of timed.
//!
//! Instructions of the server without its sockets and threads, under callgrind, and system calls of
//! the real one, under strace. Both are nearly the same at each run and under any load of the
//! machine, where times differ by a sixth.

mod callgrind;
mod embedded;
mod rows;
mod strace;

use clap::Parser;
use embedded::Embedded;
use std::path::PathBuf;
use std::process::ExitCode;

/// As in the server: what allocation costs is part of the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Counts instructions and system calls per message
#[derive(Parser)]
#[command(name = "myelin-count")]
struct Flags {
    /// Only the rows whose names contain one of these
    rows: Vec<String>,
    /// Messages of a run, a multiple of 64; a row is run with as many and with twice as many
    #[arg(long, default_value_t = 20_480)]
    messages: usize,
    /// A server whose system calls are counted, too
    #[arg(long)]
    server: Option<PathBuf>,
    /// Runs one row once, for valgrind to count
    #[arg(long, hide = true)]
    run: Option<String>,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.run {
        Some(name) => run(name, flags.messages),
        None => count(&flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("myelin-count: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, messages: usize) -> Result<(), String> {
    let row = rows::named(name).ok_or_else(|| format!("there is no row {name}"))?;
    (row.run)(&mut Embedded::new(), messages);
    Ok(())
}

fn count(flags: &Flags) -> Result<(), String> {
    let is_wanted =
        |name: &str| flags.rows.is_empty() || flags.rows.iter().any(|part| name.contains(part.as_str()));
    if callgrind::is_here() {
        println!("{:>10} {:>12}", "row", "instructions");
        for row in rows::ROWS.iter().filter(|row| is_wanted(row.name)) {
            let counted = callgrind::per_message(row.name, flags.messages).map_err(|why| why.to_string())?;
            println!("{:>10} {counted:>12.1}  {}", row.name, row.about);
        }
    } else {
        println!("there is no valgrind here: instructions are not counted");
    }
    let Some(server) = &flags.server else { return Ok(()) };
    if !strace::is_here() {
        println!("there is no strace here: system calls are not counted");
        return Ok(());
    }
    println!("{:>10} {:>12}", "row", "system calls");
    for row in strace::ROWS.iter().filter(|row| is_wanted(row.name)) {
        let counted = strace::per_message(row, server, flags.messages).map_err(|why| why.to_string())?;
        println!("{:>10} {counted:>12}  {}", row.name, row.about);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::embedded::Embedded;
    use crate::rows::ROWS;

    /// Each row asserts that its messages arrive.
    #[test]
    fn every_row_runs() {
        for row in &ROWS {
            (row.run)(&mut Embedded::new(), 320);
        }
    }
}
