//! A stream whose log is that of a group, with a double that says what is committed: consumers wait
//! for it.

use super::house::{Heard, House, stream};
use crate::engine::consumers::OwnStream;
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_store::consumer::{AckRules, GroupConsumers};
use myelin_store::{GroupPosition, Purge};
use myelin_streams::ReplicaRole;
use myelin_wire::message_buf::MessageBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const SECOND: i64 = 1_000_000_000;
const NEXT: &str = "$JS.API.CONSUMER.MSG.NEXT.S.C";

/// A house with a stream in a group, and who listens to `to.me` and to answers at `heard`.
struct Group {
    house: House,
    msgs: Arc<Mutex<Vec<Heard>>>,
    answers: Arc<Mutex<Vec<Heard>>>,
}

impl Group {
    fn new(config: StreamConfig, policy: AckPolicy) -> Self {
        Self::on(House::new(), config, policy)
    }

    fn on(mut house: House, config: StreamConfig, policy: AckPolicy) -> Self {
        house.create(config);
        let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
        house.stream("S").join_group(position, GroupConsumers::in_memory(0)).expect("it is healthy");
        Self::begun(house, policy)
    }

    /// With a consumer and a message.
    fn begun(mut house: House, policy: AckPolicy) -> Self {
        let (msgs, answers) = (house.record("to.me"), house.record("heard"));
        let mut group = Self { house, msgs, answers };
        group.house.consume("S", consumer("C", policy));
        group.house.publish("S.a");
        group.commit();
        group
    }

    /// With files, as a server that was begun anew finds them.
    fn stored() -> (FaultyDisk, Self) {
        let disk = FaultyDisk::new(1);
        let group = Self::on(House::on(&disk), stream("S"), AckPolicy::Explicit);
        let (disk, mut group) = Self::found(&disk, group);
        group.commit();
        group.set_role(ReplicaRole::Leader);
        (disk, group)
    }

    /// On what a server that ends has left.
    fn found(disk: &FaultyDisk, before: Self) -> (FaultyDisk, Self) {
        drop(before);
        let disk = disk.kill();
        let mut house = House::on(&disk);
        let (msgs, answers) = (house.record("to.me"), house.record("heard"));
        (disk, Self { house, msgs, answers })
    }

    /// Makes consumers with so much to say that an image of them is due.
    fn change_much(&mut self, names: &[&str]) {
        for name in names {
            let metadata = [("text".to_owned(), "x".repeat(100_000))].into();
            let config = ConsumerConfig { metadata, ..consumer(name, AckPolicy::Explicit) };
            self.house.consume("S", config);
            self.commit();
        }
    }

    /// Entries with records of consumers that the stream keeps at hand.
    fn records(&self) -> usize {
        let live = self.house.stream("S");
        let mut guard = live.lock_core().expect("it is there");
        guard.parts().0.store().committed_consumers(0).count()
    }

    fn index(&self) -> u64 {
        let live = self.house.stream("S");
        let mut guard = live.lock_core().expect("it is there");
        guard.parts().0.store_mut().group().expect("it has one").index
    }

    /// All that is in the log is committed.
    fn commit(&mut self) {
        self.house.settle();
        let index = self.index();
        self.commit_to(index);
    }

    fn commit_to(&mut self, index: u64) {
        let live = self.house.stream("S");
        let mut guard = live.lock_core().expect("it is there");
        let (core, effects) = guard.parts();
        core.committed(index, effects);
        drop(guard);
        self.house.settle();
    }

    fn ask(&mut self, batch: u64) {
        self.house.say(NEXT, "to.me", &format!(r#"{{"batch":{batch},"expires":3600000000000}}"#));
        self.house.settle();
    }

    fn answer(&mut self, at: usize, body: &str) {
        let reply = lock(&self.msgs)[at].reply.clone();
        self.house.say(&reply, "heard", body);
        self.house.settle();
    }

    /// Messages that came, and answers to acknowledgements.
    fn heard(&self) -> (usize, usize) {
        (lock(&self.msgs).len(), lock(&self.answers).len())
    }

    fn pending(&self) -> Option<(u64, u64)> {
        let consumers = Arc::clone(self.house.stream("S").consumers());
        let live = consumers.find("C")?;
        let info = consumers.info(&live)?;
        Some((info.num_pending, info.num_ack_pending))
    }

    fn set_role(&mut self, role: ReplicaRole) {
        self.house.stream("S").set_role(role);
        self.house.settle();
    }

    /// The leader loses what is not committed, and leads again.
    fn lose(&mut self, from: u64) {
        self.set_role(ReplicaRole::Follower);
        let live = self.house.stream("S");
        let mut guard = live.lock_core().expect("it is there");
        let now = self.house.host.now.load(std::sync::atomic::Ordering::Relaxed);
        guard.parts().0.take_back(from, now).expect("it is not committed");
        drop(guard);
        self.set_role(ReplicaRole::Leader);
    }
}

fn consumer(name: &str, ack_policy: AckPolicy) -> ConsumerConfig {
    ConsumerConfig {
        name: name.into(),
        durable_name: name.into(),
        ack_policy,
        ack_wait: SECOND,
        ..ConsumerConfig::default()
    }
}

#[test]
fn deliveries_and_answers_wait_for_the_commit() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    group.ask(1);
    assert_eq!(group.heard(), (0, 0), "nobody has agreed to it");
    assert_eq!(group.pending(), Some((0, 1)), "the leader goes on with what it has decided");
    group.commit();
    assert_eq!(group.heard(), (1, 0));
    group.answer(0, "+ACK");
    assert_eq!(group.heard(), (1, 0));
    group.commit();
    assert_eq!(group.heard(), (1, 1));
    assert_eq!(group.pending(), Some((0, 0)));
}

#[test]
fn acknowledgements_that_nobody_waits_for_are_agreed_to_together() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    (0..9).for_each(|_| group.house.publish("S.a"));
    group.commit();
    group.ask(10);
    group.commit();
    let (before, heard) = (group.index(), std::mem::take(&mut *lock(&group.msgs)));
    for delivery in &heard {
        group.house.say(&delivery.reply, "", "+ACK");
        group.house.settle();
    }
    assert_eq!((heard.len(), group.pending()), (10, Some((0, 0))), "the leader knows at once");
    assert_eq!(group.index(), before, "they are in no entry");
    group.house.pass(SECOND / 100);
    assert_eq!(group.index(), before + 1, "and then in one");
    // Behind them it begins anew.
    group.house.publish("S.a");
    group.commit();
    group.ask(1);
    group.commit();
    let (before, last) = (group.index(), lock(&group.msgs)[0].reply.clone());
    group.house.say(&last, "", "+ACK");
    group.house.settle();
    assert_eq!(group.index(), before);
    group.answer(0, "+ACK");
    assert_eq!(group.index(), before + 1, "who waits takes them along");
}

#[test]
fn consumers_that_are_made_together_are_one_entry() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    let consumers = Arc::clone(group.house.stream("S").consumers());
    let before = group.index();
    let make = |group: &mut Group, name: &str| {
        let live = group.house.stream("S");
        let config = live.config();
        let context = group.house.jetstream.create_context(&config);
        let config = consumer(name, AckPolicy::Explicit);
        consumers.create(config, &context, &mut MessageBuf::default()).expect("it is new");
    };
    ["D", "E", "F"].iter().for_each(|name| make(&mut group, name));
    let leadership = consumers.leadership().expect("it leads");
    let mut made = pin!(consumers.agreed(leadership));
    assert!(poll(made.as_mut()).is_pending());
    assert_eq!(group.index(), before, "no thread of the API writes it");
    group.house.settle();
    assert_eq!(group.index(), before + 1);
    group.commit();
    assert!(matches!(poll(made.as_mut()), Poll::Ready(Ok(()))));
}

#[test]
fn what_nobody_acknowledges_is_delivered_at_once() {
    let mut group = Group::new(stream("S"), AckPolicy::None);
    group.ask(1);
    assert_eq!(group.heard(), (1, 0));
}

#[test]
fn a_late_commit_makes_nothing_come_again_too_early() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    group.ask(1);
    group.house.pass(10 * SECOND);
    group.ask(1);
    group.commit();
    assert_eq!(group.heard(), (1, 0));
    group.house.pass(SECOND / 2);
    group.commit();
    assert_eq!(group.heard(), (1, 0));
    group.house.pass(SECOND);
    group.commit();
    assert_eq!(group.heard(), (2, 0), "a second after it was sent");
}

#[test]
fn what_is_settled_goes_with_the_commit() {
    let config = StreamConfig { retention: Retention::WorkQueue, ..stream("S") };
    let mut group = Group::new(config, AckPolicy::Explicit);
    group.ask(1);
    group.commit();
    group.answer(0, "+ACK");
    assert_eq!(group.house.contents("S"), (1, 1));
    group.commit();
    assert_eq!((group.house.contents("S"), group.heard()), ((0, 1), (1, 1)));
}

#[test]
fn what_a_leader_loses_was_never_said() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    group.ask(1);
    group.commit();
    let last = group.index();
    group.answer(0, "+ACK");
    group.house.publish("S.b");
    group.ask(7);
    group.lose(last + 1);
    let told = lock(&group.msgs).last().map(|last| last.headers.clone());
    assert_eq!(told.as_deref(), Some("NATS/1.0 409 Leadership Change\r\n\r\n"));
    assert_eq!(group.heard(), (2, 0), "one message, and that");
    assert_eq!(group.pending(), Some((0, 1)), "as the group has it");
    group.house.pass(2 * SECOND);
    group.ask(1);
    group.commit();
    assert_eq!(group.heard(), (3, 0), "it comes again");
    group.answer(2, "+ACK");
    group.commit();
    assert_eq!((group.heard(), group.pending()), ((3, 1), Some((0, 0))));
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn calls_go_on_when_the_group_has_agreed() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    let consumers = Arc::clone(group.house.stream("S").consumers());
    group.house.consume("S", consumer("D", AckPolicy::Explicit));
    let leadership = consumers.leadership().expect("it leads");
    let mut made = pin!(consumers.agreed(leadership));
    assert!(poll(made.as_mut()).is_pending());
    group.commit();
    assert!(matches!(poll(made.as_mut()), Poll::Ready(Ok(()))));
    group.ask(5);
    group.commit();
    let (live, mut out) = (consumers.find("C").expect("it is there"), MessageBuf::default());
    let mut deleted = pin!(consumers.delete(&live, &mut out));
    assert!(poll(deleted.as_mut()).is_pending());
    group.house.settle();
    assert_eq!(group.heard(), (1, 0), "it has not ended yet");
    group.commit();
    assert!(matches!(poll(deleted.as_mut()), Poll::Ready(Ok(true))));
    group.house.settle();
    let told = lock(&group.msgs).last().map(|last| last.headers.clone());
    assert_eq!(told.as_deref(), Some("NATS/1.0 409 Consumer Deleted\r\n\r\n"));
    assert_eq!(group.house.consumers("S"), ["D"]);
}

/// Whoever pulls learns of the end: of requests whose messages waited for their commit then, and
/// of those that came meanwhile.
#[test]
fn a_consumer_that_ends_leaves_nobody_without_an_answer() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    group.house.publish("S.b");
    group.ask(1);
    group.commit();
    let acked = lock(&group.msgs)[0].reply.clone();
    group.answer(0, "+ACK");
    group.ask(1);
    assert_eq!(group.heard(), (1, 0), "all of it waits");
    let consumers = Arc::clone(group.house.stream("S").consumers());
    let (live, mut out) = (consumers.find("C").expect("it is there"), MessageBuf::default());
    assert!(consumers.takes_acks_on(acked.as_bytes()));
    let mut deleted = pin!(consumers.delete(&live, &mut out));
    assert!(poll(deleted.as_mut()).is_pending());
    assert!(!consumers.takes_acks_on(acked.as_bytes()), "whoever wants an answer hears that");
    let late = group.house.record("late");
    group.house.say(NEXT, "late", "1");
    group.commit();
    assert!(matches!(poll(deleted.as_mut()), Poll::Ready(Ok(true))));
    group.house.settle();
    assert_eq!(group.heard(), (3, 1), "a message, its end, and an answer");
    let told = |heard: &Mutex<Vec<Heard>>| lock(heard).last().map(|last| last.headers.clone());
    let wanted = Some("NATS/1.0 409 Consumer Deleted\r\n\r\n".to_owned());
    assert_eq!((told(&group.msgs), told(&late)), (wanted.clone(), wanted));
}

/// Nothing is agreed to any more.
#[test]
fn a_stream_that_ends_leaves_nobody_without_an_answer() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    group.house.publish("S.b");
    group.ask(1);
    group.commit();
    group.answer(0, "+ACK");
    group.ask(1);
    let consumers = Arc::clone(group.house.stream("S").consumers());
    let mut out = MessageBuf::default();
    let mut ended = pin!(consumers.end_all("Consumer Deleted", &mut out));
    assert!(poll(ended.as_mut()).is_ready());
    group.house.settle();
    let told = |heard: &Mutex<Vec<Heard>>| lock(heard).last().map(|last| last.headers.clone());
    assert_eq!(told(&group.msgs).as_deref(), Some("NATS/1.0 409 Consumer Deleted\r\n\r\n"));
    assert_eq!(told(&group.answers).as_deref(), Some("NATS/1.0 503\r\n\r\n"));
    assert_eq!(group.heard(), (2, 1));
}

#[test]
fn what_a_leader_made_changed_and_ended_is_as_the_group_has_it() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    let consumers = Arc::clone(group.house.stream("S").consumers());
    group.house.consume("S", consumer("D", AckPolicy::Explicit));
    group.commit();
    let last = group.index();
    group.house.consume("S", consumer("E", AckPolicy::Explicit));
    let find = |name| consumers.find(name).expect("it is there");
    let changed = ConsumerConfig { max_deliver: 7, ..(*consumers.config("C").expect("it is there")).clone() };
    consumers.update_and_wait(&find("C"), changed).expect("it can be changed");
    let (live, mut out) = (find("D"), MessageBuf::default());
    let mut deleted = pin!(consumers.delete(&live, &mut out));
    assert!(poll(deleted.as_mut()).is_pending());
    let leadership = consumers.leadership().expect("it leads");
    let mut agreed = pin!(consumers.agreed(leadership));
    assert!(poll(agreed.as_mut()).is_pending());
    group.lose(last + 1);
    assert!(matches!(poll(agreed.as_mut()), Poll::Ready(Err(_))), "nobody knows");
    assert!(matches!(poll(deleted.as_mut()), Poll::Ready(Err(_))));
    group.house.settle();
    assert_eq!(group.house.consumers("S"), ["C", "D"]);
    assert_ne!(consumers.config("C").expect("it is there").max_deliver, 7);
    // They are served.
    for name in ["C", "D"] {
        group.house.say(&format!("$JS.API.CONSUMER.MSG.NEXT.S.{name}"), "to.me", "1");
    }
    group.commit();
    assert_eq!(group.heard(), (2, 0));
}

#[test]
fn who_waits_for_what_was_undone_goes_on() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    let consumers = Arc::clone(group.house.stream("S").consumers());
    let (states, _) = consumers.log().expect("the server runs");
    let undone = || {
        let id = lock(states).create("X", AckRules::default(), b"").expect("it is new");
        let position = lock(states).flush(0).expect("nothing is written").expect("a group");
        lock(states).remove(id).expect("it is there");
        position
    };
    let is_released = |position| lock(states).is_released(position);
    let propose = |group: &mut Group| {
        OwnStream::propose_soon(&*group.house.stream("S"));
        group.house.settle();
    };
    let first = undone();
    assert!(!is_released(first));
    propose(&mut group);
    assert!(is_released(first), "nothing has to be agreed to");
    // Behind something that has to be.
    group.house.consume("S", consumer("D", AckPolicy::Explicit));
    propose(&mut group);
    let second = undone();
    propose(&mut group);
    assert!(!is_released(second));
    group.commit();
    assert!(is_released(second));
}

#[test]
fn a_call_knows_from_its_decision_on_when_its_leader_has_lost_it() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    let consumers = Arc::clone(group.house.stream("S").consumers());
    let last = group.index();
    let leadership = consumers.leadership().expect("it leads");
    group.house.consume("S", consumer("D", AckPolicy::Explicit));
    // It waits when this replica leads again, of which all is committed.
    group.lose(last + 1);
    group.commit();
    let mut agreed = pin!(consumers.agreed(leadership));
    assert!(matches!(poll(agreed.as_mut()), Poll::Ready(Err(_))), "nobody has it");
    // Or while it follows, and then it hears of nothing.
    let leadership = consumers.leadership().expect("it leads");
    group.house.consume("S", consumer("E", AckPolicy::Explicit));
    group.set_role(ReplicaRole::Follower);
    let mut agreed = pin!(consumers.agreed(leadership));
    assert!(matches!(poll(agreed.as_mut()), Poll::Ready(Err(_))), "nobody knows");
    assert!(consumers.leadership().is_err(), "a follower decides nothing");
    let (live, mut out) = (consumers.find("C").expect("it is there"), MessageBuf::default());
    let mut deleted = pin!(consumers.delete(&live, &mut out));
    let Poll::Ready(Err(error)) = poll(deleted.as_mut()) else { panic!("it follows") };
    assert_eq!(error.err_code, 10008);
    assert!(consumers.find("C").is_some());
}

#[test]
fn a_purge_that_is_lost_is_not_answered_for() {
    let mut group = Group::new(stream("S"), AckPolicy::Explicit);
    let (last, live) = (group.index(), group.house.stream("S"));
    let leadership = live.consumers().leadership().expect("it leads");
    let mut all = Purge { filter: None, below: 0, keep: 0, through: 0 };
    let mut guard = live.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    assert_eq!(core.purge(&mut all, 0, effects).expect("it is healthy").removed.messages, 1);
    let (reader, ticket) = (core.reader(), core.store().ticket());
    drop(guard);
    group.lose(last + 1);
    {
        // Nothing is behind it yet, and later there is.
        let mut purged = pin!(live.released_through(&reader, ticket, leadership));
        assert!(matches!(poll(purged.as_mut()), Poll::Ready(Err(_))), "nobody knows");
    }
    group.house.publish("S.b");
    group.commit();
    let mut purged = pin!(live.released_through(&reader, ticket, leadership));
    let Poll::Ready(Err(error)) = poll(purged.as_mut()) else { panic!("it was taken back") };
    assert_eq!(error.err_code, 10008);
    assert_eq!(live.state(false).messages, 2);
}

/// A stream and its consumers are read from their files, and follow until somebody says that they
/// lead: from entries of the log alone, and from an image with what came behind it.
#[test]
fn a_stream_of_a_group_follows_when_its_server_begins() {
    for has_image in [false, true] {
        let (disk, mut group) = Group::stored();
        if has_image {
            group.change_much(&["L", "M", "N"]);
            assert_eq!(images(&disk).len(), 1, "the one before is gone");
            assert_eq!(group.records(), 0, "none is needed");
        }
        group.ask(1);
        group.commit();
        group.answer(0, "+ACK");
        group.commit();
        let (pending, known) = (group.pending(), (group.index(), group.house.consumers("S")));
        assert!(group.records() > 0);
        let (_, mut group) = Group::found(&disk, group);
        let live = group.house.stream("S");
        assert!(!live.role().leads() && live.consumers().leadership().is_err(), "{has_image}");
        group.house.publish("S.y");
        group.ask(1);
        assert_eq!((group.heard(), group.index()), ((0, 0), known.0), "it serves nobody");
        group.commit();
        group.set_role(ReplicaRole::Leader);
        assert_eq!(group.house.consumers("S"), known.1, "{has_image}");
        assert_eq!(group.pending(), pending, "{has_image}");
        group.house.publish("S.z");
        group.commit();
        group.ask(1);
        group.commit();
        assert_eq!(group.heard(), (1, 0), "{has_image}");
    }
}

/// A stream that has failed is opened anew, and does not know what of its decisions its log has.
#[test]
fn a_leader_whose_stream_has_failed_follows() {
    let (_disk, mut group) = Group::stored();
    group.house.publish("S.b");
    group.ask(2);
    let live = group.house.stream("S");
    live.lock_core().expect("it is there").parts().0.store().give_up("for a test");
    group.house.publish("S.c");
    group.house.jetstream.repair(group.house.account.name(), "S");
    group.house.settle();
    assert!(!live.role().leads() && live.failure().is_none());
    assert!(live.consumers().leadership().is_err());
    group.commit();
    let told = lock(&group.msgs).drain(..).map(|told| told.headers).collect::<Vec<_>>();
    assert_eq!(told, ["NATS/1.0 409 Leadership Change\r\n\r\n"], "and then it serves nobody");
    group.set_role(ReplicaRole::Leader);
    group.house.pass(2 * SECOND);
    group.ask(2);
    group.commit();
    assert_eq!(group.heard().0, 2, "what was in its log is committed");
}

/// Names of the images of consumers.
fn images(disk: &FaultyDisk) -> Vec<String> {
    let names = disk.files().into_keys().map(|path| path.to_string_lossy().into_owned());
    names.filter(|name| name.contains("/consumers.")).collect()
}

#[test]
fn a_removal_that_is_lost_is_decided_again() {
    let config = StreamConfig { retention: Retention::WorkQueue, ..stream("S") };
    let mut group = Group::new(config, AckPolicy::Explicit);
    group.ask(1);
    group.commit();
    group.answer(0, "+ACK");
    // The acknowledgement is committed, and the removal that comes behind it is not.
    let last = group.index();
    group.commit_to(last - 1);
    group.lose(last);
    assert_eq!(group.house.contents("S"), (1, 1));
    group.commit();
    assert_eq!(group.house.contents("S"), (0, 1));
}
