//! Agreement of two servers about compression: pure choices, from what each is configured for.
//!
//! Each side compresses what it sends as it wants to; only whether anything is compressed is common
//! to both. INFO says the configured mode, of `s2_auto` always that name.

use super::S2Level;
use std::fmt;
use std::time::Duration;

/// Mode of compression as it is configured, and as INFO names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionMode {
    /// Behave like a server that knows no compression: INFO names no mode.
    NotSupported,
    /// None.
    Off,
    /// Mode that the other side chooses; none if it chooses nothing.
    Accept,
    /// A level that follows the round trip.
    Auto,
    /// One level.
    S2(S2Level),
}

/// Outcome of a negotiation, for what this side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgreedCompression {
    /// One of the two knows no compression.
    NotSupported,
    /// Both know it, and one does not want it, or neither asks for it.
    Off,
    /// This side follows the round trip: [`level_for`].
    Auto,
    /// This side compresses at this level.
    S2(S2Level),
}

/// A mode in a peer's INFO that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode(pub String);

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Compat: the reference's words, of leaf nodes, too.
        write!(f, "unsupported route compression mode {:?}", self.0)
    }
}

impl std::error::Error for UnknownMode {}

const NAMES: [(CompressionMode, &str); 8] = [
    (CompressionMode::NotSupported, "not supported"),
    (CompressionMode::Off, "off"),
    (CompressionMode::Accept, "accept"),
    (CompressionMode::Auto, "s2_auto"),
    (CompressionMode::S2(S2Level::Uncompressed), "s2_uncompressed"),
    (CompressionMode::S2(S2Level::Fast), "s2_fast"),
    (CompressionMode::S2(S2Level::Better), "s2_better"),
    (CompressionMode::S2(S2Level::Best), "s2_best"),
];

impl CompressionMode {
    /// Name of the mode in INFO and `/routez`.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }

    /// Mode of a server whose INFO says `name`.
    ///
    /// # Errors
    /// Nobody knows the name. Names are compared as they are: configurations may write them in
    /// capitals, servers do not.
    pub fn of_peer(name: &str) -> Result<Self, UnknownMode> {
        let found = NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(mode, _)| *mode).ok_or_else(|| UnknownMode(name.to_owned()))
    }

    /// Name of the mode in the INFO of a link on which `agreed` was reached: what this side does,
    /// but for `s2_auto`, which stays what it is whatever level it has at the time.
    #[must_use]
    pub fn name_after(self, agreed: AgreedCompression) -> &'static str {
        match self {
            Self::Auto => self.name(),
            _ => agreed.name(),
        }
    }
}

impl AgreedCompression {
    /// Name of the outcome. A link in `s2_auto` shows the level of the time instead.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mode = match self {
            Self::NotSupported => CompressionMode::NotSupported,
            Self::Off => CompressionMode::Off,
            Self::Auto => CompressionMode::Auto,
            Self::S2(level) => CompressionMode::S2(level),
        };
        mode.name()
    }

    /// Whether the link is compressed, in both directions.
    #[must_use]
    pub fn is_compressed(self) -> bool {
        matches!(self, Self::Auto | Self::S2(_))
    }
}

/// Outcome for this side, configured as `ours`, of a link to a server whose INFO names the mode
/// `theirs`, or none.
///
/// # Errors
/// Nobody knows `theirs`. A side that compresses nothing does not look at it.
pub fn negotiate(ours: CompressionMode, theirs: Option<&str>) -> Result<AgreedCompression, UnknownMode> {
    use CompressionMode as Mode;
    let theirs = theirs.unwrap_or_default();
    // Compat: a nats-server that is told `not supported` says just that in the INFO of a route, and
    // one that is `off` takes it for a server that knows compression.
    match ours {
        _ if theirs.is_empty() => return Ok(AgreedCompression::NotSupported),
        Mode::NotSupported => return Ok(AgreedCompression::NotSupported),
        Mode::Off => return Ok(AgreedCompression::Off),
        Mode::Accept | Mode::Auto | Mode::S2(_) => {}
    }
    Ok(match (ours, Mode::of_peer(theirs)?) {
        (_, Mode::NotSupported) => AgreedCompression::NotSupported,
        (_, Mode::Off) | (Mode::Accept, Mode::Accept) => AgreedCompression::Off,
        // Compat: who only accepts does not measure round trips for the other.
        (Mode::Accept, Mode::Auto) => AgreedCompression::S2(S2Level::Fast),
        (Mode::Accept, Mode::S2(level)) | (Mode::S2(level), _) => AgreedCompression::S2(level),
        (_, _) => AgreedCompression::Auto,
    })
}

/// The level of `s2_auto` for a round trip: `thresholds` are up to which one it is uncompressed,
/// fast, better and best; zero skips a level.
///
/// Beyond the last threshold of three or four the level is best. Compat: beyond the last of one or
/// two it is that last one's own level, not the next.
#[must_use]
pub fn level_for(round_trip: Duration, thresholds: &[Duration]) -> S2Level {
    let found = thresholds.iter().position(|threshold| round_trip <= *threshold);
    let beyond = if thresholds.len() >= 3 { 3 } else { thresholds.len().saturating_sub(1) };
    match found.unwrap_or(beyond) {
        0 => S2Level::Uncompressed,
        1 => S2Level::Fast,
        2 => S2Level::Better,
        _ => S2Level::Best,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(round_trip: u64, thresholds: &[u64]) -> S2Level {
        let thresholds: Vec<Duration> = thresholds.iter().map(|ms| Duration::from_millis(*ms)).collect();
        level_for(Duration::from_millis(round_trip), &thresholds)
    }

    #[test]
    fn levels_follow_the_round_trip() {
        use S2Level::{Best, Better, Fast, Uncompressed};
        let standard = [10, 50, 100];
        for (round_trip, expected) in [
            (0, Uncompressed),
            (10, Uncompressed),
            (11, Fast),
            (50, Fast),
            (51, Better),
            (100, Better),
            (101, Best),
        ] {
            assert_eq!(level(round_trip, &standard), expected, "{round_trip} ms");
        }
        // Levels that are skipped.
        assert_eq!(level(1, &[0, 0, 20]), Better);
        assert_eq!(level(21, &[0, 0, 20]), Best);
        assert_eq!(level(25, &[0, 0, 20, 30]), Best);
        assert_eq!(level(31, &[0, 0, 20, 30]), Best);
        // Fewer than three: the last one's own level is where it ends.
        assert_eq!(level(99, &[10]), Uncompressed);
        assert_eq!(level(99, &[0, 10]), Fast);
        assert_eq!(level(11, &[10, 20]), Fast);
        assert_eq!(level(99, &[10, 20]), Fast);
    }

    #[test]
    fn whether_a_link_is_compressed_is_the_same_for_both() {
        for (ours, our_name) in NAMES {
            for (theirs, their_name) in NAMES {
                let one = negotiate(ours, Some(their_name)).expect("a name");
                let other = negotiate(theirs, Some(our_name)).expect("a name");
                assert_eq!(one.is_compressed(), other.is_compressed(), "{ours:?} {theirs:?}");
            }
            assert_eq!(negotiate(ours, None), Ok(AgreedCompression::NotSupported));
            assert_eq!(negotiate(ours, Some("")), Ok(AgreedCompression::NotSupported));
            let looks = !matches!(ours, CompressionMode::NotSupported | CompressionMode::Off);
            assert_eq!(negotiate(ours, Some("zstd")).is_err(), looks, "{ours:?}");
        }
    }

    #[test]
    fn names_are_those_of_info() {
        for (mode, name) in NAMES {
            assert_eq!(mode.name(), name);
            assert_eq!(CompressionMode::of_peer(name), Ok(mode));
        }
        let unknown = CompressionMode::of_peer("S2_Fast").expect_err("capitals");
        assert_eq!(unknown.to_string(), "unsupported route compression mode \"S2_Fast\"");
    }

    #[test]
    fn auto_keeps_its_name() {
        let agreed = negotiate(CompressionMode::Auto, Some("accept"));
        assert_eq!(agreed, Ok(AgreedCompression::Auto));
        let level = AgreedCompression::S2(S2Level::Fast);
        assert_eq!(CompressionMode::Auto.name_after(level), "s2_auto");
        assert_eq!(CompressionMode::Accept.name_after(level), "s2_fast");
    }
}
