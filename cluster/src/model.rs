//! Model of who must get what.
//!
//! A message that is *certain*, published while interest was settled and links did not change,
//! reaches every plain subscription on the servers it can reach, and one member of each queue group
//! there, in the sender's own cluster if there is one: over a route there is one hop, over leaf
//! nodes and gateways as many as the topology says. Any other
//! message may be lost. Nothing comes twice, nothing comes to whom it does not match, and each
//! subscription has the certain messages of a publisher in the order in which they were published.
//!
//! Compat: a server that was given a message for a queue group whose members there have just gone
//! passes it on to another server that has one, and who listens there beside the group has it a
//! second time, as from nats-server.
//!
//! Of other messages less is promised, and what is promised depends on the programs. Two
//! nats-servers that have just found each other open the links of a pool one after the other, and
//! while they move an account from one to the next, what was sent over the first may be overtaken
//! (seen with five servers and a link that came back, 25 November 2026). They may also have two
//! links for a moment, and send what is published then over both (seen with three servers and
//! `pool_size: -1`). A model that is not *strict* allows for that.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

/// A subscription that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Server of its client.
    pub server: usize,
    /// The subject, with wildcards.
    pub subject: String,
    /// The queue group.
    pub queue: Option<String>,
    /// Messages after which it ends, of those that may still come.
    pub left: Option<u64>,
}

/// Number of a client, and of a subscription of that client.
pub type SubscriptionId = (u64, u64);
/// Number of a publisher, and which of its messages it is.
pub type MessageId = (u64, u64);

/// A message that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMessage {
    /// Publisher and sequence.
    pub id: MessageId,
    /// The subject, without wildcards.
    pub subject: String,
    /// Servers whose clients it reaches; `None`: it may be lost anywhere.
    pub reaches: Option<Reach>,
}

/// Servers that a message reaches from where it was published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Servers whose clients' interest is known there.
    pub must: BTreeSet<usize>,
    /// Servers to which it may come, because somebody on the way is interested, too.
    pub may: BTreeSet<usize>,
    /// Servers whose members of a queue group come before all others.
    pub near: BTreeSet<usize>,
}

/// A queue group beside a message.
#[derive(Default)]
struct Group {
    is_reached: bool,
    /// Whether it has members that come first.
    is_near: bool,
    /// Members that have had it, and whether one did not come first.
    came: usize,
    came_far: bool,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All subscriptions, and the messages of one round with what came of them.
#[derive(Debug, Default)]
pub struct Model {
    is_strict: bool,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Last certain sequence of each publisher that each subscription had.
    last: HashMap<(SubscriptionId, u64), u64>,
    /// Other messages that each subscription had.
    seen: HashSet<(SubscriptionId, MessageId)>,
    sent: BTreeMap<MessageId, SentMessage>,
    /// Messages of all rounds: their subjects, and whether they are certain.
    known: HashMap<MessageId, (String, bool)>,
    /// To whom each message of this round came.
    received: HashMap<MessageId, BTreeSet<SubscriptionId>>,
    /// Subjects with wildcards for which queue groups have lost a member in this round.
    deserted: Vec<String>,
    /// Queue groups that have had a message, of all rounds.
    taken: HashSet<(String, MessageId)>,
    faults: Vec<Fault>,
}

/// Whether a subject matches one with wildcards.
fn matches(pattern: &str, subject: &str) -> bool {
    let (mut wanted, mut tokens) = (pattern.split('.'), subject.split('.'));
    loop {
        match (wanted.next(), tokens.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(want), Some(token)) if want == token => {}
            _ => return false,
        }
    }
}

impl Model {
    /// Model of a cluster. Strict: no message comes twice, whether it is certain or not.
    #[must_use]
    pub fn new(is_strict: bool) -> Self {
        Self { is_strict, ..Self::default() }
    }

    /// Whether no message comes twice, whether it is certain or not.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Adds a subscription.
    pub fn subscribe(&mut self, id: SubscriptionId, subscription: Subscription) {
        self.subscriptions.insert(id, subscription);
    }

    /// Subscriptions that there are.
    #[must_use]
    pub fn subscriptions(&self) -> &BTreeMap<SubscriptionId, Subscription> {
        &self.subscriptions
    }

    /// Removes subscriptions: whatever comes to them from now on is a fault.
    pub fn unsubscribe(&mut self, is_gone: impl Fn(SubscriptionId, &Subscription) -> bool) {
        let gone = self.subscriptions.extract_if(.., |id, subscription| is_gone(*id, subscription));
        self.deserted.extend(gone.filter(|(_, one)| one.queue.is_some()).map(|(_, one)| one.subject));
    }

    /// Adds a message, when it is published or before.
    pub fn publish(&mut self, message: SentMessage) {
        self.known.insert(message.id, (message.subject.clone(), message.reaches.is_some()));
        self.sent.insert(message.id, message);
    }

    /// Adds what came to a subscription, in its order.
    pub fn deliver(&mut self, to: SubscriptionId, id: MessageId, subject: &str) {
        let Some(subscription) = self.subscriptions.get_mut(&to) else {
            return self.fault(format!("{id:?} came to {to:?}, which is no subscription any more"));
        };
        let (pattern, queue) = (subscription.subject.clone(), subscription.queue.clone());
        match &mut subscription.left {
            Some(0) => self.fault(format!("{id:?} came to {to:?} beyond its maximum")),
            Some(left) => *left -= 1,
            None => {}
        }
        let known = self.known.get(&id).filter(|(sent, _)| sent == subject && matches(&pattern, subject));
        let Some((_, is_certain)) = known else {
            return self.fault(format!("{id:?} came as {subject} to {to:?}, which is for {pattern}"));
        };
        let is_certain = *is_certain;
        if is_certain {
            let last = self.last.insert((to, id.0), id.1);
            if let Some(last) = last.filter(|last| *last >= id.1) {
                self.fault(format!("{id:?} came to {to:?} ({pattern}) after {last}"));
            }
        } else if !self.seen.insert((to, id)) && self.is_strict && !self.may_be_passed_on(&queue, subject) {
            self.fault(format!("{id:?} came to {to:?} ({pattern}) twice"));
        }
        self.received.entry(id).or_default().insert(to);
        if let Some(queue) = queue
            && !self.taken.insert((queue.clone(), id))
            && (is_certain || self.is_strict)
        {
            self.fault(format!("{id:?} came to two members of {queue}, the second is {to:?}"));
        }
    }

    /// Whether a message that comes to a subscription again may have been passed on for a group.
    fn may_be_passed_on(&self, queue: &Option<String>, subject: &str) -> bool {
        queue.is_none() && self.deserted.iter().any(|pattern| matches(pattern, subject))
    }

    fn fault(&mut self, text: String) {
        self.faults.push(Fault(text));
    }

    /// Ends the round, when everything that could come has come: what is wrong with it.
    pub fn check(&mut self) -> Vec<Fault> {
        let sent = std::mem::take(&mut self.sent);
        let received = std::mem::take(&mut self.received);
        self.deserted.clear();
        let none = BTreeSet::new();
        for message in sent.values() {
            let Some(reaches) = &message.reaches else { continue };
            let came = received.get(&message.id).unwrap_or(&none);
            self.check_message(message, reaches, came);
        }
        self.check_maxima(&sent, &received);
        self.subscriptions.retain(|_, subscription| subscription.left != Some(0));
        std::mem::take(&mut self.faults)
    }

    fn check_message(&mut self, message: &SentMessage, reaches: &Reach, came: &BTreeSet<SubscriptionId>) {
        let mut faults = Vec::new();
        let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
        for (id, one) in &self.subscriptions {
            let is_reached = reaches.must.contains(&one.server);
            let has_come = came.contains(id);
            if has_come && !reaches.may.contains(&one.server) {
                faults.push(format!("{:?} came to {id:?}, to which there is no way", message.id));
            }
            if !matches(&one.subject, &message.subject) {
                continue;
            }
            if let Some(queue) = &one.queue {
                let group = groups.entry(queue).or_default();
                let is_near = is_reached && reaches.near.contains(&one.server);
                group.is_reached |= is_reached;
                group.is_near |= is_near;
                group.came += usize::from(has_come);
                group.came_far |= has_come && !is_near;
            } else if is_reached && !has_come && one.left.is_none() {
                let (id_of, subject) = (message.id, &message.subject);
                faults
                    .push(format!("{id_of:?} on {subject} did not come to {id:?} on server {}", one.server));
            }
        }
        for (queue, group) in groups {
            let (id, subject, count) = (message.id, &message.subject, group.came);
            if count != usize::from(group.is_reached) {
                faults.push(format!("{id:?} on {subject} came to {count} members of {queue}"));
            } else if group.is_near && group.came_far {
                faults.push(format!("{id:?} on {subject} went past members of {queue} in its own cluster"));
            }
        }
        self.faults.extend(faults.into_iter().map(Fault));
    }

    /// Subscriptions with a maximum have as many of what could reach them as they may.
    fn check_maxima(
        &mut self,
        sent: &BTreeMap<MessageId, SentMessage>,
        received: &HashMap<MessageId, BTreeSet<SubscriptionId>>,
    ) {
        let mut faults = Vec::new();
        for (id, one) in self.subscriptions.iter().filter(|(_, one)| one.left.is_some_and(|left| left > 0)) {
            let missing = sent.values().find(|message| {
                message.reaches.as_ref().is_some_and(|reaches| reaches.must.contains(&one.server))
                    && matches(&one.subject, &message.subject)
                    && received.get(&message.id).is_none_or(|came| !came.contains(id))
            });
            if let Some(message) = missing {
                let left = one.left.unwrap_or_default();
                faults.push(format!("{:?} did not come to {id:?}, which may have {left} more", message.id));
            }
        }
        self.faults.extend(faults.into_iter().map(Fault));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(queue: Option<&str>, left: Option<u64>) -> Model {
        let mut model = Model::new(true);
        for client in 1..=2 {
            let server = client as usize;
            let (subject, queue) = ("a.*".to_owned(), queue.map(ToOwned::to_owned));
            model.subscribe((client, 1), Subscription { server, subject, queue, left });
        }
        model
    }

    fn send(model: &mut Model, sequence: u64, reaches: &[usize]) {
        let must: BTreeSet<usize> = reaches.iter().copied().collect();
        let reaches = Some(Reach { may: must.clone(), must, near: BTreeSet::new() });
        model.publish(SentMessage { id: (9, sequence), subject: "a.b".into(), reaches });
    }

    fn faults(model: &mut Model) -> String {
        model.check().iter().map(|fault| format!("{fault}\n")).collect()
    }

    #[test]
    fn subjects_match_as_in_nats() {
        for (pattern, subject, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
        ] {
            assert_eq!(matches(pattern, subject), expected, "{pattern} {subject}");
        }
    }

    #[test]
    fn what_should_be_is_no_fault() {
        let mut one = model(None, None);
        send(&mut one, 1, &[1, 2]);
        one.deliver((1, 1), (9, 1), "a.b");
        one.deliver((2, 1), (9, 1), "a.b");
        assert_eq!(faults(&mut one), "");
        let mut group = model(Some("q"), None);
        send(&mut group, 1, &[1, 2]);
        group.deliver((2, 1), (9, 1), "a.b");
        assert_eq!(faults(&mut group), "");
        // Lost, or overtaken, while nothing was certain.
        one.publish(SentMessage { id: (9, 2), subject: "a.b".into(), reaches: None });
        assert_eq!(faults(&mut one), "");
        send(&mut one, 3, &[1]);
        one.deliver((1, 1), (9, 3), "a.b");
        one.deliver((1, 1), (9, 2), "a.b");
        assert_eq!(faults(&mut one), "");
        one.deliver((1, 1), (9, 2), "a.b");
        assert!(faults(&mut one).contains("twice"));
        one.is_strict = false;
        one.deliver((1, 1), (9, 2), "a.b");
        assert_eq!(faults(&mut one), "");
    }

    #[test]
    fn what_is_passed_on_for_a_group_that_has_lost_a_member_may_come_again() {
        let mut one = model(None, None);
        let group = Subscription { server: 2, subject: "a.>".into(), queue: Some("q".into()), left: None };
        for (sequence, is_allowed) in [(1, true), (2, false)] {
            if is_allowed {
                one.subscribe((3, 1), group.clone());
                one.unsubscribe(|id, _| id == (3, 1));
            }
            one.publish(SentMessage { id: (9, sequence), subject: "a.b".into(), reaches: None });
            one.deliver((1, 1), (9, sequence), "a.b");
            one.deliver((1, 1), (9, sequence), "a.b");
            assert_eq!(faults(&mut one).is_empty(), is_allowed);
        }
    }

    #[test]
    fn every_fault_is_found() {
        let mut lost = model(None, None);
        send(&mut lost, 1, &[1, 2]);
        lost.deliver((1, 1), (9, 1), "a.b");
        assert!(faults(&mut lost).contains("did not come to (2, 1)"));
        let mut twice = model(None, None);
        send(&mut twice, 1, &[1]);
        twice.deliver((1, 1), (9, 1), "a.b");
        assert_eq!(faults(&mut twice), "");
        twice.deliver((1, 1), (9, 1), "a.b");
        assert!(faults(&mut twice).contains("after 1"));
        let mut far = model(None, None);
        send(&mut far, 1, &[1]);
        far.deliver((1, 1), (9, 1), "a.b");
        far.deliver((2, 1), (9, 1), "a.b");
        assert!(faults(&mut far).contains("to which there is no way"));
        let mut group = model(Some("q"), None);
        send(&mut group, 1, &[1, 2]);
        assert!(faults(&mut group).contains("came to 0 members of q"));
        send(&mut group, 2, &[1, 2]);
        group.deliver((1, 1), (9, 2), "a.b");
        group.deliver((2, 1), (9, 2), "a.b");
        assert!(faults(&mut group).contains("two members of q"));
        for (near, expected) in [(1, "went past members"), (2, "")] {
            let (must, near) = (BTreeSet::from([1, 2]), BTreeSet::from([near]));
            let reaches = Some(Reach { may: must.clone(), must, near });
            let mut near = model(Some("q"), None);
            near.publish(SentMessage { id: (9, 1), subject: "a.b".into(), reaches });
            near.deliver((2, 1), (9, 1), "a.b");
            let found = faults(&mut near);
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        }
        let mut other = model(None, None);
        other.deliver((1, 1), (9, 1), "b");
        assert!(faults(&mut other).contains("which is for a.*"));
        other.unsubscribe(|id, _| id == (1, 1));
        other.deliver((1, 1), (9, 2), "a.b");
        assert!(faults(&mut other).contains("no subscription any more"));
    }

    #[test]
    fn maxima_are_kept_and_reached() {
        let mut one = model(None, Some(1));
        send(&mut one, 1, &[1]);
        send(&mut one, 2, &[1]);
        assert!(faults(&mut one).contains("may have 1 more"));
        send(&mut one, 3, &[1]);
        send(&mut one, 4, &[1]);
        one.deliver((1, 1), (9, 3), "a.b");
        assert_eq!(faults(&mut one), "");
        send(&mut one, 5, &[]);
        one.deliver((1, 1), (9, 5), "a.b");
        assert!(faults(&mut one).contains("no subscription any more"));
        send(&mut one, 6, &[2]);
        one.deliver((2, 1), (9, 6), "a.b");
        one.deliver((2, 1), (9, 6), "a.b");
        assert!(faults(&mut one).contains("beyond its maximum"));
    }
}
