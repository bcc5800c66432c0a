//! Checks of a cluster: at every step, of everything that is said, and at rest.

use std::collections::{BTreeMap, BTreeSet};

use myelin_replica::RaftRole;
use myelin_store::Wait;

use super::history::{self, Outcome, Rules};
use super::model::{Delivery, Publication, StreamModel};
use super::node::{Letter, NAMES, Node};
use super::plan::{Kept, LIFETIME};
use super::world::{Asked, SECOND, World, tag_of};

/// Within so many nanoseconds all groups are led again and all members current, when nothing goes
/// wrong any more.
const CURRENT: u64 = 150 * SECOND;

/// Nanoseconds in which a server that had stood still says what it was about to say.
const AWAKE: u64 = 100_000_000;

/// Contents of a stream on a server: subjects and payloads by sequence, and everything in words.
type Contents = (BTreeMap<u64, (String, String)>, String);

impl World {
    /// Rules that hold at every moment.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let mut present = BTreeSet::new();
        for number in self.all() {
            let Some(node) = self.node(number) else { continue };
            for view in node.groups() {
                let status = view.status;
                present.insert((view.name.clone(), number));
                if status.role == RaftRole::Leader {
                    let known = *self.leaders.entry((view.name.clone(), status.term)).or_insert(number);
                    if known != number {
                        let names = (NAMES[known], NAMES[number]);
                        return Err(format!("{names:?} lead {} in term {}", view.name, status.term));
                    }
                    if status.is_amnesiac {
                        return Err(format!("{} leads {} without its memory", NAMES[number], view.name));
                    }
                }
                let before = self.commits.insert((view.name.clone(), number), status.committed);
                // A stream that fails with its disk is opened anew, and may know less then.
                let may_forget = status.is_amnesiac || self.plan.do_disks_fail;
                if before.is_some_and(|before| before > status.committed) && !may_forget {
                    let to = status.committed;
                    return Err(format!(
                        "{}: {} went back from {before:?} to {to}",
                        NAMES[number], view.name
                    ));
                }
            }
        }
        // Whoever comes back as a member of a group begins anew.
        self.commits.retain(|group, _| present.contains(group));
        self.check_states()
    }

    /// Replicas that have come to the same index have the same messages, whenever that was.
    fn check_states(&mut self) -> Result<(), String> {
        let disagrees = |node: &Node| node.jetstream.repairs().disagreed > 0;
        let found = self.all().find(|&number| self.node(number).is_some_and(disagrees));
        if let Some(number) = found {
            return Err(format!("{}: a replica is not as most of its group", NAMES[number]));
        }
        if self.plan.do_disks_fail {
            // What cannot be read is not removed at once.
            return Ok(());
        }
        for stream in 0..self.streams.len() {
            for number in self.all() {
                let live = self.node(number).and_then(|node| node.stream(&self.streams[stream].plan.name));
                let Some(live) = live else { continue };
                let Some(status) = live.group_status() else { continue };
                let totals = live.reader().state().totals;
                let found = (totals.messages, totals.first_seq, totals.last_seq);
                let model = &mut self.streams[stream];
                let furthest = model.states.keys().next_back().copied().unwrap_or(0);
                let replica = model.replicas.entry(number).or_default();
                if status.committed < replica.see(self.machines[number].lives, &live, furthest) {
                    continue;
                }
                // Of what was erased a start finds nothing, though it has yet to hear that this is
                // committed.
                let erased = model.deletions.len() as u64;
                let known = *model.states.entry(status.committed).or_insert(found);
                let is_near = known.2 == found.2 && known.0.abs_diff(found.0) <= erased;
                if known != found && !(erased > 0 && is_near) {
                    let (name, at) = (NAMES[number], status.committed);
                    return Err(format!(
                        "S{stream}: {name} has {found:?} at {at}, and another one {known:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A server says something to a client: holds also for what the client never hears.
    pub(super) fn check_said(&mut self, from: usize, letter: &Letter) -> Result<(), String> {
        let subject = String::from_utf8_lossy(&letter.subject);
        if let Some(tag) = tag_of(&letter.subject) {
            let asked = self.questions.get(&tag).map(|question| question.asked.clone());
            if let Some(Asked::Confirm { stream, seq }) = asked {
                let now = self.now;
                self.streams[stream].confirm(seq, now);
            }
            return Ok(());
        }
        let stream: usize = subject.strip_prefix("D.").and_then(|at| at.parse().ok()).ok_or("a subject")?;
        let Some(seq) = seq_of(&letter.reply) else { return Ok(()) };
        self.tell(|| format!("{} delivers {seq} of S{stream}", NAMES[from]));
        self.counts.delivered += 1;
        let is_lost = self.rng.below(10) == 0 && self.network.loss > 0;
        let now = self.now;
        let model = &mut self.streams[stream];
        // What a server was about to send when it stood still leaves when it goes on: as if it had
        // been on its way meanwhile.
        let machine = &self.machines[from];
        let has_stood_still = now <= machine.silent_until + AWAKE;
        let is_after = |at: &u64| !(has_stood_still && *at >= machine.silent_from);
        if model.confirmed.get(&seq).is_some_and(is_after) {
            return Err(format!("S{stream}: {seq} comes again, and its acknowledgement was confirmed"));
        }
        model.see(seq, &String::from_utf8_lossy(&letter.payload), now)?;
        model.delivered.insert(seq);
        if !is_lost {
            model.hands.push(Delivery { seq, reply: letter.reply.clone() });
        }
        Ok(())
    }

    /// Everybody is there, and all come to the same in their time.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let until = self.now + CURRENT;
        while self.now < until {
            self.pass(SECOND / 2)?;
            self.mend()?;
            self.check()?;
            if self.is_current() {
                return Ok(());
            }
        }
        Err("they do not come to the same".to_owned())
    }

    /// Whether each group has one leader, and all of its members the same committed log.
    fn is_current(&self) -> bool {
        let mut groups: BTreeMap<String, Vec<(u64, u64, bool, RaftRole)>> = BTreeMap::new();
        let mut members: BTreeMap<String, usize> = BTreeMap::new();
        for number in self.all() {
            let Some(node) = self.node(number) else { return false };
            for view in node.groups() {
                let status = view.status;
                let place = (status.last, status.committed, status.is_amnesiac, status.role);
                let name = format!("{} {}", view.account, view.name);
                if status.role == RaftRole::Leader {
                    members.insert(name.clone(), status.members.len());
                }
                groups.entry(name).or_default().push(place);
            }
        }
        let is_same = |places: &Vec<(u64, u64, bool, RaftRole)>| {
            let last = places[0].0;
            let is_current = places.iter().all(|place| (place.0, place.1, place.2) == (last, last, false));
            is_current && places.iter().filter(|place| place.3 == RaftRole::Leader).count() == 1
        };
        let made: Vec<usize> = (0..self.streams.len()).filter(|&at| self.streams[at].is_made).collect();
        let is_whole = |&at: &usize| {
            let model = &self.streams[at];
            let has_it = |node: &Node| node.stream(&model.plan.name).is_some();
            let has = self.all().filter(|&number| self.node(number).is_some_and(has_it));
            has.count() == model.wanted && self.leading(at).len() == 1
        };
        let replicated = made.iter().filter(|&&at| self.streams[at].plan.replicas > 1).count();
        // Who leads has just those as members that are there.
        let are_known = groups.iter().all(|(name, places)| members.get(name) == Some(&places.len()));
        // A replica that its disk has damaged gets everything from its leader.
        let is_well = |number: usize| {
            let health = self.node(number).and_then(|node| node.jetstream.cluster_health());
            health.is_some_and(|health| health.streams.is_empty())
        };
        groups.len() > replicated
            && groups.values().all(is_same)
            && are_known
            && made.iter().all(is_whole)
            && (!self.plan.do_disks_fail || self.all().all(is_well))
    }

    /// Contents of a stream, which all servers have.
    fn contents(&self, stream: usize) -> Result<Contents, String> {
        let name = &self.streams[stream].plan.name;
        let mut first: Option<(usize, Contents)> = None;
        for number in self.all() {
            let Some(found) = self.node(number).map(|node| read(node, name)).transpose()?.flatten() else {
                continue;
            };
            if let Some((other, known)) = &first
                && known.1 != found.1
            {
                let differs = known.1.lines().zip(found.1.lines()).find(|(one, two)| one != two);
                let lengths = (known.1.lines().count(), found.1.lines().count());
                let names = (NAMES[*other], NAMES[number]);
                return Err(format!("{name}: {names:?} differ: {differs:?} of {lengths:?} lines"));
            }
            first.get_or_insert((number, found));
        }
        first.map(|(_, found)| found).ok_or_else(|| format!("{name}: nobody has it"))
    }

    /// A stream has what clients know of it, on all servers. Answers what it has, in words.
    pub(super) fn check_contents(&mut self, stream: usize) -> Result<String, String> {
        let (found, words) = self.contents(stream)?;
        let now = self.now;
        // One clock may be 4 % too fast since the run began, and the next leader's too slow.
        let apart = if self.plan.do_clocks_drift { now / 12 } else { 0 };
        let model = &mut self.streams[stream];
        for (&seq, (_, payload)) in &found {
            model.see(seq, payload, now)?;
        }
        check_found(model, &found)?;
        check_lifetimes(model, &found, now - apart)?;
        let (is_whole, keeps_last) = (model.is_whole(), model.keeps_last());
        let rules = Rules { is_whole, keeps_last, are_answers_current: true };
        // Where something was lost with all servers, what was told counts on what is no more.
        if !model.has_lost {
            history::check(&model.history(), rules)
                .map_err(|why| format!("{}: not linearizable: {why}", model.plan.name))?;
        }
        Ok(words)
    }

    /// Everything that is left is delivered, and acknowledged.
    pub(super) fn drain(&mut self, stream: usize) -> Result<(), String> {
        if !self.streams[stream].is_consumed {
            return Ok(());
        }
        let name = self.streams[stream].plan.name.clone();
        let (found, _) = self.contents(stream)?;
        let mut quiet = 0;
        // Whoever led may have been ahead by the time of day: what was delivered there comes again
        // late.
        for _ in 0..300 {
            self.fetch_so_many(stream, 0, 1000, 2 * SECOND);
            let before = self.counts.delivered;
            self.pass(SECOND)?;
            let hands = std::mem::take(&mut self.streams[stream].hands);
            hands.iter().for_each(|delivery| self.confirm(stream, 0, delivery));
            self.pass(SECOND / 10)?;
            self.check()?;
            quiet = if before == self.counts.delivered { quiet + 1 } else { 0 };
            if quiet > 4 && self.left(stream, &found)?.is_none() {
                return self.settle();
            }
        }
        let left = self.left(stream, &found)?;
        Err(format!("{name}: deliveries do not end: {left:?}"))
    }

    /// Words for what is still to be delivered, acknowledged or removed of what a stream had.
    fn left(&self, stream: usize, found: &BTreeMap<u64, (String, String)>) -> Result<Option<String>, String> {
        let model = &self.streams[stream];
        // What ends by itself may have done so before it was delivered.
        // Where one server alone has a stream, and has lost that a message was removed, its
        // consumer may have passed that over.
        let is_back = |seq: u64| {
            model.has_lost
                && model.plan.replicas == 1
                && (seq < model.purge_asked || model.deletions.contains(&seq) || model.plan.per_subject > 0)
        };
        let is_missing =
            |seq: &&u64| !is_back(**seq) && (!model.delivered.contains(seq) || !model.settled.contains(seq));
        let missing = found.keys().filter(|_| !model.plan.has_lifetimes).find(is_missing);
        if let Some(seq) = missing {
            return Ok(Some(format!("{seq} was never delivered and acknowledged")));
        }
        if model.plan.kept == Kept::Limits {
            return Ok(None);
        }
        let (left, _) = self.contents(stream)?;
        let first = left.keys().next();
        Ok(first.map(|seq| format!("{seq} stays, and was acknowledged")))
    }

    /// The leader of a stream, for which it may have to wait: leaders are spread now and then.
    fn one_leader(&mut self, stream: usize) -> Result<usize, String> {
        for _ in 0..200 {
            if let [leader] = self.leading(stream)[..] {
                return Ok(leader);
            }
            self.pass(SECOND / 10)?;
        }
        Err(format!("S{stream}: not one leader"))
    }

    /// A message is published to each stream, and acknowledged in its time.
    pub(super) fn publish_last(&mut self) -> Result<(), String> {
        for stream in 0..self.streams.len() {
            let before = self.counts.stored;
            // Who hands over tells publishers that nobody has taken what it held: they try again.
            for attempt in 0..200 {
                if attempt % 20 == 0 {
                    let leader = self.one_leader(stream)?;
                    self.publish_plain(stream, leader);
                }
                self.pass(SECOND / 10)?;
                if self.counts.stored > before {
                    break;
                }
            }
            if self.counts.stored == before {
                return Err(format!("S{stream}: nothing is acknowledged"));
            }
        }
        Ok(())
    }
}

/// Checks that what was found is what clients published, were told and did not remove.
fn check_found(model: &StreamModel, found: &BTreeMap<u64, (String, String)>) -> Result<(), String> {
    let name = &model.plan.name;
    let subject_of = |subject: &str| subject.rsplit('.').next().and_then(|word| word.parse().ok());
    let kept: BTreeMap<u64, u64> =
        found.iter().map(|(seq, (subject, _))| (*seq, subject_of(subject).unwrap_or(u64::MAX))).collect();
    let mut copies: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    found.iter().for_each(|(seq, (_, payload))| copies.entry(payload).or_default().push(*seq));
    let mut batches: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for one in &model.publications {
        let there = copies.remove(one.payload.as_str()).unwrap_or_default();
        let text = &one.payload[..one.payload.len().min(12)];
        if there.len() > 1 {
            return Err(format!("{name}: {text:?} is there as {there:?}"));
        }
        if let Some(batch) = one.batch {
            let count = batches.entry(batch).or_default();
            *(if there.is_empty() { &mut count.1 } else { &mut count.0 }) += 1;
        }
        let is_refused = matches!(one.outcome, Outcome::WrongLast(_) | Outcome::Refused);
        if is_refused && !there.is_empty() && !one.has_id {
            return Err(format!("{name}: {text:?} was refused, and is there as {there:?}"));
        }
        if one.must_be_there && there.is_empty() && model.is_whole() {
            return Err(format!("{name}: {text:?} was acknowledged with its batch, and is not there"));
        }
        let Outcome::Stored(seq) = one.outcome else { continue };
        // The id of a message that a limit has removed is not known after a start: one that was
        // sent again, and not answered, is another one.
        let may_be_another = |found: u64| one.has_id && found > seq && model.may_go(seq);
        if there.first().is_some_and(|&found| found != seq && !may_be_another(found)) {
            return Err(format!("{name}: {text:?} was acknowledged as {seq}, and is {there:?}"));
        }
        if there.is_empty() && !one.has_lifetime && !model.may_be_gone(seq, one.subject, &kept) {
            return Err(format!("{name}: {text:?} was acknowledged as {seq}, and is not there"));
        }
    }
    if let Some((payload, at)) = copies.first_key_value() {
        return Err(format!("{name}: nobody has published {payload:?} at {at:?}"));
    }
    if model.is_whole() && model.plan.per_subject == 0 {
        let half = batches.iter().find(|(_, (there, missing))| *there > 0 && *missing > 0);
        if let Some((batch, (there, missing))) = half {
            return Err(format!("{name}: of batch {batch} {there} are there and {missing} are not"));
        }
    }
    check_removed(model, &kept)
}

/// Checks that what was to end by itself has ended.
fn check_lifetimes(
    model: &StreamModel,
    found: &BTreeMap<u64, (String, String)>,
    now: u64,
) -> Result<(), String> {
    let is_over = |one: &&Publication| one.has_lifetime && one.time + 3 * LIFETIME * SECOND < now;
    let over: BTreeSet<&str> =
        model.publications.iter().filter(is_over).map(|one| one.payload.as_str()).collect();
    match found.iter().find(|(_, (_, payload))| over.contains(payload.as_str())) {
        Some((seq, _)) => Err(format!("{}: {seq} has outlived its time", model.plan.name)),
        None => Ok(()),
    }
}

/// Checks that what was removed stays away, and that limits hold.
fn check_removed(model: &StreamModel, kept: &BTreeMap<u64, u64>) -> Result<(), String> {
    let name = &model.plan.name;
    let first = kept.first_key_value().map_or(u64::MAX, |(seq, _)| *seq);
    if first < model.purged {
        return Err(format!("{name}: {first} is there, and all below {} was purged", model.purged));
    }
    if let Some(seq) = model.deleted.iter().find(|seq| kept.contains_key(seq)) {
        return Err(format!("{name}: {seq} is there, and was deleted"));
    }
    let by_payload: BTreeMap<&str, &Publication> =
        model.publications.iter().map(|one| (one.payload.as_str(), one)).collect();
    for (seq, payload) in &model.seen {
        let one = by_payload.get(payload.as_str());
        if one.is_some_and(|one| one.has_lifetime) {
            continue;
        }
        let of = one.map_or(0, |one| one.subject);
        if !kept.contains_key(seq) && !model.may_be_gone(*seq, of, kept) {
            return Err(format!("{name}: {seq} was seen, and is not there"));
        }
    }
    let mut of_subjects: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    kept.iter().for_each(|(seq, subject)| of_subjects.entry(*subject).or_default().push(*seq));
    let limit = model.plan.per_subject;
    let too_many = of_subjects.iter().find(|(_, seqs)| limit > 0 && seqs.len() as u64 > limit);
    if let Some((subject, seqs)) = too_many {
        return Err(format!("{name}: {seqs:?} of subject {subject} are there, and {limit} may be"));
    }
    Ok(())
}

/// Sequence of the stream that a delivery has; `None` for a status.
fn seq_of(reply: &[u8]) -> Option<u64> {
    std::str::from_utf8(reply).ok()?.split('.').nth(5)?.parse().ok()
}

/// Reads what a server has of a stream, if it has one.
fn read(node: &Node, name: &str) -> Result<Option<Contents>, String> {
    let Some(live) = node.stream(name) else { return Ok(None) };
    let reader = live.reader();
    let totals = reader.state().totals;
    let mut words = format!("{} of {} to {}\n", totals.messages, totals.first_seq, totals.last_seq);
    let mut found = BTreeMap::new();
    let mut buffer = Vec::new();
    for seq in totals.first_seq..=totals.last_seq {
        let message = reader.get(seq, Wait::Allowed, &mut buffer);
        let message = message.map_err(|error| format!("{name}: {seq} cannot be read: {error}"))?;
        let Some(message) = message else { continue };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (subject, headers, payload) =
            (text(message.subject), text(message.headers), text(message.payload));
        words += &format!("{seq} {subject} {headers:?} {payload} at {}\n", message.timestamp);
        found.insert(seq, (subject, payload));
    }
    if let Some(mut guard) = live.lock_core()
        && let Some(applied) = guard.parts().0.applied_consumers()
    {
        for (id, (name, rules, _, state)) in applied.iter() {
            let (delivered, floor) = (state.delivered(), state.ack_floor());
            let pending: Vec<_> = state.pending().iter().collect();
            let again = state.redelivered();
            words += &format!("{id:?} {name} {rules:?} {delivered:?} {floor:?} {pending:?} {again:?}\n");
        }
    }
    Ok(Some((found, words)))
}
