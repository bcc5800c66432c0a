//! How links to other servers are compressed.
//!
//! A file may name any mode and any thresholds; which of them make sense is checked when a server
//! starts, by [`CompressionOptions::resolve`].

use std::time::Duration;

use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::table::BlockKind;
use crate::duration;
use crate::value::{Node, Value};

/// A way to compress a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkCompression {
    /// Behave like a server that knows no compression.
    NotSupported,
    /// None.
    Off,
    /// Mode that the other side chooses; none if it chooses nothing.
    Accept,
    /// S2 at a level that depends on the round trip.
    S2Auto(RttThresholds),
    /// S2, fast.
    S2Fast,
    /// S2, smaller.
    S2Better,
    /// S2, smallest.
    S2Best,
}

/// Up to which round trip a link is uncompressed, compressed fast, better, and best; zero skips a
/// level. From one to four values, ascending but for zeros; beyond the last it is the level that
/// follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RttThresholds(pub Vec<Duration>);

impl Default for RttThresholds {
    fn default() -> Self {
        Self([10, 50, 100].map(Duration::from_millis).to_vec())
    }
}

/// Compression as the file says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompressionOptions {
    /// As written; `None` when nothing was said.
    pub mode: Option<String>,
    /// Nanoseconds.
    thresholds: Vec<i64>,
}

impl CompressionOptions {
    /// Reads a mode, a boolean, or a block of mode and thresholds. `true` means `on`.
    pub(super) fn read(field: &Field<'_>, on: &str, report: &mut Diagnostics) -> Read<Self> {
        let mut options = Self::default();
        match field.value() {
            Value::Text(mode) => options.mode = not_empty(mode),
            Value::Boolean(is_on) => options.mode = Some(if *is_on { on } else { "off" }.to_owned()),
            Value::Map(map) => read_block(map, BlockKind::LinkCompression, report, |field, _| {
                match field.name() {
                    "mode" => options.mode = not_empty(field.text()?),
                    "rtt_thresholds" | "thresholds" | "rtts" | "rtt" => {
                        // Compat: several lists add up.
                        for item in field.items()? {
                            options.thresholds.push(threshold(field, item)?);
                        }
                    }
                    _ => return Ok(false),
                }
                Ok(true)
            }),
            other => {
                return Err(field.diagnostic(format!(
                    "field {:?} should be a boolean or a structure, got {}",
                    field.written(),
                    other.go_type()
                )));
            }
        }
        Ok(options)
    }

    /// Resolves the mode to what it stands for, `default` when none was chosen; `on` is what `on`
    /// means here.
    ///
    /// # Errors
    /// The mode is unknown or its thresholds make no sense.
    pub(super) fn resolve(&self, on: &str, default: LinkCompression) -> Result<LinkCompression, String> {
        let Some(written) = &self.mode else { return Ok(default) };
        let lower = written.to_lowercase();
        let mode = match lower.as_str() {
            "on" | "enabled" | "true" => on,
            mode => mode,
        };
        match mode {
            "not supported" | "not_supported" => Ok(LinkCompression::NotSupported),
            "disabled" | "off" | "false" => Ok(LinkCompression::Off),
            "accept" => Ok(LinkCompression::Accept),
            "auto" | "s2_auto" => self.resolve_thresholds(written).map(LinkCompression::S2Auto),
            "fast" | "s2_fast" => Ok(LinkCompression::S2Fast),
            "better" | "s2_better" => Ok(LinkCompression::S2Better),
            "best" | "s2_best" => Ok(LinkCompression::S2Best),
            _ => Err(format!("unsupported compression mode {written:?}")),
        }
    }

    /// Negative values count as zero, and zeros at the end as nothing.
    fn resolve_thresholds(&self, mode: &str) -> Result<RttThresholds, String> {
        if self.thresholds.is_empty() {
            return Ok(RttThresholds::default());
        }
        let shown =
            || self.thresholds.iter().map(|&n| duration::format_signed(n)).collect::<Vec<_>>().join(" ");
        let mut thresholds: Vec<u64> =
            self.thresholds.iter().map(|&n| u64::try_from(n).unwrap_or(0)).collect();
        if !thresholds.iter().filter(|&&n| n > 0).is_sorted() {
            return Err(format!("RTT threshold values [{}] should be in ascending order", shown()));
        }
        thresholds.truncate(thresholds.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1));
        match thresholds.len() {
            0 => Err(format!("compression mode {mode:?} requires at least one RTT threshold")),
            1..=4 => Ok(RttThresholds(thresholds.into_iter().map(Duration::from_nanos).collect())),
            _ => Err(format!(
                "compression mode {mode:?} should have no more than 4 RTT thresholds: [{}]",
                shown()
            )),
        }
    }
}

fn not_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Compat: a text that is no duration is placed at the list.
fn threshold(field: &Field<'_>, item: &Node) -> Read<i64> {
    match &item.value {
        Value::Text(text) => duration::parse(text).map_err(|error| field.diagnostic(error)),
        other => {
            let message = format!("a round trip must be a duration, not {}", other.type_name());
            Err(diagnostic_at(&item.position, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(mode: &str, thresholds: &[i64]) -> Result<LinkCompression, String> {
        let thresholds = thresholds.iter().map(|n| n * 1_000_000).collect();
        let options = CompressionOptions { mode: Some(mode.to_owned()), thresholds };
        options.resolve("s2_fast", LinkCompression::Accept)
    }

    #[test]
    fn modes_have_many_names() {
        assert_eq!(resolve("ON", &[]), Ok(LinkCompression::S2Fast));
        assert_eq!(resolve("Disabled", &[]), Ok(LinkCompression::Off));
        assert_eq!(resolve("not supported", &[]), Ok(LinkCompression::NotSupported));
        assert_eq!(resolve("auto", &[]), Ok(LinkCompression::S2Auto(RttThresholds::default())));
        assert_eq!(resolve("gzip", &[]), Err("unsupported compression mode \"gzip\"".to_owned()));
        assert_eq!(
            CompressionOptions::default().resolve("on", LinkCompression::Off),
            Ok(LinkCompression::Off)
        );
    }

    #[test]
    fn thresholds_ascend_and_end_above_zero() {
        let millis = |list: &[u64]| {
            Ok(LinkCompression::S2Auto(RttThresholds(
                list.iter().map(|&n| Duration::from_millis(n)).collect(),
            )))
        };
        assert_eq!(resolve("s2_auto", &[0, 10, 20]), millis(&[0, 10, 20]));
        assert_eq!(resolve("s2_auto", &[-5, 10, 0, 0]), millis(&[0, 10]));
        assert_eq!(resolve("s2_auto", &[10, 0, 30, 40]), millis(&[10, 0, 30, 40]));
        for (list, message) in [
            (&[20, 10][..], "RTT threshold values [20ms 10ms] should be in ascending order"),
            (&[0, 0], "compression mode \"s2_auto\" requires at least one RTT threshold"),
            (
                &[1, 2, 3, 4, 5],
                "compression mode \"s2_auto\" should have no more than 4 RTT thresholds: [1ms 2ms 3ms 4ms 5ms]",
            ),
        ] {
            assert_eq!(resolve("s2_auto", list), Err(message.to_owned()));
        }
    }
}
