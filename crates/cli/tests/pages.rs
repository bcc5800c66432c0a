//! Runs what the documents tell their readers to type, and compares what they say comes of it.
//!
//! A page is a session of a shell in a folder of its own. Its blocks of the kind `console` hold
//! commands behind `$ ` with what they print, where `…` stands for anything; a command that ends
//! in `&` goes on beside the next ones. Blocks of the kind `conf` that begin with `# NAME.conf` are
//! that file. Ports that a page names are free ones when it is run.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod servers;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a command may take, or what goes on beside the others to say what it has to say.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ports that pages name.
const PORTS: std::ops::Range<u16> = 1800..9300;

/// Signs before a port.
const BEFORE_PORTS: [&str; 4] = [":", "-p ", "-m ", "port: "];
/// Programs that pages use and that are not ours.
const OTHERS: [&str; 3] = ["nats", "nats-server", "curl"];

/// A command of a page, and the lines that it says.
struct Step {
    command: String,
    expected: Vec<String>,
}

/// Files and commands of a page.
#[derive(Default)]
struct Page {
    files: Vec<(String, String)>,
    steps: Vec<Step>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut blocks = text.split("\n```").skip(1).step_by(2);
        blocks.by_ref().filter_map(|block| block.split_once('\n')).for_each(|(kind, lines)| match kind {
            "console" => page.steps.extend(steps(lines)),
            "conf" => page.files.extend(file(lines)),
            _ => {}
        });
        page
    }

    /// Puts a free port in the place of each that is named.
    fn with_free_ports(mut self) -> (Self, BTreeMap<String, String>) {
        let mut ports = BTreeMap::new();
        let texts = self.files.iter_mut().map(|(_, text)| text);
        let said = self.steps.iter_mut().flat_map(|step| step.expected.iter_mut().chain([&mut step.command]));
        for text in texts.chain(said) {
            *text = with_ports(text, &mut ports);
        }
        (self, ports)
    }
}

fn steps(lines: &str) -> Vec<Step> {
    let mut all: Vec<Step> = Vec::new();
    for line in lines.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Step { command: command.to_owned(), expected: Vec::new() }),
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command.truncate(step.command.len() - 1);
                step.command += line.trim_start();
            }
            (None, Some(step)) => step.expected.push(line.trim_end().to_owned()),
            (None, None) => panic!("a block begins with what a command says: {line}"),
        }
    }
    all
}

/// The name and the lines of a file that a page shows.
fn file(lines: &str) -> Option<(String, String)> {
    let name = lines.lines().next()?.strip_prefix("# ")?;
    name.ends_with(".conf").then(|| (name.to_owned(), format!("{lines}\n")))
}

fn with_ports(text: &str, ports: &mut BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        let follows = BEFORE_PORTS.iter().any(|sign| before.ends_with(sign));
        let is_port = follows && number.len() == 4 && number.parse().is_ok_and(|port| PORTS.contains(&port));
        out += before;
        if is_port {
            let free = || servers::free_port().to_string();
            out += ports.entry(number.to_owned()).or_insert_with(free);
        } else {
            out += number;
        }
        rest = after;
    }
    out + rest
}

/// Whether lines are those that were expected.
fn matches(expected: &[String], said: &[&str]) -> bool {
    match (expected.split_first(), said.split_first()) {
        (None, None) => true,
        (Some((first, rest)), said_first) if first.trim() == "…" => {
            matches(rest, said) || said_first.is_some_and(|(_, after)| matches(expected, after))
        }
        (Some((first, rest)), Some((line, after))) => line_matches(first, line) && matches(rest, after),
        _ => false,
    }
}

fn line_matches(expected: &str, said: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = said.trim_end().strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut is_open = false;
    for part in parts {
        is_open = true;
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || (is_open && expected.ends_with('…'))
}

/// A shell of a reader: our programs before others, and nothing from the environment that says
/// where a server is.
struct Reader {
    folder: tempfile::TempDir,
    path: String,
    url: Option<String>,
    beside: Vec<Child>,
}

impl Reader {
    fn new(ports: &BTreeMap<String, String>) -> Self {
        let ours = Path::new(env!("CARGO_BIN_EXE_myelin")).parent().unwrap().display().to_string();
        let go = servers::installed("nats").and_then(|program| Some(program.parent()?.display().to_string()));
        let path = [Some(ours), go, std::env::var("PATH").ok()].into_iter().flatten().collect::<Vec<_>>();
        let url = ports.get("4222").map(|port| format!("nats://127.0.0.1:{port}"));
        Self { folder: tempfile::tempdir().unwrap(), path: path.join(":"), url, beside: Vec::new() }
    }

    fn start(&mut self, command: &str, output: &Path) -> Child {
        let file = fs::File::create(output).unwrap();
        let mut shell = Command::new("bash");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("NATS_")) {
            shell.env_remove(name);
        }
        shell.args(["-c", command]).current_dir(self.folder.path()).process_group(0).stdin(Stdio::null());
        shell.env("PATH", &self.path).env("HOME", self.folder.path()).env_remove("XDG_CONFIG_HOME");
        shell.envs(self.url.iter().map(|url| ("NATS_URL", url)));
        shell.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
    }

    /// Carries one step out, and says what was wrong with it.
    fn take(&mut self, number: usize, step: &Step) -> Result<(), String> {
        let output = self.folder.path().join(format!(".output-{number}"));
        let (command, goes_on) = match step.command.strip_suffix('&') {
            Some(command) => (command, true),
            None => (step.command.as_str(), false),
        };
        let mut child = self.start(command, &output);
        let deadline = Instant::now() + PATIENCE;
        loop {
            // One that was ended by another command stays in the way of who waits for it.
            self.beside.iter_mut().for_each(|beside| drop(beside.try_wait()));
            let has_ended = child.try_wait().unwrap().is_some();
            let text = fs::read_to_string(&output).unwrap();
            let said: Vec<&str> = text.lines().collect();
            let is_said = matches(&step.expected, &said);
            if is_said && (goes_on || has_ended) {
                if goes_on {
                    self.beside.push(child);
                }
                return Ok(());
            }
            if has_ended || Instant::now() > deadline {
                self.beside.push(child);
                return Err(format!("$ {}\n{text}\ninstead of\n{}", step.command, step.expected.join("\n")));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for child in &mut self.beside {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = child.wait();
        }
    }
}

fn run(page: Page) -> Result<(), String> {
    let (page, ports) = page.with_free_ports();
    let mut reader = Reader::new(&ports);
    for (name, text) in &page.files {
        fs::write(reader.folder.path().join(name), text).unwrap();
    }
    page.steps.iter().enumerate().try_for_each(|(number, step)| reader.take(number, step))
}

/// Pages with something to run. Those that need a program of others are left out, with a line that
/// says so, where it is not installed.
fn pages() -> Vec<(PathBuf, Page)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folders = [docs.clone(), docs.join("first-steps"), docs.join("security")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|is| is == "md"));
    let all = texts.map(|path| (Page::read(&fs::read_to_string(&path).unwrap()), path));
    let pages = all.filter(|(page, _)| !page.steps.is_empty()).map(|(page, path)| (path, page));
    pages.filter(|(path, page)| OTHERS.iter().all(|program| can_run(path, page, program))).collect()
}

fn can_run(path: &Path, page: &Page, program: &str) -> bool {
    let uses = |step: &Step| {
        step.command.split(['|', ';', '(']).any(|part| part.split_whitespace().next() == Some(program))
    };
    let can = servers::installed(program).is_some() || !page.steps.iter().any(uses);
    if !can {
        eprintln!("not run: {}: {program} was not found", path.display());
    }
    can
}

#[test]
fn commands_of_documents_do_what_is_said() {
    if servers::beside().is_none() {
        return;
    }
    let pages = pages();
    assert!(!pages.is_empty());
    std::thread::scope(|scope| {
        let runs: Vec<_> = pages.into_iter().map(|(path, page)| (path, scope.spawn(|| run(page)))).collect();
        let wrong = runs.into_iter().filter_map(|(path, run)| Some((path, run.join().unwrap().err()?)));
        let wrong: Vec<String> = wrong.map(|(path, said)| format!("{}: {said}", path.display())).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    });
}

#[test]
fn a_page_is_read_as_its_reader_does() {
    let text = "\n```conf\n# a.conf\nport: 4222\n```\n```console\n$ one \\\n  more\nsaid\n$ two &\n```\n```\n$ not run\n```\n";
    let (page, ports) = Page::read(text).with_free_ports();
    let [first, second] = &page.steps[..] else { panic!("two steps") };
    assert_eq!((first.command.as_str(), &first.expected[..]), ("one more", &["said".to_owned()][..]));
    assert_eq!(second.command, "two &");
    assert_eq!(page.files, [("a.conf".to_owned(), format!("# a.conf\nport: {}\n", ports["4222"]))]);
}

#[test]
fn three_dots_stand_for_anything() {
    let expected = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    for (lines, said, is) in [
        (&["a", "…", "c"][..], &["a", "x", "y", "c"][..], true),
        (&["a", "…", "c"], &["a", "c"], true),
        (&["a", "…", "c"], &["a", "x"], false),
        (&["a … c"], &["a b c"], true),
        (&["a … c"], &["a b"], false),
        (&["a"], &["a b"], false),
        (&["a…"], &["a b"], true),
        (&[], &["a"], false),
    ] {
        assert_eq!(matches(&expected(lines), said), is, "{lines:?} {said:?}");
    }
}
