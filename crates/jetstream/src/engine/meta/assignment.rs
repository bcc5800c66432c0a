//! Assignment: one stream of the cluster, as a message of the meta stream says it.

use myelin_jsapi::advisory::ClientInfo;
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::config::{Placement, StreamConfig};
use myelin_store::{Seq, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Write as _;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Stream of an account, by their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::engine) struct StreamKey {
    pub(in crate::engine) account: String,
    pub(in crate::engine) stream: String,
}

/// Kind of request whose answer the stream's leader gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::engine) enum AnswerKind {
    /// `STREAM.CREATE`.
    Create,
    /// `STREAM.UPDATE`.
    Update,
    /// `STREAM.DELETE`.
    Delete,
    /// `STREAM.CANCEL_MOVE`.
    CancelMove,
    /// No request: the stream is taken back, as its first server could not make it. That one
    /// answers.
    Refused,
}

/// State of a stream before a change of its servers, to which a cancellation goes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct StreamBefore {
    pub(in crate::engine) peers: Vec<String>,
    pub(in crate::engine) replicas: i64,
    placement: Option<PlacementBefore>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PlacementBefore {
    cluster: String,
    tags: Option<Vec<String>>,
    preferred: String,
}

impl StreamBefore {
    fn of(assignment: &Assignment) -> Self {
        let of = |placement: Placement| {
            let Placement { cluster, tags, preferred } = placement;
            PlacementBefore { cluster, tags, preferred }
        };
        let (peers, config) = (assignment.peers.clone(), &assignment.config);
        Self { peers, replicas: config.num_replicas, placement: config.placement.clone().map(of) }
    }

    pub(in crate::engine) fn placement(&self) -> Option<Placement> {
        let PlacementBefore { cluster, tags, preferred } = self.placement.clone()?;
        Some(Placement { cluster, tags, preferred })
    }
}

/// StreamChange of a stream's servers that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct StreamChange {
    /// When it was asked for.
    pub(in crate::engine) created: Timestamp,
    /// `None`: nobody who could cancel it has asked for it.
    pub(in crate::engine) origin: Option<StreamBefore>,
    /// Whether it is a move, which nothing else may be combined with.
    pub(in crate::engine) is_move: bool,
}

/// Group of a stream, beside its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct AssignedGroup {
    /// Its name, as tools show it: `S-R3F-` and eight characters.
    pub(in crate::engine) name: String,
    /// Its last recovery, if there was one.
    pub(in crate::engine) recovery: Option<GroupRecovery>,
}

/// Recovery of a group that had lost its majority for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct GroupRecovery {
    /// Epoch of the group since then; before its first recovery it is 1.
    pub(in crate::engine) epoch: u32,
    /// Servers that were given up: what they have of before counts no more.
    pub(in crate::engine) lost: Vec<String>,
    /// Whether those that are left have yet to agree that they are the group.
    pub(in crate::engine) is_under_way: bool,
}

/// One stream, with who has replicas of it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Assignment {
    pub(in crate::engine) key: StreamKey,
    /// Id of the stream in the cluster, and of its group.
    pub(in crate::engine) id: u64,
    /// Names of the servers that are to have replicas. The first one leads first.
    pub(in crate::engine) peers: Vec<String>,
    /// Servers whose members vote where a log does not say who does: those of when its group was
    /// made, or of the last change that is through; empty for a stream without a group.
    pub(in crate::engine) founders: Vec<String>,
    /// Servers that had replicas before a change that is not through, and have them until it is.
    pub(in crate::engine) before: Vec<String>,
    /// The change that is not through, as operators see it.
    pub(in crate::engine) change: Option<StreamChange>,
    /// Servers that the stream is to leave as soon as there is another place.
    pub(in crate::engine) leaves: Vec<String>,
    pub(in crate::engine) group: AssignedGroup,
    pub(in crate::engine) created: Timestamp,
    /// When streams of this name were created that are removed, the last ones: a server that was
    /// away removes what it has of them, and nothing else.
    pub(in crate::engine) replaces: Vec<Timestamp>,
    pub(in crate::engine) config: StreamConfig,
    /// Whether the stream is removed.
    pub(in crate::engine) is_removed: bool,
    /// Tells the proposal from others for this stream. Of the first one it is the stream's id.
    pub(in crate::engine) nonce: u64,
    pub(in crate::engine) asked: Asked,
    /// Which answer whoever has asked gets.
    pub(in crate::engine) answer: AnswerKind,
    /// Requests that assignments of the stream come from that were committed a moment before: who
    /// has seen none of these answers them, too. Once it is committed its own one is the last.
    pub(in crate::engine) asked_before: Vec<AskedBefore>,
}

/// Request that a committed assignment comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct AskedBefore {
    /// Nonce of its assignment.
    pub(super) nonce: u64,
    /// When that was committed, by the clock of whoever led the meta group.
    pub(super) at: Timestamp,
    #[serde(flatten)]
    pub(super) asked: Asked,
    pub(super) answer: AnswerKind,
}

/// Request that an assignment comes from, for whoever answers it; by default there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Asked {
    /// Where the answer goes; empty where nobody waits.
    pub(in crate::engine) reply: String,
    /// Whether it goes to somebody in the system account.
    #[serde(default, rename = "for_system")]
    pub(in crate::engine) is_for_system: bool,
    /// Where it was asked, with the API's own prefix; empty where nobody has, or a version before
    /// has written it.
    #[serde(default, rename = "asked", skip_serializing_if = "String::is_empty")]
    pub(in crate::engine) subject: String,
    /// Client that has asked, where somebody has listened to audits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) client: Option<ClientInfo>,
}

impl Asked {
    /// Whether somebody has asked.
    pub(in crate::engine) fn has_any(&self) -> bool {
        !self.reply.is_empty() || !self.subject.is_empty()
    }
}

/// AssignmentHead of an assignment as JSON, in front of the configuration.
#[derive(Serialize, Deserialize)]
struct AssignmentHead {
    v: u32,
    #[serde(flatten)]
    key: StreamKey,
    id: u64,
    peers: Vec<String>,
    #[serde(default)]
    founders: Vec<String>,
    #[serde(default)]
    before: Vec<String>,
    #[serde(default)]
    change: Option<StreamChange>,
    #[serde(default)]
    leaves: Vec<String>,
    group: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<GroupRecovery>,
    replaces: Vec<Timestamp>,
    removed: bool,
    nonce: u64,
    #[serde(flatten)]
    asked: Asked,
    #[serde(deserialize_with = "answer_kind")]
    answer: AnswerKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    asked_before: Vec<AskedBefore>,
}

/// Reads an answer's kind, also as the version before wrote [`AnswerKind::Refused`]: with a time.
fn answer_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AnswerKind, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    match value.get("refused") {
        Some(_) => Ok(AnswerKind::Refused),
        None => AnswerKind::deserialize(value).map_err(D::Error::custom),
    }
}

impl StreamKey {
    pub(in crate::engine) fn new(account: &str, stream: &str) -> Self {
        Self { account: account.to_owned(), stream: stream.to_owned() }
    }

    /// Subject of its assignments: the names in hexadecimal, as they may have any characters.
    pub(super) fn subject(&self) -> String {
        let mut subject = "_meta_.s".to_owned();
        for name in [&self.account, &self.stream] {
            subject.push('.');
            for byte in name.bytes() {
                // Into a text nothing fails.
                let _ = write!(subject, "{byte:02x}");
            }
        }
        subject
    }
}

impl Assignment {
    /// The payload of its message: length of the head, the head, and the configuration as stores
    /// keep it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { key, id, peers, founders, before, change, leaves, group, replaces, .. } = self.clone();
        let Self { created, config, is_removed, nonce, asked, answer, asked_before, .. } = self.clone();
        let config = if is_removed { bare(&config) } else { config };
        let head = AssignmentHead {
            v: VERSION,
            key,
            id,
            peers,
            founders,
            before,
            change,
            leaves,
            group: group.name,
            recovery: group.recovery,
            replaces,
            removed: is_removed,
            nonce,
            asked,
            answer,
            asked_before,
        };
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let stored = Stored { created, config, ..Stored::default() }.encode();
        let mut bytes = u32::try_from(head.len()).unwrap_or(0).to_le_bytes().to_vec();
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&stored);
        bytes
    }

    /// Reads a payload. `None` for one that is not understood.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (size, rest) = bytes.split_first_chunk()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let (head, stored) = rest.split_at_checked(size)?;
        let head: AssignmentHead = serde_json::from_slice(head).ok()?;
        let AssignmentHead { v, key, id, peers, founders, before, change, leaves, group, replaces, .. } =
            head;
        let AssignmentHead { recovery, removed, nonce, asked, answer, asked_before, .. } = head;
        let Stored { created, config, .. } = Stored::decode(stored).ok()?;
        let is_removed = removed;
        // Written by a version whose groups kept their members.
        let founders = if founders.is_empty() && peers.len() > 1 { peers.clone() } else { founders };
        let assignment = Self {
            key,
            id,
            peers,
            founders,
            before,
            change,
            leaves,
            group: AssignedGroup { name: group, recovery },
            created,
            replaces,
            config,
            is_removed,
            nonce,
            asked,
            answer,
            asked_before,
        };
        (v == VERSION).then_some(assignment)
    }

    /// The assignment of a stream that is removed, as it is kept: what tells which one it was, and
    /// on which servers.
    pub(super) fn without_config(&self) -> Self {
        let config = bare(&self.config);
        let (asked, asked_before) = (Asked::default(), Vec::new());
        Self { config, change: None, leaves: Vec::new(), asked, asked_before, ..self.clone() }
    }

    /// Whether the stream's log is that of a group.
    pub(in crate::engine) fn has_group(&self) -> bool {
        !self.founders.is_empty()
    }

    /// Whether a server has a replica, or is to have one.
    pub(in crate::engine) fn is_on(&self, server: &str) -> bool {
        self.servers().any(|other| other == server)
    }

    /// Servers that have a replica, or are to have one.
    pub(in crate::engine) fn servers(&self) -> impl Iterator<Item = &String> {
        self.peers.iter().chain(self.before.iter().filter(|server| !self.peers.contains(server)))
    }

    /// Whether its first server may take it back: it is the first assignment of its stream, which
    /// alone has the stream's id for a nonce, and nothing was committed behind it.
    pub(in crate::engine) fn may_be_taken_back(&self) -> bool {
        let is_first = self.nonce == self.id && self.answer == AnswerKind::Create;
        is_first && !self.is_removed && !self.asked.reply.is_empty()
    }

    /// Whether it is removed because its first server could not make it.
    pub(in crate::engine) fn is_refused(&self) -> bool {
        self.answer == AnswerKind::Refused
    }

    /// Whether the stream is being moved.
    pub(in crate::engine) fn is_moving(&self) -> bool {
        self.change.as_ref().is_some_and(|change| change.is_move)
    }

    /// The assignment with a change that can be cancelled, if there is one under way: back to how
    /// `before` was. The first origin stays.
    pub(in crate::engine) fn with_origin(mut self, before: &Self) -> Self {
        if let Some(change) = &mut self.change {
            change.origin.get_or_insert_with(|| StreamBefore::of(before));
        }
        self
    }

    /// The assignment whose change is through. A member that has lost its log goes by the servers
    /// that it is on now: those that founded the group may be gone.
    pub(in crate::engine) fn settled(&self) -> Self {
        let mut settled = self.clone();
        if self.has_group() {
            settled.founders.clone_from(&self.peers);
        }
        settled.leaves.retain(|server| self.peers.contains(server));
        settled.group.recovery.iter_mut().for_each(|recovery| recovery.is_under_way = false);
        Self { before: Vec::new(), change: None, asked: Asked::default(), ..settled }
    }

    /// The assignment with other servers, which its group is to become one of from `now` on.
    pub(in crate::engine) fn moved(&self, peers: Vec<String>, now: Timestamp) -> Self {
        let mut moved = self.clone();
        let before: Vec<String> = self.servers().cloned().collect();
        if !self.has_group() {
            moved.founders.clone_from(&self.peers);
        }
        if let (1, None, Some(rest)) = (self.peers.len(), &self.change, self.group.name.get("S-R1".len()..)) {
            // Compat: the name of one that is alone says how many there are to be.
            moved.group.name = format!("S-R{}{rest}", peers.len());
        }
        (moved.before, moved.peers) = (before, peers);
        moved.change.get_or_insert(StreamChange { created: now, origin: None, is_move: false });
        moved
    }

    /// Epoch of the stream's group.
    pub(in crate::engine) fn epoch(&self) -> u32 {
        self.group.recovery.as_ref().map_or(1, |recovery| recovery.epoch)
    }

    /// Servers whose members vote, as far as is assigned: those of the last change that is through,
    /// whatever was wanted since.
    pub(in crate::engine) fn voting(&self) -> &[String] {
        &self.founders
    }

    /// The assignment in which the servers that vote and are not `lost` are the group, from `now`
    /// on.
    pub(in crate::engine) fn recovered(&self, lost: Vec<String>, now: Timestamp) -> Self {
        let left: Vec<String> = self.voting().iter().filter(|name| !lost.contains(name)).cloned().collect();
        let mut recovered = self.moved(left.clone(), now);
        recovered.before = left;
        let epoch = self.epoch().saturating_add(1);
        recovered.group.recovery = Some(GroupRecovery { epoch, lost, is_under_way: true });
        recovered
    }

    /// Servers of which alone the votes count, as long as a recovery is under way.
    pub(in crate::engine) fn counting(&self) -> Option<Vec<String>> {
        self.group.recovery.as_ref().filter(|recovery| recovery.is_under_way)?;
        Some(self.servers().cloned().collect())
    }

    /// Whether a server was given up by the last recovery.
    pub(in crate::engine) fn has_given_up(&self, server: &str) -> bool {
        self.group.recovery.as_ref().is_some_and(|recovery| recovery.lost.iter().any(|name| name == server))
    }
}

/// Configuration of a stream of which nobody needs it any more: its name.
fn bare(config: &StreamConfig) -> StreamConfig {
    StreamConfig { name: config.name.clone(), ..StreamConfig::default() }
}

/// Writes the message that proposes an assignment which was decided on the message `on`: where
/// another one is the last, another decision was quicker and counts.
pub(super) fn write_on(assignment: &Assignment, on: Seq, out: &mut MessageBuf) {
    write_behind(&assignment.key.subject(), on, &assignment.encode(), out);
}

/// Writes a message for the meta stream that counts if `on` is the last one of its subject.
pub(super) fn write_behind(subject: &str, on: Seq, payload: &[u8], out: &mut MessageBuf) {
    let headers = format!("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: {on}\r\n\r\n");
    let (subject, headers) = (subject.as_bytes(), headers.as_bytes());
    out.push(MessageRef { subject, headers, payload, ..MessageRef::default() });
}

#[cfg(test)]
impl Assignment {
    /// Assignment of a stream of no server, for tests to fill in.
    pub(super) fn sample(account: &str, stream: &str) -> Self {
        Self {
            key: StreamKey::new(account, stream),
            id: 1,
            peers: Vec::new(),
            founders: Vec::new(),
            before: Vec::new(),
            change: None,
            leaves: Vec::new(),
            group: AssignedGroup::default(),
            created: 1,
            replaces: Vec::new(),
            config: StreamConfig::default(),
            is_removed: false,
            nonce: 1,
            asked: Asked::default(),
            answer: AnswerKind::Create,
            asked_before: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any() -> Assignment {
        Assignment {
            key: StreamKey::new("$G", "ORDERS"),
            id: u64::MAX,
            peers: vec!["n1".to_owned(), "n2".to_owned()],
            founders: vec!["n1".to_owned()],
            before: vec!["n1".to_owned(), "n3".to_owned()],
            change: None,
            leaves: vec!["n2".to_owned()],
            group: AssignedGroup { name: "S-R2F-abcdefgh".to_owned(), recovery: None },
            created: 1_700_000_000_123_456_789,
            replaces: vec![1, 2],
            config: StreamConfig {
                name: "ORDERS".to_owned(),
                subjects: vec!["orders.>".to_owned()],
                num_replicas: 2,
                ..StreamConfig::default()
            },
            is_removed: false,
            nonce: 7,
            asked: Asked {
                reply: "_INBOX.1".to_owned(),
                is_for_system: true,
                subject: "$JS.API.STREAM.CREATE.ORDERS".to_owned(),
                client: Some(ClientInfo { start: 1_795_298_535_196_979_138, id: 7, ..ClientInfo::default() }),
            },
            answer: AnswerKind::Create,
            asked_before: vec![AskedBefore {
                nonce: 6,
                at: 1_700_000_000_123_456_780,
                asked: Asked { reply: "_INBOX.0".to_owned(), ..Asked::default() },
                answer: AnswerKind::Update,
            }],
        }
    }

    #[test]
    fn a_recovered_group_is_those_that_are_left() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut before = any();
        (before.peers, before.founders, before.before) =
            (names(&["n1", "n2", "n3"]), names(&["n1", "n2", "n3"]), Vec::new());
        let recovered = before.recovered(names(&["n2", "n3"]), 9);
        assert_eq!((before.epoch(), recovered.epoch()), (1, 2));
        assert_eq!((&recovered.peers, &recovered.before), (&names(&["n1"]), &names(&["n1"])));
        assert_eq!((before.counting(), recovered.counting()), (None, Some(names(&["n1"]))));
        let settled = recovered.settled();
        assert_eq!((settled.epoch(), settled.counting(), &settled.founders), (2, None, &names(&["n1"])));
        assert!(settled.has_given_up("n2") && !settled.has_given_up("n1"));
        // Of one that was to move, those that had it are asked, and not those that were to get it.
        let moving = before.moved(names(&["n4", "n5", "n1"]), 9);
        assert_eq!(moving.recovered(names(&["n2", "n3"]), 9).peers, names(&["n1"]));
    }

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let assignment = any();
        let assignment = assignment.moved(vec!["n4".to_owned()], 5).with_origin(&assignment);
        let assignment = assignment.recovered(vec!["n1".to_owned()], 7);
        let refused = Assignment { answer: AnswerKind::Refused, ..assignment.clone() };
        let mut before = refused.encode();
        let at = before.windows(9).position(|window| window == b"\"refused\"").expect("it says so");
        before.splice(at..at + 9, *br#"{"refused":12}"#);
        let size = u32::from_le_bytes(before[..4].try_into().expect("four bytes")) + 5;
        before[..4].copy_from_slice(&size.to_le_bytes());
        assert_eq!(Assignment::decode(&before).as_ref(), Some(&refused), "as the version before wrote it");
        assert_eq!(Assignment::decode(&refused.encode()), Some(refused));
        let bytes = assignment.encode();
        assert_eq!(Assignment::decode(&bytes), Some(assignment.clone()));
        let removed = Assignment { is_removed: true, ..assignment.clone() };
        let config = bare(&removed.config);
        let read = Assignment::decode(&removed.encode());
        assert_eq!(read, Some(Assignment { config, ..removed }), "without its configuration");
        assert_eq!(assignment.key.subject(), "_meta_.s.2447.4f5244455253");
        for end in 0..bytes.len() {
            // A part of it may be read as something else, and never ends anything.
            let _ = Assignment::decode(&bytes[..end]);
        }
        assert_eq!(Assignment::decode(&bytes[..20]), None);
    }
}
