//! A disk whose syncs take 100 ms keeps nobody waiting but those who ask for what it has to hold.

use super::house::{House, TestHost, stream};
use crate::engine::{ApiCalls, ApiRequest, CallScope};
use myelin_broker::Account;
use myelin_disk::faulty::{DiskOperation, FaultyDisk};
use myelin_jsapi::config::{AccountLimits, StreamConfig};
use myelin_stdx::sync::lock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time that a sync takes, and time for which nobody may have a stream's core.
const SYNC: Duration = Duration::from_millis(100);
const LONGEST_LENT: Duration = Duration::from_millis(20);

/// A house on a slow disk, with a thread of its own for syncs, and the calls of its API.
struct Slow {
    house: House,
    disk: FaultyDisk,
    calls: ApiCalls,
    asked: usize,
    answers: Vec<(String, String)>,
    published: usize,
}

impl Slow {
    fn new(sync_always: bool) -> Self {
        let host = Arc::<TestHost>::default();
        host.stand_still();
        let clock = Arc::clone(&host);
        let disk = FaultyDisk::new(1).watched(Arc::new(move |operation: &DiskOperation| {
            if matches!(operation, DiskOperation::Sync | DiskOperation::SyncDirectory) {
                clock.sleep(SYNC);
            }
        }));
        let house = House::hosted(Arc::new(disk.clone()), &host, sync_always);
        host.has_sync_thread.store(true, Relaxed);
        let calls = ApiCalls::new(&house.jetstream, Box::new(|work| work()));
        Self { house, disk, calls, asked: 0, answers: Vec::new(), published: 0 }
    }

    fn ask(&mut self, verb: &str, body: &str) {
        let account = Arc::clone(&self.house.account);
        self.ask_in(&account, verb, body);
    }

    /// Asks as a client of another account.
    fn ask_in(&mut self, account: &Arc<Account>, verb: &str, body: &str) {
        self.asked += 1;
        self.calls.begin(ApiRequest {
            account: Arc::clone(account),
            subject: format!("$JS.API.{verb}").into_bytes().into(),
            reply: verb.as_bytes().into(),
            headers: Box::default(),
            payload: body.as_bytes().into(),
            origin: None,
        });
        self.take();
    }

    /// Asks for a change of a stream, which waits for the disk.
    fn change(&mut self, name: &str) {
        self.ask(&format!("STREAM.UPDATE.{name}"), &text(&StreamConfig { max_msgs: 7, ..stream(name) }));
    }

    /// Takes what the API has to say.
    fn take(&mut self) {
        loop {
            while let Some((_, out)) = self.calls.next_answer() {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let answers = out.iter().filter(|msg| !msg.subject.starts_with(b"$JS.EVENT"));
                self.answers.extend(answers.map(|msg| (text(msg.subject), text(msg.payload))));
            }
            if !self.calls.run_task() {
                return;
            }
        }
    }

    /// Waits for the disk until all is answered that was asked.
    fn answer_all(&mut self) {
        let mut syncs = 0..50;
        self.work();
        while self.answers.len() < self.asked && syncs.next().is_some() {
            self.wait_for_disk();
            self.work();
        }
        assert_eq!(self.answers.len(), self.asked);
    }

    /// All that can be done without the disk's syncs.
    fn work(&mut self) {
        loop {
            while let Some((scope, task)) = lock(&self.house.host.tasks).pop_front() {
                self.calls.enter_task(scope, task);
            }
            self.calls.resume();
            self.calls.flush();
            self.take();
            if !self.house.step_without_jobs() {
                return;
            }
        }
    }

    /// Runs what waits for the disk: one task of the thread for syncs, or a round.
    fn wait_for_disk(&mut self) {
        let task = lock(&self.house.host.syncs).pop_front();
        match task {
            Some(task) => task(),
            None => {
                let now = self.house.host.now.load(Relaxed).unsigned_abs();
                self.house.jetstream.journal().round_now(&|| now).expect("a healthy disk");
            }
        }
    }

    fn time(&self) -> Duration {
        *lock(&self.house.host.ahead)
    }
}

fn text(config: &StreamConfig) -> String {
    serde_json::to_string(config).expect("it is text")
}

#[test]
fn of_a_connection_that_asks_on_behind_a_call_that_waits_few_answers_are_kept() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.work();
    slow.change("S");
    (0..500).for_each(|_| slow.ask("INFO", ""));
    assert!(slow.answers.is_empty(), "answers leave in the order of the requests");
    assert_eq!(slow.calls.kept_answers(), 64);
    slow.answer_all();
    assert_eq!((slow.answers[0].0.as_str(), slow.calls.kept_answers()), ("STREAM.UPDATE.S", 0));
}

#[test]
fn publishers_go_on_while_consumers_are_made_and_streams_purged_changed_and_removed() {
    for sync_always in [false, true] {
        let mut slow = Slow::new(sync_always);
        let acks = slow.house.record("ack.*");
        for name in ["S", "P", "U", "D"] {
            slow.house.make(stream(name));
        }
        for n in 0..3500 {
            slow.house.say(&format!("P.{n}"), "", "payload");
        }
        ["U.x", "D.x", "S.x"].iter().for_each(|subject| slow.house.say(subject, "", "payload"));
        slow.work();
        slow.wait_for_disk();
        slow.work();
        let began = slow.time();
        let deleted = slow.house.stream("D");
        slow.ask("STREAM.PURGE.P", "");
        slow.change("U");
        slow.ask("STREAM.DELETE.D", "");
        slow.ask("STREAM.MSG.DELETE.S", r#"{"seq":1}"#);
        for n in 0..100 {
            let body = format!(
                r#"{{"stream_name":"S","config":{{"durable_name":"C{n}","ack_policy":"explicit"}}}}"#
            );
            slow.ask(&format!("CONSUMER.DURABLE.CREATE.S.C{n}"), &body);
        }
        assert_eq!(slow.time(), began, "no call waits for the disk");
        while slow.answers.len() < slow.asked {
            assert!(slow.time() < began + 60 * SYNC, "{} of {}", slow.answers.len(), slow.asked);
            // Somebody publishes all the time, and is answered without any sync where that is not
            // what an answer promises.
            for name in ["S", "P", "U"] {
                slow.published += 1;
                slow.house.say(&format!("{name}.on"), &format!("ack.{}", slow.published), "payload");
            }
            slow.work();
            let heard = lock(&acks).len();
            if !sync_always {
                assert_eq!(heard, slow.published, "publishers wait for a disk that others wait for");
            }
            if slow.answers.len() < slow.asked {
                slow.wait_for_disk();
            }
        }
        for (verb, answer) in &slow.answers {
            assert!(!answer.contains("\"error\""), "{verb}: {answer}");
        }
        assert!(slow.answers.iter().any(|(_, answer)| answer.contains(r#""purged":3500"#)));
        assert_eq!(slow.house.consumers("S").len(), 100);
        assert!(slow.time() > began, "the disk was waited for");
        for name in ["S", "P", "U"] {
            let longest = slow.house.stream(name).longest_lent();
            assert!(longest <= LONGEST_LENT, "{name} was lent for {longest:?}");
        }
        assert!(slow.house.streams().stream("D").is_none());
        assert!(deleted.longest_lent() <= LONGEST_LENT, "lent for {:?}", deleted.longest_lent());
        // A hundred consumers of a stream share a few syncs.
        let syncs = (slow.time() - began).as_millis() / SYNC.as_millis();
        assert!(syncs < 30, "{syncs} syncs");
    }
}

#[test]
fn calls_about_one_stream_come_one_after_the_other_and_answers_in_the_order_of_requests() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.house.make(stream("T"));
    slow.work();
    let config = |max_msgs| text(&StreamConfig { max_msgs, ..stream("S") });
    slow.ask("STREAM.UPDATE.S", &config(7));
    slow.ask("STREAM.UPDATE.S", &config(8));
    slow.ask("STREAM.INFO.S", "");
    slow.ask("STREAM.INFO.T", "");
    slow.ask("STREAM.DELETE.S", "");
    slow.ask("STREAM.INFO.S", "");
    slow.work();
    assert!(slow.answers.is_empty(), "all are one client's: {:?}", slow.answers);
    slow.answer_all();
    let answers: Vec<(&str, &str)> = slow
        .answers
        .iter()
        .map(|(verb, answer)| {
            let of = ["\"max_msgs\":7", "\"max_msgs\":8", "\"max_msgs\":-1", "\"success\":true", "10059"];
            (verb.as_str(), of.into_iter().find(|part| answer.contains(part)).unwrap_or(answer))
        })
        .collect();
    let expected = [
        ("STREAM.UPDATE.S", "\"max_msgs\":7"),
        ("STREAM.UPDATE.S", "\"max_msgs\":8"),
        ("STREAM.INFO.S", "\"max_msgs\":8"),
        ("STREAM.INFO.T", "\"max_msgs\":-1"),
        ("STREAM.DELETE.S", "\"success\":true"),
        ("STREAM.INFO.S", "10059"),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn whoever_asks_without_end_keeps_no_answer_waiting_for_good() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.work();
    slow.ask("CONSUMER.DURABLE.CREATE.S.C", r#"{"stream_name":"S","config":{"durable_name":"C"}}"#);
    assert!(lock(&slow.house.host.syncs).is_empty(), "others may share its sync");
    (0..100).for_each(|_| slow.ask("INFO", ""));
    assert_eq!(lock(&slow.house.host.syncs).len(), 1, "there was always something else to do");
    let mut syncs = 0..3;
    while slow.answers.len() < 101 && syncs.next().is_some() {
        slow.wait_for_disk();
        slow.work();
    }
    assert_eq!(slow.answers.len(), 101, "those that came meanwhile have the next one");
}

#[test]
fn a_consumer_pushes_nothing_before_the_answer_to_whoever_made_it() {
    for durable in ["", r#""durable_name":"C","#] {
        let mut slow = Slow::new(false);
        slow.house.make(stream("S"));
        slow.house.make(stream("T"));
        let pushed = slow.house.record("pushed");
        slow.house.publish("S.x");
        slow.work();
        slow.change("T");
        let body = format!(
            r#"{{"stream_name":"S","config":{{{durable}"deliver_subject":"pushed","ack_policy":"none"}}}}"#
        );
        slow.ask(if durable.is_empty() { "CONSUMER.CREATE.S" } else { "CONSUMER.DURABLE.CREATE.S.C" }, &body);
        slow.work();
        while slow.answers.len() < 2 {
            assert!(lock(&pushed).is_empty(), "the answer waits for that of another call");
            slow.wait_for_disk();
            slow.work();
        }
        assert!(slow.answers[1].1.contains(r#""name":""#), "{:?}", slow.answers);
        assert_eq!(lock(&pushed).len(), 1);
    }
}

#[test]
fn the_answer_to_a_backup_comes_in_its_turn_and_before_the_first_piece() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.house.make(stream("T"));
    slow.house.publish("S.x");
    let (pieces, answers) = (slow.house.record("pieces"), slow.house.record("STREAM.SNAPSHOT.S"));
    slow.work();
    slow.change("T");
    slow.ask("STREAM.SNAPSHOT.S", r#"{"deliver_subject":"pieces"}"#);
    slow.work();
    slow.house.pass(3_000_000_000);
    assert!(lock(&answers).is_empty() && lock(&pieces).is_empty(), "{answers:?} {pieces:?}");
    slow.answer_all();
    assert_eq!(slow.answers[1].0, "STREAM.SNAPSHOT.S");
    assert!(slow.answers[1].1.contains(r#""messages":1"#), "{:?}", slow.answers);
    slow.house.pass(3_000_000_000);
    assert!(!lock(&pieces).is_empty(), "it is sent when that is said");
}

#[test]
fn two_accounts_that_ask_at_once_are_not_promised_the_same_bytes() {
    let mut slow = Slow::new(false);
    let other = Arc::clone(&slow.house.other);
    slow.house.jetstream.enable(&other, Some(AccountLimits::default())).expect("it is promised nothing");
    slow.house.make(stream("S"));
    slow.work();
    let large = |name| text(&StreamConfig { max_bytes: 700 << 20, ..stream(name) });
    slow.ask("STREAM.UPDATE.S", &large("S"));
    slow.ask_in(&other, "STREAM.CREATE.T", &large("T"));
    slow.answer_all();
    assert!(!slow.answers[0].1.contains("\"error\""), "{:?}", slow.answers[0]);
    assert!(slow.answers[1].1.contains("10047"), "there is not so much: {:?}", slow.answers[1]);
    assert_eq!(slow.house.jetstream.reserved(), [0, 700 << 20]);
    slow.ask("STREAM.UPDATE.S", &text(&stream("S")));
    slow.answer_all();
    slow.ask_in(&other, "STREAM.CREATE.T", &large("T"));
    slow.answer_all();
    assert!(!slow.answers[3].1.contains("\"error\""), "{:?}", slow.answers[3]);
    assert_eq!(slow.house.jetstream.reserved(), [0, 700 << 20]);
}

#[test]
fn files_of_a_deleted_stream_keep_no_answer_waiting() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.house.publish("S.x");
    slow.work();
    let files = |disk: &FaultyDisk| {
        let is_of_stream = |path: &&std::path::PathBuf| path.starts_with("/store/streams");
        disk.files().keys().filter(is_of_stream).count()
    };
    let before = files(&slow.disk);
    assert!(before > 1);
    slow.ask("STREAM.DELETE.S", "");
    slow.answer_all();
    assert_eq!(files(&slow.disk), before, "they go later");
    while slow.house.run_job() {}
    assert_eq!(files(&slow.disk), 0);
}

#[test]
fn what_others_leave_to_the_api_waits_for_calls_about_the_same() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.house.make(stream("T"));
    slow.work();
    slow.change("S");
    let done = Arc::<Mutex<Vec<&str>>>::default();
    let of = |name: &str| CallScope::Stream("$G".into(), name.into());
    let all = [
        (of("T"), "T"),
        (of("S"), "S"),
        (CallScope::Streams("$G".into(), "U".into()), "U"),
        (CallScope::Account("$G".into()), "the account"),
        (CallScope::Stream("OTHER".into(), "T".into()), "T of another account"),
        (CallScope::Server, "all"),
        (of("T"), "T again"),
        (CallScope::Nothing, "nothing"),
    ];
    for (scope, what) in all {
        let done = Arc::clone(&done);
        slow.calls.enter_task(scope, Box::new(move || lock(&done).push(what)));
        slow.take();
    }
    assert_eq!(*lock(&done), ["T", "T of another account", "nothing"]);
    slow.answer_all();
    assert_eq!(lock(&done)[3..], ["S", "U", "the account", "all", "T again"]);
}

#[test]
fn the_purge_of_an_account_has_all_its_streams_to_itself() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.work();
    slow.change("S");
    let system = Arc::clone(&slow.house.system);
    slow.ask_in(&system, "ACCOUNT.PURGE.$G", "");
    slow.ask("STREAM.CREATE.N", &text(&stream("N")));
    slow.work();
    assert!(slow.house.streams().stream("N").is_none(), "it is made when the purge is through");
    slow.answer_all();
    assert!(slow.answers[0].1.contains(r#""max_msgs":7"#), "{:?}", slow.answers);
    assert!(slow.answers[1].1.contains(r#""initiated":true"#), "{:?}", slow.answers);
    let streams = slow.house.streams();
    assert!(streams.stream("S").is_none() && streams.stream("N").is_some());
}
