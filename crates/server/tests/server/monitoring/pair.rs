//! Two servers that are told and asked the same, and where their answers differ.

use super::shape::differences;
use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use myelin_compat::implementation::reference_program;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Keys whose values belong to one process, one moment or one implementation. Their types are
/// compared all the same.
const VARIES: &[&str] = &[
    "server_id",
    "go",
    "host",
    "port",
    "now",
    "start",
    "uptime",
    "mem",
    "cpu",
    "cmdline",
    "memstats",
    "last_activity",
    "idle",
    "stop",
    "rtt",
    "config_load_time",
    "update_time",
];

/// Both servers, told and asked the same.
pub(super) struct Pair {
    ours: Server,
    reference: Server,
}

impl Pair {
    pub(super) fn start(config: &str) -> Option<Self> {
        let program = reference_program()?;
        let setup = Setup::default().config(config);
        Some(Self { ours: setup.clone().start(), reference: setup.program(&program).start() })
    }

    pub(super) fn each(&self) -> [&Server; 2] {
        [&self.ours, &self.reference]
    }

    /// A client of each that says CONNECT with these fields and then `commands`.
    pub(super) fn client(&self, fields: &str, commands: &str) -> [Raw; 2] {
        self.each().map(|server| {
            let mut raw = Raw::open(server.address());
            raw.send(&format!("CONNECT {{\"verbose\":false,\"pedantic\":false,{fields}}}\r\n"));
            // The reference counts for no account what comes in one packet with CONNECT.
            raw.barrier();
            raw.send(commands);
            raw.barrier();
            raw
        })
    }

    /// A client of each that says `text` and is closed for it.
    pub(super) fn closed_for(&self, text: &str) {
        for server in self.each() {
            let mut raw = Raw::open(server.address());
            raw.send(text);
            raw.rest();
        }
    }

    /// Waits until both know of so many closed connections.
    pub(super) fn await_closed(&self, count: u64) {
        eventually("closed connections", || {
            let totals = self.each().map(|server| server.page("/connz?state=closed")["total"].clone());
            totals.iter().all(|total| *total == count)
        });
    }

    /// Asks both until they agree, for what has just happened may not be counted everywhere yet.
    pub(super) fn agree(&self, request: &str, disagreements: impl Fn(&Answers) -> Vec<String>) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let [ours, reference] = self.each().map(|server| Answer::of(server, request));
            let answers = Answers { ours, reference };
            let found = disagreements(&answers);
            if found.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{request}\n{}\n{answers:#?}", found.join("\n"));
        }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    status: String,
    headers: Vec<String>,
    pub(super) body: String,
}

#[derive(Debug)]
pub(super) struct Answers {
    pub(super) ours: Answer,
    pub(super) reference: Answer,
}

impl Answer {
    pub(super) fn of(server: &Server, request: &str) -> Self {
        let (head, body) = server.exchange(request);
        let mut lines = head.lines();
        let status = lines.next().expect("a status line").to_owned();
        let mut headers: Vec<_> = lines
            .map(str::to_lowercase)
            .filter(|line| {
                !["date:", "content-length:", "connection:"].iter().any(|name| line.starts_with(name))
            })
            .collect();
        headers.sort();
        Self { status, headers, body }
    }

    /// The page without what the order of a hash table decides, and with client ids counted from 1.
    fn page(&self, order: Order) -> Value {
        let mut page: Value = serde_json::from_str(&self.body).unwrap_or(Value::Null);
        settle(&mut page, order);
        page
    }
}

/// Whether the rows of a page stand in an order that was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Kept,
    /// By name: rows that are equal in the order asked for come in any.
    Any,
}

fn settle(value: &mut Value, order: Order) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("git_commit");
            // Ours alone: the reference does not outlive one.
            fields.shift_remove("panics");
            for name in ["imports", "exports"] {
                fields.shift_remove(name);
            }
            for (name, value) in fields.iter_mut() {
                settle(value, order);
                let is_ordered = name == "connections" && order == Order::Kept;
                if let (false, Some(list)) = (is_ordered, value.as_array_mut()) {
                    list.retain(|item| !is_of_a_service(item));
                    list.sort_by_key(key);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| settle(item, order)),
        _ => {}
    }
}

/// Sort key of an item: values that are the same on both servers.
fn key(item: &Value) -> String {
    let named = ["name", "sid", "acc"].iter().filter_map(|name| item.get(name)).map(Value::to_string);
    let named: String = named.collect();
    if named.is_empty() { item.to_string() } else { named }
}

/// A subscription that the reference makes for its own services.
fn is_of_a_service(item: &Value) -> bool {
    let subject = item.get("subject").and_then(Value::as_str).unwrap_or_default();
    subject.starts_with("$SYS") || subject.starts_with("_R_")
}

impl Answers {
    /// Where the answers differ in what every page must agree in.
    pub(super) fn framing(&self) -> Vec<String> {
        let (ours, reference) = (&self.ours, &self.reference);
        let mut found = Vec::new();
        if ours.status != reference.status {
            found.push(format!("{} is not {}", ours.status, reference.status));
        }
        let is_chunked = |line: &&String| !line.starts_with("transfer-encoding");
        if !ours.headers.iter().eq(reference.headers.iter().filter(is_chunked)) {
            found.push(format!("{:?} are not {:?}", ours.headers, reference.headers));
        }
        found
    }

    /// Where two pages differ.
    pub(super) fn pages(&self, order: Order, ignored: &[&str]) -> Vec<String> {
        let (ours, reference) = (self.ours.page(order), self.reference.page(order));
        let mut found = self.framing();
        if self.ours.status.contains(" 200 ") {
            found.extend(differences(&ours, &reference));
            let bases = [first_cid(&ours), first_cid(&reference)];
            values("", &ours, &reference, bases, ignored, &mut found);
        } else if self.ours.body != self.reference.body {
            found.push(format!("{:?} is not {:?}", self.ours.body, self.reference.body));
        }
        found
    }
}

/// The smallest client id on a page: the reference gives the first ones to its own clients.
pub(super) fn first_cid(page: &Value) -> u64 {
    fn walk(value: &Value, least: &mut u64) {
        match value {
            Value::Object(fields) => {
                if let Some(cid) = fields.get("cid").and_then(Value::as_u64) {
                    *least = cid.min(*least);
                }
                fields.values().for_each(|value| walk(value, least));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, least)),
            _ => {}
        }
    }
    let mut least = u64::MAX;
    walk(page, &mut least);
    least
}

/// Collects the values that differ; `bases` are what client ids are counted from.
fn values(path: &str, a: &Value, b: &Value, bases: [u64; 2], ignored: &[&str], found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                let Some(other) = b.get(name) else { continue };
                // What was left unsent at the end is a matter of moments.
                let is_leftover = name == "pending_bytes" && a.contains_key("stop");
                if is_leftover || VARIES.contains(&name.as_str()) || ignored.contains(&name.as_str()) {
                    continue;
                }
                let path = format!("{path}/{name}");
                match (name.as_str(), value.as_u64(), other.as_u64()) {
                    ("cid", Some(a), Some(b)) if a - bases[0] == b - bases[1] => {}
                    _ => values(&path, value, other, bases, ignored, found),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                values(&format!("{path}/{index}"), a, b, bases, ignored, found);
            }
        }
        _ if a != b => found.push(format!("{path}: {a} is not {b}")),
        _ => {}
    }
}
