//! Listeners and the statuses that they are sent, for tests of single rooms.

use crate::consumer::{Effects, Env, SlowReceiver};

/// Everybody listens, nobody is behind, and ids are counted.
#[derive(Default)]
pub(super) struct Listeners(std::cell::Cell<u64>);

impl Env for Listeners {
    fn has_interest(&self, _: &[u8]) -> bool {
        true
    }

    fn listens(&self, _: &[u8], _: Option<&[u8]>) -> bool {
        true
    }

    fn is_congested(&mut self, _: &[u8]) -> bool {
        false
    }

    fn awaited_receiver(&self, _: &[u8]) -> Option<SlowReceiver> {
        None
    }

    fn unique_id(&self) -> String {
        self.0.set(self.0.get() + 1);
        format!("id{}", self.0.get())
    }
}

/// Statuses that were sent: to whom, and the lines of each.
pub(super) fn lines(effects: &Effects) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let line = |msg: myelin_wire::message_buf::MessageRef<'_>| {
        let headers = text(msg.headers);
        let lines: Vec<&str> =
            headers.trim_start_matches("NATS/1.0 ").lines().filter(|line| !line.is_empty()).collect();
        format!("{}: {}", text(msg.subject), lines.join(", "))
    };
    effects.out.iter().filter(|msg| msg.to.is_empty()).map(line).collect()
}
