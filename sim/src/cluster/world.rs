//! One run of a cluster: machines with their disks and clocks, servers that die and come back on
//! them, the network between them, clients, and the model beside them. All of it follows from the
//! seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use myelin_disk::faulty::FaultyDisk;
use myelin_stdx::rng::Rng;

use super::fast::is_end;
use super::model::StreamModel;
use super::moves::Moves;
use super::network::{Network, Parcel};
use super::node::{CLIENTS, Letter, META, NAMES, Node, peer};
use super::plan::ClusterPlan;
use crate::Counts;
use crate::clock::Clock;

pub(super) const SECOND: u64 = 1_000_000_000;
/// Lines of what happened that are kept for whoever looks at a seed that failed.
const STORY: usize = 4000;
/// One turn of a thread takes up to so many nanoseconds.
const STEP: u64 = 20_000;
/// Tells the numbers of what was not simulated at first from the others.
const EXTRAS: u64 = 0x00e7_72a5;
/// Turns at one moment that a wait may take: more is a cluster that never rests.
const TURNS: u64 = 200_000;

/// Question of a client that was not answered.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Publish { stream: usize, names: Vec<usize> },
    Fast { stream: usize, names: Vec<usize> },
    MakeStream { stream: usize },
    MakeConsumer { stream: usize },
    Scale { stream: usize, is_last: bool },
    Confirm { stream: usize, seq: u64 },
    Purge { stream: usize, below: u64 },
    Delete { stream: usize, seq: u64 },
    Look { stream: usize, subject: u64 },
    Nothing,
}

/// A question, and where its client is.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) asked: Asked,
    pub(super) home: usize,
    life: u64,
    pub(super) at: u64,
}

/// A machine, and the server on it while it runs.
pub(super) struct Machine {
    pub(super) disk: FaultyDisk,
    pub(super) clock: Arc<Clock>,
    pub(super) node: Option<Node>,
    pub(super) lives: u64,
    /// Until when nobody hears of the server, and it does nothing.
    pub(super) silent_until: u64,
    /// Since when that was so.
    pub(super) silent_from: u64,
    /// How fast its clocks go, in parts of a thousand.
    rate: u64,
    /// Nanoseconds that each piece of work with the disk takes.
    pub(super) disk_pause: u64,
    /// When it was started anew because a stream of it had failed.
    pub(super) mended: u64,
    /// Streams that it had when it last ended.
    pub(super) held: BTreeSet<String>,
}

/// Everything that a run has.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) plan: ClusterPlan,
    seed: u64,
    /// Nanoseconds since the run began.
    pub(super) now: u64,
    /// Turns and words so far: the clock of histories.
    pub(super) events: u64,
    pub(super) machines: Vec<Machine>,
    /// Names of servers in subjects.
    peers: Vec<String>,
    pub(super) network: Network,
    pub(super) streams: Vec<StreamModel>,
    pub(super) questions: BTreeMap<u64, Question>,
    asked: u64,
    /// Leaders, by group and term.
    pub(super) leaders: BTreeMap<(String, u64), usize>,
    /// Indexes that members had committed, by group and server, in this life.
    pub(super) commits: BTreeMap<(String, usize), u64>,
    /// Servers that have lost what it had confirmed, perhaps.
    pub(super) weak: BTreeSet<usize>,
    /// Numbers for all that was not simulated at first, in half of the seeds.
    pub(super) extras: Rng,
    pub(super) has_extras: bool,
    /// Changes of members, where there are any.
    pub(super) moves: Option<Moves>,
    /// Numbers for scenes, where there are any: for the first ones, and for those that came later.
    pub(super) scenes: [Option<Rng>; 3],
    pub(super) counts: Counts,
    trace: DefaultHasher,
    /// Lines, if somebody wants them.
    pub(super) story: Option<VecDeque<String>>,
}

impl World {
    pub(super) fn new(seed: u64, tells: bool) -> Self {
        let mut rng = Rng::seeded(seed);
        let mut plan = ClusterPlan::draw(&mut rng);
        let mut extras = Rng::seeded(seed ^ EXTRAS);
        let has_extras = extras.below(2) == 0;
        if has_extras {
            plan.draw_extras(&mut extras);
        }
        let moves = Moves::draw(seed, &plan);
        let scenes = Self::draw_scenes(seed, &plan);
        let machine = |number: usize, rng: &mut Rng| Machine {
            disk: FaultyDisk::new(rng.next_u64() ^ number as u64),
            clock: Arc::new(Clock::new()),
            node: None,
            lives: 0,
            silent_until: 0,
            silent_from: 0,
            rate: if plan.do_clocks_drift { 960 + rng.below(81) } else { 1000 },
            disk_pause: 0,
            mended: 0,
            held: BTreeSet::new(),
        };
        let machines = (0..plan.size).map(|number| machine(number, &mut rng)).collect();
        let peers = (0..plan.size).map(|number| peer(number).to_string()).collect();
        let streams = plan.streams.iter().cloned().map(StreamModel::new).collect();
        Self {
            network: Network::new(0, plan.is_ordered, plan.delay),
            rng,
            plan,
            seed,
            now: 0,
            events: 0,
            machines,
            peers,
            streams,
            questions: BTreeMap::new(),
            asked: 0,
            leaders: BTreeMap::new(),
            commits: BTreeMap::new(),
            weak: BTreeSet::new(),
            extras,
            has_extras,
            moves,
            scenes,
            counts: Counts::default(),
            trace: DefaultHasher::new(),
            story: tells.then(VecDeque::new),
        }
    }

    /// A hash of all that servers said to clients, of who went on when, and of all disks.
    pub(super) fn trace(&self) -> u64 {
        let mut trace = self.trace.clone();
        self.machines.iter().for_each(|machine| trace.write_u64(machine.disk.points()));
        trace.finish()
    }

    /// Adds a line to the story.
    pub(super) fn tell(&mut self, words: impl FnOnce() -> String) {
        let Some(story) = &mut self.story else { return };
        if story.len() == STORY {
            story.pop_front();
        }
        story.push_back(format!("{:>10.6} {}", self.now as f64 / 1e9, words()));
    }

    /// Numbers of all servers.
    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.machines.len()
    }

    pub(super) fn any(&mut self) -> usize {
        self.rng.below(self.machines.len() as u64) as usize
    }

    /// A server, if it runs.
    pub(super) fn node(&self, number: usize) -> Option<&Node> {
        self.machines[number].node.as_ref()
    }

    /// Starts a server on what its disk holds.
    pub(super) fn start(&mut self, number: usize) -> Result<(), String> {
        let seed = self.seed;
        self.tell(|| format!("{} starts", NAMES[number]));
        let machine = &mut self.machines[number];
        machine.lives += 1;
        let node = Node::start(&machine.disk, &self.plan, &machine.clock, number, (seed, machine.lives));
        let mut node = node.map_err(|error| format!("{} does not start: {error}", NAMES[number]))?;
        node.disk.1 = machine.disk_pause;
        machine.node = Some(node);
        machine.silent_until = 0;
        Ok(())
    }

    /// The server's process has ended, and this is what the next one finds.
    pub(super) fn end(&mut self, number: usize, disk: FaultyDisk) {
        let machine = &mut self.machines[number];
        machine.node = None;
        machine.disk = disk;
        self.network.drop_for(number);
        self.commits.retain(|(_, at), _| *at != number);
        self.counts.deaths += 1;
    }

    fn advance(&mut self, by: u64) {
        self.now += by;
        for machine in &self.machines {
            let due = self.now * machine.rate / 1000;
            machine.clock.pass(due.saturating_sub(machine.clock.elapsed()));
        }
    }

    /// Lets somebody go on that has something to do. `false`: all wait.
    pub(super) fn turn(&mut self) -> Result<bool, String> {
        let mut ready = [usize::MAX; 8];
        let mut count = 0;
        for (number, machine) in self.machines.iter().enumerate() {
            let is_silent = machine.silent_until > self.now;
            if !is_silent && machine.node.as_ref().is_some_and(Node::is_ready) {
                ready[count] = number;
                count += 1;
            }
        }
        if self.network.next_due().is_some_and(|due| due <= self.now) {
            ready[count] = usize::MAX;
            count += 1;
        }
        if count == 0 {
            return Ok(false);
        }
        let step = self.rng.below(STEP);
        self.advance(step);
        self.events += 1;
        self.counts.turns += 1;
        match ready[self.rng.below(count as u64) as usize] {
            usize::MAX => self.deliver()?,
            number => self.step(number)?,
        }
        Ok(true)
    }

    fn step(&mut self, number: usize) -> Result<(), String> {
        let Self { machines, rng, .. } = self;
        let Some(node) = &mut machines[number].node else { return Ok(()) };
        let part = node.step(rng).unwrap_or(99);
        self.trace.write_u64(part << 8 | number as u64);
        if let Some(panic) = node.host.take_panics().first() {
            return Err(format!("{}: a panic was caught: {panic}", NAMES[number]));
        }
        if let Some(why) = node.failed.take().filter(|_| !self.plan.do_disks_fail) {
            return Err(format!("{}: a replica has failed, and no disk has: {why}", NAMES[number]));
        }
        let (letters, ended) = (node.take_letters(), node.ended.take());
        for letter in letters {
            self.sort(number, letter)?;
        }
        if let Some(why) = ended {
            self.tell(|| format!("{} has ended: {why}", NAMES[number]));
            if !self.plan.do_disks_fail {
                return Err(format!("{} has ended by itself: {why}", NAMES[number]));
            }
            let disk = self.machines[number].disk.kill();
            self.end(number, disk);
        }
        Ok(())
    }

    /// A letter leaves a server: for others, or for clients.
    fn sort(&mut self, from: usize, letter: Letter) -> Result<(), String> {
        if letter.account == CLIENTS {
            return self.answered(from, letter);
        }
        if letter.subject.starts_with(META) {
            for to in self.all().filter(|&to| to != from) {
                let meta = self.node(to).and_then(|node| node.jetstream.meta_group());
                if meta.is_some_and(|meta| meta.leads) {
                    self.post(from, to, letter.clone(), false);
                }
            }
            return Ok(());
        }
        let named = [b"_ask_.".as_slice(), b"_asked_.", b"_answer_."]
            .iter()
            .find_map(|kind| letter.subject.strip_prefix(*kind));
        let named = named.unwrap_or(&letter.subject);
        let to = self.peers.iter().position(|peer| named.starts_with(peer.as_bytes()));
        if let Some(to) = to.filter(|&to| to != from) {
            self.post(from, to, letter, false);
        }
        Ok(())
    }

    fn post(&mut self, from: usize, to: usize, letter: Letter, is_answer: bool) {
        let Self { network, rng, now, .. } = self;
        network.send(rng, *now, Parcel { from, to, letter, is_answer });
    }

    fn deliver(&mut self) -> Result<(), String> {
        let Some(parcel) = self.network.take(self.now) else { return Ok(()) };
        let machine = &mut self.machines[parcel.to];
        if machine.silent_until > self.now {
            let until = machine.silent_until;
            self.network.put_off(until, parcel);
            return Ok(());
        }
        if parcel.is_answer {
            return self.client_hears(&parcel.letter);
        }
        if let Some(node) = &mut machine.node {
            node.receive(&parcel.letter);
        }
        Ok(())
    }

    /// A server has said something to a client, which may be at another one.
    fn answered(&mut self, from: usize, letter: Letter) -> Result<(), String> {
        self.trace.write(&letter.subject);
        self.trace.write(&letter.payload);
        self.check_said(from, &letter)?;
        let question = tag_of(&letter.subject).and_then(|tag| self.questions.get(&tag));
        let Some(question) = question else { return Ok(()) };
        let (home, life) = (question.home, question.life);
        if self.machines[home].lives == life && self.machines[home].node.is_some() {
            self.post(from, home, letter, true);
        }
        Ok(())
    }

    fn client_hears(&mut self, letter: &Letter) -> Result<(), String> {
        let Some(tag) = tag_of(&letter.subject) else { return Ok(()) };
        let is_fast = |question: &Question| matches!(question.asked, Asked::Fast { .. });
        if self.questions.get(&tag).is_some_and(is_fast) && !is_end(letter) {
            return Ok(());
        }
        let Some(question) = self.questions.remove(&tag) else { return Ok(()) };
        if self.machines[question.home].lives != question.life {
            return Ok(());
        }
        self.heard(&question, letter)
    }

    /// A client at some server asks, and every server hears that has interest.
    pub(super) fn ask(
        &mut self,
        asked: Asked,
        home: usize,
        to: &[usize],
        (subject, payload): (&str, &str),
    ) -> u64 {
        self.asked += 1;
        self.events += 1;
        let (tag, life, at) = (self.asked, self.machines[home].lives, self.events);
        self.tell(|| format!("{tag} {asked:?} at {} to {to:?}", NAMES[home]));
        self.questions.insert(tag, Question { asked, home, life, at });
        let letter = Letter {
            account: CLIENTS,
            subject: subject.into(),
            reply: format!("R.{tag}").into_bytes(),
            headers: Vec::new(),
            payload: payload.into(),
        };
        to.iter().for_each(|&to| self.post(home, to, letter.clone(), false));
        tag
    }

    /// A client says something, whose answer goes to `reply`.
    pub(super) fn say(&mut self, home: usize, to: &[usize], letter: &Letter) {
        to.iter().for_each(|&to| self.post(home, to, letter.clone(), false));
    }

    /// Somewhere a client can be.
    pub(super) fn home(&mut self) -> Option<usize> {
        let running: Vec<usize> = self.running();
        let at = self.rng.below(running.len().max(1) as u64) as usize;
        running.get(at).copied()
    }

    /// Servers that run and are not silent.
    pub(super) fn running(&self) -> Vec<usize> {
        let is_awake = |&number: &usize| {
            self.machines[number].node.is_some() && self.machines[number].silent_until <= self.now
        };
        self.all().filter(is_awake).collect()
    }

    /// Servers that lead a stream, as far as they know.
    pub(super) fn leading(&self, stream: usize) -> Vec<usize> {
        let name = &self.streams[stream].plan.name;
        self.all().filter(|&number| self.node(number).is_some_and(|node| node.leads(name))).collect()
    }

    /// Between turns somebody may have done something to servers and clocks.
    fn touch(&self) {
        self.machines.iter().filter_map(|machine| machine.node.as_ref()).for_each(Node::touch);
    }

    /// Lets turns happen, but no time pass beyond what they take.
    pub(super) fn turns(&mut self, turns: u64) -> Result<(), String> {
        self.touch();
        for _ in 0..turns {
            if !self.turn()? {
                break;
            }
        }
        Ok(())
    }

    /// Lets everything happen that is due within so many nanoseconds.
    pub(super) fn pass(&mut self, time: u64) -> Result<(), String> {
        self.pass_until(time, |_| false)
    }

    /// Lets everything happen that is due within so many nanoseconds, or until something is the
    /// case.
    pub(super) fn pass_until(&mut self, time: u64, is_over: impl Fn(&Self) -> bool) -> Result<(), String> {
        self.touch();
        let until = self.now + time;
        let mut turns = 0;
        while self.now < until {
            if self.turn()? {
                turns += 1;
                if turns > TURNS {
                    return Err("the cluster never rests".to_owned());
                }
                if is_over(self) {
                    break;
                }
                continue;
            }
            let next = self.next_event().unwrap_or(until).clamp(self.now + 1, until.max(self.now + 1));
            let by = next - self.now;
            self.advance(by);
        }
        Ok(())
    }

    /// When something happens next.
    fn next_event(&self) -> Option<u64> {
        let of_machines = self.machines.iter().filter_map(|machine| {
            let node = machine.node.as_ref()?;
            let sleep = node.sleep()?;
            let own = self.now + (sleep * 1000).div_ceil(machine.rate).max(1);
            Some(own.max(machine.silent_until))
        });
        of_machines.chain(self.network.next_due()).min()
    }

    /// Words for how all servers see their groups.
    pub(super) fn statuses(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for number in self.all() {
            let Some(node) = self.node(number) else {
                lines.push(format!("{} does not run", NAMES[number]));
                continue;
            };
            for view in node.groups() {
                let status = &view.status;
                lines.push(format!(
                    "{} {}: {:?} term {} last {} persisted {} committed {} amnesiac {} of {}",
                    NAMES[number],
                    view.name,
                    status.role,
                    status.term,
                    status.last,
                    status.persisted,
                    status.committed,
                    status.is_amnesiac,
                    view.leader
                ));
            }
            for model in &self.streams {
                let live = node.stream(&model.plan.name);
                let failure = live.as_ref().and_then(|live| live.failure());
                let totals = live.map(|live| live.reader().state().totals);
                let totals = totals.map(|totals| (totals.messages, totals.first_seq, totals.last_seq));
                lines.push(format!("{} {}: {totals:?} {failure:?}", NAMES[number], model.plan.name));
            }
            let said = node.host.lines();
            lines.extend(said[said.len().saturating_sub(12)..].iter().map(|line| format!("    {line}")));
        }
        lines
    }

    /// The cluster, and its last lines.
    pub(super) fn summary(&self) -> Vec<String> {
        let mut lines = vec![format!("{:?}", self.plan)];
        lines.extend(self.story.iter().flatten().cloned());
        let wanted = |at: usize| {
            let leading: Vec<&str> = self.leading(at).into_iter().map(|number| NAMES[number]).collect();
            format!("S{at}: of {} replicas, led by {leading:?}", self.streams[at].wanted)
        };
        lines.extend((0..self.streams.len()).map(wanted));
        lines.extend(self.statuses());
        lines
    }
}

/// Number of the question that a subject belongs to.
pub(super) fn tag_of(subject: &[u8]) -> Option<u64> {
    std::str::from_utf8(subject).ok()?.strip_prefix("R.")?.split('.').next()?.parse().ok()
}
