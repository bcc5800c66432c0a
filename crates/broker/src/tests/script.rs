//! Random scripts for the model test: what clients send, in which pieces, and when shards flush.

use super::net::login;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// The shard of each client.
pub(super) const CLIENTS: [usize; 5] = [0, 0, 1, 1, 0];

/// Users `a` and `c` share an account; `c` is restricted, see `model`.
pub(super) const USERS: [&str; 3] = ["a", "b", "c"];

/// Few, so that much coincides; `a..b` is refused.
const PATTERNS: [&str; 9] = ["a", "a.b", "b.a", "a.*", "*.b", "*", ">", "r", "a..b"];
const SUBJECTS: [&str; 8] = ["a", "a", "a.b", "b.a", "b.b", "a.b", "r", "a..b"];

/// A payload that is passed on without copying.
const LARGE: usize = 17_000;

#[derive(Clone, Debug)]
pub(super) struct Hello {
    pub(super) user: &'static str,
    pub(super) echo: bool,
    pub(super) headers: bool,
    pub(super) verbose: bool,
    pub(super) no_responders: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Connect(Hello),
    Sub { subject: &'static str, queue: Option<&'static str>, sid: u8 },
    Unsub { sid: u8, max: Option<u32> },
    Pub(Publication),
    Ping,
}

#[derive(Clone, Debug)]
pub(super) struct Publication {
    pub(super) subject: &'static str,
    pub(super) reply: Option<&'static str>,
    /// The header block, if any; filled in by [`Writer`].
    pub(super) header: String,
    /// Unique; filled in by [`Writer`].
    pub(super) payload: String,
    with_header: bool,
    large: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A client's operations, cut into pieces, of which the last `held` bytes wait for its next
    /// step.
    Send {
        client: usize,
        ops: Vec<Op>,
        cuts: Vec<usize>,
        held: usize,
    },
    Flush(usize),
    /// A transport takes this many more bytes.
    Block(usize, usize),
    Unblock(usize),
    /// A client ends, and another takes its place.
    Replace(usize, Op),
}

fn hello() -> impl Strategy<Value = Op> {
    (select(&USERS[..]), any::<[bool; 4]>()).prop_map(|(user, [echo, headers, verbose, no_responders])| {
        Op::Connect(Hello { user, echo, headers, verbose, no_responders: no_responders && headers })
    })
}

fn op() -> impl Strategy<Value = Op> {
    let queue = prop_oneof![2 => Just(None), 1 => Just(Some("q")), 1 => Just(Some("p"))];
    let max = prop_oneof![1 => Just(None), 2 => (1..8_u32).prop_map(Some)];
    let reply = prop_oneof![1 => Just(None), 1 => Just(Some("r")), 1 => Just(Some("r.s"))];
    let publication = (select(&SUBJECTS[..]), reply, any::<bool>(), prop::bool::weighted(0.03));
    prop_oneof![
        8 => publication.prop_map(|(subject, reply, with_header, large)| {
            let (header, payload) = Default::default();
            Op::Pub(Publication { subject, reply, header, payload, with_header, large })
        }),
        5 => (select(&PATTERNS[..]), queue, 1..5_u8)
            .prop_map(|(subject, queue, sid)| Op::Sub { subject, queue, sid }),
        2 => (1..5_u8, max).prop_map(|(sid, max)| Op::Unsub { sid, max }),
        1 => Just(Op::Ping),
        1 => hello(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS.len();
    let held = prop_oneof![3 => Just(0), 1 => 1..30_usize];
    prop_oneof![
        10 => (client(), vec(op(), 1..7), vec(0..200_usize, 0..3), held)
            .prop_map(|(client, ops, cuts, held)| Step::Send { client, ops, cuts, held }),
        3 => (0..2_usize).prop_map(Step::Flush),
        1 => (client(), 0..60_usize).prop_map(|(client, room)| Step::Block(client, room)),
        1 => client().prop_map(Step::Unblock),
        1 => (client(), hello()).prop_map(|(client, hello)| Step::Replace(client, hello)),
    ]
}

/// Every client connects first.
pub(super) fn script() -> impl Strategy<Value = Vec<Step>> {
    (vec(hello(), CLIENTS.len()), vec(step(), 1..80)).prop_map(|(hellos, steps)| {
        let connect = |(client, hello)| Step::Send { client, ops: vec![hello], cuts: vec![], held: 0 };
        hellos.into_iter().enumerate().map(connect).chain(steps).collect()
    })
}

/// Turns one client's operations into bytes.
pub(super) struct Writer {
    headers: bool,
    published: usize,
    client: usize,
}

impl Writer {
    pub(super) fn new(client: usize) -> Self {
        Self { headers: false, published: 0, client }
    }

    /// The bytes of `op`, in which it fills in what is left open.
    pub(super) fn write(&mut self, op: &mut Op) -> String {
        match op {
            Op::Connect(hello) => {
                self.headers = hello.headers;
                connect(hello)
            }
            Op::Sub { subject, queue: Some(queue), sid } => format!("SUB {subject} {queue} {sid}\r\n"),
            Op::Sub { subject, queue: None, sid } => format!("SUB {subject} {sid}\r\n"),
            Op::Unsub { sid, max: Some(max) } => format!("UNSUB {sid} {max}\r\n"),
            Op::Unsub { sid, max: None } => format!("UNSUB {sid}\r\n"),
            Op::Pub(publication) => self.publish(publication),
            Op::Ping => "PING\r\n".into(),
        }
    }

    fn publish(&mut self, publication: &mut Publication) -> String {
        self.published += 1;
        let id = format!("{}:{}", self.client, self.published);
        let padding = if publication.large { "x".repeat(LARGE) } else { String::new() };
        publication.payload = format!("#{id};{padding}");
        if publication.with_header && self.headers {
            publication.header = format!("NATS/1.0\r\nid: {id}\r\n\r\n");
        }
        let Publication { subject, header, payload, .. } = publication;
        let reply = publication.reply.map(|r| format!("{r} ")).unwrap_or_default();
        let total = header.len() + payload.len();
        match header.len() {
            0 => format!("PUB {subject} {reply}{total}\r\n{payload}\r\n"),
            len => format!("HPUB {subject} {reply}{len} {total}\r\n{header}{payload}\r\n"),
        }
    }
}

fn connect(hello: &Hello) -> String {
    let Hello { user, echo, headers, verbose, no_responders } = hello;
    format!(
        "CONNECT {{{},\"echo\":{echo},\"headers\":{headers},\"verbose\":{verbose},\
         \"no_responders\":{no_responders},\"pedantic\":false}}\r\n",
        login(user)
    )
}

impl Op {
    pub(super) fn is_large(&self) -> bool {
        matches!(self, Self::Pub(publication) if publication.large)
    }

    pub(super) fn shrink(&mut self) {
        if let Self::Pub(publication) = self {
            publication.large = false;
        }
    }
}
