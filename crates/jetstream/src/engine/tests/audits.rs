//! Audits of a cluster, and how often its API was asked: each request once, whoever answers.

use super::house::Heard;
use super::meta_cluster::MetaCluster;
use myelin_stdx::sync::lock;
use std::sync::{Arc, Mutex};

const CREATE: &str = r#"{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":3}"#;

struct Audited {
    cluster: MetaCluster,
    audits: Vec<Arc<Mutex<Vec<Heard>>>>,
}

impl Audited {
    fn new() -> Self {
        let mut cluster = MetaCluster::with_meta(3);
        cluster.wait_until("a leader", |cluster| cluster.meta_leader().is_some());
        let audits = (0..3).map(|number| cluster.house(number).record("$JS.EVENT.ADVISORY.API")).collect();
        Self { cluster, audits }
    }

    /// Requests and errors that all servers have counted.
    fn counted(&mut self) -> (u64, u64) {
        let of = |number| self.cluster.house(number).streams().api_calls();
        (0..3).map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Asks, and answers which server has told whom what of it: the server, and the audit.
    fn ask(&mut self, subject: &str, body: &str) -> (usize, serde_json::Value) {
        let answer = self.cluster.answer_within(100, subject, body);
        self.cluster.pass(4);
        let mut heard = Vec::new();
        for (number, audits) in self.audits.iter().enumerate() {
            heard.extend(std::mem::take(&mut *lock(audits)).into_iter().map(|one| (number, one.payload)));
        }
        assert_eq!(heard.len(), 1, "{subject} is told once: {heard:?}");
        let (number, audit) = heard.remove(0);
        let audit: serde_json::Value = serde_json::from_str(&audit).expect("JSON");
        assert_eq!(audit["response"], answer.as_str());
        assert_eq!(audit["subject"], format!("$JS.API.{subject}"));
        assert_eq!(audit["server"], format!("n{}", number + 1));
        (number, audit)
    }
}

#[test]
fn what_the_leader_of_a_stream_answers_is_audited_and_counted_by_it() {
    let mut audited = Audited::new();
    let (number, audit) = audited.ask("STREAM.CREATE.S", CREATE);
    assert!(audited.cluster.house(number).stream("S").role().leads());
    assert!(audit["response"].as_str().is_some_and(|text| text.contains("did_create")));
    assert_eq!(audit.get("request"), None, "as nats-server's");
    assert_eq!(audited.counted(), (1, 0));
    audited.ask("STREAM.CREATE.S", CREATE);
    assert_eq!(audited.counted(), (2, 0), "it was there");
    audited.ask("STREAM.UPDATE.S", &CREATE.replace("{", r#"{"max_msgs":5,"#));
    assert_eq!(audited.counted(), (3, 0));
    audited.ask("STREAM.UPDATE.S", &CREATE.replace(":3", ":9"));
    assert_eq!(audited.counted(), (4, 1), "the meta leader refuses it");
    let (by, _) = audited.ask("STREAM.DELETE.S", "");
    assert_eq!((by, audited.counted()), (number, (5, 1)));
    audited.ask("STREAM.DELETE.S", "");
    assert_eq!(audited.counted(), (6, 2));
}

/// Nobody waits for an answer.
#[test]
fn what_is_asked_without_a_reply_is_counted() {
    let mut audited = Audited::new();
    audited.cluster.ask_without_reply("STREAM.CREATE.S", CREATE);
    audited.cluster.wait_until("a leader", |cluster| cluster.leader().is_some());
    audited.cluster.pass(4);
    assert_eq!(audited.counted(), (1, 0));
    let told: usize = audited.audits.iter().map(|audits| lock(audits).len()).sum();
    assert_eq!(told, 1);
}
