//! How long messages take through other systems at planned times: to a reader, or to an echo and
//! back.
//!
//! Requests: a thread for each connection, with one request under way, as our driver of NATS has
//! it. Owns nothing of the arithmetic, which is `bench::latency`'s.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use myelin_loadgen::error::BenchError;
use myelin_loadgen::latency::{LatencyOutcome, Pending, Schedule};
use myelin_loadgen::meter::Meter;
use myelin_loadgen::pubsub::publisher::Until;
use myelin_loadgen::pubsub::script;
use myelin_stdx::sync::lock;

use crate::others::driver::{
    Broker, END, NUMBER, Place, Publisher, Sort, Subscriber, joined, new_place, number_of, numbered,
};
use crate::round::Round;
use crate::rows::latency::{FromTo, Latency};
use crate::rows::row::Amount;
use crate::servers::system::SystemKind;

/// The part of the time that warms up.
const WARMING: u32 = 10;

/// Whether there is a driver for this.
pub(super) fn can(kind: SystemKind, load: &Latency) -> bool {
    let can = match load.from_to {
        FromTo::Request => true,
        FromTo::Subscriber => kind != SystemKind::Kafka && load.connections == 1,
        FromTo::Consumer => load.connections == 1,
        FromTo::Ack => false,
    };
    can && load.size >= NUMBER
}

/// A run: the clock, and what is under way.
struct Run {
    schedule: Schedule,
    start: Instant,
    size: usize,
    pending: Mutex<Pending>,
}

impl Run {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn note<T>(&self, note: impl FnOnce(&mut Pending) -> T) -> T {
        note(&mut lock(&self.pending))
    }

    /// Waits for the planned time of a message; says whether it was over already.
    fn wait_for(&self, number: u64) -> bool {
        let planned = self.schedule.planned(number);
        let is_late = self.now() > planned;
        loop {
            match Duration::from_nanos(planned.saturating_sub(self.now())) {
                Duration::ZERO => return is_late,
                left => thread::sleep(left),
            }
        }
    }
}

/// Measures once.
pub(super) fn measure(
    broker: &dyn Broker,
    load: &Latency,
    amount: Amount,
    meter: Meter,
) -> Result<Round, BenchError> {
    let Until::Elapsed(duration) = amount.until else {
        return Err(BenchError::Usage("a row about latency lasts seconds, not messages".into()));
    };
    let schedule = Schedule::new(load.rate, duration / WARMING, duration);
    let (ends, what) = match load.from_to {
        FromTo::Request => (Ends::requesting(broker, load.connections)?, "request to answer"),
        FromTo::Consumer => (Ends::passing(broker, Sort::Log)?, "publisher to consumer"),
        FromTo::Subscriber | FromTo::Ack => (Ends::passing(broker, Sort::Topic)?, "publisher to subscriber"),
    };
    let before = meter.cpu()?;
    let pending = Mutex::new(Pending::new(schedule));
    let run = Run { schedule, start: Instant::now(), size: load.size, pending };
    ends.drive(&run)?;
    let elapsed = run.start.elapsed();
    let cpu = meter.cpu()?.since(before);
    let pending = run.pending.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !pending.is_complete() {
        let text = format!("{} of {} messages arrived", pending.arrived(), schedule.count());
        return Err(BenchError::Lost(text));
    }
    let outcome = LatencyOutcome::of(schedule, pending, elapsed, Some(cpu));
    Ok(Round { cpu: Some(cpu), ..Round::of_latency(&outcome, what) })
}

/// Senders and receivers of a run.
enum Ends {
    Passing { publisher: Box<dyn Publisher>, subscriber: Box<dyn Subscriber> },
    Requesting { clients: Vec<Requester>, service: Service },
}

struct Requester {
    requests: Box<dyn Publisher>,
    answers: Box<dyn Subscriber>,
}

/// Answers requests with what they brought, each to the place of its client.
struct Service {
    requests: Vec<Box<dyn Subscriber>>,
    answers: Vec<Box<dyn Publisher>>,
}

impl Ends {
    fn passing(broker: &dyn Broker, sort: Sort) -> Result<Self, BenchError> {
        let place = new_place(sort);
        let subscriber = broker.subscriber(&place)?;
        Ok(Self::Passing { publisher: broker.publisher(&place)?, subscriber })
    }

    /// Every client has a place for requests and one for answers.
    fn requesting(broker: &dyn Broker, connections: usize) -> Result<Self, BenchError> {
        let (mut clients, mut service) = (Vec::new(), Service { requests: Vec::new(), answers: Vec::new() });
        for _ in 0..connections {
            let [to, back]: [Place; 2] = [new_place(Sort::Queue), new_place(Sort::Queue)];
            service.requests.push(broker.subscriber(&to)?);
            service.answers.push(broker.publisher(&back)?);
            let answers = broker.subscriber(&back)?;
            clients.push(Requester { requests: broker.publisher(&to)?, answers });
        }
        Ok(Self::Requesting { clients, service })
    }

    fn drive(self, run: &Run) -> Result<(), BenchError> {
        match self {
            Self::Passing { mut publisher, mut subscriber } => thread::scope(|scope| {
                let receiving = scope.spawn(|| receive(subscriber.as_mut(), run));
                let sent = send(publisher.as_mut(), run);
                joined(receiving).and(sent)
            }),
            Self::Requesting { clients, service } => thread::scope(|scope| {
                let Service { requests, answers } = service;
                let serving: Vec<_> = requests
                    .into_iter()
                    .zip(answers)
                    .map(|(requests, answers)| scope.spawn(|| serve(requests, answers)))
                    .collect();
                let step = clients.len();
                let asking: Vec<_> = clients
                    .into_iter()
                    .enumerate()
                    .map(|(first, client)| scope.spawn(move || client.ask(run, first, step)))
                    .collect();
                let asked: Vec<Result<(), BenchError>> = asking.into_iter().map(joined).collect();
                let served: Vec<Result<(), BenchError>> = serving.into_iter().map(joined).collect();
                asked.into_iter().chain(served).collect()
            }),
        }
    }
}

/// The kernel may otherwise let every sleep of a thread last 50 us longer. Where it refuses, that
/// is so.
fn sleep_exactly() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

fn send(publisher: &mut dyn Publisher, run: &Run) -> Result<(), BenchError> {
    sleep_exactly();
    let (text, mut payload) = (script::text(run.size), Vec::with_capacity(run.size));
    for number in 0..run.schedule.count() {
        numbered(&mut payload, &text, number, run.size);
        let is_late = run.wait_for(number);
        run.note(|pending| pending.send(number, run.now(), is_late));
        publisher.publish(&payload)?;
        publisher.flush()?;
    }
    Ok(())
}

fn receive(subscriber: &mut dyn Subscriber, run: &Run) -> Result<(), BenchError> {
    let mut missing = run.schedule.count();
    while missing > 0 {
        subscriber.next(&mut |payload| {
            let number = number_of(payload, run.size)?;
            missing = missing.saturating_sub(1);
            run.note(|pending| pending.arrive(number, run.now()))
        })?;
    }
    Ok(())
}

/// Echoes until the end.
fn serve(mut requests: Box<dyn Subscriber>, mut answers: Box<dyn Publisher>) -> Result<(), BenchError> {
    let mut is_over = false;
    while !is_over {
        requests.next(&mut |payload| {
            is_over |= payload == END;
            if is_over {
                return Ok(());
            }
            answers.publish(payload)
        })?;
        answers.flush()?;
    }
    Ok(())
}

impl Requester {
    /// Sends the messages of one connection, each when the one before is answered.
    fn ask(mut self, run: &Run, first: usize, step: usize) -> Result<(), BenchError> {
        let asked = self.ask_all(run, first, step);
        let told = self.requests.publish(END).and_then(|()| self.requests.flush());
        asked.and(told)
    }

    fn ask_all(&mut self, run: &Run, first: usize, step: usize) -> Result<(), BenchError> {
        sleep_exactly();
        let (text, mut payload) = (script::text(run.size), Vec::with_capacity(run.size));
        for number in (first as u64..run.schedule.count()).step_by(step) {
            numbered(&mut payload, &text, number, run.size);
            let is_late = run.wait_for(number);
            run.note(|pending| pending.send(number, run.now(), is_late));
            self.requests.publish(&payload)?;
            self.requests.flush()?;
            let mut is_answered = false;
            while !is_answered {
                self.answers.next(&mut |answer| {
                    is_answered = true;
                    let number = number_of(answer, run.size)?;
                    run.note(|pending| pending.arrive(number, run.now()))
                })?;
            }
        }
        Ok(())
    }
}
