//! Random lives of a cluster, or of clusters and their leaf nodes, round after round: subscriptions
//! change, servers and links come and go, all of it settles, messages are published, and the model
//! judges what came.

use crate::client::Delivery;
use crate::links::LinkState;
use crate::model::{Model, SentMessage, Subscription};
use crate::{Client, Cluster, ClusterPlan, Error, Topology};
use myelin_stdx::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Clients of all servers together, at most.
const CLIENTS: usize = 12;
/// Subscriptions of a client that are there from the start.
const FENCE: u64 = 1;
const INBOX: u64 = 2;
/// Requests are answered below it, and nothing else is published there.
const SERVICE: &str = "svc";

/// Kinds of topologies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One cluster.
    Cluster,
    /// Clusters that are leaf nodes of each other.
    Leafs,
    /// Clusters that are joined by gateways, and others that are their leaf nodes.
    Gateways,
}

/// How a life goes.
#[derive(Clone, Debug)]
pub struct RandomPlan {
    /// The programs of the servers, in turns.
    pub programs: Vec<PathBuf>,
    /// How many servers.
    pub servers: usize,
    /// Kind of the topology that they form.
    pub shape: Shape,
    /// Modes of compression, of which each server has one.
    pub modes: Vec<String>,
    /// Whether nothing at all may come twice: nats-servers that find each other do send twice.
    pub is_strict: bool,
    /// The seed.
    pub seed: u64,
    /// For how long.
    pub duration: Duration,
    /// Rounds, at most.
    pub rounds: u64,
}

/// Counts of a life.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Rounds.
    pub rounds: u64,
    /// Messages that were published.
    pub published: u64,
    /// Messages that came, requests aside.
    pub delivered: u64,
    /// Of those, messages that came from another server.
    pub crossed: u64,
    /// Requests.
    pub requests: u64,
    /// Servers killed, stopped and started, links cut, healed and stalled.
    pub faults: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, published, delivered, crossed, requests, faults } = self;
        write!(
            f,
            "{rounds} rounds, {published} published, {delivered} delivered ({crossed} over a link), \
             {requests} requests, {faults} faults"
        )
    }
}

/// A client with what it is doing.
struct Member {
    client: Client,
    server: usize,
    /// Deliveries that were looked at.
    read: usize,
    /// Messages that it has published.
    published: u64,
}

struct Life {
    cluster: Cluster,
    model: Model,
    rng: Rng,
    members: BTreeMap<u64, Member>,
    /// Numbers of clients, and of fences.
    next: u64,
    /// Replies and fences that have come: the client, and the payload.
    replies: BTreeMap<(u64, String), u64>,
    fences: BTreeSet<(u64, String)>,
    summary: Summary,
    /// Configurations of the servers, and everything that was done in this round, for who has to
    /// find out.
    story: Vec<String>,
}

/// Lives a life.
///
/// # Errors
/// Faults, with everything that was done in the round, and the folder of the logs.
pub fn live(plan: &RandomPlan) -> Result<Summary, Error> {
    let mut rng = Rng::seeded(plan.seed);
    let pool = ["pool_size: -1", "pool_size: 1", "", "pool_size: 5"][rng.below(4) as usize];
    if plan.modes.is_empty() {
        return Err("there is no mode of compression to choose from".into());
    }
    let topology = match plan.shape {
        Shape::Cluster => Topology::cluster(plan.servers),
        shape => Topology::random(&mut rng, plan.servers, !plan.is_strict, shape == Shape::Gateways),
    };
    let mut of = ClusterPlan::shaped(&plan.programs, topology);
    (of.cluster, of.leafs) = (0..plan.servers)
        .map(|_| {
            let mode = &plan.modes[rng.below(plan.modes.len() as u64) as usize];
            (format!("{pool}\n  compression: {mode}"), format!("compression: {mode}"))
        })
        .unzip();
    let cluster = Cluster::start(&of)?;
    let mut life = Life {
        cluster,
        model: Model::new(plan.is_strict),
        rng,
        members: BTreeMap::new(),
        next: 1,
        replies: BTreeMap::new(),
        fences: BTreeSet::new(),
        summary: Summary::default(),
        story: vec![format!("{:?}, {:?}", of.cluster, of.topology)],
    };
    let start = Instant::now();
    while start.elapsed() < plan.duration && life.summary.rounds < plan.rounds {
        if let Err(why) = life.round() {
            let folder = life.cluster.keep_folder();
            let mut story = life.story.join("\n  ");
            for (id, one) in life.model.subscriptions() {
                let _ = write!(story, "\n  at the end {id:?}: {one:?}");
            }
            let (round, seed) = (life.summary.rounds, plan.seed);
            return Err(format!(
                "seed {seed}, round {round}: {why}\nwhat was done:\n  {story}\nlogs: {}",
                folder.display()
            )
            .into());
        }
        life.story.truncate(1);
        life.summary.rounds += 1;
    }
    Ok(life.summary)
}

impl Life {
    fn round(&mut self) -> Result<(), Error> {
        for _ in 0..self.rng.below(12) + 2 {
            self.change()?;
        }
        if self.rng.below(2) == 0 {
            self.trouble()?;
        }
        for member in self.members.values() {
            member.client.settle()?;
        }
        self.cluster.settle()?;
        let stalled = self.stall();
        let count = self.rng.below(300) + 1;
        self.publish(count, true);
        self.request();
        if let Some((one, other)) = stalled {
            self.cluster.links().set(one, other, LinkState::Whole);
        }
        self.answers()?;
        self.fence()?;
        let crashed = self.cluster.crashed();
        if !crashed.is_empty() {
            return Err(format!("servers {crashed:?} have ended by themselves").into());
        }
        let faults = self.model.check();
        if faults.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = faults.iter().take(20).map(ToString::to_string).collect();
        Err(format!("{} faults:\n  {}", faults.len(), lines.join("\n  ")).into())
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.rng.below(all.len() as u64) as usize]) }
    }

    fn any_member(&mut self) -> Option<u64> {
        let all: Vec<u64> = self.members.keys().copied().collect();
        self.one_of(&all)
    }

    /// A subject to publish to, or with wildcards.
    fn subject(&mut self, is_pattern: bool) -> String {
        let mut subject = "t".to_owned();
        for _ in 0..=self.rng.below(3) {
            let token = match self.rng.below(8) {
                0 | 1 if is_pattern => "*",
                n => ["a", "b", "c"][n as usize % 3],
            };
            subject.push('.');
            subject.push_str(token);
        }
        if is_pattern && self.rng.below(4) == 0 {
            subject.push_str(".>");
        }
        subject
    }

    fn change(&mut self) -> Result<(), Error> {
        match self.rng.below(16) {
            0..=3 if self.members.len() < CLIENTS => self.connect(),
            _ if self.members.len() < 2 => self.connect(),
            4 => {
                self.disconnect();
                Ok(())
            }
            5..=7 => self.unsubscribe(),
            8 => {
                self.serve();
                Ok(())
            }
            _ => self.subscribe(),
        }
    }

    fn connect(&mut self) -> Result<(), Error> {
        let running = self.cluster.running();
        let Some(server) = self.one_of(&running) else { return Ok(()) };
        let id = self.next;
        self.next += 1;
        let mut client = self.cluster.client(server)?;
        client.subscribe("fence", None);
        client.subscribe(&format!("inbox.{id}.*"), None);
        self.story.push(format!("client {id} connects to {server}"));
        self.members.insert(id, Member { client, server, read: 0, published: 0 });
        Ok(())
    }

    fn disconnect(&mut self) {
        let Some(id) = self.any_member() else { return };
        self.story.push(format!("client {id} leaves"));
        self.forget(|member, _| member == id);
    }

    /// Drops clients, with all that they are subscribed to.
    fn forget(&mut self, is_gone: impl Fn(u64, usize) -> bool) {
        self.drain();
        let gone: BTreeSet<u64> =
            self.members.iter().filter(|(id, one)| is_gone(**id, one.server)).map(|(id, _)| *id).collect();
        self.members.retain(|id, _| !gone.contains(id));
        self.model.unsubscribe(|(client, _), _| gone.contains(&client));
    }

    fn subscribe(&mut self) -> Result<(), Error> {
        let Some(id) = self.any_member() else { return Ok(()) };
        let subject = self.subject(true);
        let queue = (self.rng.below(2) == 0).then(|| format!("queue{}", self.rng.below(3)));
        let left = (queue.is_none() && self.rng.below(6) == 0).then(|| self.rng.below(50) + 1);
        let Some(member) = self.members.get_mut(&id) else { return Ok(()) };
        let sid = member.client.subscribe(&subject, queue.as_deref());
        if let Some(left) = left {
            member.client.unsubscribe(sid, Some(left));
            // A maximum holds from when the server has read it, and messages that are published
            // right after this may come between SUB and UNSUB.
            member.client.settle()?;
        }
        self.story.push(format!("client {id} subscribes to {subject} as {sid}, {queue:?}, at most {left:?}"));
        self.model.subscribe((id, sid), Subscription { server: member.server, subject, queue, left });
        Ok(())
    }

    fn serve(&mut self) {
        let Some(id) = self.any_member() else { return };
        let subject = format!("{SERVICE}.{}", ["a", "b", "*"][self.rng.below(3) as usize]);
        let Some(member) = self.members.get_mut(&id) else { return };
        let sid = member.client.serve(&subject, SERVICE);
        self.story.push(format!("client {id} serves {subject} as {sid}"));
        let queue = Some(SERVICE.to_owned());
        self.model.subscribe((id, sid), Subscription { server: member.server, subject, queue, left: None });
    }

    fn unsubscribe(&mut self) -> Result<(), Error> {
        let all: Vec<(u64, u64)> = self.model.subscriptions().keys().copied().collect();
        let Some((id, sid)) = self.one_of(&all) else { return Ok(()) };
        let Some(member) = self.members.get(&id) else { return Ok(()) };
        member.client.unsubscribe(sid, None);
        member.client.settle()?;
        self.drain();
        self.story.push(format!("client {id} unsubscribes {sid}"));
        self.model.unsubscribe(|one, _| one == (id, sid));
        Ok(())
    }

    /// Something happens to servers or links, while messages are published.
    fn trouble(&mut self) -> Result<(), Error> {
        for _ in 0..self.rng.below(3) + 1 {
            let count = self.rng.below(100);
            self.publish(count, false);
            let all: Vec<usize> = (0..self.cluster.size()).collect();
            let pairs = self.cluster.topology().pairs();
            let Some(one) = self.one_of(&all) else { return Ok(()) };
            self.summary.faults += 1;
            let is_running = self.cluster.running().contains(&one);
            match self.rng.below(8) {
                _ if !is_running => {
                    self.story.push(format!("server {one} starts"));
                    match self.cluster.start_server(one) {
                        // Another program has its port: it stays down for now.
                        Err(why) if why.to_string().contains("already in use") => {
                            self.story.push(format!("server {one} has no port"));
                        }
                        started => started?,
                    }
                }
                0..=2 if self.cluster.running().len() > 1 => {
                    let is_killed = self.rng.below(2) == 0;
                    self.story.push(format!("server {one} ends, killed: {is_killed}"));
                    if is_killed {
                        self.cluster.kill(one);
                    } else {
                        self.cluster.stop(one)?;
                    }
                    self.forget(|_, server| server == one);
                }
                3 | 4 => {
                    if let Some((one, other)) = self.one_of(&pairs) {
                        self.link(one, other, LinkState::Cut);
                    }
                }
                _ => {
                    let cut: Vec<_> = pairs
                        .into_iter()
                        .filter(|(one, other)| self.cluster.links().state(*one, *other) == LinkState::Cut)
                        .collect();
                    if let Some((one, other)) = self.one_of(&cut) {
                        self.link(one, other, LinkState::Whole);
                    }
                }
            }
            let count = self.rng.below(100);
            self.publish(count, false);
        }
        Ok(())
    }

    fn link(&mut self, one: usize, other: usize, state: LinkState) {
        self.story.push(format!("link {one}-{other}: {state:?}"));
        self.cluster.links().set(one, other, state);
    }

    /// Stalls a link, now and then.
    fn stall(&mut self) -> Option<(usize, usize)> {
        if self.rng.below(4) > 0 {
            return None;
        }
        let pairs = self.cluster.topology().pairs();
        let (one, other) = self.one_of(&pairs)?;
        if !self.cluster.is_linked(one, other) {
            return None;
        }
        self.summary.faults += 1;
        self.link(one, other, LinkState::Stalled);
        Some((one, other))
    }

    fn publish(&mut self, count: u64, is_certain: bool) {
        self.story.push(format!("{count} messages, certain: {is_certain}"));
        for _ in 0..count {
            let Some(id) = self.any_member() else { return };
            let subject = self.subject(false);
            let size = match self.rng.below(40) {
                0 => self.rng.below(100_000),
                1..=5 => self.rng.below(5000),
                _ => self.rng.below(64),
            };
            self.send(id, &subject, None, size as usize, is_certain);
        }
    }

    /// Publishes one message, and tells the model first.
    fn send(&mut self, id: u64, subject: &str, reply: Option<&str>, size: usize, is_certain: bool) {
        let Some(server) = self.members.get(&id).map(|member| member.server) else { return };
        let reaches = is_certain.then(|| self.cluster.reach(server));
        let Some(member) = self.members.get_mut(&id) else { return };
        member.published += 1;
        let sequence = member.published;
        self.model.publish(SentMessage { id: (id, sequence), subject: subject.to_owned(), reaches });
        let mut payload = format!("{id} {sequence} ").into_bytes();
        payload.resize(payload.len() + size, b'.');
        member.client.publish(subject, reply, &payload);
        self.summary.published += 1;
    }

    /// Sends requests: each member one or none.
    fn request(&mut self) {
        self.replies.clear();
        let members: Vec<u64> = self.members.keys().copied().collect();
        for id in members {
            if self.rng.below(3) == 0 {
                continue;
            }
            let subject = format!("{SERVICE}.{}", ["a", "b", "c"][self.rng.below(3) as usize]);
            let Some(member) = self.members.get(&id) else { continue };
            let reach = self.cluster.reach(member.server);
            let of_all = format!("{SERVICE}.*");
            let serving: BTreeSet<usize> = self
                .model
                .subscriptions()
                .values()
                .filter(|one| one.subject == subject || one.subject == of_all)
                .map(|one| one.server)
                .collect();
            let hearers = self.cluster.hearers(member.server);
            if serving.intersection(&reach.may).any(|server| !hearers.contains(server)) {
                // The reply might find no way back.
                continue;
            }
            let is_served = serving.iter().any(|server| reach.must.contains(server));
            if self.is_of_gateways(member.server, is_served) {
                continue;
            }
            let name = member.published + 1;
            self.summary.requests += 1;
            let expected = if is_served { format!("{id} {name}") } else { "503".to_owned() };
            self.replies.insert((id, format!("{name} {expected}")), 0);
            self.send(id, &subject, Some(&format!("inbox.{id}.{name}")), 8, true);
        }
    }

    /// Whether it depends on gateways what becomes of a request, in ways that are not promised.
    ///
    /// Compat: a leaf node of nats-server goes on to be told of what another cluster wanted whose
    /// gateway was cut, and so nobody refuses what it asks for.
    fn is_of_gateways(&self, asks: usize, is_served: bool) -> bool {
        let topology = self.cluster.topology();
        let is_leaf = !topology.joined.contains(&topology.clusters[asks]);
        !topology.joined.is_empty() && !is_served && is_leaf && !self.model.is_strict()
    }

    /// Waits for the replies.
    fn answers(&mut self) -> Result<(), Error> {
        let waited = crate::wait_for("replies", || {
            self.drain();
            self.replies.values().all(|count| *count > 0).then_some(())
        });
        match self.replies.iter().find(|(_, count)| **count != 1) {
            Some(((id, what), count)) => {
                Err(format!("client {id} had {count} replies to its request {what}").into())
            }
            None => waited,
        }
    }

    /// Sends one message from each to each behind everything else, and waits until they are there.
    fn fence(&mut self) -> Result<(), Error> {
        self.fences.clear();
        self.next += 1;
        let fence = self.next;
        for (id, member) in &self.members {
            member.client.publish("fence", None, format!("{id} {fence}").as_bytes());
        }
        let mut expected = BTreeSet::new();
        for (to, receiver) in &self.members {
            for (from, sender) in &self.members {
                if self.cluster.hearers(receiver.server).contains(&sender.server) {
                    expected.insert((*to, format!("{from} {fence}")));
                }
            }
        }
        crate::wait_for("fences", || {
            self.drain();
            expected.is_subset(&self.fences).then_some(())
        })
        .map_err(|why| {
            let missing: Vec<_> = expected.difference(&self.fences).take(5).collect();
            format!("{why}; missing {missing:?}").into()
        })
    }

    /// Tells the model of everything that has come.
    fn drain(&mut self) {
        let servers: BTreeMap<u64, usize> = self.members.iter().map(|(id, one)| (*id, one.server)).collect();
        for (id, member) in &mut self.members {
            let all = member.client.deliveries(member.read);
            member.read += all.len();
            for delivery in all {
                match delivery.sid {
                    FENCE => {
                        let payload = String::from_utf8_lossy(&delivery.payload).into_owned();
                        self.fences.insert((*id, payload));
                    }
                    INBOX => {
                        let reply = reply_of(&delivery);
                        *self.replies.entry((*id, reply)).or_default() += 1;
                    }
                    sid => {
                        let message = numbers(&delivery.payload);
                        self.summary.delivered += 1;
                        let is_crossed = servers.get(&message.0).is_some_and(|from| *from != member.server);
                        self.summary.crossed += u64::from(is_crossed);
                        self.model.deliver((*id, sid), message, &delivery.subject);
                    }
                }
            }
        }
    }
}

/// The two numbers that a payload begins with; what has none is nobody's.
fn numbers(payload: &[u8]) -> (u64, u64) {
    let start = &payload[..payload.len().min(64)];
    let text = String::from_utf8_lossy(start);
    let mut words = text.split(' ').map(|word| word.parse().unwrap_or_default());
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

/// Which request was answered, and how.
fn reply_of(delivery: &Delivery) -> String {
    let name = delivery.subject.rsplit('.').next().unwrap_or_default();
    if delivery.headers.starts_with("NATS/1.0 503") {
        return format!("{name} 503");
    }
    let (id, sequence) = numbers(&delivery.payload);
    format!("{name} {id} {sequence}")
}
