//! Compression of a link: what both servers agree on, when it begins, and its level.
//!
//! Who dials chooses when the other's first INFO has come, says so in an INFO of its own, and
//! compresses from then on; who accepts answers that INFO with another, compressed. Only the INFO
//! that follows in each direction counts for all else. The shell changes the transport in between.

use super::LinkSession;
use myelin_wire::error::CloseReason;
use myelin_wire::peer::info::PeerInfo;
use myelin_wire::s2::S2Level;
use myelin_wire::s2::mode::{AgreedCompression, CompressionMode, level_for, negotiate};
use std::time::{Duration, Instant};

/// State of a link's compression: what was agreed on.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    agreed: Option<AgreedCompression>,
    /// The mode that this side had then.
    mode: Option<CompressionMode>,
    /// Level of what is sent, once that is compressed.
    level: Option<S2Level>,
    /// The transport is to begin to compress.
    switches: bool,
    /// The transport is to take another level.
    is_changed: bool,
}

/// The mode that has a level of its own.
fn agreed_on(level: S2Level) -> AgreedCompression {
    AgreedCompression::S2(level)
}

impl LinkSession {
    /// Whether this server asks for compression, or takes it.
    pub(super) fn may_compress(&self) -> bool {
        !matches!(self.mesh.config().compression, CompressionMode::Off | CompressionMode::NotSupported)
    }

    /// Finds out with the first INFO whether the link is compressed. If so another INFO comes.
    pub(super) fn negotiates(&mut self, info: &PeerInfo, now: Instant) -> Result<bool, CloseReason> {
        if self.compression.agreed.is_some() {
            return Ok(false);
        }
        let config = self.mesh.config();
        let agreed = negotiate(config.compression, Some(&info.compression)).map_err(|unknown| {
            self.fail(format_args!("{unknown}"));
            CloseReason::ProtocolViolation
        })?;
        self.compression.agreed = Some(agreed);
        self.compression.mode = Some(config.compression);
        let level = match agreed {
            AgreedCompression::NotSupported | AgreedCompression::Off => {
                self.known.update(|facts| facts.compression = agreed.name());
                return Ok(false);
            }
            AgreedCompression::S2(level) => level,
            // Nothing was measured yet: how long the handshake took so far is a bound.
            AgreedCompression::Auto => {
                level_for(now.saturating_duration_since(self.timers.opened()), &config.thresholds)
            }
        };
        self.set_level(level);
        if self.making.did_solicit {
            self.say_info(0);
        }
        self.compression.switches = true;
        Ok(true)
    }

    fn set_level(&mut self, level: S2Level) {
        self.compression.level = Some(level);
        self.known.update(|facts| facts.compression = agreed_on(level).name());
    }

    /// Name of the mode for INFO.
    pub(super) fn compression_name(&self) -> &'static str {
        let mode = self.mesh.config().compression;
        match (self.compression.level, self.compression.agreed) {
            (Some(level), _) => mode.name_after(agreed_on(level)),
            (None, Some(agreed)) => mode.name_after(agreed),
            (None, None) => mode.name(),
        }
    }

    /// Whether the transport has to change before anything more is dealt with.
    pub(super) fn is_switching(&self) -> bool {
        self.compression.switches
    }

    /// The level at which everything is to be compressed from here on, in both directions: once,
    /// when everything that was said before is written. [`has_switched`](Self::has_switched) has to
    /// follow.
    pub fn take_switch(&mut self) -> Option<S2Level> {
        let switches = std::mem::take(&mut self.compression.switches);
        self.compression.level.filter(|_| switches)
    }

    /// The transport compresses: who has accepted says so.
    pub fn has_switched(&mut self) {
        if !self.making.did_solicit {
            self.say_info(0);
        }
    }

    /// A round trip was measured: `s2_auto` follows it.
    pub(super) fn follow_round_trip(&mut self, round_trip: Option<Duration>) {
        let config = self.mesh.config();
        if let (Some(round_trip), Some(present), CompressionMode::Auto) =
            (round_trip, self.compression.level, config.compression)
        {
            let level = level_for(round_trip, &config.thresholds);
            if level != present {
                self.set_level(level);
                self.compression.is_changed = true;
            }
        }
    }

    /// Another level for what is sent from here on.
    pub fn take_level(&mut self) -> Option<S2Level> {
        let is_changed = std::mem::take(&mut self.compression.is_changed);
        self.compression.level.filter(|_| is_changed)
    }

    /// The mode was changed by a reload.
    ///
    /// # Errors
    /// When there has to be a new negotiation: the link ends, to be dialled again.
    pub(super) fn change_compression(&mut self) -> Result<(), CloseReason> {
        let mode = self.mesh.config().compression;
        let Some(present) = self.compression.agreed else { return Ok(()) };
        if self.compression.mode.replace(mode) == Some(mode) {
            self.follow_round_trip(self.timers.rtt());
            return Ok(());
        }
        let now = self.compression.level.map_or(present, agreed_on);
        match mode {
            // Who knows no compression will not.
            _ if present == AgreedCompression::NotSupported => Ok(()),
            CompressionMode::S2(level) if now == agreed_on(level) => Ok(()),
            CompressionMode::Off if now == AgreedCompression::Off => Ok(()),
            _ if now == AgreedCompression::Off => Err(CloseReason::ClientClosed),
            CompressionMode::Off | CompressionMode::Accept | CompressionMode::NotSupported => {
                Err(CloseReason::ClientClosed)
            }
            CompressionMode::Auto => {
                self.follow_round_trip(self.timers.rtt());
                Ok(())
            }
            CompressionMode::S2(level) => {
                self.set_level(level);
                self.compression.is_changed = true;
                Ok(())
            }
        }
    }
}
