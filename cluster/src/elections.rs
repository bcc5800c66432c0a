//! Elections: how long nobody acknowledges when the leader of a stream with three replicas dies,
//! falls silent, or is told to stop.

use crate::Error;
use crate::requester::{Question, Requester};
use crate::server::Server;
use crate::trio::Trio;
use crate::wait::wait_for;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const STREAM: &str = "ELECTED";
/// Time after which a publish that nobody has answered is followed by another: so exact is what is
/// measured.
const PATIENCE: Duration = Duration::from_millis(10);
/// Pause where there is nobody to take a publish.
const PAUSE: Duration = Duration::from_millis(2);
/// A leader has been there for so long before something happens to it.
const AT_REST: Duration = Duration::from_secs(1);

/// Something that happens to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// SIGKILL: its connections close.
    Killed,
    /// SIGSTOP: its connections stay, and nothing comes over them.
    Silent,
    /// SIGTERM.
    Stopped,
}

/// Ends the leader of a stream `times` times, and answers how long it took each time until another
/// server acknowledged a message, in ascending order.
///
/// # Errors
/// A server does not start or stop, or nobody leads for too long.
pub fn elections(program: &Path, ending: Ending, times: usize, seed: u64) -> Result<Vec<Duration>, Error> {
    let mut trio = Trio::start(program, seed)?;
    let config = json!({ "name": STREAM, "subjects": [STREAM], "num_replicas": trio.servers.len() });
    wait_for("a stream", || {
        let mut requester = Requester::connect(trio.servers[0].ports.clients).ok()?;
        ask(&mut requester, &format!("STREAM.CREATE.{STREAM}"), &config)
    })?;
    let mut gaps = Vec::new();
    for turn in 0..times {
        gaps.push(trio.gap(ending, turn)?);
    }
    gaps.sort_unstable();
    Ok(gaps)
}

impl Trio {
    /// Waits until all replicas have everything, ends the leader, and measures.
    fn gap(&mut self, ending: Ending, turn: usize) -> Result<Duration, Error> {
        let asked = self.servers[turn % self.servers.len()].ports.clients;
        let leader = wait_for("a leader with all replicas", || current_leader(asked))?;
        thread::sleep(AT_REST);
        let leads = |server: &&mut Server| server.name == leader;
        let other = self.servers.iter().find(|server| server.name != leader).map(|one| one.ports.clients);
        let leader = self.servers.iter_mut().find(leads).ok_or("a leader that is nobody")?;
        let mut publisher = Requester::connect(other.ok_or("one server alone")?)?;
        publish(&mut publisher).ok_or("nobody acknowledged before")?;
        let began = Instant::now();
        match ending {
            Ending::Killed => leader.signal(Signal::KILL)?,
            Ending::Silent => leader.signal(Signal::STOP)?,
            Ending::Stopped => leader.signal(Signal::TERM)?,
        }
        // One acknowledgement may be of the leader that has just been told to end.
        let mut last = Instant::now();
        let mut longest = Duration::ZERO;
        wait_for("an acknowledgement of another leader", || {
            if publish(&mut publisher).is_some() {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            } else {
                thread::sleep(PAUSE);
            }
            (began.elapsed() > AT_REST && !longest.is_zero() && last.elapsed() < PAUSE).then_some(())
        })?;
        match ending {
            Ending::Killed | Ending::Stopped => {
                leader.stop()?;
                leader.start()?;
            }
            Ending::Silent => leader.signal(Signal::CONT)?,
        }
        Ok(longest)
    }
}

/// Asks the API; none where there is no answer, or an error.
fn ask(requester: &mut Requester, operation: &str, body: &Value) -> Option<Value> {
    let payload = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let question = Question { subject: format!("$JS.API.{operation}"), payload, ..Question::default() };
    let (mut answers, _) = requester.ask(&[question], Duration::from_secs(2));
    answers.pop()??.json().filter(|answer| answer.get("error").is_none())
}

/// The leader of the stream, once all others have what it has.
fn current_leader(address: SocketAddr) -> Option<String> {
    let mut requester = Requester::connect(address).ok()?;
    let info = ask(&mut requester, &format!("STREAM.INFO.{STREAM}"), &Value::Null)?;
    let replicas = info["cluster"]["replicas"].as_array()?;
    let is_whole = replicas.len() == 2 && replicas.iter().all(|replica| replica["current"] == true);
    is_whole.then(|| info["cluster"]["leader"].as_str().map(str::to_owned))?
}

/// Publishes one message, and answers when it is acknowledged soon.
fn publish(publisher: &mut Requester) -> Option<()> {
    let question = Question { subject: STREAM.to_owned(), ..Question::default() };
    let (mut answers, _) = publisher.ask(&[question], PATIENCE);
    let answer = answers.pop()??;
    answer.json().filter(|answer| answer.get("seq").is_some()).map(drop)
}
