//! Rows about leaf nodes: a hub and its leaf node of one kind, or one server whose leaf nodes, or
//! whose hub, this program plays.
//!
//! Owns their configurations and what is played. CPU is that of both servers. Nothing is compressed
//! where a row does not say so.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use myelin_loadgen::connection::{Connection, PATIENCE};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::metric::Metric;
use myelin_loadgen::pubsub::throughput::ThroughputLoad;

use crate::rows::tls_websocket::certificates;
use crate::servers::process::{Server, free_port};
use crate::servers::scratch::Scratch;

/// Name of the group for `--rows`.
pub(crate) const GROUP: &str = "leaf";

/// Threads that read what a hub tells leaf nodes.
const READERS: usize = 4;
/// How often who has nothing to read looks again.
const LOOK: Duration = Duration::from_micros(200);

/// Transport of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Tcp,
    /// `wss://` with compression, for payloads like JSON.
    Web,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => Ok(()),
            Self::Web => f.write_str(", like JSON, over wss:// with compression"),
        }
    }
}

/// Work of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafLoad {
    /// Publishers at the hub, subscribers at the leaf node.
    Down(ThroughputLoad, Way),
    /// The other way.
    Up(ThroughputLoad, Way),
    /// Clients of the hub request from a service at the leaf node.
    Requests { clients: usize, size: usize },
    /// A hub is told of so many subjects by each of so many leaf nodes, and tells the others unless
    /// they are isolated.
    Spokes { count: usize, subjects: usize, is_isolated: bool },
    /// A leaf node with so many subjects of interest comes back to its hub, which is measured.
    Returned { subjects: usize },
    /// A leaf node that comes back with so many, and is measured itself.
    Returning { subjects: usize },
}

impl fmt::Display for LeafLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(load, way) => write!(f, "{load}, from a hub to its leaf node{way}"),
            Self::Up(load, way) => write!(f, "{load}, from a leaf node to its hub{way}"),
            Self::Requests { clients, size } => {
                write!(f, "{clients} clients of a hub request from a service at a leaf node, {size} B")
            }
            Self::Spokes { count, subjects, is_isolated } => {
                let how = if *is_isolated { "isolated " } else { "" };
                write!(f, "{count} {how}leaf nodes with {subjects} subjects each connect to a hub")
            }
            Self::Returned { subjects } => {
                write!(f, "a hub to which a leaf node with {subjects} subjects comes back")
            }
            Self::Returning { subjects } => {
                write!(f, "a leaf node with {subjects} subjects that comes back to its hub")
            }
        }
    }
}

impl LeafLoad {
    /// Load of messages, if there are any.
    pub(crate) fn messages(self) -> Option<ThroughputLoad> {
        match self {
            Self::Down(load, _) | Self::Up(load, _) => Some(load),
            _ => None,
        }
    }

    fn way(self) -> Way {
        match self {
            Self::Down(_, way) | Self::Up(_, way) => way,
            _ => Way::Tcp,
        }
    }

    /// Whether payloads are like JSON: then nobody looks at each.
    pub(crate) fn is_json(self) -> bool {
        self.way() == Way::Web
    }

    /// Whether this program plays the other side.
    pub(crate) fn is_played(self) -> bool {
        matches!(self, Self::Spokes { .. } | Self::Returned { .. } | Self::Returning { .. })
    }

    /// A hub and its leaf node.
    pub(crate) fn servers(self, binary: &Path, scratch: &Scratch) -> Result<Vec<Server>, BenchError> {
        if self.way() == Way::Web {
            return start_web(binary, scratch);
        }
        let (hub, port) = start_hub(binary, scratch)?;
        Ok(if self.is_played() { vec![hub] } else { vec![hub, start_leaf(binary, scratch, port)?] })
    }

    /// Plays the other side of a server of its own: the time, and what the server holds then.
    pub(crate) fn play(self, binary: &Path, scratch: &Scratch) -> Result<Vec<(Metric, f64)>, BenchError> {
        match self {
            Self::Spokes { count, subjects, is_isolated } => {
                let (hub, port) = start_hub(binary, scratch)?;
                let (time, spokes) = spokes(port, count, subjects, is_isolated)?;
                let resident = hub.meter().resident_at_rest()? as f64 / f64::from(1 << 20);
                drop(spokes);
                Ok(vec![(Metric::JoinTime, milliseconds(time)), (Metric::ProcessMemory, resident)])
            }
            Self::Returned { subjects } => {
                let (hub, port) = start_hub(binary, scratch)?;
                spokes(port, 1, subjects, false)?;
                // Leaf nodes come back after a second: a hub has forgotten them by then.
                hub.meter().rest()?;
                let (time, _) = spokes(port, 1, subjects, false)?;
                Ok(vec![(Metric::JoinTime, milliseconds(time))])
            }
            Self::Returning { subjects } => {
                Ok(vec![(Metric::JoinTime, milliseconds(returning(binary, scratch, subjects)?))])
            }
            Self::Down(..) | Self::Up(..) | Self::Requests { .. } => Ok(Vec::new()),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A hub, and its port for leaf nodes.
fn start_hub(binary: &Path, scratch: &Scratch) -> Result<(Server, u16), BenchError> {
    let (port, leafs) = (free_port()?, free_port()?);
    let text =
        format!("server_name: hub-{port}\nleafnodes {{ listen: \"127.0.0.1:{leafs}\", compression: off }}\n");
    let room = scratch.room(&format!("server-{port}"))?;
    Ok((Server::with_configuration(binary, port, room, &text)?, leafs))
}

/// The reference puts all that waits into one message, and refuses a compressed one that holds more
/// than this: with the default (1 MiB) its link ends as soon as so much waits.
const LONGEST_OF_WEB: &str = "max_payload: 64MB";

/// A hub, and a leaf node that reaches it by `wss://` with compression.
fn start_web(binary: &Path, scratch: &Scratch) -> Result<Vec<Server>, BenchError> {
    let (port, leafs, web) = (free_port()?, free_port()?, free_port()?);
    let room = scratch.room(&format!("server-{port}"))?;
    let (authority, tls) = certificates(room.path())?;
    let text = format!(
        "server_name: hub-{port}\n{LONGEST_OF_WEB}\nleafnodes {{ listen: \"127.0.0.1:{leafs}\" }}\n\
         websocket {{ listen: \"127.0.0.1:{web}\", compression: true\n{tls} }}\n"
    );
    let hub = Server::with_configuration(binary, port, room, &text)?;
    let port = free_port()?;
    let text = format!(
        "server_name: leaf-{port}\n{LONGEST_OF_WEB}\nleafnodes {{ reconnect: \"50ms\", remotes: [{{\n\
         url: \"wss://127.0.0.1:{web}\", ws_compression: true\ntls {{ ca_file: {authority:?} }} }}] }}\n"
    );
    let room = scratch.room(&format!("server-{port}"))?;
    Ok(vec![hub, Server::with_configuration(binary, port, room, &text)?])
}

/// A leaf node of the hub at this port.
fn start_leaf(binary: &Path, scratch: &Scratch, hub: u16) -> Result<Server, BenchError> {
    let port = free_port()?;
    let text = format!(
        "server_name: leaf-{port}\nleafnodes {{ reconnect: \"50ms\", remotes: [\
         {{ url: \"nats-leaf://127.0.0.1:{hub}\", compression: off }}] }}\n"
    );
    let room = scratch.room(&format!("server-{port}"))?;
    Server::with_configuration(binary, port, room, &text)
}

/// One end of a link that this program plays.
struct Played {
    stream: TcpStream,
    /// Begin of a line that has not ended.
    rest: Vec<u8>,
    /// Lines of interest that have come.
    told: usize,
    pongs: usize,
}

impl Played {
    fn new(stream: TcpStream) -> Result<Self, BenchError> {
        stream.set_read_timeout(Some(PATIENCE)).map_err(BenchError::io("setting up a link"))?;
        stream.set_nodelay(true).map_err(BenchError::io("setting up a link"))?;
        Ok(Self { stream, rest: Vec::new(), told: 0, pongs: 0 })
    }

    fn send(&mut self, text: &str) -> Result<(), BenchError> {
        self.stream.write_all(text.as_bytes()).map_err(BenchError::io("sending over a link"))
    }

    /// Reads what there is; `false`: nothing at the moment.
    fn read(&mut self) -> Result<bool, BenchError> {
        let mut room = [0; 64 << 10];
        let count = match self.stream.read(&mut room) {
            Ok(0) => return Err(BenchError::Lost("a link that was played has ended".into())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(BenchError::io("reading from a link")(error)),
        };
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(&room[..count]);
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            if lines.peek().is_none() && !line.ends_with(b"\n") {
                self.rest = line.to_vec();
            } else if line.starts_with(b"LS+ ") && !line.starts_with(b"LS+ $") {
                self.told += 1;
            } else if line.starts_with(b"PONG") {
                self.pongs += 1;
            } else if line.starts_with(b"-ERR") {
                return Err(BenchError::Lost(String::from_utf8_lossy(line).into_owned()));
            }
        }
        Ok(true)
    }

    /// Reads until the server has told so much and answered a PING.
    fn is_done(&self, told: usize) -> bool {
        self.told >= told && self.pongs > 0
    }
}

/// Leaf nodes that connect and tell of subjects of their own: how long until the hub has taken all,
/// and each knows those of all others that it hears of.
fn spokes(
    port: u16,
    count: usize,
    subjects: usize,
    is_isolated: bool,
) -> Result<(Duration, Vec<Played>), BenchError> {
    // What they say is made before: it is the hub that is measured.
    let texts: Vec<String> = (0..count).map(|number| spoke(number, subjects, is_isolated)).collect();
    let start = Instant::now();
    let mut links = Vec::new();
    for text in &texts {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(BenchError::io("connecting a link"))?;
        let mut link = Played::new(stream)?;
        link.send(text)?;
        link.stream.set_nonblocking(true).map_err(BenchError::io("setting up a link"))?;
        links.push(link);
    }
    let told = if is_isolated { 0 } else { (count - 1) * subjects };
    let share = links.len().div_ceil(READERS);
    thread::scope(|scope| {
        let readers: Vec<_> =
            links.chunks_mut(share).map(|links| scope.spawn(|| read_all(links, told, start))).collect();
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok((start.elapsed(), links))
}

/// Lines that a leaf node with so many subjects sends when it connects.
fn spoke(number: usize, subjects: usize, is_isolated: bool) -> String {
    let lines: String = (0..subjects).map(|subject| format!("LS+ site.{number}.{subject}\r\n")).collect();
    format!(
        "CONNECT {{\"version\":\"2.15.2\",\"name\":\"spoke-{number}\",\"cluster\":\"spoke-{number}\",\
         \"headers\":true,\"isolate\":{is_isolated},\"remote_account\":\"$G\",\"protocol\":3}}\r\n\
         {lines}PING\r\n"
    )
}

fn read_all(links: &mut [Played], told: usize, start: Instant) -> Result<(), BenchError> {
    while !links.iter().all(|link| link.is_done(told)) {
        let mut has_read = false;
        for link in links.iter_mut() {
            has_read |= link.read()?;
        }
        if !has_read {
            if start.elapsed() > PATIENCE * 8 {
                return Err(BenchError::Lost("interest that nobody was told of".into()));
            }
            thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// A leaf node whose hub is played: how long from the hub's INFO until it has told of everything,
/// when it comes for the second time.
fn returning(binary: &Path, scratch: &Scratch, subjects: usize) -> Result<Duration, BenchError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(BenchError::io("listening"))?;
    let port = listener.local_addr().map_err(BenchError::io("listening"))?.port();
    let leaf = start_leaf(binary, scratch, port)?;
    let mut client = Connection::open(leaf.address())?;
    let lines: String =
        (0..subjects).map(|subject| format!("SUB site.{subject} {}\r\n", subject + 1)).collect();
    client.send(lines.as_bytes())?;
    client.barrier()?;
    // The first dials may be older than the subscriptions, and given up.
    let deadline = Instant::now() + PATIENCE;
    let mut first = None;
    loop {
        let (stream, _) = listener.accept().map_err(BenchError::io("waiting for a leaf node"))?;
        match (be_hub(stream, subjects), first) {
            (Ok(took), Some(_)) => return Ok(took),
            (Ok(took), None) => first = Some(took),
            (Err(error), _) if Instant::now() > deadline => return Err(error),
            (Err(_), _) => {}
        }
    }
}

/// Lets a leaf node in: how long until it has told of so many subjects.
fn be_hub(stream: TcpStream, subjects: usize) -> Result<Duration, BenchError> {
    let mut link = Played::new(stream)?;
    let start = Instant::now();
    let info = "INFO {\"server_id\":\"NH\",\"server_name\":\"hub\",\"version\":\"2.15.2\",\"proto\":3,\
                \"headers\":true,\"max_payload\":1048576,\"client_id\":5,\"nonce\":\"abc\",\
                \"info_on_connect\":true}\r\n";
    let answer = info.replace("\"nonce\":\"abc\"", "\"connect_info\":true,\"remote_account\":\"$G\"");
    link.send(info)?;
    link.send(&format!("{answer}PING\r\n"))?;
    while !link.is_done(subjects) {
        link.read()?;
    }
    Ok(start.elapsed())
}
