//! Command lines that end at once: what nats-server prints of each, where, and with which exit
//! code.
//!
//! `tests/commandline/cases` has one block per command line: `$` and the arguments, then the
//! reference's lines on standard output (`1`) and standard error (`2`), and its exit code (`=`).
//! Help is `1 USAGE` or `1 HELP ABOUT TLS`. Where ours differ on purpose, `~` and the reason
//! follow, and then ours. `MYELIN_RECORD=1` writes down again what the reference says.
//!
//! No case may let a signal look for its target: it would find servers that are not ours.

use crate::PATIENCE;
use crate::process::{PROGRAM, Setup};
use myelin_compat::implementation::reference_program;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "1 USAGE";
const HELP_TLS: &str = "1 HELP ABOUT TLS";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commandline")
}

struct Case {
    args: Vec<String>,
    reference: String,
    /// The reason and what ours prints, where that is something else.
    ours: Option<(String, String)>,
}

impl Case {
    fn parse(block: &str) -> Self {
        let (args, rest) = block.split_once('\n').unwrap_or((block, ""));
        let args = args.split_whitespace().map(str::to_owned).collect();
        let (reference, ours) = match rest.split_once("~ ") {
            None => (rest, None),
            Some((reference, rest)) => {
                let (reason, ours) = rest.split_once('\n').expect("a reason has a line of its own");
                (reference, Some((reason.to_owned(), ours.to_owned())))
            }
        };
        Self { args, reference: reference.to_owned(), ours }
    }

    fn block(&self) -> String {
        let mut block = format!("$ {}\n{}", self.args.join(" "), self.reference);
        if let Some((reason, ours)) = &self.ours {
            write!(block, "~ {reason}\n{ours}").expect("a String takes all text");
        }
        block
    }

    fn expected(&self) -> &str {
        self.ours.as_ref().map_or(&self.reference, |(_, ours)| ours)
    }
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(folder().join("cases")).expect("the cases are there");
    let text = text.strip_prefix("$ ").expect("a case begins with its arguments");
    let cases: Vec<_> =
        text.split("\n$ ").map(|block| Case::parse(&format!("{}\n", block.trim_end()))).collect();
    cases.iter().for_each(|case| assert_harmless(&case.args));
    cases
}

/// A target must be nobody: a name that is no file, or a pid that no system gives.
fn assert_harmless(args: &[String]) {
    for (at, argument) in args.iter().enumerate() {
        let flag = argument.trim_start_matches('-');
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        if !matches!(name, "sl" | "signal") {
            continue;
        }
        let order = value.or(args.get(at + 1).map(String::as_str)).unwrap_or_default();
        let target = order.split('=').nth(1).unwrap_or_default();
        let is_nobody = target == "99999999" || target.contains(|c: char| c.is_ascii_alphabetic());
        assert!(is_nobody, "{args:?} looks for a process");
    }
}

/// Runs a program to its end and writes down what it prints, without what is different every time.
fn run(program: &Path, args: &[String]) -> String {
    let mut command = Command::new(program);
    // Without PATH the reference has no `pgrep`.
    command.args(args).current_dir(folder()).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("our child").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().expect("our child");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut lines = String::new();
    if out.starts_with("\nUsage: ") && (out.ends_with("TLS help\n\n") || out.ends_with("about TLS\n\n")) {
        writeln!(lines, "{USAGE}").expect("a String takes all text");
    } else if out.starts_with("\nTLS ") {
        writeln!(lines, "{HELP_TLS}").expect("a String takes all text");
    } else {
        out.lines().for_each(|line| writeln!(lines, "1 {line}").expect("a String takes all text"));
    }
    for line in err.lines().filter_map(plain) {
        writeln!(lines, "2 {line}").expect("a String takes all text");
    }
    writeln!(lines, "= {}", output.status.code().unwrap_or(-1)).expect("a String takes all text");
    lines
}

/// A line of standard error without process and time; nothing if it only tells how the start goes.
fn plain(line: &str) -> Option<String> {
    let is_date = |word: &str| word.len() == 10 && word.as_bytes()[4] == b'/';
    let words: Vec<_> = line.splitn(4, ' ').collect();
    match words[..] {
        [_, date, _, rest] if is_date(date) => (!rest.starts_with("[INF]")).then(|| rest.to_owned()),
        [date, _, a, b] if is_date(date) => Some(format!("{a} {b}")),
        _ => Some(line.replace("nats-server", "myelin-server").replace('\0', "␀")),
    }
}

#[test]
fn every_command_line_is_answered_like_the_reference() {
    let mut wrong = String::new();
    for case in cases() {
        let said = run(Path::new(PROGRAM), &case.args);
        if said != case.expected() {
            let args = case.args.join(" ");
            writeln!(wrong, "$ {args}\n{said}instead of\n{}", case.expected())
                .expect("a String takes all text");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_reference_answers_as_written_down() {
    let Some(program) = reference_program() else { return };
    let mut cases = cases();
    let recorded: Vec<_> = cases.iter().map(|case| run(&program, &case.args)).collect();
    if std::env::var_os("MYELIN_RECORD").is_some() {
        for (case, said) in cases.iter_mut().zip(recorded) {
            case.reference = said;
        }
        let text: String = cases.iter().map(Case::block).collect();
        fs::write(folder().join("cases"), text).expect("the cases can be written");
        return;
    }
    for (case, said) in cases.iter().zip(recorded) {
        assert_eq!(said, case.reference, "$ {}", case.args.join(" "));
    }
}

/// Sends a signal by the command line and returns what is printed and the exit code.
fn send(order: &str) -> (String, Option<i32>) {
    let output = Command::new(PROGRAM).args(["--signal", order]).output().expect("the program starts");
    assert!(output.stdout.is_empty());
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

#[test]
fn a_signal_reaches_the_server_that_a_pid_or_its_file_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("server.pid");
    let file = file.to_str().expect("a path of plain letters");
    let mut server = Setup::default().flags(&["-P", file]).start();
    let done = (String::new(), Some(0));
    assert_eq!(send(&format!("reload={}", server.pid())), done);
    server.wait_for_log("Trapped \"hangup\" signal");
    assert_eq!(send(&format!("reopen={file}")), done);
    server.wait_for_log("Trapped \"user defined signal 1\" signal");
    assert_eq!(send(&format!("term={file}")), done);
    assert!(server.wait().success());
    assert!(fs::exists(file).expect("the folder is there"), "Compat: the pid file stays");
    let said = format!("myelin-server: \nsignal \"quit\" {}: no such process\n", server.pid());
    assert_eq!(send(&format!("quit={file}")), (said, Some(1)));
}

#[test]
fn the_ports_file_lives_as_long_as_the_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("a path of plain letters");
    let mut server = Setup::default().flags(&["-ports_file_dir", path]).start();
    let file = folder.path().join(format!("myelin-server_{}.ports", server.pid()));
    let ports: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("the ports file")).expect("JSON");
    assert_eq!(ports["nats"][0], server.url());
    assert!(ports["monitoring"][0].as_str().is_some_and(|url| url.starts_with("http://127.0.0.1:")));
    server.signal(rustix::process::Signal::INT);
    assert!(server.wait().success());
    assert!(!file.exists(), "it is removed at the end");
}

#[test]
fn a_server_without_a_place_for_its_ports_file_runs() {
    let server = Setup::default().flags(&["-ports_file_dir", "/no/such/folder"]).start();
    let file = format!("/no/such/folder/myelin-server_{}.ports", server.pid());
    server.wait_for_log(&format!(
        "[ERR] Error writing ports file ({file}): open {file}: no such file or directory"
    ));
}
