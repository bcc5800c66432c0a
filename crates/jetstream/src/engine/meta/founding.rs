//! When a new meta group is founded: what a server has heard of the others, and when that is
//! enough.
//!
//! A server founds when its own configuration is satisfied: as many servers of its cluster are
//! linked as its routes name, and of each cluster that its gateway names at least one is, unless
//! that cluster has said for a while that it has none with JetStream. One that is silent may have
//! servers that found a group of their own just now. So two groups would need two founders of which
//! neither has heard of the other's cluster, although each names all others; and of two founders of
//! one cluster each has all of its servers.

use myelin_store::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Servers that found a group have agreed for so long on who they are.
const AGREED: Timestamp = 400_000_000;
/// A server that was silent for so long has gone before there was a group.
const GONE: Timestamp = 10_000_000_000;
/// A cluster that has said for so long that no server of it takes part is not waited for.
const HAS_NONE: Timestamp = 10_000_000_000;
/// After so long the log says what is waited for.
const WAITED: Timestamp = 10_000_000_000;

/// When a server founds a new meta group.
pub struct FoundingTerms {
    /// Servers of its own cluster that have to be linked, itself among them.
    pub expected: usize,
    /// Names of other clusters of which a server has to be linked.
    pub clusters: Vec<String>,
}

/// Word of a server that it is a member of no group.
pub(super) struct SaidNone {
    /// Servers that it names.
    pub(super) servers: BTreeSet<String>,
    pub(super) life: u64,
    /// When it was asked for that.
    pub(super) at: Timestamp,
}

/// Search of a server for a group, as far as it has got.
pub(super) struct Seeking {
    pub(super) terms: FoundingTerms,
    /// This server, and those that are or were linked.
    pub(super) linked: BTreeSet<String>,
    /// Servers of other clusters, with the names of these.
    foreign: BTreeMap<String, String>,
    /// Since when other clusters say that none of their servers takes part.
    without_any: BTreeMap<String, Timestamp>,
    /// When servers were linked, or have said something.
    pub(super) heard: BTreeMap<String, Timestamp>,
    /// Servers that have said that they are members of no group.
    without: BTreeMap<String, SaidNone>,
    /// Lives of the founders, where this server has founded the group in this life.
    pub(super) lives: BTreeMap<String, u64>,
    /// Since when all of these name the same.
    agreed: Option<Timestamp>,
    /// When the log is to say what is waited for; `None`: it has.
    complains: Option<Timestamp>,
    /// Whether this server is a member, or about to be one.
    pub(super) is_over: bool,
}

impl Seeking {
    pub(super) fn new(me: &str, terms: FoundingTerms, now: Timestamp, is_over: bool) -> Self {
        let (foreign, without_any) = (BTreeMap::new(), BTreeMap::new());
        let (heard, without, lives) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (linked, complains) = (BTreeSet::from([me.to_owned()]), Some(now + WAITED));
        let agreed = None;
        Self { terms, linked, foreign, without_any, heard, without, lives, agreed, complains, is_over }
    }

    /// A server is linked that is of this cluster; `own`: this server's.
    pub(super) fn note_cluster(&mut self, name: &str, cluster: &str, own: &str) {
        if cluster == own {
            self.foreign.remove(name);
        } else {
            self.foreign.insert(name.to_owned(), cluster.to_owned());
        }
    }

    /// Another cluster has said whether some of its servers take part.
    pub(super) fn hear_of_cluster(&mut self, cluster: &str, has_any: bool, now: Timestamp) {
        if has_any {
            self.without_any.remove(cluster);
        } else if self.terms.clusters.iter().any(|known| known == cluster) {
            self.without_any.entry(cluster.to_owned()).or_insert(now);
        }
    }

    /// A server has said that it is a member of no group.
    pub(super) fn hear(&mut self, name: String, said: SaidNone) {
        let life = said.life;
        if self.without.insert(name, said).is_some_and(|before| before.life != life) {
            self.agreed = None;
        }
    }

    /// This server founds the group: lives of all founders, of which its own is given.
    pub(super) fn note_lives(&mut self, me: &str, life: u64) {
        let lives = self.without.iter().map(|(name, said)| (name.clone(), said.life));
        self.lives = lives.chain([(me.to_owned(), life)]).collect();
    }

    /// Servers of this cluster that are linked, this one among them.
    fn linked_here(&self) -> usize {
        self.linked.iter().filter(|name| !self.foreign.contains_key(*name)).count()
    }

    /// Other clusters that are waited for.
    fn unheard(&self, now: Timestamp) -> impl Iterator<Item = &String> {
        let linked = || self.foreign.iter().filter(|(name, _)| self.linked.contains(*name));
        self.terms.clusters.iter().filter(move |cluster| {
            let has_none = self.without_any.get(*cluster).is_some_and(|since| now - since >= HAS_NONE);
            !has_none && !linked().any(|(_, of)| of == *cluster)
        })
    }

    /// Whether the configuration of this server is satisfied.
    fn is_satisfied(&self, now: Timestamp) -> bool {
        self.linked_here() >= self.terms.expected && self.unheard(now).next().is_none()
    }

    /// Words for what is waited for, once, after a while.
    pub(super) fn waits_for(&mut self, me: &str, now: Timestamp) -> Option<String> {
        self.complains.take_if(|at| now >= *at)?;
        let mut words = String::new();
        let (here, expected) = (self.linked_here(), self.terms.expected);
        if here < expected {
            let _ = write!(words, "servers of its cluster: {here} of {expected} are linked");
        }
        for cluster in self.unheard(now) {
            let and = if words.is_empty() { "" } else { "; " };
            let _ = write!(words, "{and}a server with JetStream of cluster \"{cluster}\"");
        }
        if words.is_empty() {
            let others = self.linked.iter().filter(|name| *name != me).map(String::as_str);
            let named = others.collect::<Vec<_>>().join(", ");
            let _ = write!(words, "others to be linked with the same servers as it is itself: {named}");
        }
        Some(words)
    }

    /// Whether a group is to be founded by all servers that are linked: they agree on who they are,
    /// and have for a while.
    pub(super) fn may_found(&mut self, me: &str, now: Timestamp) -> bool {
        let is_heard = |name: &String| {
            let gone = self.heard.get(name).is_some_and(|heard| now - heard > GONE);
            name == me || !gone
        };
        let there: BTreeSet<String> = self.linked.iter().filter(|name| is_heard(name)).cloned().collect();
        if there != self.linked {
            (self.linked, self.agreed) = (there, None);
        }
        let names_us = |name: &String| {
            name == me || self.without.get(name).is_some_and(|said| said.servers == self.linked)
        };
        if !self.is_satisfied(now) || !self.linked.iter().all(names_us) {
            self.agreed = None;
            return false;
        }
        let since = *self.agreed.get_or_insert(now);
        let has_said_since =
            |name: &String| name == me || self.without.get(name).is_some_and(|said| said.at > since);
        now - since >= AGREED && self.linked.iter().all(has_said_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// Search of n1, which is linked with these.
    fn seeking(expected: usize, linked: &[&str], clusters: &[&str]) -> Seeking {
        let clusters = clusters.iter().map(|&name| name.to_owned()).collect();
        let mut seeking = Seeking::new("n1", FoundingTerms { expected, clusters }, 0, false);
        seeking.linked = set(linked);
        seeking
    }

    /// Has a server say at a time, in a life of its, that it is a member of no group.
    fn hear(seeking: &mut Seeking, (name, life): (&str, u64), at: Timestamp, servers: &[&str]) {
        seeking.heard.insert(name.into(), at);
        seeking.hear(name.into(), SaidNone { servers: set(servers), life, at });
    }

    #[test]
    fn a_group_is_founded_by_servers_that_agree_on_who_they_are() {
        let mut seeking = seeking(3, &["n1", "n2", "n3"], &[]);
        let all = ["n1", "n2", "n3", "n4"];
        hear(&mut seeking, ("n2", 1), 0, &all[..3]);
        assert!(!seeking.may_found("n1", AGREED), "one has not answered");
        hear(&mut seeking, ("n3", 1), 0, &all);
        assert!(!seeking.may_found("n1", AGREED), "one knows of more");
        seeking.linked.insert("n4".into());
        ["n2", "n4"].iter().for_each(|name| hear(&mut seeking, (name, 1), 1, &all));
        assert!(!seeking.may_found("n1", 5), "they have just agreed");
        ["n2", "n3", "n4"].iter().for_each(|name| hear(&mut seeking, (name, 1), 6, &all));
        assert!(!seeking.may_found("n1", 4 + AGREED), "not for long");
        assert!(seeking.may_found("n1", 5 + AGREED));
        // What is linked now counts, and not what has gone.
        let agree = |seeking: &mut Seeking, at| {
            ["n2", "n3"].iter().for_each(|name| hear(seeking, (name, 1), at, &all[..3]));
        };
        agree(&mut seeking, GONE + 7);
        assert!(!seeking.may_found("n1", GONE + 7), "they have to agree anew");
        agree(&mut seeking, GONE + 8);
        assert!(seeking.may_found("n1", GONE + 7 + AGREED) && seeking.linked == set(&all[..3]));
        // One was linked, and went before it had said anything.
        seeking.linked.insert("n5".into());
        seeking.heard.insert("n5".into(), GONE);
        agree(&mut seeking, 2 * GONE);
        assert!(!seeking.may_found("n1", 2 * GONE), "it may say something yet");
        assert!(!seeking.may_found("n1", 2 * GONE + 1));
        agree(&mut seeking, 2 * GONE + 2);
        assert!(seeking.may_found("n1", 2 * GONE + 1 + AGREED));
    }

    /// One that says nothing more may be a member already, with an earlier life of another one that
    /// has lost its disk: that one would take itself for new.
    #[test]
    fn the_last_word_of_each_founder_is_younger_than_the_agreement() {
        let all = ["n1", "n2", "n3"];
        let mut seeking = seeking(3, &all, &[]);
        ["n2", "n3"].iter().for_each(|name| hear(&mut seeking, (name, 1), 1, &all));
        assert!(!seeking.may_found("n1", 2));
        hear(&mut seeking, ("n3", 1), 3, &all);
        assert!(!seeking.may_found("n1", 2 + AGREED), "one has said nothing since");
        hear(&mut seeking, ("n2", 1), 4, &all);
        hear(&mut seeking, ("n3", 2), 5, &all);
        assert!(!seeking.may_found("n1", 2 + AGREED), "one has begun a new life");
        ["n2", "n3"].iter().for_each(|name| hear(&mut seeking, (name, 2), 4 + AGREED, &all));
        assert!(!seeking.may_found("n1", 5 + AGREED));
    }

    /// Whether the servers that are linked, which have agreed on who they are, found a group then.
    fn found(seeking: &mut Seeking, at: Timestamp) -> bool {
        let all: Vec<String> = seeking.linked.iter().cloned().collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        for at in [at - AGREED, at - AGREED + 1] {
            all[1..].iter().for_each(|name| hear(seeking, (name, 1), at, &all));
            let _ = seeking.may_found("n1", at);
        }
        seeking.may_found("n1", at)
    }

    #[test]
    fn a_server_of_each_other_cluster_has_to_be_heard() {
        let mut seeking = seeking(2, &["n1", "n2"], &["B", "C"]);
        let mut now = 1_000_000_000;
        assert!(!found(&mut seeking, now), "nothing was heard of others");
        let mut is_linked = |seeking: &mut Seeking, name: &str, cluster: &str| {
            now += 1_000_000_000;
            seeking.linked.insert(name.to_owned());
            seeking.note_cluster(name, cluster, "A");
            found(seeking, now)
        };
        assert!(!is_linked(&mut seeking, "n3", "B"), "nothing was heard of the third one");
        assert!(!is_linked(&mut seeking, "n4", "D"), "nobody waits for that one");
        assert!(is_linked(&mut seeking, "n5", "C"));
        // What goes before there is a group counts no more.
        seeking.linked.remove("n5");
        assert!(!found(&mut seeking, 8_000_000_000));
        // Servers of others are none of the own cluster.
        seeking.linked.insert("n5".to_owned());
        seeking.terms.expected = 3;
        assert!(!found(&mut seeking, 9_000_000_000));
        assert!(is_linked(&mut seeking, "n6", "A"));
    }

    #[test]
    fn a_cluster_without_jetstream_is_waited_for_until_that_is_certain() {
        let mut seeking = seeking(2, &["n1", "n2"], &["B"]);
        let second = 1_000_000_000;
        seeking.hear_of_cluster("B", false, second);
        seeking.hear_of_cluster("C", false, second);
        seeking.hear_of_cluster("B", false, 9 * second);
        assert!(!found(&mut seeking, 11 * second + AGREED - 1));
        assert!(found(&mut seeking, 11 * second + 2 * AGREED));
        // It has some, which are linked soon.
        seeking.hear_of_cluster("B", true, 12 * second);
        assert!(!found(&mut seeking, 13 * second));
        seeking.hear_of_cluster("B", false, 14 * second);
        assert!(!found(&mut seeking, 24 * second + AGREED - 1));
        assert!(found(&mut seeking, 24 * second + 2 * AGREED));
    }

    #[test]
    fn the_log_says_once_what_is_waited_for() {
        let mut seeking = seeking(3, &["n1", "n2"], &["B", "C"]);
        assert_eq!(seeking.waits_for("n1", WAITED - 1), None);
        let words = "servers of its cluster: 2 of 3 are linked; a server with JetStream of cluster \"B\"; \
                     a server with JetStream of cluster \"C\"";
        assert_eq!(seeking.waits_for("n1", WAITED).as_deref(), Some(words));
        assert_eq!(seeking.waits_for("n1", 2 * WAITED), None);
    }
}
