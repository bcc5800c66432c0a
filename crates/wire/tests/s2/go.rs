//! The reference's library for S2 in a program of its own, built where Go and the library are.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;

const LIBRARY: &str = "github.com/klauspost/compress";
const PROGRAM: &str = include_str!("reference.go");

/// The program, or why there is none.
pub(crate) struct Go {
    program: PathBuf,
    folder: PathBuf,
}

impl Drop for Go {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Go {
    /// Builds the program from what Go has already downloaded: the network is not asked.
    pub(crate) fn build() -> Result<Self, String> {
        let found = command("go").args(["env", "GOMODCACHE"]).output().map_err(|e| format!("no Go: {e}"))?;
        let cache = PathBuf::from(String::from_utf8_lossy(&found.stdout).trim());
        let version = newest(&cache.join("github.com/klauspost")).ok_or("Go has no klauspost/compress")?;
        let folder = std::env::temp_dir().join(format!("myelin-s2-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let go = Self { program: folder.join("reference"), folder };
        let module = format!("module reference\n\ngo 1.24\n\nrequire {LIBRARY} {version}\n");
        fs::write(go.folder.join("go.mod"), module).map_err(|e| e.to_string())?;
        fs::write(go.folder.join("main.go"), PROGRAM).map_err(|e| e.to_string())?;
        let built = command("go")
            .current_dir(&go.folder)
            .args(["build", "-mod=mod", "-o", "reference", "."])
            .envs([("GOFLAGS", ""), ("GOPROXY", "off"), ("GONOSUMDB", "*"), ("GOWORK", "off")])
            .output()
            .map_err(|e| e.to_string())?;
        if built.status.success() { Ok(go) } else { Err(String::from_utf8_lossy(&built.stderr).into()) }
    }

    /// Runs the program with these arguments and this input.
    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let input = input.to_vec();
        // What it writes has to be read while it reads, and it may end before it has read all.
        let writer = thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("it does not panic");
        output
    }
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// The newest version of the library in the cache of modules, as its folder has it.
fn newest(folder: &Path) -> Option<String> {
    let numbers = |version: &str| -> Vec<u64> {
        version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| {
            entry.ok()?.file_name().to_str()?.strip_prefix("compress@").map(ToOwned::to_owned)
        })
        .max_by_key(|version| numbers(version))
}

/// The one program of all tests; without it they say why.
pub(crate) fn shared() -> Option<&'static Go> {
    static GO: OnceLock<Option<Go>> = OnceLock::new();
    GO.get_or_init(|| {
        Go::build().map_err(|why| println!("not compared with the reference's library: {why}")).ok()
    })
    .as_ref()
}
