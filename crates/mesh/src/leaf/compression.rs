//! Compression of a link with a leaf node or a hub: the same agreement as on routes, and another
//! course.
//!
//! The hub's first INFO names its mode. Who has dialled chooses, says so in an INFO that has hardly
//! anything else, and compresses from then on; the hub says its first INFO once more, compressed,
//! and only that one counts. Where nothing is compressed there is no second INFO.

use super::config::LeafCompression;
use super::session::LeafSession;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::PeerInfo;
use myelin_wire::s2::S2Level;
use myelin_wire::s2::mode::{AgreedCompression, CompressionMode, level_for, negotiate};
use std::time::{Duration, Instant};

/// State of a link's compression: what was agreed on.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    agreed: Option<AgreedCompression>,
    /// Level of what is sent, once that is compressed.
    level: Option<S2Level>,
    /// The transport is to begin to compress.
    switches: bool,
    /// The transport is to take another level.
    is_changed: bool,
    /// WebSocket compresses the messages that it carries: nothing else does.
    is_left_to_web_socket: bool,
}

impl LeafSession {
    pub(super) fn compression_config(&self) -> LeafCompression {
        match self.remote() {
            Some(remote) => remote.config.compression.clone(),
            None => self.nodes().config().compression.clone(),
        }
    }

    /// Whether this server asks for compression, or takes it.
    pub(super) fn may_compress(&self) -> bool {
        if self.compression.is_left_to_web_socket {
            return false;
        }
        let mode = self.compression_config().mode;
        !matches!(mode, CompressionMode::Off | CompressionMode::NotSupported)
    }

    /// Whether the link was agreed on, be it that nothing is compressed.
    pub(super) fn has_agreed(&self) -> bool {
        self.compression.agreed.is_some()
    }

    /// Finds out with the first INFO whether the link is compressed. If so another INFO comes.
    pub(super) fn negotiates(&mut self, info: &PeerInfo, now: Instant) -> Result<bool, CloseReason> {
        if self.compression.agreed.is_some() {
            return Ok(false);
        }
        let LeafCompression { mode, thresholds } = self.compression_config();
        // Compat: only who would have compressed says that it is off.
        let would = !matches!(mode, CompressionMode::Off | CompressionMode::NotSupported);
        let agreed = if self.compression.is_left_to_web_socket && would {
            Ok(AgreedCompression::Off)
        } else {
            negotiate(mode, Some(&info.compression))
        };
        let agreed = agreed.map_err(|unknown| {
            self.fail(format_args!("{unknown}"));
            CloseReason::ProtocolViolation
        })?;
        self.compression.agreed = Some(agreed);
        let level = match agreed {
            AgreedCompression::NotSupported | AgreedCompression::Off => {
                self.known().update(|facts| agreed.name().clone_into(&mut facts.compression));
                return Ok(false);
            }
            AgreedCompression::S2(level) => level,
            // Nothing was measured yet: how long the handshake took so far is a bound.
            AgreedCompression::Auto => {
                level_for(now.saturating_duration_since(self.timers.opened()), &thresholds)
            }
        };
        self.set_level(level);
        if self.remote().is_some() {
            self.say_choice(info.client_id, mode.name_after(agreed));
        }
        self.compression.switches = true;
        Ok(true)
    }

    /// Says the mode that was chosen. Compat: with what this server would tell leaf nodes.
    fn say_choice(&self, client_id: u64, name: &str) {
        let config = self.nodes().config();
        let cluster = if config.info.id.is_empty() { String::new() } else { self.own_cluster() };
        let info = PeerInfo { client_id, compression: name.to_owned(), ..self.nodes().info(cluster) };
        self.say(&info.line());
    }

    /// The link is a WebSocket that compresses its messages.
    pub(super) fn leave_to_web_socket(&mut self) {
        self.compression.is_left_to_web_socket = true;
    }

    fn set_level(&mut self, level: S2Level) {
        self.compression.level = Some(level);
        let name = AgreedCompression::S2(level).name();
        self.known().update(|facts| name.clone_into(&mut facts.compression));
    }

    /// Name of the mode for INFO.
    pub(super) fn compression_name(&self) -> &'static str {
        let mode = self.compression_config().mode;
        if mode == CompressionMode::NotSupported || self.compression.is_left_to_web_socket {
            return "";
        }
        match (self.compression.level, self.compression.agreed) {
            (Some(level), _) => mode.name_after(AgreedCompression::S2(level)),
            (None, Some(agreed)) => mode.name_after(agreed),
            (None, None) => mode.name(),
        }
    }

    /// Whether the transport has to change before anything more is dealt with.
    pub(super) fn is_waiting(&self) -> bool {
        self.compression.switches || self.tls.is_wished_for()
    }

    pub(super) fn take_compression_switch(&mut self) -> Option<S2Level> {
        let switches = std::mem::take(&mut self.compression.switches);
        self.compression.level.filter(|_| switches)
    }

    /// A round trip was measured: `s2_auto` follows it.
    pub(super) fn follow_round_trip(&mut self, round_trip: Option<Duration>) {
        let LeafCompression { mode, thresholds } = self.compression_config();
        if let (Some(round_trip), Some(present), CompressionMode::Auto) =
            (round_trip, self.compression.level, mode)
        {
            let level = level_for(round_trip, &thresholds);
            if level != present {
                self.set_level(level);
                self.compression.is_changed = true;
            }
        }
    }

    pub(super) fn take_compression_level(&mut self) -> Option<S2Level> {
        let is_changed = std::mem::take(&mut self.compression.is_changed);
        self.compression.level.filter(|_| is_changed)
    }
}
