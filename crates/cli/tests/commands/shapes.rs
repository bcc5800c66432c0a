//! Every line of every benchmark is that of `nats bench`: the banner to the letter, figures with
//! their numbers replaced.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::server::programs;
use crate::servers::{Server, installed, reference};
use crate::{PATIENCE, texts};

/// A benchmark, and what has to run beside it.
struct Case {
    line: &'static str,
    beside: Beside,
}

enum Beside {
    Nothing,
    /// Until the benchmark ends.
    Service(&'static str),
    /// Again and again until the benchmark ends, which subscribes at a time of its own.
    Publisher(&'static str),
}

fn cases() -> Vec<Case> {
    let alone = [
        "pub bench --msgs 100 --no-progress",
        "pub bench --msgs 101 --clients 2 --csv out.csv --size 1K",
        "pub bench --msgs 100 --multisubject --multisubjectmax 10 --multisubjectrandomize -H A:b --sleep 1us --no-progress",
        "pub bench --throughput 20000 --duration 5ms --no-progress --payload payload",
        "js pub sync bench --create --msgs 20 --no-progress --storage memory --dedup --dedupwindow 90s",
        "js pub async bench --purge --clients 2 --msgs 200 --batch 50 --no-progress",
        "js --clients 2 pub batch bench --msgs 100 --batch 10 --no-progress",
        "js pub atomic bench --msgs 100 --no-progress",
        "js pub fast bench --msgs 300 --max-outstanding-acks 2 --clients 2 --no-progress",
        "js ordered --msgs 50 --clients 2 --filter bench --no-progress",
        "js consume --msgs 50 --clients 2 --no-progress --acks explicit --doubleack",
        "js fetch --msgs 60 --batch 20 --no-progress --stream benchstream",
        "js get sync --msgs 20 --no-progress",
        "js get batch --msgs 40 --batch 20 --clients 2 --no-progress",
        "kv put --msgs 20 --clients 2 --size 16B --storage memory --history 2 --no-progress",
        "kv put --msgs 20 --randomize 10 --purge --storage memory --history 2 --no-progress",
        "kv put --msgs 20 --storage memory --history 2 --no-progress",
        "kv get --msgs 20 --randomize 10 --no-progress",
        "js pub sync old --stream old --create --msgs 20 --storage memory --no-progress",
        "oldjs ordered old --stream old --msgs 20 --clients 2 --no-progress --sleep 1us",
        "oldjs push old --stream old --msgs 20 --size 1K --maxacks 5 --no-progress",
        "oldjs push old --stream old --msgs 20 --doubleack --no-progress",
        "oldjs pull old --stream old --msgs 20 --batch 4 --clients 2 --doubleack --no-progress",
        "oldjs pull old --stream old --msgs 20 --no-ack --no-progress",
    ];
    let mut cases: Vec<Case> = alone.map(|line| Case { line, beside: Beside::Nothing }).into();
    let request = "service request svc --msgs 20 --clients 2 --no-progress";
    cases.push(Case { line: request, beside: Beside::Service("service serve svc --sleep 1us") });
    let sub = "sub many --msgs 50 --clients 2 --multisubject --no-progress";
    cases.push(Case {
        line: sub,
        beside: Beside::Publisher("pub many --msgs 100 --multisubject --no-progress"),
    });
    cases
}

/// Program that runs the benchmarks, and the server that they run against.
struct Tool<'a> {
    program: &'a Path,
    server: &'a Server,
}

impl Tool<'_> {
    fn bench(&self, line: &str) -> Command {
        let mut command = Command::new(self.program);
        command.arg("--server").arg(self.server.url()).arg("bench").args(line.split(' '));
        command.env("XDG_CONFIG_HOME", "/nowhere").current_dir(self.server.file("."));
        command
    }

    fn spawn(&self, line: &str) -> Child {
        self.bench(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Output of the benchmark, in the shape that is compared.
    fn run(&self, case: &Case) -> String {
        let output = match case.beside {
            Beside::Nothing => self.bench(case.line).output().unwrap(),
            Beside::Service(line) => {
                let mut service = self.spawn(line);
                self.wait_for_service();
                let output = self.bench(case.line).output().unwrap();
                service.kill().unwrap();
                service.wait().unwrap();
                output
            }
            Beside::Publisher(line) => {
                let mut child = self.spawn(case.line);
                let deadline = Instant::now() + PATIENCE;
                while child.try_wait().unwrap().is_none() {
                    assert!(Instant::now() < deadline, "{}", case.line);
                    assert!(self.bench(line).output().unwrap().status.success(), "{line}");
                }
                child.wait_with_output().unwrap()
            }
        };
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{}\n{stdout}{stderr}", case.line);
        format!("$ {}\n{}{}", case.line, said(&stderr), shape(&stdout))
    }

    fn wait_for_service(&self) {
        let deadline = Instant::now() + PATIENCE;
        let request = ["request", "svc", "x", "--raw", "--server", &self.server.url()];
        while !crate::myelin(&request).output().unwrap().status.success() {
            assert!(Instant::now() < deadline, "no service");
        }
    }

    fn run_all(&self) -> String {
        std::fs::write(self.server.file("payload"), "hello").unwrap();
        let text: String = cases().iter().map(|case| self.run(case)).collect();
        let csv = std::fs::read_to_string(self.server.file("out.csv")).unwrap();
        text + "= out.csv\n" + &csv.lines().map(csv_shape).collect::<String>()
    }
}

/// Lines for people without the time of day; what only we say is left out.
fn said(stderr: &str) -> String {
    let lines = stderr.lines().filter(|line| !line.contains("Client CPU: "));
    lines.map(|line| format!("! {}\n", line.get(9..).unwrap_or(line))).collect()
}

/// Figures with every number as `#`, and units as they come with it as `@`.
fn shape(stdout: &str) -> String {
    let mut text = String::new();
    for line in stdout.lines() {
        let mut shape = String::new();
        for character in line.chars() {
            match character {
                '0'..='9' if shape.ends_with('#') => {}
                '0'..='9' => shape.push('#'),
                other => shape.push(other),
            }
        }
        let shape = shape.replace("#,#", "#").replace("#,#", "#").replace("#.#", "#");
        let shape = ["GiB", "MiB", "KiB", "B"]
            .iter()
            .fold(shape, |shape, unit| shape.replace(&format!("# {unit}/"), "# @/"));
        text += &format!("> {shape}\n");
    }
    text
}

fn csv_shape(line: &str) -> String {
    match line.starts_with('#') {
        true => format!("> {line}\n"),
        false => {
            let cells: Vec<String> =
                line.split(',').skip(1).map(|cell| shape(cell)[2..].trim().to_owned()).collect();
            format!("> RUN,{}\n", cells.join(","))
        }
    }
}

#[test]
fn every_line_is_that_of_the_original() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/shapes.txt");
    if std::env::var_os("MYELIN_RECORD").is_some() {
        let (Some(server), Some(program)) = (reference(), installed("nats")) else {
            panic!("nats and nats-server are needed to record");
        };
        let server = Server::with_streams(&server, &[]);
        std::fs::write(&file, Tool { program: &program, server: &server }.run_all()).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    for program in programs() {
        let server = Server::with_streams(&program, &[]);
        let seen = Tool { program: Path::new(env!("CARGO_BIN_EXE_myelin")), server: &server }.run_all();
        for (expected, seen) in expected.split("$ ").zip(seen.split("$ ")) {
            assert_eq!(seen, expected, "against {}", program.display());
        }
        assert_eq!(seen.len(), expected.len());
    }
}
