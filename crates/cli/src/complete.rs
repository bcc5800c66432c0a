//! `myelin __complete`: names of streams, consumers, buckets, keys and objects for a shell that
//! completes a line. The scripts of completion ask it (`dist/src/completion.rs`).
//!
//! Owns which names may come: a shell runs the line in the end, so that a name with a sign that
//! means something to a shell is left out. Never fails: a server that is not there has no names.

use std::ffi::OsString;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{Args, Command, Parser};
use myelin_loadgen::admin::Admin;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::target_server::{BARE, ConnectionFlags, VALUED};
use serde_json::{Value, json};

use crate::buckets::check_bucket;
use crate::screen::show;
use crate::table::text;

/// Longest time that somebody waits behind the tabulator key.
const PATIENCE: Duration = Duration::from_secs(1);

/// `myelin __complete`
#[derive(Args, Debug)]
pub(crate) struct CompleteArguments {
    /// Words of the line up to the one where the cursor is, which may be empty
    #[arg(last = true)]
    words: Vec<String>,
}

/// Connection flags of a line.
#[derive(Debug, Parser)]
struct LineFlags {
    #[command(flatten)]
    flags: ConnectionFlags,
}

/// A line until its last word.
#[derive(Debug, Default)]
struct Line {
    /// Verbs by their whole names: `consumer`, `info`.
    verbs: Vec<String>,
    /// Arguments without a dash, with their names in the help.
    given: Vec<(String, String)>,
    /// Connection flags and their values.
    flags: Vec<String>,
    /// Name of the argument at the cursor.
    wanted: Option<String>,
}

pub(crate) fn run(arguments: CompleteArguments) -> Result<(), BenchError> {
    let Some((last, before)) = arguments.words.split_last() else { return Ok(()) };
    let line = Line::read(before);
    let (send, receive) = channel();
    // The process ends without the thread where the server takes its time.
    std::thread::spawn(move || send.send(line.names().unwrap_or_default()));
    let names = receive.recv_timeout(PATIENCE).unwrap_or_default();
    let lines: String = names
        .iter()
        .filter(|name| name.starts_with(last) && is_plain(name))
        .map(|name| format!("{name}\n"))
        .collect();
    show(&lines)
}

/// Whether a shell takes the name for nothing but a word.
fn is_plain(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./:,@+".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_good)
}

impl Line {
    /// Reads words as the tree of verbs has them; the first is the program.
    fn read(words: &[String]) -> Self {
        let mut tree = crate::command();
        tree.build();
        let mut line = Self::default();
        let mut command = &tree;
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            if word.starts_with('-') {
                let value = takes_value(command, word).then(|| words.next().cloned()).flatten();
                let name = word.split('=').next().unwrap_or_default();
                if BARE.contains(&name) || VALUED.contains(&name) || name.starts_with("-s") {
                    line.flags.push(word.clone());
                    line.flags.extend(value);
                }
            } else if let Some(verb) = command.find_subcommand(word) {
                line.verbs.push(verb.get_name().to_owned());
                command = verb;
            } else {
                let name = line.positional(command).unwrap_or_default();
                line.given.push((name, word.clone()));
            }
        }
        line.wanted = line.positional(command);
        line
    }

    /// Name of the next argument without a dash.
    fn positional(&self, command: &Command) -> Option<String> {
        let mut arguments = command.get_positionals();
        arguments.nth(self.given.len()).map(|argument| argument.get_id().as_str().to_owned())
    }

    fn of(&self, name: &str) -> &str {
        self.given.iter().find(|(given, _)| given == name).map_or("", |(_, word)| word)
    }

    /// Names that the server knows for the argument at the cursor.
    fn names(&self) -> Result<Vec<String>, BenchError> {
        let program = OsString::from("myelin");
        let flags =
            LineFlags::try_parse_from(std::iter::once(program).chain(self.flags.iter().map(OsString::from)));
        let flags = flags.map_err(|error| BenchError::Usage(error.to_string()))?.flags;
        let noun = self.verbs.first().map(String::as_str);
        let open = || Admin::open(&flags.target()?);
        let strings = |values: Vec<Value>| values.iter().map(text).collect();
        let buckets = |prefix: &str| -> Result<Vec<String>, BenchError> {
            let streams: Vec<String> = strings(open()?.streams("NAMES")?);
            Ok(streams.iter().filter_map(|name| name.strip_prefix(prefix)).map(str::to_owned).collect())
        };
        match (noun, self.wanted.as_deref()) {
            (_, Some("stream")) => Ok(strings(open()?.streams("NAMES")?)),
            (_, Some("consumer")) => {
                // What stands in a subject must not be more than a part of it.
                names::stream(self.of("stream"))?;
                Ok(strings(open()?.consumers("NAMES", self.of("stream"))?))
            }
            (Some("kv"), Some("bucket")) => buckets("KV_"),
            (Some("object"), Some("bucket")) => buckets("OBJ_"),
            (Some("kv"), Some("key")) => {
                check_bucket(self.of("bucket"))?;
                keys(&mut open()?, self.of("bucket"))
            }
            (Some("object"), Some("object")) => {
                check_bucket(self.of("bucket"))?;
                crate::object::names(&mut open()?, self.of("bucket"))
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Whether the word behind this flag is its value.
fn takes_value(command: &Command, word: &str) -> bool {
    if word.contains('=') {
        return false;
    }
    let long = word.strip_prefix("--");
    let short = word.strip_prefix('-').filter(|rest| rest.len() == 1).and_then(|rest| rest.chars().next());
    let is_meant = |argument: &&clap::Arg| match long {
        Some(name) => argument.get_long() == Some(name),
        None => short.is_some() && argument.get_short() == short,
    };
    if VALUED.contains(&word) || word == "-s" {
        return true;
    }
    command.get_arguments().find(is_meant).is_some_and(|argument| argument.get_action().takes_values())
}

/// Keys of a bucket, one page of them.
fn keys(admin: &mut Admin, bucket: &str) -> Result<Vec<String>, BenchError> {
    let prefix = format!("$KV.{bucket}.");
    let info = admin
        .ask(&format!("STREAM.INFO.KV_{bucket}"), &json!({ "subjects_filter": format!("{prefix}>") }))?;
    let subjects = info["state"]["subjects"].as_object().into_iter().flatten();
    Ok(subjects.filter_map(|(subject, _)| subject.strip_prefix(&prefix)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::read(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_argument_at_the_cursor_is_found() {
        let wanted = |text: &str| line(text).wanted.unwrap_or_default();
        assert_eq!(wanted("myelin stream info"), "stream");
        assert_eq!(wanted("myelin stream delete -f"), "stream");
        assert_eq!(wanted("myelin stream edit --max-age 1h S"), "");
        assert_eq!(wanted("myelin consumer next --count 5 S"), "consumer");
        assert_eq!(wanted("myelin -s nats://h kv get B"), "key");
        assert_eq!(wanted("myelin object get"), "bucket");
        assert_eq!(wanted("myelin stream"), "");
        let line = line("myelin -s h --user=u consumer rm --force --context c S");
        assert_eq!(line.verbs, ["consumer", "rm"]);
        assert_eq!(line.flags, ["-s", "h", "--user=u", "--context", "c"]);
        assert_eq!(line.of("stream"), "S");
    }

    #[test]
    fn nothing_is_asked_about_a_word_that_is_no_name() {
        for words in
            [&["consumer", "info", "a b"][..], &["kv", "get", "a.b"], &["object", "get", "a\r\nPUB x"]]
        {
            let words = [&["myelin", "-s", "127.0.0.1:1"], words].concat();
            let error = Line::read(&words.into_iter().map(str::to_owned).collect::<Vec<_>>()).names();
            assert!(matches!(&error, Err(BenchError::Usage(text)) if text.contains("name")), "{error:?}");
        }
    }

    #[test]
    fn no_name_is_a_command_of_the_shell() {
        assert!(["A", "a.b/c=d", "x_y-z"].iter().all(|name| is_plain(name)));
        for bad in ["$(reboot)", "`x`", "a;b", "a b", "-f", "", "a\nb", "a'b", "~x", "a\\b", "!x", "{a,b}"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
