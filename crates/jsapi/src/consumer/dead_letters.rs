//! Dead letters: what a consumer's metadata says of messages that nobody acknowledges.
//!
//! Keys begin with `myelin.dlq.`, so that clients need no change and a server that knows nothing of
//! them keeps them as any other metadata. A request with a value that cannot be followed is
//! refused; a configuration that is there already (imported, restored) is kept, and moves nothing.

use super::config::{AckPolicy, ConsumerConfig};
use crate::config::is_asset_name;
use crate::json::parse_duration;
use myelin_subject::{is_literal, is_well_formed};

/// Beginning of the keys.
const PREFIX: &str = "myelin.dlq.";
/// The subject of dead letters, where the metadata does not say.
const SUBJECT: &str = "dlq.{stream}.{consumer}";

/// Ends of a message's deliveries by which it becomes a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadOn {
    /// Delivered as often as it may be.
    Exhausted,
    /// A client has terminated it.
    Terminated,
    /// Either.
    Both,
}

/// Pauses before a message comes again, which grow from one delivery to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBackoff {
    /// The first one, in nanoseconds.
    pub min: i64,
    /// The longest one.
    pub max: i64,
    /// Thousandths by which one is longer than the one before.
    pub factor: u32,
    /// Thousandths of a pause by which it may be shorter or longer.
    pub jitter: u32,
}

impl RetryBackoff {
    /// The longest pause where nobody says.
    const MAX: i64 = 600_000_000_000;

    /// The pause after so many deliveries beyond the first, without what chance adds.
    #[must_use]
    pub fn pause(&self, redelivered: u64) -> i64 {
        let factor = f64::from(self.factor) / 1000.0;
        let pause = self.min as f64 * factor.powi(i32::try_from(redelivered).unwrap_or(i32::MAX));
        if pause < self.max as f64 { pause as i64 } else { self.max }
    }

    /// Reads `min=1s,max=5m,factor=2,jitter=0.2`; all but the first may be left out.
    fn read(text: &str) -> Option<Self> {
        let mut backoff = Self { min: 0, max: Self::MAX, factor: 2000, jitter: 100 };
        let thousandths = |value: &str, least: f64, most: f64| {
            let number = value.parse::<f64>().ok().filter(|number| (least..=most).contains(number))?;
            Some((number * 1000.0).round() as u32)
        };
        let duration = |value: &str| parse_duration(value.as_bytes()).filter(|nanos| *nanos > 0);
        for part in text.split(',') {
            let (key, value) = part.trim().split_once('=')?;
            match key {
                "min" => backoff.min = duration(value)?,
                "max" => backoff.max = duration(value)?,
                "factor" => backoff.factor = thousandths(value, 1.0, 100.0)?,
                "jitter" => backoff.jitter = thousandths(value, 0.0, 1.0)?,
                _ => return None,
            }
        }
        (backoff.min > 0 && backoff.min <= backoff.max).then_some(backoff)
    }
}

/// Where a consumer's dead letters go, and which messages become some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterPolicy {
    /// The stream that has to take them.
    pub stream: String,
    subject: String,
    /// Ends that count.
    pub on: DeadOn,
    /// Pauses before a message comes again; `None`: those of the configuration.
    pub backoff: Option<RetryBackoff>,
}

impl DeadLetterPolicy {
    /// Reads what a consumer is told by its metadata; `None`: nothing.
    ///
    /// # Errors
    /// Words for what of it cannot be followed.
    pub fn read(config: &ConsumerConfig) -> Result<Option<Self>, String> {
        let own = config.metadata.iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value)));
        let mut own = own.peekable();
        if own.peek().is_none() {
            return Ok(None);
        }
        let (mut target, mut subject, mut on, mut backoff) = (None, SUBJECT, None, None);
        for (name, value) in own {
            match name {
                "stream" => target = Some(value.as_str()),
                "subject" => subject = value,
                "on" => on = Some(ends(value)?),
                "backoff" => backoff = Some(pauses(value, config)?),
                _ => return Err(format!("{PREFIX}{name}: there is no such key")),
            }
        }
        let target = target.ok_or("myelin.dlq.stream is missing")?;
        if !is_asset_name(target) {
            return Err(format!("myelin.dlq.stream: '{target}' is no name of a stream"));
        }
        let is_limited = config.max_deliver > 0;
        let on = match on {
            Some(DeadOn::Exhausted) if !is_limited => {
                return Err("myelin.dlq.on: nothing is ever exhausted without max_deliver".to_owned());
            }
            on => on.unwrap_or(DeadOn::Both),
        };
        if config.ack_policy != AckPolicy::Explicit {
            return Err("dead letters need ack_policy explicit".to_owned());
        }
        let example = fill(subject, "x", "x").replace("{subject}", "x");
        if !is_literal(example.as_bytes()) || !is_well_formed(example.as_bytes()) {
            return Err(format!("myelin.dlq.subject: '{subject}' is no subject"));
        }
        Ok(Some(Self { stream: target.to_owned(), subject: subject.to_owned(), on, backoff }))
    }

    /// Checks what a request says of a consumer of the stream `stream`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and where the stream is to take its own dead letters.
    pub(super) fn check(config: &ConsumerConfig, stream: &str) -> Result<(), String> {
        match Self::read(config)? {
            Some(policy) if policy.stream == stream => {
                Err("myelin.dlq.stream: a stream does not take its own dead letters".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Subject of the dead letters of a consumer, but for the tokens that say which message it is:
    /// its own subject comes in the place of each `{subject}`.
    #[must_use]
    pub fn subject(&self, stream: &str, consumer: &str) -> String {
        fill(&self.subject, stream, consumer)
    }

    /// Whether the subject says by itself of which consumer of which stream a letter is: what else
    /// it says, other consumers may say, too.
    #[must_use]
    pub fn names_consumer(&self) -> bool {
        let has = |token: &str| self.subject.split('.').any(|one| one == token);
        has("{stream}") && has("{consumer}")
    }

    /// Whether what was delivered as often as it may be is moved.
    #[must_use]
    pub fn takes_exhausted(&self) -> bool {
        self.on != DeadOn::Terminated
    }

    /// Whether what a client has terminated is moved.
    #[must_use]
    pub fn takes_terminated(&self) -> bool {
        self.on != DeadOn::Exhausted
    }
}

fn fill(subject: &str, stream: &str, consumer: &str) -> String {
    subject.replace("{stream}", stream).replace("{consumer}", consumer)
}

fn pauses(text: &str, config: &ConsumerConfig) -> Result<RetryBackoff, String> {
    if !config.backoff.is_empty() {
        return Err("myelin.dlq.backoff: there is a backoff in the configuration".to_owned());
    }
    RetryBackoff::read(text)
        .ok_or_else(|| format!("myelin.dlq.backoff: '{text}' is not like min=1s,max=5m,factor=2,jitter=0.2"))
}

fn ends(text: &str) -> Result<DeadOn, String> {
    match text {
        "exhausted" => Ok(DeadOn::Exhausted),
        "terminated" => Ok(DeadOn::Terminated),
        "both" => Ok(DeadOn::Both),
        _ => Err(format!("myelin.dlq.on: '{text}' is none of exhausted, terminated, both")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(metadata: &[(&str, &str)]) -> ConsumerConfig {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ConsumerConfig {
            name: "C".into(),
            ack_policy: AckPolicy::Explicit,
            max_deliver: 3,
            metadata: metadata.collect(),
            ..ConsumerConfig::default()
        }
    }

    #[test]
    fn a_stream_is_enough() {
        assert_eq!(DeadLetterPolicy::read(&config(&[("myelin.dlqs", "x"), ("z", "y")])), Ok(None));
        let policy = DeadLetterPolicy::read(&config(&[("myelin.dlq.stream", "D")]));
        let policy = policy.expect("it is valid").expect("it is there");
        assert!(policy.takes_exhausted() && policy.takes_terminated());
        assert_eq!(policy.subject("S", "C"), "dlq.S.C");
        assert!(policy.names_consumer());
        let keys = [("myelin.dlq.stream", "D"), ("myelin.dlq.subject", "dead.{consumer}.{subject}")];
        let policy = DeadLetterPolicy::read(&config(&keys)).expect("it is valid").expect("it is there");
        assert_eq!(policy.subject("S", "C"), "dead.C.{subject}");
        assert!(!policy.names_consumer(), "streams may have consumers of one name");
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let backoff = RetryBackoff::read("min=1s, max=10s, factor=3, jitter=0.25").expect("it is one");
        assert_eq!((backoff.factor, backoff.jitter), (3000, 250));
        let pauses = [0, 1, 2, 3, u64::MAX].map(|redelivered| backoff.pause(redelivered) / 1_000_000);
        assert_eq!(pauses, [1000, 3000, 9000, 10_000, 10_000]);
        assert_eq!(RetryBackoff::read("min=1s").map(|backoff| backoff.factor), Some(2000));
        for text in ["", "max=1s", "min=0s", "min=1s,factor=0.5", "min=1s,jitter=2", "min=1s,most=2s", "min"]
        {
            assert_eq!(RetryBackoff::read(text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_told() {
        let stream = ("myelin.dlq.stream", "D");
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("myelin.dlq.on", "both")], "myelin.dlq.stream is missing"),
            (&[("myelin.dlq.stream", "a.b")], "myelin.dlq.stream: 'a.b' is no name of a stream"),
            (&[("myelin.dlq.stream", "")], "myelin.dlq.stream: '' is no name of a stream"),
            (&[("myelin.dlq.stream", "S")], "myelin.dlq.stream: a stream does not take its own dead letters"),
            (
                &[stream, ("myelin.dlq.on", "never")],
                "myelin.dlq.on: 'never' is none of exhausted, terminated, both",
            ),
            (&[stream, ("myelin.dlq.subject", "a..b")], "myelin.dlq.subject: 'a..b' is no subject"),
            (&[stream, ("myelin.dlq.subject", "a.>")], "myelin.dlq.subject: 'a.>' is no subject"),
            (
                &[stream, ("myelin.dlq.backoff", "min=2s,max=1s")],
                "myelin.dlq.backoff: 'min=2s,max=1s' is not like min=1s,max=5m,factor=2,jitter=0.2",
            ),
            (&[stream, ("myelin.dlq.steam", "D")], "myelin.dlq.steam: there is no such key"),
        ];
        for (keys, why) in cases {
            assert_eq!(DeadLetterPolicy::check(&config(keys), "S"), Err((*why).to_owned()), "{keys:?}");
        }
        let for_ever =
            ConsumerConfig { max_deliver: -1, ..config(&[stream, ("myelin.dlq.on", "exhausted")]) };
        assert!(DeadLetterPolicy::read(&for_ever).is_err(), "nothing is ever exhausted");
        let all = ConsumerConfig { ack_policy: AckPolicy::All, ..config(&[stream]) };
        assert!(DeadLetterPolicy::read(&all).is_err(), "one acknowledgement would settle others");
    }
}
