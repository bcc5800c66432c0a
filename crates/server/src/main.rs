//! `myelin-server`: the command line.

use myelin_conf::options::Port;
use myelin_conf::{
    BoundPorts, Effect, Invocation, LoadError, Loaded, check_reload as check_reload_of, help_tls,
    load_inspected, usage,
};
use myelin_server::ReadAgain;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A name that is no UTF-8 becomes one that no file has, and is complained about as such.
    let args: Vec<_> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let env = |name: &str| std::env::var(name).ok();
    match load_inspected(&args, &env, &myelin_server::inspect_tls) {
        Ok(command) => perform(command, &|| read_again(&args, &env)),
        Err(error) => {
            complain(&error);
            match error {
                LoadError::Flags(_) => say(usage()),
                // Compat: what is wrong with options ends in an empty line.
                LoadError::Config(_) => complain(""),
                _ => {}
            }
            ExitCode::from(error.exit_code() as u8)
        }
    }
}

/// A line for whoever asked. Nobody may be listening any more: a pipe that is closed, a disk that
/// is full.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A line about what is wrong, under the same conditions.
fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Reads the command line and the file that it names once more.
fn read_again(args: &[String], env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, LoadError> {
    match load_inspected(args, env, &myelin_server::inspect_tls)? {
        Invocation::Run(loaded) => Ok(*loaded),
        _ => Err(LoadError::Invocation("the command line does not start a server".to_owned())),
    }
}

fn perform(command: Invocation, read_again: ReadAgain<'_>) -> ExitCode {
    match command {
        Invocation::Help => say(usage()),
        Invocation::HelpTls => say(help_tls()),
        Invocation::Version => {
            say(format_args!("nats-server: v{}", myelin_wire::REFERENCE_VERSION));
            say(format_args!("myelin-server: v{}", myelin_server::MYELIN_VERSION));
        }
        Invocation::TestConfig { ref missing, .. } => {
            complain(&command);
            missing
                .iter()
                .for_each(|option| complain(format_args!("myelin-server: would not start: {option}")));
        }
        Invocation::CheckReload(pair) => return check_reload(&pair),
        Invocation::Signal(order) => return signal(&order),
        Invocation::Run(loaded) => {
            for warning in &loaded.warnings {
                complain(warning);
            }
            if let Err(error) = myelin_server::run(*loaded, read_again) {
                if !error.is_logged() {
                    complain(format_args!("myelin-server: {error}"));
                }
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Tells what a server that runs with the first configuration would do with the second. Compat:
/// there is no such thing there.
fn check_reload([old, new]: &[Loaded; 2]) -> ExitCode {
    new.warnings.iter().for_each(complain);
    let port = |port: Option<Port>| port.map(Port::to_bind);
    let bound = BoundPorts {
        client: old.options.server.port.to_bind(),
        websocket: port(old.options.websocket.listener.port),
        mqtt: port(old.options.mqtt.listener.port),
        cluster: port(old.options.cluster.listener.port),
        leaf: port(old.options.leaf_nodes.listener.port),
    };
    let changes = check_reload_of(&old.options, &new.options, bound);
    if changes.is_empty() {
        say("nothing changes");
    }
    changes.iter().for_each(|change| say(format_args!("{:<9}  {}", change.effect, change.text)));
    let needs_restart = changes.iter().any(|change| change.effect == Effect::Restart);
    if needs_restart { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

fn signal(order: &str) -> ExitCode {
    match myelin_server::deliver(order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("myelin-server: {error}"));
            ExitCode::FAILURE
        }
    }
}
