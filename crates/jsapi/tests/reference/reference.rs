//! The real nats-server, asked.

use crate::client::Client;
use crate::requests::{Line, Scenario, masked};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Reference(Child);

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Reference {
    /// Starts the server and gives the address at which it takes clients.
    fn start(program: &Path, folder: &Path, config: &[&str]) -> (Self, String) {
        let file = folder.join("reference.conf");
        let (accounts, jetstream): (Vec<&str>, Vec<&str>) =
            config.iter().partition(|line| line.starts_with("accounts"));
        let text = format!(
            "listen: \"127.0.0.1:-1\"\njetstream {{\nstore_dir: \"{}\"\n{}\n}}\n{}\n",
            folder.display(),
            jetstream.join("\n"),
            accounts.join("\n")
        );
        std::fs::write(&file, text).unwrap();
        let process = Command::new(program)
            .arg("-c")
            .arg(&file)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut reference = Self(process);
        let mut log = BufReader::new(reference.0.stderr.take().unwrap());
        let mut address = String::new();
        let mut seen = Vec::new();
        for line in log.by_ref().lines().map_while(Result::ok) {
            if let Some((_, found)) = line.split_once("client connections on ") {
                address = found.to_owned();
            } else if line.contains("Server is ready") {
                // The server would wait for ever for somebody to read what it has to say.
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return (reference, address);
            }
            seen.push(line);
        }
        panic!("the reference ended before it was ready: {seen:#?}");
    }
}

pub(crate) fn answers(program: &Path, scenario: &Scenario) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (_reference, address) = Reference::start(program, folder.path(), &scenario.config());
    let mut client = Client::connect(&address);
    let mut answers = Vec::new();
    for line in &scenario.lines {
        match line {
            Line::Blank => clear(&mut client),
            Line::Exchange(exchange) => {
                answers.push(masked(&ask(&mut client, &exchange.subject(), &exchange.body())));
            }
            _ => {}
        }
    }
    answers
}

/// Asks until a folder that the reference is still removing, from the group before, is out of the
/// way.
fn ask(client: &mut Client, subject: &str, body: &[u8]) -> String {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = client.request(subject, body);
        if !answer.contains("error creating store for stream") || Instant::now() > deadline {
            return answer;
        }
    }
}

/// Deletes all streams.
fn clear(client: &mut Client) {
    let names = client.request("$JS.API.STREAM.NAMES", b"");
    let names: serde_json::Value = serde_json::from_str(&names).unwrap();
    for name in names["streams"].as_array().into_iter().flatten().filter_map(|name| name.as_str()) {
        client.request(&format!("$JS.API.STREAM.DELETE.{name}"), b"");
    }
}
