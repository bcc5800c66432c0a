//! Judgement: what is in the streams at the end, read from each replica, beside what was promised.

use super::load::{Worker, payload_of};
use super::{BUCKET, CONSUMED, CONSUMER, HISTORY, MEMORY, api, replicas_of};
use crate::Error;
use crate::requester::Question;
use crate::wait::wait_for;
use myelin_stdx::base64;
use myelin_stdx::sync::lock;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Messages that are asked for together.
const WINDOW: u64 = 256;
/// So often a reading begins again: leaders change.
const ATTEMPTS: u32 = 20;
/// How long another leader may take after a request.
const MOVE: Duration = Duration::from_secs(3);
/// How long the consumer may take for what is left.
const DRAIN: Duration = Duration::from_secs(120);

/// Counts of what is in the streams.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) stored: BTreeMap<&'static str, usize>,
    pub(super) lost: BTreeMap<&'static str, usize>,
    pub(super) twice: BTreeMap<&'static str, usize>,
}

/// Messages of a replica by their sequences, as the API shows them.
type Contents = BTreeMap<u64, Value>;

/// Looks at everything; what is wrong becomes a fault of the ledger.
pub(super) fn verify(asker: &mut Worker, servers: &[String]) -> Verdict {
    let mut verdict = Verdict::default();
    for stream in asker.shared.streams.iter().copied() {
        match read_everywhere(asker, stream, replicas_of(stream, servers.len())) {
            Ok(contents) => judge(asker, stream, &contents, &mut verdict),
            Err(why) => fault(asker, format!("{stream}: {why}")),
        }
    }
    if let Err(why) = drain(asker) {
        fault(asker, format!("{CONSUMED}: {why}"));
    }
    // The meta group goes on, too.
    let last = json!({ "name": "LAST", "subjects": ["LAST"], "num_replicas": servers.len().min(5) });
    if let Err(why) = api(asker, "STREAM.CREATE.LAST", &last) {
        fault(asker, why.to_string());
    }
    verdict
}

fn fault(asker: &Worker, what: String) {
    lock(&asker.shared.ledger).fault(what);
}

/// Has each replica lead the stream, and reads it there. All have the same, or that is a fault.
fn read_everywhere(asker: &mut Worker, stream: &str, replicas: usize) -> Result<Contents, Error> {
    let mut found = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        let (leader, last) = settled(asker, stream)?;
        if !found.contains_key(&leader) {
            let contents = read(asker, stream, last)?;
            if settled(asker, stream)?.0 != leader {
                continue;
            }
            found.insert(leader.clone(), contents);
        }
        if found.len() == replicas {
            break;
        }
        leave(asker, stream, &leader)?;
    }
    if found.len() < replicas {
        let led: Vec<&String> = found.keys().collect();
        fault(asker, format!("{stream}: only {led:?} have led it"));
    }
    let (first, contents) = found.pop_first().ok_or("no server has led it")?;
    for (other, there) in &found {
        if *there != contents {
            let differs = |seq: &&u64| contents.get(*seq) != there.get(*seq);
            let seqs: BTreeSet<&u64> = contents.keys().chain(there.keys()).filter(differs).collect();
            let seqs: Vec<_> = seqs.iter().take(5).collect();
            fault(asker, format!("{stream}: {first} and {other} differ, first at {seqs:?}"));
        }
    }
    Ok(contents)
}

/// Has another server lead. One request may move the lead on and back, where the next leader hears
/// it late: then it is made again.
fn leave(asker: &mut Worker, stream: &str, leader: &str) -> Result<(), Error> {
    wait_for("another leader", || {
        api(asker, &format!("STREAM.LEADER.STEPDOWN.{stream}"), &Value::Null).ok()?;
        let given_up = Instant::now() + MOVE;
        while settled(asker, stream).ok()?.0 == leader {
            if Instant::now() > given_up {
                return None;
            }
        }
        Some(())
    })
}

/// The leader and the last sequence, once all replicas have everything.
fn settled(asker: &mut Worker, stream: &str) -> Result<(String, u64), Error> {
    let (mut seen, wanted) = (Value::Null, replicas_of(stream, asker.shared.addresses.len()));
    wait_for("replicas that have everything", || {
        let info = api(asker, &format!("STREAM.INFO.{stream}"), &Value::Null).ok()?;
        seen = info["cluster"].clone();
        let last = info["state"]["last_seq"].as_u64()?;
        if asker.shared.addresses.len() == 1 {
            return Some((String::from("alone"), last));
        }
        let replicas = seen["replicas"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_settled = replicas.len() + 1 == wanted && replicas.iter().all(|one| one["current"] == true);
        let leader = seen["leader"].as_str().filter(|leader| !leader.is_empty() && is_settled)?;
        Some((leader.to_owned(), last))
    })
    .map_err(|why| format!("{why}: {seen}").into())
}

/// All messages that the leader has.
fn read(asker: &mut Worker, stream: &str, last: u64) -> Result<Contents, Error> {
    let mut contents = Contents::new();
    let mut missing: BTreeSet<u64> = (1..=last).collect();
    let deadline = Instant::now() + DRAIN;
    while let Some(first) = missing.first().copied() {
        let seqs: Vec<u64> = missing.range(first..).take(WINDOW as usize).copied().collect();
        let question = |seq: &u64| Question {
            subject: format!("$JS.API.STREAM.MSG.GET.{stream}"),
            payload: json!({ "seq": seq }).to_string().into_bytes(),
            ..Question::default()
        };
        let questions: Vec<Question> = seqs.iter().map(question).collect();
        for (seq, answer) in seqs.iter().zip(asker.ask(&questions)) {
            let Some(answer) = answer.and_then(|answer| answer.json()) else { continue };
            match answer["error"]["err_code"].as_u64() {
                None => contents.insert(*seq, answer["message"].clone()),
                // There is none.
                Some(10037) => None,
                Some(_) => continue,
            };
            missing.remove(seq);
        }
        if Instant::now() > deadline {
            return Err(format!("{} of {last} messages were not read", missing.len()).into());
        }
    }
    Ok(contents)
}

/// Compares what is stored with what was acknowledged.
fn judge(asker: &Worker, stream: &'static str, contents: &Contents, verdict: &mut Verdict) {
    let mut ledger = lock(&asker.shared.ledger);
    let mut by_id: BTreeMap<String, u64> = BTreeMap::new();
    let mut twice = 0;
    for (seq, message) in contents {
        let text = |name: &str| base64::decode(message[name].as_str().unwrap_or_default());
        let headers =
            text("hdrs").map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let id = headers.lines().find_map(|line| line.strip_prefix("Nats-Msg-Id: ")).unwrap_or_default();
        if text("data").unwrap_or_default() != payload_of(id) {
            ledger.fault(format!("{stream}: {seq} has another payload than {id} was published with"));
        }
        if let Some(before) = by_id.insert(id.to_owned(), *seq) {
            twice += 1;
            ledger.fault(format!("{stream}: {id} is stored twice, as {before} and {seq}"));
        }
    }
    let acknowledged =
        ledger.streams.get(stream).map(|ledger| ledger.acknowledged.clone()).unwrap_or_default();
    let mut lost = 0;
    for (id, seq) in &acknowledged {
        let found = by_id.get(id);
        if found == Some(seq) || (found.is_none() && has_newer(&by_id, stream, id, *seq)) {
            continue;
        }
        lost += usize::from(found.is_none());
        // What is in memory may be gone when two servers have ended.
        if stream != MEMORY || asker.shared.keeps_memory {
            ledger.fault(format!("{stream}: {id} was acknowledged as {seq}, and is {found:?}"));
        }
    }
    verdict.stored.insert(stream, contents.len());
    verdict.lost.insert(stream, lost);
    verdict.twice.insert(stream, twice);
}

/// Whether a bucket has as many newer values of a message's key as it keeps.
fn has_newer(by_id: &BTreeMap<String, u64>, stream: &str, id: &str, seq: u64) -> bool {
    let key = |id: &str| id.rsplit_once('-').map(|(key, _)| key.to_owned());
    let newer = by_id.iter().filter(|(other, at)| **at > seq && key(other) == key(id));
    stream == BUCKET && newer.count() >= HISTORY
}

/// Takes what is left, and looks at whether everything has come, and everything is acknowledged.
fn drain(asker: &mut Worker) -> Result<(), Error> {
    let deadline = Instant::now() + DRAIN;
    let info = loop {
        asker.consume_some();
        let info = api(asker, &format!("CONSUMER.INFO.{CONSUMED}.{CONSUMER}"), &Value::Null)?;
        if (info["num_pending"] == 0 && info["num_ack_pending"] == 0) || Instant::now() > deadline {
            break info;
        }
    };
    let last = api(asker, &format!("STREAM.INFO.{CONSUMED}"), &Value::Null)?["state"]["last_seq"].as_u64();
    let last = last.unwrap_or(0);
    let mut ledger = lock(&asker.shared.ledger);
    if info["num_pending"] != 0 || info["num_ack_pending"] != 0 || info["ack_floor"]["stream_seq"] != last {
        let floor = &info["ack_floor"];
        let (pending, unacknowledged) = (&info["num_pending"], &info["num_ack_pending"]);
        ledger.fault(format!(
            "consumer: {pending} pending, {unacknowledged} unacknowledged, floor {floor} of {last}"
        ));
    }
    let missing = (1..=last).filter(|seq| !ledger.consumer.delivered.contains(seq)).count();
    if missing > 0 {
        ledger.fault(format!("consumer: {missing} of {last} messages never came"));
    }
    Ok(())
}
