//! A client that speaks the protocol as bytes and keeps everything that comes, in order.

use crate::Error;
use crate::wait::PATIENCE;
use myelin_stdx::sync::lock;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

const CONNECT: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\
                       \"protocol\":1,\"echo\":true,\"lang\":\"cluster-test\",\"version\":\"1\"}\r\n";

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The subscription's number.
    pub sid: u64,
    /// The subject.
    pub subject: String,
    /// The reply subject.
    pub reply: Option<String>,
    /// The header block, empty without one.
    pub headers: String,
    /// The payload.
    pub payload: Vec<u8>,
}

/// A connection to one server.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    next_sid: u64,
}

#[derive(Debug)]
struct Shared {
    socket: TcpStream,
    writing: Mutex<()>,
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

/// Everything that has come.
#[derive(Debug, Default)]
struct Inbox {
    deliveries: Vec<Delivery>,
    pings: u64,
    pongs: u64,
    /// The last INFO.
    info: String,
    errors: Vec<String>,
    is_closed: bool,
    /// Subscriptions whose messages are answered with their own payload.
    answering: HashSet<u64>,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let _writing = lock(&self.writing);
        (&self.socket).write_all(bytes)
    }
}

impl Client {
    /// Connects, and waits until the server has taken the connection.
    ///
    /// # Errors
    /// The server does not.
    pub fn connect(address: SocketAddr) -> Result<Self, Error> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let reader = BufReader::with_capacity(64 << 10, socket.try_clone()?);
        let shared = Arc::new(Shared {
            socket,
            writing: Mutex::default(),
            inbox: Mutex::default(),
            changed: Condvar::new(),
        });
        let reading = Arc::clone(&shared);
        thread::spawn(move || {
            let _ = read(reader, &reading);
            reading.inbox().is_closed = true;
            reading.changed.notify_all();
        });
        shared.send(CONNECT.as_bytes())?;
        let client = Self { shared, next_sid: 1 };
        client.settle()?;
        Ok(client)
    }

    /// Sends bytes as they are. A connection that is gone is noticed elsewhere.
    pub fn send(&self, bytes: &[u8]) {
        let _ = self.shared.send(bytes);
    }

    /// Subscribes, and returns the subscription's number.
    pub fn subscribe(&mut self, subject: &str, queue: Option<&str>) -> u64 {
        let sid = self.next_sid;
        self.next_sid += 1;
        let queue = queue.map(|queue| format!("{queue} ")).unwrap_or_default();
        self.send(format!("SUB {subject} {queue}{sid}\r\n").as_bytes());
        sid
    }

    /// Subscribes in a queue group, and answers every request with its own payload.
    pub fn serve(&mut self, subject: &str, queue: &str) -> u64 {
        let sid = self.next_sid;
        self.shared.inbox().answering.insert(sid);
        self.subscribe(subject, Some(queue))
    }

    /// Ends a subscription, now or after `max` messages in all.
    pub fn unsubscribe(&self, sid: u64, max: Option<u64>) {
        let max = max.map(|max| format!(" {max}")).unwrap_or_default();
        self.send(format!("UNSUB {sid}{max}\r\n").as_bytes());
    }

    /// Publishes.
    pub fn publish(&self, subject: &str, reply: Option<&str>, payload: &[u8]) {
        let mut head = format!("PUB {subject} ");
        if let Some(reply) = reply {
            let _ = write!(head, "{reply} ");
        }
        let _ = write!(head, "{}\r\n", payload.len());
        self.send(&[head.as_bytes(), payload, b"\r\n"].concat());
    }

    /// Waits until the server has done everything that was sent so far.
    ///
    /// # Errors
    /// The connection has ended, or nothing comes back.
    pub fn settle(&self) -> Result<(), Error> {
        let wanted = {
            let mut inbox = self.shared.inbox();
            inbox.pings += 1;
            inbox.pings
        };
        self.send(b"PING\r\n");
        self.wait("PONG", |inbox| (inbox.pongs >= wanted).then_some(()))
    }

    /// All that was delivered from the `from`th on.
    #[must_use]
    pub fn deliveries(&self, from: usize) -> Vec<Delivery> {
        self.shared.inbox().deliveries.get(from..).map(<[Delivery]>::to_vec).unwrap_or_default()
    }

    /// Waits until `found` finds what it wants in all that was delivered.
    ///
    /// # Errors
    /// The connection has ended, or it does not find it in time; `what` says what it was.
    pub fn wait_for<T>(&self, what: &str, found: impl Fn(&[Delivery]) -> Option<T>) -> Result<T, Error> {
        self.wait(what, |inbox| found(&inbox.deliveries))
    }

    /// Last INFO that the server sent.
    #[must_use]
    pub fn info(&self) -> String {
        self.shared.inbox().info.clone()
    }

    /// Errors that the server sent.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        self.shared.inbox().errors.clone()
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.inbox().is_closed
    }

    fn wait<T>(&self, what: &str, found: impl Fn(&Inbox) -> Option<T>) -> Result<T, Error> {
        let deadline = Instant::now() + PATIENCE;
        let mut inbox = self.shared.inbox();
        loop {
            if let Some(found) = found(&inbox) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if inbox.is_closed || left.is_zero() {
                let state = if inbox.is_closed { "the connection has ended" } else { "too late" };
                return Err(format!("{state}: {what}; {:?}", inbox.errors).into());
            }
            (inbox, _) =
                self.shared.changed.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.shared.socket.shutdown(Shutdown::Both);
    }
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("what is this: {line:?}"))
}

/// Reads until the connection ends.
fn read(mut reader: BufReader<TcpStream>, shared: &Shared) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let text = line.trim_end();
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut answer = None;
        {
            let mut inbox = match verb {
                "MSG" | "HMSG" => {
                    let delivery = message(verb, rest, &mut reader)?;
                    let mut inbox = shared.inbox();
                    if inbox.answering.contains(&delivery.sid) {
                        answer = delivery.reply.clone().map(|reply| (reply, delivery.payload.clone()));
                    }
                    inbox.deliveries.push(delivery);
                    inbox
                }
                "PING" => {
                    shared.send(b"PONG\r\n")?;
                    continue;
                }
                _ => shared.inbox(),
            };
            match verb {
                "PONG" => inbox.pongs += 1,
                "INFO" => rest.clone_into(&mut inbox.info),
                "-ERR" => inbox.errors.push(rest.to_owned()),
                "MSG" | "HMSG" | "+OK" => {}
                _ => {
                    inbox.errors.push(text.to_owned());
                    return Err(invalid(text));
                }
            }
        }
        shared.changed.notify_all();
        if let Some((reply, payload)) = answer {
            let head = format!("PUB {reply} {}\r\n", payload.len());
            shared.send(&[head.as_bytes(), &payload, b"\r\n"].concat())?;
        }
    }
}

/// The message that follows its line.
fn message(verb: &str, rest: &str, reader: &mut BufReader<TcpStream>) -> io::Result<Delivery> {
    let parts: Vec<&str> = rest.split(' ').collect();
    let number = |text: &str| text.parse::<usize>().map_err(|_| invalid(rest));
    let sizes = if verb == "HMSG" { 2 } else { 1 };
    let (names, sizes) =
        parts.len().checked_sub(sizes).map(|at| parts.split_at(at)).ok_or_else(|| invalid(rest))?;
    let (subject, sid, reply) = match names {
        [subject, sid] => (subject, sid, None),
        [subject, sid, reply] => (subject, sid, Some((*reply).to_owned())),
        _ => return Err(invalid(rest)),
    };
    let total = number(sizes[sizes.len() - 1])?;
    let header = if sizes.len() == 2 { number(sizes[0])? } else { 0 };
    let mut bytes = vec![0; total + 2];
    reader.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") || header > total {
        return Err(invalid(rest));
    }
    Ok(Delivery {
        sid: number(sid)? as u64,
        subject: (*subject).to_owned(),
        reply,
        headers: String::from_utf8_lossy(&bytes[..header]).into_owned(),
        payload: bytes[header..total].to_vec(),
    })
}
