//! Pushing: messages go to one subject for as long as somebody listens there, within what flow
//! control allows.

use super::effects::{Effects, Env};
use super::status::StatusMessage;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::id::BASE62;
use myelin_stdx::rng::Rng;
use myelin_store::Timestamp;
use myelin_wire::message_buf::MessageRef;

/// Bytes that may be on their way without an answer, at most, and at the beginning.
const LARGEST_WINDOW: i64 = 32 * 1024 * 1024;
const FIRST_WINDOW: i64 = LARGEST_WINDOW / 16;

/// Push side of a consumer: whether somebody listens, and flow control.
pub(super) struct Push {
    /// Whether somebody listens.
    pub(super) is_active: bool,
    /// Whether another stream of this server reads the log in place of deliveries: then nothing is
    /// pushed.
    pub(super) is_read: bool,
    /// Since when nobody does.
    pub(super) inactive_since: Option<Timestamp>,
    flow: Option<FlowControl>,
    beat_at: Option<Timestamp>,
}

/// Flow control: what is on its way.
struct FlowControl {
    window: i64,
    /// Bytes since the last answer.
    sent: i64,
    /// Where the answer is awaited, and what it is for.
    asked: Option<(Vec<u8>, i64)>,
    prefix: Vec<u8>,
    rng: Rng,
}

/// Whether anybody listens to what is pushed. Compat: only who listens to this very subject, and as
/// the configuration says, counts; others get what is sent too.
pub(super) fn is_listened_to(config: &ConsumerConfig, env: &dyn Env) -> bool {
    let group = (!config.deliver_group.is_empty()).then_some(config.deliver_group.as_bytes());
    env.listens(config.deliver_subject.as_bytes(), group)
}

impl Push {
    pub(super) fn new(stream: &str, consumer: &str, config: &ConsumerConfig, seed: u64) -> Self {
        let flow = config.flow_control.then(|| FlowControl {
            window: FIRST_WINDOW,
            sent: 0,
            asked: None,
            prefix: format!("$JS.FC.{stream}.{consumer}.").into_bytes(),
            rng: Rng::seeded(seed),
        });
        Self { is_active: false, is_read: false, inactive_since: None, flow, beat_at: None }
    }

    /// Whether nothing may be sent before an answer.
    pub(super) fn is_stalled(&self) -> bool {
        self.stall().is_some()
    }

    /// Bytes on their way without an answer, and how many may be, where they are too many.
    #[inline]
    pub(super) fn stall(&self) -> Option<(i64, i64)> {
        self.flow.as_ref().filter(|flow| flow.sent > flow.window).map(|flow| (flow.sent, flow.window))
    }

    /// Where an answer is awaited.
    pub(super) fn awaited(&self) -> Option<&[u8]> {
        self.flow.as_ref().and_then(|flow| flow.asked.as_ref()).map(|(subject, _)| subject.as_slice())
    }

    /// A message of so many bytes was sent. `is_full`: it was the last that may go without an
    /// acknowledgement.
    pub(super) fn sent(&mut self, config: &ConsumerConfig, size: i64, is_full: bool, effects: &mut Effects) {
        let Some(flow) = &mut self.flow else { return };
        flow.sent += size;
        debug_assert!(size > 0 && flow.sent >= size, "what is on its way counts");
        let is_half = flow.sent > flow.window / 2;
        match &mut flow.asked {
            None if is_half || (is_full && config.ack_policy == AckPolicy::FlowControl) => {
                flow.ask(config, effects);
            }
            // Compat: what exceeds the window counts as answered too.
            Some((_, bytes)) if flow.sent - *bytes >= flow.window => *bytes += size,
            _ => {}
        }
    }

    /// Asks for an answer where nothing follows that would.
    pub(super) fn ask(&mut self, config: &ConsumerConfig, effects: &mut Effects) {
        if let Some(flow) = self.flow.as_mut().filter(|flow| flow.asked.is_none()) {
            flow.ask(config, effects);
        }
    }

    /// An answer to flow control came. False: not to the last question.
    pub(super) fn answered(&mut self, subject: &[u8]) -> bool {
        let Some(flow) = &mut self.flow else { return false };
        let Some((_, bytes)) = flow.asked.take_if(|(asked, _)| asked == subject) else { return false };
        flow.window = (flow.window * 2).min(LARGEST_WINDOW);
        if !myelin_stdx::planted::bug(23) {
            flow.sent = (flow.sent - bytes).max(0);
        }
        debug_assert!(
            (FIRST_WINDOW..=LARGEST_WINDOW).contains(&flow.window),
            "a window grows up to the largest"
        );
        debug_assert!(flow.asked.is_none(), "a question is answered once");
        true
    }

    /// A sign of life is due a while from now.
    pub(super) fn beat_later(&mut self, config: &ConsumerConfig, now: Timestamp) {
        self.beat_at = (config.idle_heartbeat > 0).then(|| now.saturating_add(config.idle_heartbeat));
    }

    pub(super) fn next_beat(&self) -> Option<Timestamp> {
        self.beat_at
    }

    /// Sends a sign of life if one is due. `has_pending`: something awaits its acknowledgement.
    pub(super) fn beat_if_due(
        &mut self,
        config: &ConsumerConfig,
        place: (u64, u64),
        has_pending: bool,
        now: Timestamp,
        effects: &mut Effects,
    ) {
        if self.beat_at.is_none_or(|at| at > now) {
            return;
        }
        if self.is_active {
            let (delivery, seq) = place;
            let status = StatusMessage::Heartbeat { delivery, seq, stalled: self.awaited() };
            effects.push_status(config.deliver_subject.as_bytes(), &status);
            if config.ack_policy == AckPolicy::FlowControl && has_pending {
                self.ask(config, effects);
            }
        }
        self.beat_later(config, now);
    }
}

impl FlowControl {
    fn ask(&mut self, config: &ConsumerConfig, effects: &mut Effects) {
        let mut subject = self.prefix.clone();
        let mut number = self.rng.next_u64();
        for _ in 0..4 {
            subject.push(BASE62[(number % BASE62.len() as u64) as usize]);
            number /= BASE62.len() as u64;
        }
        effects.out.push(MessageRef {
            subject: config.deliver_subject.as_bytes(),
            reply: &subject,
            headers: b"NATS/1.0 100 FlowControl Request\r\n\r\n",
            ..MessageRef::default()
        });
        self.asked = Some((subject, self.sent));
    }
}
