//! `myelin`: the command line. One verb per module, but `messages` for `pub`, `sub` and `request`,
//! and `backup` for `restore`, too.
//! Beside them: `screen` and `table` print, `settings` are flags of configurations, `buckets` what
//! those of keys and of objects have in common, `pull` takes messages from consumers, `stored`
//! reads one from the API, `monitoring` asks for pages.
//!
//! This file owns the argument tree's root and the exit code, and never any work of its own. The
//! tree is public for manual pages and completions, which are made of it (`dist/`).

mod backup;
mod bench;
mod buckets;
mod cluster;
mod complete;
mod consumer;
mod dlq;
mod kv;
mod messages;
mod monitoring;
mod object;
mod progress_bar;
mod pull;
mod screen;
mod server;
mod settings;
mod store;
mod stored;
mod stream;
mod table;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory, Parser, Subcommand};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server;

/// Examples at the end of the help, for newcomers.
const EXAMPLES: &str = "\
Examples:
  myelin sub 'orders.>' &                 show messages as they come
  myelin pub orders.new 'hello'           publish one
  myelin stream ls -s nats://host:4222    streams of a server elsewhere
  myelin why consumer ORDERS billing      why it gets no messages
  myelin bench --help                     how fast all that is

The server is a program of its own, myelin-server. The flags and contexts that say which server is meant, and who you are,
are those of the nats command.";

/// The command line of the Myelin messaging server.
#[derive(Debug, Parser)]
#[command(name = "myelin", version = myelin_stdx::VERSION, about, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Load generator for any NATS server, and comparisons of servers
    Bench(bench::BenchArguments),
    /// Publish messages
    Pub(messages::PublishArguments),
    /// Receive messages
    Sub(messages::SubscribeArguments),
    /// Send a request and show its reply
    Request(messages::RequestArguments),
    /// Make streams, look at them, change, empty and remove them
    Stream(stream::StreamArguments),
    /// Make consumers, look at them, take their messages
    Consumer(consumer::ConsumerArguments),
    /// Keys and values
    Kv(kv::KeyArguments),
    /// Objects of any size
    Object(object::ObjectArguments),
    /// Look at dead letters, change them, give them back, remove them
    Dlq(dlq::DlqArguments),
    /// Ask what holds deliveries, publishes or a connection back
    Why(why::WhyArguments),
    /// Back up all streams of an account with their consumers, or check a backup
    Backup(backup::arguments::BackupArguments),
    /// Restore the streams of a backup, and compare them with it
    Restore(backup::arguments::RestoreArguments),
    /// Go on with what is left of a stream, or of a cluster, that has lost its majority for good
    Cluster(cluster::ClusterArguments),
    /// Look whether a server is well, what it is, and what it does
    Server(server::ServerArguments),
    #[command(name = "__complete", hide = true)]
    Complete(complete::CompleteArguments),
    /// Look into the directory of a store: what is in it, and whether it is sound
    Store(store::StoreArguments),
}

/// The tree of verbs and flags, which help, manual pages and completions are made of.
#[must_use]
pub fn command() -> Command {
    Arguments::command()
}

/// Does what these arguments say; the first is the name of the program.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    match Arguments::parse_from(verb_first(arguments)).verb {
        Verb::Bench(arguments) => bench::run(arguments).unwrap_or_else(|error| failure(&error)),
        Verb::Pub(arguments) => done(messages::publish(&arguments)),
        Verb::Sub(arguments) => done(messages::subscribe(&arguments)),
        Verb::Request(arguments) => done(messages::request(&arguments)),
        Verb::Stream(arguments) => done(stream::run(&arguments)),
        Verb::Consumer(arguments) => done(consumer::run(&arguments)),
        Verb::Kv(arguments) => done(kv::run(&arguments)),
        Verb::Object(arguments) => done(object::run(&arguments)),
        Verb::Dlq(arguments) => done(dlq::run(&arguments)),
        Verb::Why(arguments) => done(why::run(&arguments)),
        Verb::Backup(arguments) => backup::backup(&arguments),
        Verb::Restore(arguments) => backup::restore(&arguments),
        Verb::Cluster(arguments) => done(cluster::run(&arguments)),
        Verb::Server(arguments) => server::run(&arguments),
        Verb::Complete(arguments) => done(complete::run(arguments)),
        Verb::Store(arguments) => store::run(arguments),
    }
}

fn done(result: Result<(), BenchError>) -> ExitCode {
    result.map_or_else(|error| failure(&error), |()| ExitCode::SUCCESS)
}

fn failure(error: &BenchError) -> ExitCode {
    ExitCode::from(screen::failure_status(error))
}

/// Moves connection flags in front of the verb behind everything, as in
/// `myelin --server URL bench pub x`: scripts for the `nats` command have them there.
fn verb_first(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut moved = Vec::new();
    while let Some(flag) = arguments.get(1).and_then(|argument| argument.to_str()) {
        let (name, has_value) = flag.split_once('=').map_or((flag, false), |(name, _)| (name, true));
        let is_server = flag.starts_with("-s") && !flag.starts_with("--");
        let count = match name {
            name if target_server::BARE.contains(&name) => 1,
            name if target_server::VALUED.contains(&name) => 1 + usize::from(!has_value),
            "-s" => 2,
            _ if is_server => 1,
            _ => break,
        };
        moved.extend(arguments.drain(1..arguments.len().min(1 + count)));
    }
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, moved);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(line: &str) -> String {
        let arguments = line.split(' ').map(OsString::from).collect();
        let arguments = verb_first(arguments).into_iter().map(|argument| argument.into_string().unwrap());
        arguments.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn connection_flags_may_stand_in_front_of_the_verb() {
        assert_eq!(order("myelin -s h --tlsfirst bench pub x"), "myelin bench pub x -s h --tlsfirst");
        assert_eq!(order("myelin --user=a -sh pub x -- -y"), "myelin pub x --user=a -sh -- -y");
        for unchanged in ["myelin", "myelin --version", "myelin bench pub -s h x", "myelin --context"] {
            assert_eq!(order(unchanged), unchanged);
        }
    }

    #[test]
    fn the_argument_tree_is_sound() {
        command().debug_assert();
        for line in [
            "myelin bench js --clients 2 pub --msgs 5 fast x --flow 3 --stream S",
            "myelin bench js pub batch x --no-progress -H a:b -H c:d --create --timeout 3s",
            "myelin bench kv --bucket b get --randomize 5 --server h",
            "myelin bench service request x --sleep 1ms --throughput 5 --duration 2s",
            "myelin bench js consume --filter a --filter b --acks all --no-doubleack --purge",
            "myelin bench oldjs --stream S push x --maxacks 5 --no-ack --doubleack --consumer c",
            "myelin bench oldjs pull x --batch 5 --ack --no-doubleack --socks-proxy p:1",
            "myelin bench oldjs ordered x --multisubject --trace",
            "myelin cluster recover ORDERS --account A --dry-run",
            "myelin cluster recover --yes",
            "myelin backup monday --exclude S --parallel 2 --no-progress --server h",
            "myelin backup --check monday --json",
            "myelin restore monday --verify --resume --replicas 1 --no-placement --context c",
        ] {
            assert!(Arguments::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
