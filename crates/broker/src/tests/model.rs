//! Random scripts against the plain twin: every client receives exactly what the twin says, once,
//! in an order that respects each publisher, whatever the cuts in the input, the flushes and
//! blocked transports.

use super::net::{Net, Peer, assert_idle, permissions, user};
use super::script::{CLIENTS, Op, Step, USERS, Writer, script};
use super::twin::{Event, NO_DELIVERY, NO_PUBLISH, Twin};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A client of the script.
struct Player {
    peer: Peer,
    writer: Writer,
    /// Bytes that its last step held back.
    held: String,
    /// Operations sent but not yet taken: where each ends in the stream of bytes.
    open: VecDeque<(usize, Op)>,
    sent: usize,
    /// How often its blocked outbox was taken up again.
    resumed: usize,
    /// Bytes and counts that earlier clients in this place received.
    past: (String, (u64, u64)),
}

/// Plays a script and writes down what happened.
struct Stage {
    net: Net,
    players: Vec<Player>,
    log: Vec<Event>,
}

fn net() -> Net {
    let restricted = || permissions([&[], &[NO_PUBLISH]], [&[], &[NO_DELIVERY]], None);
    Net::with(|setup| {
        setup.users(USERS.map(|name| match name {
            "b" => user(name, "B", None),
            "c" => user(name, "A", restricted()),
            _ => user(name, "A", None),
        }));
    })
}

impl Stage {
    fn new() -> Self {
        let net = net();
        let players = (0..CLIENTS.len()).map(|client| Player {
            peer: net.stranger(CLIENTS[client]),
            writer: Writer::new(client),
            held: String::new(),
            open: VecDeque::new(),
            sent: 0,
            resumed: 0,
            past: Default::default(),
        });
        Self { players: players.collect(), net, log: Vec::new() }
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Send { client, ops, cuts, held } => self.send(client, ops, &cuts, held),
            Step::Flush(shard) => self.flush(shard),
            Step::Block(client, room) => self.players[client].peer.sink.block_after(room),
            Step::Unblock(client) => self.unblock(client),
            Step::Replace(client, hello) => {
                self.end(client);
                self.send(client, vec![hello], &[], 0);
            }
        }
    }

    /// Lets out what waits for a client, ends it and puts another in its place. Bytes that it held
    /// back are lost.
    fn end(&mut self, client: usize) {
        self.unblock(client);
        self.flush(0);
        self.flush(1);
        let player = &mut self.players[client];
        let sent = player.peer.conn().sent();
        player.past.0 += &player.peer.received();
        player.past.1 = (player.past.1.0 + sent.0, player.past.1.1 + sent.1);
        player.peer.leave();
        player.peer = self.net.stranger(CLIENTS[client]);
        player.open.clear();
        player.held.clear();
        (player.sent, player.resumed) = (0, 0);
        self.log.push(Event::Ended(client));
    }

    fn flush(&mut self, shard: usize) {
        self.net.flush(shard);
        self.log.push(Event::Flushed(shard));
    }

    fn unblock(&mut self, client: usize) {
        let player = &mut self.players[client];
        player.peer.sink.unblock();
        if player.peer.sink.waits() > player.resumed {
            player.resumed = player.peer.sink.waits();
            player.peer.drain();
        }
    }

    fn send(&mut self, client: usize, mut ops: Vec<Op>, cuts: &[usize], held: usize) {
        // At most one large payload per flush, or the shard would be full and flush by itself.
        let mut larges = ops.iter_mut().filter(|op| op.is_large());
        if larges.next().is_some() {
            larges.for_each(Op::shrink);
            self.flush(CLIENTS[client]);
        }
        let player = &mut self.players[client];
        let mut text = std::mem::take(&mut player.held);
        for mut op in ops {
            let bytes = player.writer.write(&mut op);
            player.sent += bytes.len();
            player.open.push_back((player.sent, op));
            text += &bytes;
        }
        player.held = text.split_off(text.len() - held.min(text.len()));
        self.settle_limits(client);
        let mut from = 0;
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
        ends.sort_unstable();
        for end in ends.into_iter().chain([text.len()]) {
            self.feed(client, &text[from..end]);
            from = end;
        }
    }

    /// Flushes the other shard before an UNSUB with a limit: deliveries that it has staged count
    /// towards the limit only then.
    fn settle_limits(&mut self, client: usize) {
        if self.players[client].open.iter().any(|(_, op)| matches!(op, Op::Unsub { max: Some(_), .. })) {
            self.flush(1 - CLIENTS[client]);
        }
    }

    fn feed(&mut self, client: usize, bytes: &str) {
        let player = &mut self.players[client];
        player.peer.send(bytes);
        assert_eq!((player.peer.closed, player.peer.pauses), (None, 0));
        while player.open.front().is_some_and(|(end, _)| *end <= player.peer.consumed) {
            self.log.extend(player.open.pop_front().map(|(_, op)| Event::Took(client, op)));
        }
    }

    /// Sends what is held back, flushes, and lets everything out.
    fn finish(&mut self) -> Vec<String> {
        for client in 0..CLIENTS.len() {
            self.send(client, Vec::new(), &[], 0);
            self.unblock(client);
        }
        self.flush(0);
        self.flush(1);
        self.players.iter().map(|player| player.past.0.clone() + &player.peer.received()).collect()
    }

    fn check_counts(&self, twin: &Twin<'_>) {
        let mut total = (0, 0);
        for (client, player) in self.players.iter().enumerate() {
            let due = twin.messages(client);
            let (past, sent) = (player.past.1, player.peer.conn().sent());
            assert_eq!((past.0 + sent.0, past.1 + sent.1), due, "sent to client {client}");
            total = (total.0 + due.0, total.1 + due.1);
            let held = player.peer.conn().subscriptions();
            assert_eq!(held.len(), twin.subs.iter().filter(|sub| sub.client == client).count());
        }
        for sub in &twin.subs {
            let held = self.players[sub.client].peer.conn().subscription(sub.sid.to_string().as_bytes());
            assert_eq!(held.unwrap().delivered(), sub.delivered, "client {} sid {}", sub.client, sub.sid);
        }
        let [_, _, messages, bytes] = self.net.broker.traffic();
        assert_eq!((messages, bytes), total);
        assert_idle(&self.net, &self.players.iter().map(|player| &player.peer).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn everybody_receives_what_the_twin_says(script in script()) {
        let mut stage = Stage::new();
        for step in script {
            stage.play(step);
        }
        let received = stage.finish();
        let mut twin = Twin::new(&received);
        stage.log.iter().for_each(|event| twin.replay(event));
        twin.check();
        stage.check_counts(&twin);
    }
}
