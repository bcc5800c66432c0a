//! Runs the clients of a benchmark: a few threads, each with many connections, until every client has done its part.
//!
//! Budget: one `epoll_wait` per round, one read per ready connection, one write per staged piece; the clock is read once
//! per connection and round. Owns sockets, threads and the rule when silence is a failure. What is sent and what the
//! answers mean is a `Work`'s.

use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::bench::commands::inbox::{Arrival, Inbox, Message};
use crate::bench::commands::outbox::Outbox;
use crate::bench::commands::sample::Sample;
use crate::bench::connection::transport::Transport;
use crate::bench::connection::{Connection, PATIENCE};
use crate::bench::error::BenchError;

/// How often a quiet thread looks whether another one has failed, or its own clients wait in vain.
const GLANCE: Duration = Duration::from_millis(50);

/// What a client does.
pub(crate) trait Work: Send {
    /// Stages what may be sent now, and says what comes next. Called when nothing is left to send.
    fn fill(&mut self, out: &mut Outbox, now: Instant) -> Result<Next, BenchError>;

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

    /// Whose turn it is, to judge silence.
    fn waits_for(&self) -> Waits;

    /// What was done, when all is done.
    fn into_sample(self) -> Sample;
}

/// What a client wants after it has staged what it could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send it and come back at once: there is more.
    More,
    /// Nothing before something arrives.
    Wait,
    /// Nothing before this time, unless something arrives.
    At(Instant),
    /// Everything is done.
    Done,
}

/// What a silent connection means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: it may begin when it likes.
    ForEver,
    /// An answer is missing.
    Answer,
    /// Messages are missing that others send.
    Others,
}

/// How long silence may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) answer: Duration,
    /// `None` for ever.
    pub(crate) others: Option<Duration>,
}

/// How far each client is, for who looks from outside, and whether the run has failed.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) messages: Vec<AtomicU64>,
    has_failed: AtomicBool,
}

impl Board {
    pub(crate) fn new(clients: usize) -> Self {
        Self {
            messages: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            has_failed: AtomicBool::new(false),
        }
    }
}

/// What all clients did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// In the order of the clients.
    pub(crate) samples: Vec<Sample>,
    /// CPU time of the threads that ran them.
    pub(crate) cpu: Duration,
}

/// What the clients of one thread did, by their numbers, and its CPU time.
type LaneOutcome = (Vec<(usize, Sample)>, Duration);

/// Runs clients that are connected and subscribed. The first error is the run's.
pub(crate) fn run<W: Work>(
    clients: Vec<(Connection, W)>,
    limits: Limits,
    board: &Board,
) -> Result<Outcome, BenchError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(clients.len()).max(1);
    let mut lanes: Vec<Vec<Client<W>>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, (connection, work)) in clients.into_iter().enumerate() {
        lanes[number % threads].push(Client::new(number, connection, work)?);
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
    failure.map_or(Ok(Outcome { samples, cpu }), Err)
}

fn cpu_of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap_or(0))
}

/// The clients of one thread.
struct Lane<'a, W> {
    clients: Vec<Client<W>>,
    limits: Limits,
    board: &'a Board,
}

impl<W: Work> Lane<'_, W> {
    fn run(mut self) -> Result<Vec<(usize, Sample)>, BenchError> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(BenchError::io("creating an epoll"))?;
        for (place, client) in self.clients.iter_mut().enumerate() {
            let data = epoll::EventData::new_u64(place as u64);
            epoll::add(&poll, client.transport.socket(), data, client.interest())
                .map_err(BenchError::io("watching a socket"))?;
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
                if client.state == State::Closed {
                    client.hang_up(&poll)?;
                }
            }
        }
        Ok(self.clients.into_iter().map(|client| (client.number, client.work.into_sample())).collect())
    }

    /// Lets everybody send who may.
    fn pump(&mut self, poll: &rustix::fd::OwnedFd) -> Result<(), BenchError> {
        for (place, client) in self.clients.iter_mut().enumerate() {
            let was = client.interest();
            if client.wants_a_turn() {
                client.pump(self.limits)?;
                self.board.messages[client.number].store(client.work.messages(), Ordering::Relaxed);
            }
            let is = client.interest();
            if is != was {
                let data = epoll::EventData::new_u64(place as u64);
                epoll::modify(poll, client.transport.socket(), data, is)
                    .map_err(BenchError::io("watching a socket"))?;
            }
        }
        Ok(())
    }

    /// How long nothing is to be done unless something arrives; `None` when all is done.
    fn timeout(&self) -> Option<Duration> {
        let open = self.clients.iter().filter(|client| client.state != State::Closed);
        open.map(|client| match client.state {
            // The socket says when it has room again.
            _ if client.is_blocked => GLANCE,
            State::Hungry => Duration::ZERO,
            State::Until(time) => time.saturating_duration_since(Instant::now()).min(GLANCE),
            _ => GLANCE,
        })
        .min()
    }
}

/// A connection with what it does.
struct Client<W> {
    number: usize,
    transport: Transport,
    inbox: Inbox,
    out: Outbox,
    work: W,
    state: State,
    /// Something arrived since the last turn.
    is_stirred: bool,
    is_blocked: bool,
    /// When something last moved, whatever it was.
    moved: Instant,
    /// When the work last came nearer to its end, or began to wait for something else. Heartbeats and our own requests
    /// move without that.
    progressed: Instant,
    /// What was awaited then, and after how many steps.
    judged: (Awaited, u64),
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// Room in the socket.
    Room,
    /// The last PONG.
    Pong,
    Work(Waits),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// May send more at once.
    Hungry,
    Waiting,
    Until(Instant),
    /// All is done but for the last PONG.
    Ending,
    Closed,
}

impl<W: Work> Client<W> {
    fn new(number: usize, connection: Connection, work: W) -> Result<Self, BenchError> {
        let (transport, unread) = connection.into_transport();
        transport.socket().set_nonblocking(true).map_err(BenchError::io("preparing a socket"))?;
        Ok(Self {
            number,
            transport,
            inbox: Inbox::new(&unread),
            out: Outbox::default(),
            work,
            state: State::Hungry,
            is_stirred: true,
            is_blocked: false,
            moved: Instant::now(),
            progressed: Instant::now(),
            judged: (Awaited::Work(Waits::ForEver), 0),
        })
    }

    fn interest(&self) -> epoll::EventFlags {
        match self.is_blocked {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        }
    }

    fn wants_a_turn(&self) -> bool {
        match self.state {
            State::Closed => false,
            State::Hungry => true,
            State::Until(time) if time <= Instant::now() => true,
            _ => self.is_stirred || self.is_blocked || self.moved.elapsed() > GLANCE,
        }
    }

    /// Leaves the server, which would otherwise ask a client that reads no more whether it is still there, and throw
    /// it out.
    fn hang_up(&self, poll: &rustix::fd::OwnedFd) -> Result<(), BenchError> {
        let socket = self.transport.socket();
        epoll::delete(poll, socket).map_err(BenchError::io("leaving a socket"))?;
        // The server may have been faster.
        let _ = socket.shutdown(Shutdown::Both);
        Ok(())
    }

    /// Reads once.
    fn receive(&mut self) -> Result<(), BenchError> {
        match self.transport.recv(self.inbox.room()) {
            Ok(0) => return Err(BenchError::Closed),
            Ok(count) => self.inbox.filled(count),
            Err(error) if is_transient(&error) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                return Err(BenchError::Closed);
            }
            Err(error) => return Err(BenchError::Io("receiving from the server", error)),
        }
        self.digest(Instant::now())
    }

    /// Looks at everything that has arrived.
    fn digest(&mut self, now: Instant) -> Result<(), BenchError> {
        self.is_stirred = true;
        while let Some(arrival) = self.inbox.next()? {
            self.moved = now;
            match arrival {
                Arrival::Message(message) => self.work.take(&message, &mut self.out, now)?,
                Arrival::Ping => self.out.control(b"PONG\r\n"),
                Arrival::Pong if self.state == State::Ending => {
                    self.work.finish(now);
                    self.state = State::Closed;
                    return Ok(());
                }
                Arrival::Pong | Arrival::Other => {}
            }
        }
        Ok(())
    }

    /// Sends what is staged and asks for more, once.
    fn pump(&mut self, limits: Limits) -> Result<(), BenchError> {
        self.is_stirred = false;
        if !self.flush()? {
            return self.judge(limits);
        }
        if matches!(self.state, State::Ending | State::Closed) {
            return self.judge(limits);
        }
        self.state = match self.work.fill(&mut self.out, Instant::now())? {
            Next::More => State::Hungry,
            Next::Wait => State::Waiting,
            Next::At(time) => State::Until(time),
            Next::Done => {
                self.out.control(b"PING\r\n");
                State::Ending
            }
        };
        if !self.out.is_empty() && !self.flush()? {
            return Ok(());
        }
        self.judge(limits)
    }

    /// Sends; says whether all has gone.
    fn flush(&mut self) -> Result<bool, BenchError> {
        self.is_blocked = false;
        while !self.out.is_empty() || self.transport.has_unsent() {
            let sent = match self.out.is_empty() {
                true => self.transport.flush().map(|()| 0),
                false => self.transport.send(self.out.unsent()),
            };
            match sent {
                Ok(count) => {
                    self.out.advance(count);
                    self.moved = Instant::now();
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return Ok(false);
                }
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    // The server may have said why it hung up.
                    self.receive()?;
                    return match error.kind() {
                        std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset => {
                            Err(BenchError::Closed)
                        }
                        _ => Err(BenchError::Io("sending to the server", error)),
                    };
                }
            }
        }
        Ok(true)
    }

    /// Silence that has lasted too long is a failure.
    fn judge(&mut self, limits: Limits) -> Result<(), BenchError> {
        let awaited = match self.state {
            State::Ending => Awaited::Pong,
            State::Closed => return Ok(()),
            _ if self.is_blocked => Awaited::Room,
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

fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::bench::address::Address;
    use crate::bench::commands::work::subscribe::Subscribe;

    const LIMITS: Limits =
        Limits { answer: Duration::from_secs(10), others: Some(Duration::from_millis(200)) };

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
                Client::new(number, connection, work).unwrap()
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
