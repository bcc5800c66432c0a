//! Choice of servers for a stream among those of one cluster, in which all its replicas are.

use super::placement_facts::{Causes, Choice, FactsByServer};
use super::{Meta, placement::ServerLoads};
use crate::engine::host::PlacementFacts;
use myelin_jsapi::config::{Placement, StreamConfig};

/// Server of the group as one that may get a stream.
pub(super) struct CandidateServer<'a> {
    name: String,
    cluster: String,
    is_there: bool,
    /// Replicas that it has, or is about to get.
    replicas: usize,
    facts: Option<&'a PlacementFacts>,
}

/// Stream for which servers are chosen.
pub(super) struct PlacedStream<'a> {
    pub(super) config: &'a StreamConfig,
    /// The cluster of all of them.
    pub(super) cluster: &'a str,
    pub(super) replicas: usize,
}

impl PlacedStream<'_> {
    fn placement(&self) -> Placement {
        self.config.placement.clone().unwrap_or_default()
    }

    /// Servers for a new stream, those that are there before others.
    ///
    /// # Errors
    /// There are not so many that suit.
    pub(super) fn choose(&self, all: &[CandidateServer<'_>]) -> Result<Vec<String>, Causes> {
        let (replicas, placement) = (self.replicas, self.placement());
        let here: Vec<&CandidateServer<'_>> = all.iter().filter(|one| one.cluster == self.cluster).collect();
        let mut choice = Choice::new(self.config, &placement);
        for server in here.iter().filter(|_| replicas <= here.len()) {
            choice.causes.is_offline |= !server.is_there;
            let has = i64::try_from(server.replicas).unwrap_or(i64::MAX);
            choice.offer(&server.name, server.facts, |known| {
                known.max_ha_assets > 0 && replicas > 1 && has >= known.max_ha_assets
            });
        }
        let Choice { servers: mut chosen, causes, .. } = choice;
        chosen.truncate(replicas);
        let there = here.iter().filter(|one| one.is_there && chosen.contains(&one.name)).count();
        if chosen.len() < replicas || there * 2 <= replicas { Err(causes) } else { Ok(chosen) }
    }

    /// As many servers as replicas: those that have the stream, and others that suit and are there.
    /// A change goes no further without a log on each of those that come.
    ///
    /// # Errors
    /// There are not so many.
    pub(super) fn choose_beside(
        &self,
        present: &[String],
        not: &[String],
        (all, facts): (&[CandidateServer<'_>], &FactsByServer),
    ) -> Result<Vec<String>, Causes> {
        let (replicas, placement) = (self.replicas, self.placement());
        let is_another = |one: &&CandidateServer<'_>| {
            one.cluster == self.cluster && !present.contains(&one.name) && !not.contains(&one.name)
        };
        let mut choice = Choice::new(self.config, &placement);
        present.iter().for_each(|server| choice.keep(server, facts.get(server)));
        let others = all.iter().filter(is_another);
        others.for_each(|one| choice.offer(&one.name, one.facts, |_| false));
        let Choice { servers: mut placed, mut causes, .. } = choice;
        placed.truncate(replicas);
        if placed.len() < replicas {
            return Err(causes);
        }
        let is_there = |server: &String| all.iter().any(|one| one.name == *server && one.is_there);
        let is_gone = |server: &String| !present.contains(server) && !is_there(server);
        if placed.iter().any(is_gone)
            || placed.iter().filter(|server| is_there(server)).count() * 2 <= replicas
        {
            causes.is_offline = true;
            return Err(causes);
        }
        Ok(placed)
    }
}

impl Meta {
    /// Servers of the group: those that are there first, then those with the fewest replicas.
    pub(super) fn candidates<'f>(
        &self,
        facts: &'f FactsByServer,
        more: &ServerLoads,
    ) -> Vec<CandidateServer<'f>> {
        let (view, servers) = (self.view(), self.servers());
        let candidate = |name: &String| CandidateServer {
            cluster: self.cluster_of(name),
            is_there: self.has(name),
            replicas: view.replicas_on(name) + more.of(name),
            facts: facts.get(name),
            name: name.clone(),
        };
        let mut all: Vec<_> = servers.iter().map(candidate).collect();
        in_order(&mut all);
        all
    }
}

fn in_order(all: &mut [CandidateServer<'_>]) {
    all.sort_by(|one, other| {
        let key = |of: &CandidateServer<'_>| (!of.is_there, of.replicas);
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    static NO_FACTS: FactsByServer = FactsByServer::new();

    /// Servers `a1` to `a3` and `b1` to `b3`, those named with so many replicas; `gone` are away.
    fn servers<'f>(
        loads: &[(&str, usize)],
        gone: &[&str],
        facts: &'f FactsByServer,
    ) -> Vec<CandidateServer<'f>> {
        let all = ["a1", "a2", "a3", "b1", "b2", "b3"].map(|name| CandidateServer {
            name: name.to_owned(),
            cluster: name[..1].to_uppercase(),
            is_there: !gone.contains(&name),
            replicas: loads.iter().find(|(of, _)| *of == name).map_or(0, |(_, load)| *load),
            facts: facts.get(name),
        });
        let mut all = Vec::from(all);
        in_order(&mut all);
        all
    }

    fn stream(tags: &[&str]) -> StreamConfig {
        let tags = (!tags.is_empty()).then(|| tags.iter().map(|&tag| tag.to_owned()).collect());
        StreamConfig {
            placement: Some(Placement { tags, ..Placement::default() }),
            ..StreamConfig::default()
        }
    }

    fn outcome(chosen: Result<Vec<String>, Causes>) -> Result<String, String> {
        let words =
            |causes: Causes| causes.error().description.replace("no suitable peers for placement", "no");
        chosen.map(|servers| servers.join(" ")).map_err(words)
    }

    fn choose(wanted: (&StreamConfig, &str, usize), all: &[CandidateServer<'_>]) -> Result<String, String> {
        let (config, cluster, replicas) = wanted;
        outcome(PlacedStream { config, cluster, replicas }.choose(all))
    }

    #[test]
    fn a_new_stream_has_servers_of_one_cluster() {
        let config = stream(&[]);
        // Those of the other cluster have less to do.
        let all = servers(&[("a1", 5), ("a2", 4), ("a3", 6)], &[], &NO_FACTS);
        assert_eq!(choose((&config, "A", 2), &all), Ok("a2 a1".into()));
        assert_eq!(choose((&config, "B", 3), &all), Ok("b1 b2 b3".into()));
        assert_eq!(choose((&config, "B", 4), &all), Err("no".into()), "six are there, of two clusters");
        assert_eq!(choose((&config, "C", 1), &all), Err("no".into()));
        let all = servers(&[], &["b1", "b2"], &NO_FACTS);
        assert_eq!(choose((&config, "B", 3), &all), Err("no, peer offline".into()));
        assert_eq!(choose((&config, "A", 3), &all), Ok("a1 a2 a3".into()), "there nobody is away");
    }

    #[test]
    fn tags_and_limits_count_within_a_cluster() {
        let known = |tags: &[&str]| PlacementFacts {
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            unique_prefix: "az:".to_owned(),
            max_ha_assets: 3,
            ..PlacementFacts::default()
        };
        let tags = [["az:1", "x"], ["az:1", "y"], ["az:2", "x"], ["az:1", "x"], ["az:2", "y"], ["az:3", "x"]];
        let names = ["a1", "a2", "a3", "b1", "b2", "b3"];
        let facts: FactsByServer =
            names.iter().zip(tags).map(|(name, tags)| ((*name).to_owned(), known(&tags))).collect();
        let all = servers(&[("b3", 2)], &[], &facts);
        assert_eq!(choose((&stream(&[]), "A", 2), &all), Ok("a1 a3".into()));
        assert_eq!(choose((&stream(&[]), "A", 3), &all), Err("no, server tag not unique".into()));
        assert_eq!(choose((&stream(&[]), "B", 3), &all), Ok("b1 b2 b3".into()));
        assert_eq!(choose((&stream(&["x"]), "B", 2), &all), Ok("b1 b3".into()));
        assert_eq!(choose((&stream(&["z"]), "B", 1), &all), Err("no, tags not matched ['z']".into()));
        let large = StreamConfig { max_bytes: 10, ..stream(&["x"]) };
        let refused = "no, insufficient storage, tags not matched ['x']";
        assert_eq!(choose((&large, "B", 1), &all), Err(refused.into()), "tags are looked at first");
        let all = servers(&[("b1", 3)], &[], &facts);
        assert_eq!(choose((&stream(&[]), "B", 3), &all), Err("no, miscellaneous issue".into()));
        assert_eq!(choose((&stream(&[]), "A", 2), &all), Ok("a1 a3".into()));
    }

    #[test]
    fn others_for_a_stream_that_is_there_are_of_its_cluster() {
        let config = stream(&[]);
        let beside = |present: &[&str], not: &[&str], (cluster, replicas, gone): (&str, usize, &[&str])| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let all = servers(&[("b1", 9), ("b2", 9), ("b3", 8)], gone, &NO_FACTS);
            let wanted = PlacedStream { config: &config, cluster, replicas };
            outcome(wanted.choose_beside(&owned(present), &owned(not), (&all, &NO_FACTS)))
        };
        assert_eq!(beside(&["b1"], &[], ("B", 2, &[])), Ok("b1 b3".into()));
        assert_eq!(beside(&["b1"], &["b3"], ("B", 2, &[])), Ok("b1 b2".into()));
        assert_eq!(beside(&["b1"], &["b3", "b2"], ("B", 2, &[])), Err("no".into()), "A is another cluster");
        assert_eq!(beside(&["b1"], &[], ("B", 3, &["b3"])), Err("no, peer offline".into()));
        assert_eq!(beside(&[], &[], ("A", 3, &[])), Ok("a1 a2 a3".into()), "wholly to another one");
    }
}
