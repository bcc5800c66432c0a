//! System calls of the real server, as `strace -f -c` counts them.
//!
//! As with instructions, a row is run with a number of messages and with twice as many. How many
//! messages one read takes in depends on who is faster, so these figures are rounder than those; a
//! call more for each message shows at once.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take for anything.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long it is left alone between two looks at whether it is there.
const PAUSE: Duration = Duration::from_millis(20);
/// Messages that are sent before the first answer is awaited, in the rows that do so.
const BATCH: usize = 64;

/// One load.
pub(crate) struct CallRow {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    run: fn(&mut Clients, usize) -> io::Result<()>,
}

/// All of them.
pub(crate) const ROWS: [CallRow; 5] = [
    CallRow { name: "pub", about: "16 bytes that nobody subscribes to, 64 at once", run: publish },
    CallRow { name: "request", about: "a request and its reply, one after the other", run: request },
    CallRow {
        name: "js-sync",
        about: "128 bytes stored in a file, each acknowledged before the next",
        run: store_one_by_one,
    },
    CallRow { name: "js-file", about: "128 bytes stored in a file, 64 at once", run: store },
    CallRow { name: "js-push", about: "js-file, pushed to a consumer that acknowledges nothing", run: push },
];

/// Whether there is an strace on this machine.
pub(crate) fn is_here() -> bool {
    Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success())
}

/// System calls per message of a row.
///
/// # Errors
/// The server does not run, or ended in the middle.
pub(crate) fn per_message(row: &CallRow, server: &Path, messages: usize) -> io::Result<String> {
    let once = total(row, server, messages)?;
    let twice = total(row, server, 2 * messages)?;
    Ok(format!("{:.3}", (twice as f64 - once as f64) / messages as f64))
}

fn total(row: &CallRow, program: &Path, messages: usize) -> io::Result<u64> {
    let folder = tempfile::tempdir()?;
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let (counts, pid) = (folder.path().join("counts"), folder.path().join("pid"));
    let mut traced = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&counts)
        .arg(program)
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"])
        .arg(folder.path())
        .arg("-P")
        .arg(&pid)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let done = Clients::connect(port).and_then(|mut clients| (row.run)(&mut clients, messages));
    let ended = end(&mut traced, program, &pid);
    done.and(ended)?;
    let counts = fs::read_to_string(&counts)?;
    calls(&counts).ok_or_else(|| io::Error::other(format!("strace does not say what it counted:\n{counts}")))
}

/// Has the server stop, or ends strace if there is none.
fn end(traced: &mut Child, program: &Path, pid: &Path) -> io::Result<()> {
    let Ok(pid) = fs::read_to_string(pid) else {
        traced.kill()?;
        return traced.wait().map(drop);
    };
    let signal = format!("stop={}", pid.trim());
    Command::new(program).arg("--signal").arg(signal).stdout(Stdio::null()).status()?;
    traced.wait().map(drop)
}

/// The calls of all kinds: `100.00 0.012 3 4123 12 total`, without the errors if there were none.
fn calls(counts: &str) -> Option<u64> {
    let total = counts.lines().find(|line| line.trim_end().ends_with(" total"))?;
    total.split_whitespace().nth(3)?.parse().ok()
}

/// A publisher, and one who listens.
struct Clients {
    publisher: Client,
    listener: Client,
}

impl Clients {
    fn connect(port: u16) -> io::Result<Self> {
        let deadline = Instant::now() + DEADLINE;
        let publisher = loop {
            match Client::connect(port) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                connected => break connected?,
            }
        };
        Ok(Self { publisher, listener: Client::connect(port)? })
    }
}

struct Client {
    input: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Client {
    fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut client = Self { input: BufReader::new(stream), line: Vec::new() };
        let greeting = "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB _INBOX.abcdefghijkl.* 1\r\n";
        client.send(greeting)?;
        client.barrier()?;
        Ok(client)
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        self.input.get_mut().write_all(text.as_bytes())
    }

    /// Waits until everything that was sent has been taken.
    fn barrier(&mut self) -> io::Result<()> {
        self.send("PING\r\n")?;
        self.wait_for(b"PONG", 1)
    }

    /// Reads until this many more lines have begun with `verb`. No payload of a row does.
    fn wait_for(&mut self, verb: &[u8], count: usize) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            self.line.clear();
            if self.input.read_until(b'\n', &mut self.line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= usize::from(self.line.starts_with(verb));
        }
        Ok(())
    }

    fn ask(&mut self, subject: &str, body: &str) -> io::Result<()> {
        self.send(&format!("PUB $JS.API.{subject} _INBOX.abcdefghijkl.api {}\r\n{body}\r\n", body.len()))?;
        self.wait_for(b"MSG", 1)
    }
}

fn publish(clients: &mut Clients, messages: usize) -> io::Result<()> {
    let batch = "PUB bench.orders 16\r\n0123456789abcdef\r\n".repeat(BATCH);
    for _ in 0..messages / BATCH {
        clients.publisher.send(&batch)?;
    }
    clients.publisher.barrier()
}

fn request(clients: &mut Clients, messages: usize) -> io::Result<()> {
    let Clients { publisher, listener } = clients;
    listener.send("SUB service 2\r\n")?;
    listener.barrier()?;
    for n in 0..messages {
        publisher.send(&format!("PUB service _INBOX.abcdefghijkl.{n} 16\r\n0123456789abcdef\r\n"))?;
        listener.wait_for(b"MSG", 1)?;
        listener.send(&format!("PUB _INBOX.abcdefghijkl.{n} 16\r\n0123456789abcdef\r\n"))?;
        publisher.wait_for(b"MSG", 1)?;
    }
    Ok(())
}

fn store_in_batches(client: &mut Client, messages: usize, size: usize) -> io::Result<()> {
    let body = "{\"name\":\"S\",\"subjects\":[\"S.>\"],\"storage\":\"file\",\"num_replicas\":1}";
    client.ask("STREAM.CREATE.S", body)?;
    let message = format!("PUB S.orders _INBOX.abcdefghijkl.1 128\r\n{}\r\n", "x".repeat(128));
    let batch = message.repeat(size);
    for _ in 0..messages / size {
        client.send(&batch)?;
        client.wait_for(b"MSG", size)?;
    }
    Ok(())
}

fn store_one_by_one(clients: &mut Clients, messages: usize) -> io::Result<()> {
    store_in_batches(&mut clients.publisher, messages, 1)
}

fn store(clients: &mut Clients, messages: usize) -> io::Result<()> {
    store_in_batches(&mut clients.publisher, messages, BATCH)
}

fn push(clients: &mut Clients, messages: usize) -> io::Result<()> {
    let Clients { publisher, listener } = clients;
    store_in_batches(publisher, messages, BATCH)?;
    listener.send("SUB deliver 2\r\n")?;
    let body = "{\"stream_name\":\"S\",\"config\":{\"deliver_subject\":\"deliver\",\"ack_policy\":\"none\",\
        \"deliver_policy\":\"all\"}}";
    listener.ask("CONSUMER.CREATE.S", body)?;
    // The answer to the request may come behind the first of them.
    listener.wait_for(b"MSG", messages / BATCH * BATCH - 1)
}

#[cfg(test)]
mod tests {
    use super::calls;

    #[test]
    fn the_total_is_read_with_and_without_errors() {
        let table = |total: &str| format!("% time seconds usecs/call calls errors syscall\n{total}\n");
        assert_eq!(calls(&table("100.00    0.012345           3      4123        12 total")), Some(4123));
        assert_eq!(calls(&table("100.00    0.012345           3      4123           total")), Some(4123));
        assert_eq!(calls(&table("100.00    0.012345           3      4123        12 futex")), None);
    }
}
