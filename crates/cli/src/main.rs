//! `myelin`: the program; everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    myelin_cli::run(std::env::args_os().collect())
}
