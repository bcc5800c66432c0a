//! A client that asks and waits, over a blocking socket, and is thrown away when an answer is late.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CONNECT: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\
                       \"protocol\":1,\"lang\":\"torture\",\"version\":\"1\"}\r\n";
/// How long a server may take to greet.
const GREETING: Duration = Duration::from_secs(2);

/// Subscriptions from here on are of pulls.
const FIRST_PULL: u64 = 10;

/// Names inboxes of this process.
static INBOXES: AtomicU64 = AtomicU64::new(0);

/// A message that is to be answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    pub(crate) subject: String,
    /// Lines of headers, each with its end; none without any.
    pub(crate) headers: String,
    pub(crate) payload: Vec<u8>,
}

/// Message that came to an inbox.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Number of the question.
    pub(crate) number: u64,
    pub(crate) reply: Option<String>,
    /// The header block, empty without one.
    pub(crate) headers: String,
    pub(crate) payload: Vec<u8>,
}

impl Answer {
    /// The status in the first line of the headers, such as 503.
    pub(crate) fn status(&self) -> Option<u16> {
        self.headers.strip_prefix("NATS/1.0 ")?.get(..3)?.parse().ok()
    }

    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.payload).ok()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    }
}

/// A connection to one server.
pub(crate) struct Requester {
    stream: BufReader<TcpStream>,
    inbox: String,
    asked: u64,
}

impl Requester {
    /// Connects, and waits until the server has taken the connection.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, GREETING)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(GREETING))?;
        let inbox = format!("_INBOX.{}.{}", std::process::id(), INBOXES.fetch_add(1, Relaxed));
        let mut this = Self { stream: BufReader::with_capacity(64 << 10, stream), inbox, asked: 0 };
        let greeting = format!("{CONNECT}SUB {}.* 1\r\nPING\r\n", this.inbox);
        this.stream.get_mut().write_all(greeting.as_bytes())?;
        let deadline = Instant::now() + GREETING;
        while this.line(deadline)? != "PONG" {}
        Ok(this)
    }

    /// Asks, and answers the numbers of the questions.
    pub(crate) fn send<'a>(&mut self, questions: impl Iterator<Item = &'a Question>) -> io::Result<Vec<u64>> {
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        for Question { subject, headers, payload } in questions {
            self.asked += 1;
            numbers.push(self.asked);
            let mut head = String::new();
            let inbox = &self.inbox;
            if headers.is_empty() {
                let _ = write!(head, "PUB {subject} {inbox}.{} {}\r\n", self.asked, payload.len());
            } else {
                let block = format!("NATS/1.0\r\n{headers}\r\n");
                let (size, total) = (block.len(), block.len() + payload.len());
                let _ = write!(head, "HPUB {subject} {inbox}.{} {size} {total}\r\n{block}", self.asked);
            }
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(payload);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)?;
        Ok(numbers)
    }

    /// Pulls from a consumer, and answers the number of the pull. What it brings has subjects of
    /// its own, and is known by its subscription.
    pub(crate) fn pull(&mut self, subject: &str, body: &str) -> io::Result<u64> {
        self.asked += 1;
        let (number, inbox, sid) = (self.asked, &self.inbox, self.asked + FIRST_PULL);
        let size = body.len();
        let text =
            format!("SUB {inbox}.p.{number} {sid}\r\nPUB {subject} {inbox}.p.{number} {size}\r\n{body}\r\n");
        self.stream.get_mut().write_all(text.as_bytes())?;
        Ok(number)
    }

    /// Ends what [`Requester::pull`] has begun.
    pub(crate) fn end_pull(&mut self, number: u64) -> io::Result<()> {
        self.stream.get_mut().write_all(format!("UNSUB {}\r\n", number + FIRST_PULL).as_bytes())
    }

    /// The next answer.
    pub(crate) fn next(&mut self, deadline: Instant) -> io::Result<Answer> {
        loop {
            let line = self.line(deadline)?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match verb {
                "MSG" | "HMSG" => return self.message(verb == "HMSG", rest),
                "PING" => self.stream.get_mut().write_all(b"PONG\r\n")?,
                "-ERR" => return Err(io::Error::other(line)),
                _ => {}
            }
        }
    }

    /// Asks everything, and answers what came to each before the time was over. When that is not
    /// all, or the connection has ended, it says so.
    pub(crate) fn ask(&mut self, questions: &[Question], wait: Duration) -> (Vec<Option<Answer>>, bool) {
        let mut answers = vec![None; questions.len()];
        let Ok(numbers) = self.send(questions.iter()) else { return (answers, false) };
        let deadline = Instant::now() + wait;
        let mut missing = questions.len();
        while missing > 0 {
            let Ok(answer) = self.next(deadline) else { return (answers, false) };
            // One to an earlier question comes at times: a second one, or late.
            if let Some(at) = numbers.iter().position(|number| *number == answer.number)
                && answers[at].is_none()
            {
                answers[at] = Some(answer);
                missing -= 1;
            }
        }
        (answers, true)
    }

    fn line(&mut self, deadline: Instant) -> io::Result<String> {
        self.be_patient_until(deadline)?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    fn be_patient_until(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.get_ref().set_read_timeout(Some(left))
    }

    fn message(&mut self, has_headers: bool, rest: &str) -> io::Result<Answer> {
        let invalid = || io::Error::other(format!("what is this: {rest:?}"));
        let words: Vec<&str> = rest.split(' ').collect();
        let sizes = if has_headers { 2 } else { 1 };
        let (names, sizes) = words.split_at_checked(words.len().wrapping_sub(sizes)).ok_or_else(invalid)?;
        let number = |at: usize| sizes.get(at).and_then(|size| size.parse::<usize>().ok());
        let (head, total) = if has_headers { (number(0), number(1)) } else { (Some(0), number(0)) };
        let (head, total) = head.zip(total).filter(|(head, total)| head <= total).ok_or_else(invalid)?;
        let mut bytes = vec![0; total + 2];
        self.stream.get_ref().set_read_timeout(Some(GREETING))?;
        self.stream.read_exact(&mut bytes)?;
        let sid = names.get(1).and_then(|sid| sid.parse::<u64>().ok()).unwrap_or(0);
        let asked = match sid.checked_sub(FIRST_PULL) {
            Some(pull) => Some(pull),
            None => names.first().and_then(|subject| subject.rsplit('.').next()?.parse().ok()),
        };
        Ok(Answer {
            number: asked.unwrap_or(0),
            reply: names.get(2).map(|reply| (*reply).to_owned()),
            headers: String::from_utf8_lossy(&bytes[..head]).into_owned(),
            payload: bytes[head..total].to_vec(),
        })
    }
}
