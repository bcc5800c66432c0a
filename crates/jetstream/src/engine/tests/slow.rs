//! A disk whose syncs take 100 ms keeps nobody waiting but those who ask for what it has to hold.

use super::house::{House, TestHost, stream};
use crate::engine::{ApiCalls, ApiRequest};
use myelin_disk::faulty::FaultyDisk;
use myelin_disk::{DirectoryEntry, Disk, File, Lock};
use myelin_jsapi::config::StreamConfig;
use myelin_stdx::sync::lock;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time that a sync takes, and time for which nobody may have a stream's core.
const SYNC: Duration = Duration::from_millis(100);
const LONGEST_LENT: Duration = Duration::from_millis(20);

/// A disk whose syncs take a while, by the host's clock.
#[derive(Debug)]
struct SlowDisk {
    inner: FaultyDisk,
    host: Arc<TestHost>,
}

#[derive(Debug)]
struct SlowFile {
    inner: Arc<dyn File>,
    host: Arc<TestHost>,
}

impl SlowDisk {
    fn slow(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SlowFile { inner: file, host: Arc::clone(&self.host) })
    }
}

impl Disk for SlowDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.inner.create(path).map(|file| self.slow(file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.inner.open(path).map(|file| self.slow(file))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.inner.list(directory)
    }

    fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.make_directory(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_directory(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.host.sleep(SYNC);
        self.inner.sync_directory(directory)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.inner.lock(path)
    }
}

impl File for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        self.inner.read_cached_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.host.sleep(SYNC);
        self.inner.sync()
    }
}

/// A house on a slow disk, with a thread of its own for syncs, and the calls of its API.
struct Slow {
    house: House,
    calls: ApiCalls,
    asked: usize,
    answers: Vec<(String, String)>,
    published: usize,
}

impl Slow {
    fn new(sync_always: bool) -> Self {
        let host = Arc::<TestHost>::default();
        host.stand_still();
        let disk = SlowDisk { inner: FaultyDisk::new(1), host: Arc::clone(&host) };
        let house = House::hosted(Arc::new(disk), &host, sync_always);
        host.has_sync_thread.store(true, Relaxed);
        let calls = ApiCalls::new(&house.jetstream, Box::new(|work| work()));
        Self { house, calls, asked: 0, answers: Vec::new(), published: 0 }
    }

    fn ask(&mut self, verb: &str, body: &str) {
        self.asked += 1;
        self.calls.begin(ApiRequest {
            account: Arc::clone(&self.house.account),
            subject: format!("$JS.API.{verb}").into_bytes().into(),
            reply: verb.as_bytes().into(),
            headers: Box::default(),
            payload: body.as_bytes().into(),
            origin: None,
        });
        self.take();
    }

    /// Takes what the API has to say.
    fn take(&mut self) {
        while let Some((_, out)) = self.calls.next_answer() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let answers = out.iter().filter(|msg| !msg.subject.starts_with(b"$JS.EVENT"));
            self.answers.extend(answers.map(|msg| (text(msg.subject), text(msg.payload))));
        }
        while let Some(task) = self.calls.next_task() {
            task();
        }
    }

    /// All that can be done without the disk's syncs.
    fn work(&mut self) {
        loop {
            while let Some(task) = lock(&self.house.host.tasks).pop_front() {
                self.calls.defer(task).into_iter().for_each(|task| task());
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

#[test]
fn of_a_connection_that_asks_on_behind_a_call_that_waits_few_answers_are_kept() {
    let mut slow = Slow::new(false);
    slow.house.make(stream("S"));
    slow.work();
    let config = StreamConfig { max_msgs: 7, ..stream("S") };
    slow.ask("STREAM.UPDATE.S", &serde_json::to_string(&config).expect("it is text"));
    let asked = 500;
    (0..asked).for_each(|_| slow.ask("INFO", ""));
    assert!(slow.answers.is_empty(), "answers leave in the order of the requests");
    assert_eq!(slow.calls.kept_answers(), 64);
    let mut syncs = 0..50;
    while slow.answers.len() <= asked && syncs.next().is_some() {
        slow.wait_for_disk();
        slow.work();
    }
    assert_eq!(slow.answers.len(), asked + 1);
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
        slow.ask("STREAM.PURGE.P", "");
        let config = StreamConfig { max_msgs: 7, ..stream("U") };
        slow.ask("STREAM.UPDATE.U", &serde_json::to_string(&config).expect("it is text"));
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
    let config = |max_msgs| {
        let config = StreamConfig { max_msgs, ..stream("S") };
        serde_json::to_string(&config).expect("it is text")
    };
    slow.ask("STREAM.UPDATE.S", &config(7));
    slow.ask("STREAM.UPDATE.S", &config(8));
    slow.ask("STREAM.INFO.S", "");
    slow.ask("STREAM.INFO.T", "");
    slow.ask("STREAM.DELETE.S", "");
    slow.ask("STREAM.INFO.S", "");
    slow.work();
    assert!(slow.answers.is_empty(), "all are one client's: {:?}", slow.answers);
    while slow.answers.len() < slow.asked {
        slow.wait_for_disk();
        slow.work();
    }
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
