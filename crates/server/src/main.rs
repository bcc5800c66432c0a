//! `myelin-server`: the command line.

use myelin_conf::{Command, LoadError, Loaded, SignalCommand, load_inspected, usage};
use myelin_server::ReadAgain;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let env = |name: &str| std::env::var(name).ok();
    match load_inspected(&args, &env, &myelin_server::inspect_tls) {
        Ok(command) => perform(command, &|| read_again(&args, &env)),
        Err(error) => {
            eprintln!("{error}");
            if let LoadError::Flags(_) = error {
                println!("{}", usage());
            }
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

/// What the command line and the file that it names say now.
fn read_again(args: &[String], env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, LoadError> {
    match load_inspected(args, env, &myelin_server::inspect_tls)? {
        Command::Run(loaded) => Ok(*loaded),
        _ => Err(LoadError::Command("the command line does not start a server".to_owned())),
    }
}

fn perform(command: Command, read_again: ReadAgain<'_>) -> ExitCode {
    match command {
        Command::Help => println!("{}", usage()),
        Command::Version => {
            println!("nats-server: v{}", myelin_wire::REFERENCE_VERSION);
            println!("myelin-server: v{}", myelin_server::MYELIN_VERSION);
        }
        Command::TestConfig { ref missing, .. } => {
            eprintln!("{command}");
            missing.iter().for_each(|option| eprintln!("myelin-server: would not start: {option}"));
        }
        Command::Signal { command, target } => return signal(command, target.as_deref()),
        Command::Run(loaded) => {
            for warning in &loaded.warnings {
                eprintln!("{warning}");
            }
            if let Err(error) = myelin_server::run(*loaded, read_again) {
                eprintln!("myelin-server: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn signal(command: SignalCommand, target: Option<&str>) -> ExitCode {
    let word = match command {
        SignalCommand::Stop => "stop",
        SignalCommand::Quit => "quit",
        SignalCommand::Term => "term",
        SignalCommand::Reopen => "reopen",
        SignalCommand::Reload => "reload",
        SignalCommand::LameDuck => "ldm",
    };
    let order = target.map_or_else(|| word.to_owned(), |target| format!("{word}={target}"));
    match myelin_server::deliver(&order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("myelin-server: {error}");
            ExitCode::FAILURE
        }
    }
}
