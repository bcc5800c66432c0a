//! Runs the clients of a benchmark: a few threads, each with many connections, until every client
//! has done its part.
//!
//! Budget: one `epoll_wait` per round, one read per ready connection, one write per staged piece;
//! the clock is read once per connection and round. Owns sockets, threads and the rule when silence
//! is a failure. The messages and the meaning of answers are a `Work`'s (`workloads`). The rooms:
//! `link` moves bytes, `message_writer`, `inbox`, `outbox` and `pace` are the tools of a work,
//! `sample` holds a client's figures.

pub(crate) mod inbox;
pub(crate) mod link;
pub mod message_writer;
pub(crate) mod outbox;
pub mod pace;
pub mod sample;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::client_pool::inbox::{Arrival, Message};
use crate::client_pool::link::PoolLink;
use crate::client_pool::outbox::Outbox;
use crate::client_pool::sample::Sample;
use crate::connection::{Connection, PATIENCE};
use crate::error::BenchError;

/// How often a quiet thread looks whether another one has failed, or its own clients wait in vain.
const GLANCE: Duration = Duration::from_millis(50);

/// Part of one client in a benchmark: stages messages, and takes those that arrive.
pub trait Work: Send {
    /// Stages what may be sent now, and says what comes next. Called when nothing is left to send.
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<NextStep, BenchError>;

    /// Takes a message.
    fn take(&mut self, message: &Message<'_>, out: &mut Outbox, now: Instant) -> Result<(), BenchError>;

    /// The server has handled everything that was sent.
    fn finish(&mut self, _now: Instant) {}

    /// Messages done so far.
    fn messages(&self) -> u64;

    /// Changes with everything that brings the end nearer; what else arrives is no progress.
    fn steps(&self) -> u64 {
        self.messages()
    }

    /// Event that the client waits for at present, by which silence is judged.
    fn waits_for(&self) -> Waits;

    /// Figures of the client, once all is done.
    fn into_sample(self) -> Sample;
}

/// Next step of a client that has staged all it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Send it and come back at once: there is more.
    More,
    /// Nothing before something arrives.
    Wait,
    /// Nothing before this time, unless something arrives.
    At(Instant),
    /// Everything is done.
    Done,
}

/// Event that a connection waits for, which says whether silence is a failure and after how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Nothing: it may begin when it likes.
    ForEver,
    /// An answer is missing.
    Answer,
    /// Messages are missing that others send.
    Others,
}

/// How long silence may last.
#[derive(Clone, Copy, Debug)]
pub struct SilenceLimits {
    /// Time for an answer of the server.
    pub answer: Duration,
    /// `None` for ever.
    pub others: Option<Duration>,
}

/// How far each client is, for who looks from outside, and whether the run has failed.
#[derive(Debug)]
pub struct Board {
    /// Messages done so far, by the clients' numbers.
    pub messages: Vec<AtomicU64>,
    has_failed: AtomicBool,
}

impl Board {
    /// A board for this many clients, none of which has begun.
    pub fn new(clients: usize) -> Self {
        Self {
            messages: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            has_failed: AtomicBool::new(false),
        }
    }
}

/// Figures of all clients, and the CPU time of the pool.
#[derive(Debug)]
pub struct PoolOutcome {
    /// Samples in the order of the clients.
    pub samples: Vec<Sample>,
    /// CPU time of the threads that ran them.
    pub cpu: Duration,
}

/// Samples of one thread's clients with the clients' numbers, and the CPU time of the thread.
type LaneOutcome = (Vec<(usize, Sample)>, Duration);

/// Runs clients that are connected and subscribed. The first error is the run's.
pub fn run<W: Work>(
    clients: Vec<(Connection, W)>,
    limits: SilenceLimits,
    board: &Board,
) -> Result<PoolOutcome, BenchError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(clients.len()).max(1);
    let mut lanes: Vec<Vec<PoolClient<W>>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, (connection, work)) in clients.into_iter().enumerate() {
        lanes[number % threads].push(PoolClient::new(number, connection, work)?);
    }
    let results: Vec<Result<LaneOutcome, BenchError>> = thread::scope(|scope| {
        let lanes: Vec<_> = lanes
            .into_iter()
            .map(|clients| {
                scope.spawn(move || {
                    let done = Lane { clients, limits, board }.run();
                    board.has_failed.fetch_or(done.is_err(), Ordering::SeqCst);
                    Ok((done?, cpu_of_this_thread()))
                })
            })
            .collect();
        let joined = lanes
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    });
    let (mut samples, mut cpu, mut failure) = (Vec::new(), Duration::ZERO, None);
    for result in results {
        match result {
            Ok((done, time)) => {
                samples.extend(done);
                cpu += time;
            }
            // The error that stopped the others says more than that they were stopped.
            Err(BenchError::Aborted) => failure = failure.or(Some(BenchError::Aborted)),
            Err(error) => failure = Some(error),
        }
    }
    samples.sort_by_key(|(number, _)| *number);
    let samples = samples.into_iter().map(|(_, sample)| sample).collect();
    failure.map_or(Ok(PoolOutcome { samples, cpu }), Err)
}

fn cpu_of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap_or(0))
}

/// The clients of one thread.
struct Lane<'a, W> {
    clients: Vec<PoolClient<W>>,
    limits: SilenceLimits,
    board: &'a Board,
}

impl<W: Work> Lane<'_, W> {
    fn run(mut self) -> Result<Vec<(usize, Sample)>, BenchError> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
        for (place, client) in self.clients.iter_mut().enumerate() {
            client.link.add_to(&poll, place)?;
            // Bytes that came with the last answer before the run wake nobody.
            client.digest(Instant::now())?;
        }
        let mut events = Vec::with_capacity(256);
        loop {
            self.pump(&poll)?;
            let Some(timeout) = self.timeout() else { break };
            if self.board.has_failed.load(Ordering::SeqCst) {
                return Err(BenchError::Aborted);
            }
            events.clear();
            let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
            match epoll::wait(&poll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(BenchError::io("waiting for messages")(error)),
            }
            for event in &events {
                let client = &mut self.clients[event.data.u64() as usize];
                client.receive()?;
                self.board.messages[client.number].store(client.work.messages(), Ordering::Relaxed);
                if client.state == ClientState::Closed {
                    client.link.hang_up(&poll)?;
                }
            }
        }
        Ok(self.clients.into_iter().map(|client| (client.number, client.work.into_sample())).collect())
    }

    /// Lets everybody send who may.
    fn pump(&mut self, poll: &rustix::fd::OwnedFd) -> Result<(), BenchError> {
        for (place, client) in self.clients.iter_mut().enumerate() {
            let was_blocked = client.link.is_blocked();
            if client.wants_a_turn() {
                client.pump(self.limits)?;
                self.board.messages[client.number].store(client.work.messages(), Ordering::Relaxed);
            }
            if was_blocked != client.link.is_blocked() {
                client.link.change_in(poll, place)?;
            }
        }
        Ok(())
    }

    /// How long nothing is to be done unless something arrives; `None` when all is done.
    fn timeout(&self) -> Option<Duration> {
        let open = self.clients.iter().filter(|client| client.state != ClientState::Closed);
        open.map(|client| match client.state {
            // The socket says when it has room again.
            _ if client.link.is_blocked() => GLANCE,
            ClientState::Hungry => Duration::ZERO,
            ClientState::Until(time) => time.saturating_duration_since(Instant::now()).min(GLANCE),
            _ => GLANCE,
        })
        .min()
    }
}

/// A connection with what it does.
struct PoolClient<W> {
    number: usize,
    link: PoolLink,
    work: W,
    state: ClientState,
    /// Something arrived since the last turn.
    is_stirred: bool,
    /// When something last moved, whatever it was.
    moved: Instant,
    /// When the work last came nearer to its end, or began to wait for something else. Heartbeats
    /// and our own requests move without that.
    progressed: Instant,
    /// Awaited event and number of steps at the time of `progressed`.
    judged: (Awaited, u64),
}

/// Event that a connection waits for, of the pool's own or of the work's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// Room in the socket.
    Room,
    /// The last PONG.
    Pong,
    Work(Waits),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    /// May send more at once.
    Hungry,
    Waiting,
    Until(Instant),
    /// All is done but for the last PONG.
    Ending,
    Closed,
}

impl<W: Work> PoolClient<W> {
    fn new(number: usize, connection: Connection, work: W) -> Result<Self, BenchError> {
        Ok(Self {
            number,
            link: PoolLink::new(connection)?,
            work,
            state: ClientState::Hungry,
            is_stirred: true,
            moved: Instant::now(),
            progressed: Instant::now(),
            judged: (Awaited::Work(Waits::ForEver), 0),
        })
    }

    fn wants_a_turn(&self) -> bool {
        match self.state {
            ClientState::Closed => false,
            ClientState::Hungry => true,
            ClientState::Until(time) if time <= Instant::now() => true,
            _ => self.is_stirred || self.link.is_blocked() || self.moved.elapsed() > GLANCE,
        }
    }

    /// Reads what is there.
    fn receive(&mut self) -> Result<(), BenchError> {
        loop {
            let is_more = self.link.receive()?;
            self.digest(Instant::now())?;
            if !is_more || self.state == ClientState::Closed {
                return Ok(());
            }
        }
    }

    /// Looks at everything that has arrived.
    fn digest(&mut self, now: Instant) -> Result<(), BenchError> {
        self.is_stirred = true;
        while let Some((arrival, out)) = self.link.next()? {
            self.moved = now;
            match arrival {
                Arrival::Message(message) => self.work.take(&message, out, now)?,
                Arrival::Ping => out.control(b"PONG\r\n"),
                Arrival::Pong if self.state == ClientState::Ending => {
                    self.work.finish(now);
                    self.state = ClientState::Closed;
                    return Ok(());
                }
                Arrival::Pong | Arrival::Other => {}
            }
        }
        Ok(())
    }

    /// Sends what is staged and asks for more, once.
    fn pump(&mut self, limits: SilenceLimits) -> Result<(), BenchError> {
        self.is_stirred = false;
        if !self.flush()? {
            return self.judge(limits);
        }
        if matches!(self.state, ClientState::Ending | ClientState::Closed) {
            return self.judge(limits);
        }
        self.state = match self.work.fill(&mut self.link.out, Instant::now())? {
            NextStep::More => ClientState::Hungry,
            NextStep::Wait => ClientState::Waiting,
            NextStep::At(time) => ClientState::Until(time),
            NextStep::Done => {
                self.link.out.control(b"PING\r\n");
                ClientState::Ending
            }
        };
        if !self.link.out.is_empty() && !self.flush()? {
            return Ok(());
        }
        self.judge(limits)
    }

    /// Sends; says whether all has gone.
    fn flush(&mut self) -> Result<bool, BenchError> {
        let before = self.link.sent();
        let flushed = self.link.flush();
        if self.link.sent() != before {
            self.moved = Instant::now();
        }
        if flushed.is_err() {
            // The server may have said why it hung up.
            self.receive()?;
        }
        flushed
    }

    /// Silence that has lasted too long is a failure.
    fn judge(&mut self, limits: SilenceLimits) -> Result<(), BenchError> {
        let awaited = match self.state {
            ClientState::Ending => Awaited::Pong,
            ClientState::Closed => return Ok(()),
            _ if self.link.is_blocked() => Awaited::Room,
            _ => Awaited::Work(self.work.waits_for()),
        };
        let judged = (awaited, self.work.steps());
        if judged != self.judged {
            self.judged = judged;
            self.progressed = Instant::now();
        }
        let moved = self.moved.max(self.progressed);
        match (awaited, limits.others) {
            (Awaited::Pong, _) => silent(moved, PATIENCE, "no PONG at the end"),
            (Awaited::Room, _) => silent(moved, PATIENCE, "the server reads nothing"),
            (Awaited::Work(Waits::Answer), _) => {
                silent(self.progressed, limits.answer, "an answer is missing")
            }
            (Awaited::Work(Waits::Others), Some(limit)) => {
                silent(self.progressed, limit, "messages are missing")
            }
            (Awaited::Work(Waits::Others), None) | (Awaited::Work(Waits::ForEver), _) => Ok(()),
        }
    }
}

fn silent(since: Instant, limit: Duration, what: &str) -> Result<(), BenchError> {
    match since.elapsed() > limit {
        true => Err(BenchError::Lost(format!("{what}: no progress for {limit:?}"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::connection::address::Address;
    use crate::workloads::subscribe::Subscribe;

    const LIMITS: SilenceLimits =
        SilenceLimits { answer: Duration::from_secs(10), others: Some(Duration::from_millis(200)) };

    /// The server's end of a connection.
    struct Peer(BufReader<TcpStream>);

    impl Peer {
        fn accept(listener: &TcpListener) -> Self {
            let mut peer = Self(BufReader::new(listener.accept().unwrap().0));
            peer.0.get_ref().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            peer.say("INFO {}\r\n");
            assert!(peer.line().starts_with("CONNECT "));
            peer.pong();
            peer
        }

        fn say(&mut self, text: &str) {
            self.0.get_mut().write_all(text.as_bytes()).unwrap();
        }

        /// A line, empty when the client has hung up.
        fn line(&mut self) -> String {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            line
        }

        fn pong(&mut self) {
            assert_eq!(self.line(), "PING\r\n");
            self.say("PONG\r\n");
        }
    }

    fn subscriber(listener: &TcpListener, wanted: u64) -> (Connection, Subscribe) {
        let address = Address::loopback(listener.local_addr().unwrap().port());
        (Connection::open(&address).unwrap(), Subscribe::new(wanted, 1, None))
    }

    #[test]
    fn a_client_that_is_done_leaves_while_others_go_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let outcome = thread::scope(|scope| {
            scope.spawn(|| {
                let [mut first, mut second] = [(); 2].map(|()| Peer::accept(&listener));
                first.say("MSG x 1 1\r\na\r\n");
                first.pong();
                assert_eq!(first.line(), "", "it has not left");
                second.say("MSG x 1 1\r\na\r\n");
                second.pong();
            });
            // In one thread: the end of a thread closes the connections that it had.
            let clients = [0, 1].map(|number| {
                let (connection, work) = subscriber(&listener, 1);
                PoolClient::new(number, connection, work).unwrap()
            });
            Lane { clients: clients.into(), limits: LIMITS, board: &Board::new(2) }.run()
        });
        assert_eq!(outcome.unwrap().len(), 2);
    }

    #[test]
    fn missing_messages_fail_the_run_although_other_things_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let outcome = thread::scope(|scope| {
            scope.spawn(|| {
                let mut peer = Peer::accept(&listener);
                peer.say("MSG x 1 1\r\na\r\n");
                let deadline = Instant::now() + Duration::from_secs(10);
                // The connection ends as soon as the client has given up.
                while Instant::now() < deadline && peer.0.get_mut().write_all(b"PING\r\n").is_ok() {
                    let mut line = String::new();
                    if !peer.0.read_line(&mut line).is_ok_and(|count| count > 0) {
                        break;
                    }
                }
            });
            run(vec![subscriber(&listener, 2)], LIMITS, &Board::new(1))
        });
        assert!(matches!(outcome, Err(BenchError::Lost(_))), "{outcome:?}");
    }
}
