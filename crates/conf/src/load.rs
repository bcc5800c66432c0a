//! From command line, environment and file to something to do.
//!
//! Owns the order in which they count: defaults, flags, file, flags again. Prints nothing, exits
//! never.

use std::fmt;
use std::path::PathBuf;

use crate::diagnostic::Diagnostic;
use crate::digest::digest;
use crate::flags::Flags;
use crate::options::{Diagnostics, InspectTls, Options};
use crate::parser::Sources;
use crate::value::Map;
use myelin_wire::error::Quoted;

/// Name with which every message begins.
const PROGRAM: &str = "myelin-server";

/// How a configuration asks for the value of an environment variable.
type Env<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Options ready to run with, and what the operator should be told about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// File and flags, flags winning, checked against each other.
    pub options: Options,
    /// To be printed on standard error before the server starts, one line each.
    pub warnings: Vec<Diagnostic>,
    /// Options that have no meaning here; [`load`] moves them to the warnings, unless it is a test.
    notes: Vec<Diagnostic>,
    /// Options whose feature does not exist yet, and values that nobody can run with. [`load`] lets
    /// no server run with any.
    pub missing: Vec<Diagnostic>,
    /// The configuration file as named by the operator.
    pub config_file: Option<PathBuf>,
    /// `sha256:<hex>` of the parsed file, for `/varz`.
    pub config_digest: Option<String>,
}

/// Invocation: what the command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Invocation {
    /// Run a server.
    Run(Box<Loaded>),
    /// Say that the configuration file is valid, and exit 0. `Display` is the line to print.
    TestConfig {
        /// The file as named by the operator.
        path: PathBuf,
        /// `sha256:<hex>` of the parsed file.
        digest: String,
        /// Reasons why a start with this file would fail although the file is right: options whose
        /// feature does not exist yet, and values that nobody can run with. To be printed behind
        /// the line, one line each.
        missing: Vec<Diagnostic>,
    },
    /// Print the usage on standard output and exit 0.
    Help,
    /// Print what there is to know about TLS on standard output and exit 0.
    HelpTls,
    /// Print the version on standard output and exit 0.
    Version,
    /// Print what a reload would do with each option that the second configuration has changed, and
    /// exit: see [`check_reload`](crate::check_reload).
    CheckReload(Box<[Loaded; 2]>),
    /// Send a signal to another server and exit. The text is that of `-sl`: `reload`, `stop=1234`.
    Signal(String),
}

impl fmt::Display for Invocation {
    /// The line that a test of the configuration prints; empty for all others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invocation::TestConfig { path, digest, .. } => {
                write!(f, "{PROGRAM}: configuration file {} is valid ({digest})", path.display())
            }
            _ => Ok(()),
        }
    }
}

/// Why there is nothing to run.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadError {
    /// The flags cannot be read. Print the message on standard error and the usage on standard
    /// output.
    Flags(String),
    /// The flags ask for something impossible.
    Invocation(String),
    /// The configuration file cannot be opened, or its grammar is broken.
    Grammar(Diagnostic),
    /// Options in the configuration file are wrong (or, with `-t`, questionable). Never empty.
    Config(Vec<Diagnostic>),
    /// The server would have to do what it cannot yet. Never empty.
    Missing(Vec<Diagnostic>),
}

impl LoadError {
    /// Reason without the name of the program: for the log of a server that is running.
    pub fn reason(&self) -> String {
        match self {
            LoadError::Flags(message) | LoadError::Invocation(message) => message.clone(),
            LoadError::Grammar(diagnostic) => diagnostic.to_string(),
            LoadError::Config(diagnostics) | LoadError::Missing(diagnostics) => {
                let lines: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
                lines.join("\n")
            }
        }
    }

    /// The exit code of a process that cannot start for this reason.
    ///
    /// Compat: 0 for flags that cannot be read, since the reference prints its usage and leaves as
    /// if it had been asked to.
    pub fn exit_code(&self) -> i32 {
        match self {
            LoadError::Flags(_) => 0,
            _ => 1,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Flags(message) => f.write_str(message),
            _ => write!(f, "{PROGRAM}: {}", self.reason()),
        }
    }
}

impl std::error::Error for LoadError {}

/// Reads flags, then the configuration file they name, then lets the flags win.
///
/// `args` are the arguments without the program's name; `env` answers variables that a
/// configuration refers to and does not define.
///
/// # Errors
/// See [`LoadError`]. All errors of options are reported together; an error of the grammar hides
/// what follows it.
pub fn load(args: &[String], env: &dyn Fn(&str) -> Option<String>) -> Result<Invocation, LoadError> {
    load_inspected(args, env, &|_| Ok(()))
}

/// Reads flags and the configuration file, as [`load`] does, and lets `inspect` open the
/// certificates that a `tls{}` block names. What it complains about is an error of the
/// configuration, at the place of the block.
///
/// # Errors
/// As [`load`].
pub fn load_inspected(
    args: &[String],
    env: &dyn Fn(&str) -> Option<String>,
    inspect: InspectTls<'_>,
) -> Result<Invocation, LoadError> {
    let flags = Flags::parse(args).map_err(LoadError::Flags)?;
    if let Some(command) = question(&flags).map_err(LoadError::Invocation)? {
        return Ok(command);
    }
    if let Some(new) = flags.checks_reload() {
        let Some(old) = flags.config_file() else {
            let message = "must specify [-c, --config] option to check a reload";
            return Err(LoadError::Invocation(message.to_owned()));
        };
        let load = |path| load_runnable(path, &flags, env, inspect);
        return Ok(Invocation::CheckReload(Box::new([load(old)?, load(new)?])));
    }
    let Some(path) = flags.config_file() else {
        if flags.asks_test() {
            let message = "must specify [-c, --config] option to check configuration file syntax";
            return Err(LoadError::Invocation(message.to_owned()));
        }
        return run(&flags, Loaded::new(Options::default()), inspect);
    };
    // Compat: flags count before the file too, so that a file can contradict them.
    let mut options = Options::default();
    flags.apply(&mut options).map_err(LoadError::Invocation)?;
    let loaded = load_file(path, options, flags.asks_test(), env, inspect)?;
    match loaded.config_digest {
        Some(digest) if flags.asks_test() => {
            Ok(Invocation::TestConfig { path: path.into(), digest, missing: loaded.missing })
        }
        _ => run(&flags, loaded, inspect),
    }
}

/// A file with what the flags say beside it, such as a server would run with.
fn load_runnable(
    path: &str,
    flags: &Flags,
    env: Env<'_>,
    inspect: InspectTls<'_>,
) -> Result<Loaded, LoadError> {
    let mut options = Options::default();
    flags.apply(&mut options).map_err(LoadError::Invocation)?;
    let loaded = load_file(path, options, false, env, inspect)?;
    finished(flags, loaded, inspect)
}

/// Invocation that the flags ask for other than running or testing.
fn question(flags: &Flags) -> Result<Option<Invocation>, String> {
    if flags.asks_version() {
        return Ok(Some(Invocation::Version));
    }
    if flags.asks_help() {
        return Ok(Some(Invocation::Help));
    }
    if flags.asks_help_tls() {
        return Ok(Some(Invocation::HelpTls));
    }
    match flags.word().map(str::to_ascii_lowercase).as_deref() {
        Some("version") => return Ok(Some(Invocation::Version)),
        Some("help") => return Ok(Some(Invocation::Help)),
        Some(_) => {
            return Err(format!(
                "unrecognized command: {}",
                Quoted(flags.word().unwrap_or_default().as_bytes())
            ));
        }
        None => {}
    }
    Ok(flags.signal().map(|order| Invocation::Signal(order.to_owned())))
}

fn load_file(
    path: &str,
    options: Options,
    is_test: bool,
    env: Env<'_>,
    inspect: InspectTls<'_>,
) -> Result<Loaded, LoadError> {
    let root = Sources::new(env).parse_file(path).map_err(LoadError::Grammar)?;
    let mut loaded = read(&root, path, options, inspect)?;
    if is_test && !loaded.warnings.is_empty() {
        return Err(LoadError::Config(loaded.warnings));
    }
    loaded.warnings.append(&mut loaded.notes);
    loaded.config_file = Some(path.into());
    Ok(loaded)
}

/// Reads a configuration that is in no file; includes are relative to the current directory.
///
/// Meant for tests and tools. There are no flags, and conflicts between options are checked.
///
/// # Errors
/// As [`load`] for a file.
pub fn load_text(text: &[u8], env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, LoadError> {
    let root = Sources::new(env).parse_text(text, "").map_err(LoadError::Grammar)?;
    let mut loaded = read(&root, "", Options::default(), &|_| Ok(()))?;
    loaded.options.check().map_err(LoadError::Invocation)?;
    loaded.options.name_cluster();
    Ok(loaded)
}

/// Puts a parsed configuration over `options`. Errors come with the warnings, which stand first.
fn read(root: &Map, path: &str, mut options: Options, inspect: InspectTls<'_>) -> Result<Loaded, LoadError> {
    let mut report = Diagnostics::default();
    if root.is_empty() {
        let message = format!("{path}: config has no values or is empty");
        report.warnings.push(Diagnostic { position: None, message });
    }
    options.read(root, &mut report);
    let Diagnostics { mut errors, mut warnings, notes, missing, tls } = report;
    for block in tls {
        if let Err(message) = inspect(&block) {
            errors.push(Diagnostic { position: block.position, message });
        }
    }
    if !errors.is_empty() {
        warnings.extend(errors);
        return Err(LoadError::Config(warnings));
    }
    let config_digest = Some(digest(root));
    Ok(Loaded { options, warnings, notes, missing, config_file: None, config_digest })
}

fn run(flags: &Flags, loaded: Loaded, inspect: InspectTls<'_>) -> Result<Invocation, LoadError> {
    Ok(Invocation::Run(Box::new(finished(flags, loaded, inspect)?)))
}

/// Flags over the file, both checked against each other.
fn finished(flags: &Flags, mut loaded: Loaded, inspect: InspectTls<'_>) -> Result<Loaded, LoadError> {
    flags.apply(&mut loaded.options).map_err(LoadError::Invocation)?;
    flags.apply_combined(&mut loaded.options, inspect).map_err(LoadError::Invocation)?;
    loaded.options.check().map_err(LoadError::Invocation)?;
    loaded.options.name_cluster();
    loaded.warnings.extend(flags.warnings());
    loaded.missing.extend(flags.missing());
    if !loaded.missing.is_empty() {
        return Err(LoadError::Missing(loaded.missing));
    }
    Ok(loaded)
}

impl Loaded {
    /// Options that come from no file.
    fn new(options: Options) -> Self {
        Self {
            options,
            warnings: Vec::new(),
            notes: Vec::new(),
            missing: Vec::new(),
            config_file: None,
            config_digest: None,
        }
    }
}
