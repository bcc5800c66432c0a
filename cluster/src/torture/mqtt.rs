//! MQTT clients beside the load: one publishes with QoS 1 until each message is acknowledged, and
//! one has a session that lasts, to which each of these has to come. Both go from server to server.

use super::load::Shared;
use crate::Error;
use myelin_stdx::rng::Rng;
use myelin_stdx::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a packet is waited for: longer than servers wait for their streams.
const PATIENCE: Duration = Duration::from_secs(12);
/// How long what was acknowledged may take to come, when all servers are there.
const LAST_PATIENCE: Duration = Duration::from_secs(60);
/// Number of messages that have to be acknowledged, at least.
const LEAST: usize = 20;
/// Between two attempts to connect, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Between two messages.
const PACE: Duration = Duration::from_millis(50);
/// One in so many messages has a client leave its server.
const ROUNDS: u64 = 100;
const TOPIC: &str = "load/number";
const FILTER: &str = "load/#";
const SESSION: &str = "lasting";

/// First bytes of packets.
const CONNECT: u8 = 0x10;
const CONNACK: u8 = 0x20;
const PUBLISH_ONCE: u8 = 0x32;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;

/// Numbers that were acknowledged, those that came, and what went wrong, how often.
#[derive(Debug, Default)]
struct Numbers {
    acknowledged: BTreeSet<u64>,
    came: BTreeSet<u64>,
    errors: BTreeMap<String, u64>,
    /// Whether no more will be acknowledged.
    are_all: bool,
}

impl Numbers {
    fn note<T>(&mut self, what: &str, result: io::Result<T>) -> Option<T> {
        result.inspect_err(|why| *self.errors.entry(format!("{what}: {why}")).or_default() += 1).ok()
    }
}

/// The clients, and what they know.
pub(super) struct MqttLoad {
    numbers: Arc<Mutex<Numbers>>,
    threads: Vec<JoinHandle<()>>,
}

/// Parts that both clients have.
struct MqttClient {
    shared: Arc<Shared>,
    numbers: Arc<Mutex<Numbers>>,
    addresses: Vec<SocketAddr>,
    rng: Rng,
    /// Pause before the next attempt to connect, where the last one failed.
    pause: Duration,
}

impl MqttLoad {
    /// Begins. The session is there when this is over.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        addresses: &[SocketAddr],
        rng: &mut Rng,
    ) -> Result<Self, Error> {
        let numbers = Arc::new(Mutex::new(Numbers::default()));
        let mut client = || MqttClient {
            shared: Arc::clone(shared),
            numbers: Arc::clone(&numbers),
            addresses: addresses.to_vec(),
            rng: Rng::seeded(rng.next_u64()),
            pause: Duration::ZERO,
        };
        let (publisher, mut subscriber) = (client(), client());
        let first = crate::wait_for("an MQTT session", || subscriber.take_session(true).ok())?;
        let subscribing = thread::spawn(move || subscriber.receive(first));
        let threads = vec![thread::spawn(move || publisher.publish()), subscribing];
        Ok(Self { numbers, threads })
    }

    /// How many messages were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        lock(&self.numbers).acknowledged.len()
    }

    /// Errors of clients, each of which has tried again.
    pub(super) fn errors(&self) -> String {
        let numbers = lock(&self.numbers);
        let errors = numbers.errors.iter().map(|(words, count)| format!("{count} times {words}"));
        errors.collect::<Vec<_>>().join(", ")
    }

    /// Waits until everything has come; what has not is a fault of the ledger.
    pub(super) fn end(self, shared: &Shared) {
        let errors = self.errors();
        let panicked = self.threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        let numbers = lock(&self.numbers);
        let missing: Vec<u64> = numbers.acknowledged.difference(&numbers.came).copied().collect();
        let (acknowledged, came) = (numbers.acknowledged.len(), numbers.came.len());
        println!("MQTT: {acknowledged} acknowledged, {came} came to the session; errors: {errors}");
        if panicked > 0 || acknowledged < LEAST || !missing.is_empty() {
            let some: Vec<_> = missing.iter().take(5).collect();
            let count = missing.len();
            let of = format!("MQTT: {count} of {acknowledged} messages never came to the session: {some:?}");
            lock(&shared.ledger).fault(of);
        }
    }
}

impl MqttClient {
    /// Publishes one number after the other, each until it is acknowledged.
    fn publish(mut self) {
        let (mut number, mut connection) = (0_u64, None);
        while !self.shared.is_over.load(Relaxed) {
            thread::sleep(PACE);
            if self.rng.below(ROUNDS) == 0 {
                connection = None;
            }
            if connection.is_none() {
                let connected = self.connect("publisher", true);
                connection = lock(&self.numbers).note("publisher", connected).map(|(open, _)| open);
            }
            let Some(open) = &mut connection else { continue };
            let published = open.publish(number);
            let mut numbers = lock(&self.numbers);
            if numbers.note("publish", published).is_some() {
                numbers.acknowledged.insert(number);
                number += 1;
            } else {
                connection = None;
            }
        }
        lock(&self.numbers).are_all = true;
    }

    /// Takes what comes to the session, at one server after the other.
    fn receive(mut self, first: Connection) {
        let (mut connection, mut given_up) = (Some(first), None);
        loop {
            if self.shared.is_over.load(Relaxed) {
                let given_up = *given_up.get_or_insert_with(|| Instant::now() + LAST_PATIENCE);
                let numbers = lock(&self.numbers);
                let has_all = numbers.are_all && numbers.acknowledged.is_subset(&numbers.came);
                if has_all || Instant::now() > given_up {
                    return;
                }
            }
            if self.rng.below(ROUNDS) == 0 {
                connection = None;
            }
            let Some(open) = &mut connection else {
                let taken = self.take_session(false);
                connection = lock(&self.numbers).note("session", taken);
                continue;
            };
            let received = open.receive();
            let mut numbers = lock(&self.numbers);
            match numbers.note("receive", received) {
                Some(number) => drop(numbers.came.insert(number)),
                None => connection = None,
            }
        }
    }

    /// Connects to the session. It is there but for the first time, or that is a fault.
    fn take_session(&mut self, is_first: bool) -> io::Result<Connection> {
        let (mut connection, is_present) = self.connect(SESSION, false)?;
        if is_first {
            connection.subscribe()?;
        } else if !is_present {
            lock(&self.shared.ledger).fault(String::from("MQTT: the session is gone"));
            connection.subscribe()?;
        }
        Ok(connection)
    }

    /// A connection to some server, and whether that has a session of the client. As clients do,
    /// it waits longer and longer while no server lets it in: each attempt asks for much.
    fn connect(&mut self, client: &str, is_clean: bool) -> io::Result<(Connection, bool)> {
        thread::sleep(self.pause);
        let connected = self.try_to_connect(client, is_clean);
        let longer = (self.pause * 2).clamp(PACE, LONGEST_PAUSE);
        self.pause = if connected.is_ok() { Duration::ZERO } else { longer };
        connected
    }

    fn try_to_connect(&mut self, client: &str, is_clean: bool) -> io::Result<(Connection, bool)> {
        let at = self.rng.below(self.addresses.len() as u64) as usize;
        let stream = TcpStream::connect_timeout(&self.addresses[at], PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Connection { stream: BufReader::new(stream) };
        let mut body = text("MQTT");
        body.extend_from_slice(&[4, if is_clean { 2 } else { 0 }, 0, 60]);
        body.extend_from_slice(&text(client));
        connection.send(CONNECT, &body)?;
        let answer = connection.until(CONNACK)?;
        match answer[..] {
            [flags, 0] => Ok((connection, flags & 1 == 1)),
            _ => Err(io::Error::other(format!("refused: {answer:?}"))),
        }
    }
}

/// A connection of a client that is let in.
struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn subscribe(&mut self) -> io::Result<()> {
        let mut body = vec![0, 1];
        body.extend_from_slice(&text(FILTER));
        body.push(1);
        self.send(SUBSCRIBE, &body)?;
        match self.until(SUBACK)?[..] {
            [0, 1, 1] => Ok(()),
            ref other => Err(io::Error::other(format!("not subscribed: {other:?}"))),
        }
    }

    /// Publishes a number with QoS 1, and waits until it is acknowledged.
    fn publish(&mut self, number: u64) -> io::Result<()> {
        let id = (number % 0xffff + 1) as u16;
        let mut body = text(TOPIC);
        body.extend_from_slice(&id.to_be_bytes());
        body.extend_from_slice(number.to_string().as_bytes());
        self.send(PUBLISH_ONCE, &body)?;
        let acknowledged = self.until(PUBACK)?;
        if acknowledged == id.to_be_bytes() { Ok(()) } else { Err(io::Error::other("another id")) }
    }

    /// The next number that comes, which is acknowledged.
    fn receive(&mut self) -> io::Result<u64> {
        let body = self.until(PUBLISH_ONCE)?;
        let number = || {
            let topic = u16::from_be_bytes(*body.first_chunk()?) as usize;
            let (id, payload) = body.get(topic + 2..)?.split_first_chunk::<2>()?;
            Some((*id, std::str::from_utf8(payload).ok()?.parse().ok()?))
        };
        let (id, number) = number().ok_or_else(|| io::Error::other("no number"))?;
        self.send(PUBACK, &id)?;
        Ok(number)
    }

    fn send(&mut self, first: u8, body: &[u8]) -> io::Result<()> {
        // Nothing here has more than 127 bytes.
        let mut packet = vec![first, body.len() as u8];
        packet.extend_from_slice(body);
        self.stream.get_mut().write_all(&packet)
    }

    /// The body of the next packet of this kind; whatever flags it has.
    fn until(&mut self, first: u8) -> io::Result<Vec<u8>> {
        loop {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            let (kind, mut size, mut shift) = (byte[0] >> 4, 0_usize, 0);
            while shift == 0 || byte[0] & 0x80 != 0 {
                self.stream.read_exact(&mut byte)?;
                size |= usize::from(byte[0] & 0x7f) << shift;
                shift += 7;
            }
            let mut body = vec![0; size];
            self.stream.read_exact(&mut body)?;
            if kind == first >> 4 {
                return Ok(body);
            }
        }
    }
}

/// Text with its length.
fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
