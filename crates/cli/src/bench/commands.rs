//! `bench pub`, `bench sub` and `bench service`: one side of a benchmark against any server.
//!
//! Owns what these commands print, which resembles `nats bench`. The work is `publisher`'s,
//! `receiver`'s and `request`'s.

use std::cell::Cell;
use std::fmt;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::bench::connection::Connection;
use crate::bench::error::BenchError;
use crate::bench::flow::{Delivery, Flow};
use crate::bench::frame::Tally;
use crate::bench::process::{CpuTime, Meter};
use crate::bench::publisher::{self, Until};
use crate::bench::receiver;
use crate::bench::request::{self, Answer, Requesters};
use crate::bench::script::{self, Script, Sizes, Subjects};
use crate::bench::verify::{Expectation, Verifier};
use crate::bench::{PublishArguments, RequestArguments, ServeArguments, SubscribeArguments, Target};

const BURST: usize = 256 * 1024;

/// What one client did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) messages: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) elapsed: Duration,
}

/// `bench pub`.
pub(crate) fn publish(arguments: &PublishArguments) -> Result<(), BenchError> {
    let PublishArguments { target, load, multisubject, multisubject_max } = arguments;
    target.check()?;
    println!(
        "Starting Core NATS publisher benchmark [clients={}, msg-size={} B, msgs={}, multi-subject={}, subject={}]",
        target.reached.clients, load.size, load.msgs, multisubject, target.subject
    );
    let subjects = subjects(&target.subject, *multisubject, *multisubject_max);
    let script = Script::encode(&subjects, &Sizes::exactly(load.size), BURST);
    let flow = Flow::new(Delivery::Each, 0, 0);
    let (shares, cpu) = run_clients(target, |client, mut connection| {
        let start = Instant::now();
        let until = Until::Messages(part(load.msgs, target.reached.clients, client));
        let done = publisher::publish(&mut connection, &script, until, &flow)?;
        let elapsed = done.finished - start;
        Ok(Share { messages: done.messages, payload_bytes: done.payload_bytes, elapsed })
    })?;
    print_rates("Core NATS publisher", &shares, cpu);
    Ok(())
}

/// `bench sub`.
pub(crate) fn subscribe(arguments: &SubscribeArguments) -> Result<(), BenchError> {
    let SubscribeArguments { target, msgs, multisubject, verify } = arguments;
    target.check()?;
    let pattern = if *multisubject { format!("{}.*", target.subject) } else { target.subject.clone() };
    println!(
        "Starting Core NATS subscriber benchmark [clients={}, msgs={}, multi-subject={}, subject={pattern}]",
        target.reached.clients, msgs, multisubject
    );
    let (shares, cpu) = run_clients(target, |_, mut connection| {
        connection.send(format!("SUB {pattern} 1\r\n").as_bytes())?;
        connection.barrier()?;
        println!("Waiting for messages");
        let verifier = verify.then(|| verifier(&target.subject, connection.max_payload()));
        receive(connection, verifier, *msgs)
    })?;
    print_rates("Core NATS subscriber", &shares, cpu);
    Ok(())
}

/// Receives this many messages; the time is that between the first and the last.
fn receive(connection: Connection, verifier: Option<Verifier>, messages: u64) -> Result<Share, BenchError> {
    let first = Cell::new(None);
    let tally = receiver::count_messages(connection, verifier, |tally: Tally| {
        if tally.messages > 0 && first.get().is_none() {
            first.set(Some(Instant::now()));
        }
        tally.messages >= messages
    })?;
    let elapsed = first.get().map_or(Duration::ZERO, |first| first.elapsed());
    Ok(Share { messages: tally.messages, payload_bytes: tally.payload_bytes, elapsed })
}

fn verifier(subject: &str, max_payload: usize) -> Verifier {
    let base = subject.to_owned();
    Verifier::new(Expectation { base, own_sids: false, largest: max_payload, order: None })
}

/// `bench service serve`: returns only when the server goes away.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<(), BenchError> {
    let ServeArguments { target, size } = arguments;
    target.check()?;
    println!(
        "Starting Core NATS service server benchmark [clients={}, msg-size={size} B, subject={}]",
        target.reached.clients, target.subject
    );
    let answer = Answer::Fixed(script::payload(&script::text(*size), 0, *size).to_vec());
    let announce = || println!("Waiting for requests");
    thread::scope(|scope| {
        let serve =
            || request::serve(&target.reached.server, &target.subject, &answer, announce, || false).map(drop);
        let services: Vec<_> = (0..target.reached.clients).map(|_| scope.spawn(serve)).collect();
        services.into_iter().try_for_each(joined)
    })
}

/// `bench service request`.
pub(crate) fn request(arguments: &RequestArguments) -> Result<(), BenchError> {
    let RequestArguments { target, load } = arguments;
    target.check()?;
    println!(
        "Starting Core NATS service requester benchmark [clients={}, msg-size={} B, msgs={}, subject={}]",
        target.reached.clients, load.size, load.msgs, target.subject
    );
    let subjects = Subjects::One(target.subject.clone());
    let sizes = Sizes::exactly(load.size);
    let mut requesters = Requesters::open(&target.reached.server, target.reached.clients, &subjects, &sizes)?;
    let outcome = requesters.run(Until::Messages(load.msgs), target.reached.server_pid.map(Meter::of))?;
    let share =
        Share { messages: outcome.requests, payload_bytes: outcome.payload_bytes, elapsed: outcome.elapsed };
    print_rates("Core NATS service requester", &[share], outcome.cpu);
    let [median, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|quantile| outcome.latency(quantile));
    println!(" latencies p50 {median:.2}us | p90 {p90:.2}us | p99 {p99:.2}us | p99.9 {p999:.2}us");
    Ok(())
}

fn subjects(subject: &str, many: bool, count: usize) -> Subjects {
    match many {
        true => Subjects::Rotating { base: subject.to_owned(), first: 0, count: count.max(1) },
        false => Subjects::One(subject.to_owned()),
    }
}

/// How many of all messages this client sends.
fn part(messages: u64, clients: usize, client: usize) -> u64 {
    let clients = clients as u64;
    messages / clients + u64::from((client as u64) < messages % clients)
}

impl Target {
    fn check(&self) -> Result<(), BenchError> {
        match self.reached.clients {
            0 => Err(BenchError::Usage("--clients must be at least 1".into())),
            _ => Ok(()),
        }
    }
}

/// Connects all clients, then lets each work on a thread of its own.
fn run_clients(
    target: &Target,
    work: impl Fn(usize, Connection) -> Result<Share, BenchError> + Sync,
) -> Result<(Vec<Share>, Option<CpuTime>), BenchError> {
    let connections: Result<Vec<_>, _> =
        (0..target.reached.clients).map(|_| Connection::open(&target.reached.server)).collect();
    let meter = target.reached.server_pid.map(Meter::of);
    let before = meter.map(Meter::cpu).transpose()?;
    let shares: Result<Vec<Share>, BenchError> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = connections?
            .into_iter()
            .enumerate()
            .map(|(client, connection)| scope.spawn(move || work(client, connection)))
            .collect();
        threads.into_iter().map(joined).collect()
    });
    let cpu = meter.map(Meter::cpu).transpose()?;
    Ok((shares?, cpu.zip(before).map(|(after, before)| after.since(before))))
}

fn joined<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Prints what clients in this role did, as `nats bench` does.
pub(crate) fn print_rates(role: &str, shares: &[Share], cpu: Option<CpuTime>) {
    let elapsed = shares.iter().map(|share| share.elapsed).max().unwrap_or_default();
    let messages = shares.iter().map(|share| share.messages).sum();
    let payload_bytes = shares.iter().map(|share| share.payload_bytes).sum();
    let all = Share { messages, payload_bytes, elapsed };
    println!("\nNATS {role} stats: {all}");
    if shares.len() > 1 {
        for (number, share) in shares.iter().enumerate() {
            println!(" [{}] {share} ({} msgs)", number + 1, grouped(share.messages));
        }
        println!(" {}", distribution(shares));
    }
    if let Some(cpu) = cpu {
        let per_message = cpu.scheduled.as_secs_f64() * 1e6 / messages.max(1) as f64;
        let doubt = if cpu.is_doubtful() { " (doubtful: schedstat and stat differ)" } else { "" };
        println!(" server CPU {:.3}s ~ {per_message:.3}us/msg{doubt}", cpu.scheduled.as_secs_f64());
    }
}

fn distribution(shares: &[Share]) -> String {
    let rates: Vec<f64> = shares.iter().map(Share::rate).collect();
    let count = rates.len() as f64;
    let average = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - average).powi(2)).sum::<f64>() / count;
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    let [least, average, most, deviation] =
        [least, average, most, variance.sqrt()].map(|rate| grouped(rate as u64));
    format!("message rates min {least} | avg {average} | max {most} | stddev {deviation} msgs")
}

impl Share {
    /// Messages per second; 0 when no time has passed.
    fn rate(&self) -> f64 {
        match self.elapsed.is_zero() {
            true => 0.0,
            false => self.messages as f64 / self.elapsed.as_secs_f64(),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let mebibytes = self.payload_bytes as f64 / seconds / f64::from(1 << 20);
        let each = seconds * 1e6 / self.messages.max(1) as f64;
        write!(f, "{} msgs/sec ~ {mebibytes:.1} MiB/sec ~ {each:.2}us", grouped(self.rate() as u64))
    }
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn clients_share_all_messages() {
        for (messages, clients) in [(10, 3), (2, 4), (1000, 1)] {
            let parts: Vec<u64> = (0..clients).map(|client| part(messages, clients, client)).collect();
            assert_eq!(parts.iter().sum::<u64>(), messages);
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_share_prints_like_nats_bench() {
        let elapsed = Duration::from_millis(500);
        let share = Share { messages: 1_000_000, payload_bytes: 16 << 20, elapsed };
        assert_eq!(share.to_string(), "2,000,000 msgs/sec ~ 32.0 MiB/sec ~ 0.50us");
    }
}
