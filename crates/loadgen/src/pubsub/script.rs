//! The messages that one publisher sends, encoded before the clock starts.
//!
//! A script is a cycle of bursts; a burst is a few hundred KiB of PUBs that end at a message
//! boundary. Subjects and sizes rotate, so that no server lives off one repeated line. Owns the
//! rule that says what the payload of a message is, which `verify` checks at the other end. Never
//! sends anything.

/// How far apart the payloads of neighbouring subjects begin in the text.
const TEXT_STEP: usize = 7;

/// Payloads of subjects that many numbers apart begin at the same place.
const TEXT_STARTS: usize = 64;

/// Memory that one script may take; only rotations of very large messages are cut short by it.
const MAX_SCRIPT: usize = 64 * 1024 * 1024;

/// Which subjects a publisher uses and under which sid a receiver knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSubjects {
    /// `base.first` to `base.(first + count - 1)`, received through `base.*` or `base.>` under sid
    /// 1.
    Rotating {
        /// Start of the subjects, without the dot.
        base: String,
        /// Number of the first subject.
        first: usize,
        /// Number of different subjects.
        count: usize,
    },
    /// `base.0` to `base.(count - 1)`, each with its own subscription, whose sid is the number plus
    /// 1.
    Own {
        /// Start of the subjects, without the dot.
        base: String,
        /// Number of different subjects.
        count: usize,
    },
}

impl ScriptSubjects {
    fn count(&self) -> usize {
        match self {
            Self::Rotating { count, .. } | Self::Own { count, .. } => *count,
        }
    }

    /// The number of the `turn`-th subject, and the subject itself.
    fn at(&self, turn: usize) -> (usize, String) {
        match self {
            Self::Rotating { base, first, count } => {
                let number = first + turn * stride(*count) % count;
                (number, format!("{base}.{number}"))
            }
            Self::Own { base, count } => {
                let number = turn * stride(*count) % count;
                (number, format!("{base}.{number}"))
            }
        }
    }

    fn sid(&self, number: usize) -> usize {
        match self {
            Self::Own { .. } => number + 1,
            Self::Rotating { .. } => 1,
        }
    }
}

/// A step that visits every one of `count` subjects in an order without locality.
pub(crate) fn stride(count: usize) -> usize {
    let mut stride = 61_803;
    while common_divisor(stride, count) != 1 {
        stride += 1;
    }
    stride
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Payload sizes in rotation, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<usize>);

impl Sizes {
    /// Every payload has this size.
    pub(crate) fn exactly(size: usize) -> Self {
        Self(vec![size])
    }

    /// Five sizes from 3/4 to 5/4 of `nominal`, whose average is `nominal`; the nominal size alone
    /// where the spread would be nothing or would break the server's limit.
    pub fn around(nominal: usize, limit: usize) -> Self {
        let step = nominal / 8;
        if step == 0 || nominal + 2 * step > limit {
            return Self::exactly(nominal);
        }
        Self(vec![nominal, nominal + step, nominal - 2 * step, nominal + 2 * step, nominal - step])
    }

    /// Bytes of the largest payload.
    pub fn largest(&self) -> usize {
        self.0.iter().copied().max().unwrap_or(0)
    }

    fn average(&self) -> usize {
        self.0.iter().sum::<usize>() / self.0.len()
    }
}

/// A publisher's messages, encoded, to be sent over and over.
#[derive(Debug)]
pub struct Script {
    pub(crate) bursts: Vec<Burst>,
    /// Messages of the bursts, in order: for the verifier at the other end.
    pub messages: Vec<ScriptMessage>,
}

/// A piece of a script that is written at once.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    pub(crate) bytes: Vec<u8>,
    /// Where in `bytes` each message ends.
    pub(crate) ends: Vec<usize>,
    /// Bytes of MSG frames that a subscriber receives for the messages up to and including each.
    pub(crate) delivered: Vec<u64>,
    /// Payload bytes of the messages up to and including each.
    pub(crate) payload: Vec<u64>,
}

/// One message of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptMessage {
    /// The number behind the base of the subject.
    pub(crate) number: usize,
    pub(crate) size: usize,
}

impl Script {
    /// Encodes a whole rotation of subjects and sizes, repeated until it fills a burst of
    /// `burst_size` bytes. A message larger than that is a burst of its own.
    pub fn encode(subjects: &ScriptSubjects, sizes: &Sizes, burst_size: usize) -> Self {
        Self::encode_from(&text(sizes.largest()), subjects, sizes, burst_size)
    }

    /// Encodes a rotation with payloads cut from `text`, which is as long as that of [`text`] or
    /// [`json`].
    pub(crate) fn encode_from(
        text: &[u8],
        subjects: &ScriptSubjects,
        sizes: &Sizes,
        burst_size: usize,
    ) -> Self {
        let mut script = Self { bursts: Vec::new(), messages: Vec::new() };
        let mut burst = Burst::default();
        let length = script_length(subjects, sizes, burst_size);
        for (number, subject, size) in rotation(subjects, sizes).cycle().take(length) {
            let payload = payload(text, number, size);
            if !burst.bytes.is_empty() && burst.bytes.len() + subject.len() + size + 32 > burst_size {
                script.bursts.push(std::mem::take(&mut burst));
            }
            burst.push(&subject, subjects.sid(number), payload);
            script.messages.push(ScriptMessage { number, size });
        }
        script.bursts.push(burst);
        script
    }

    /// The largest payload, in bytes.
    pub fn largest(&self) -> usize {
        self.messages.iter().map(|message| message.size).max().unwrap_or(0)
    }
}

/// One turn of all subjects and all sizes: subject numbers, subjects and payload sizes.
pub fn rotation<'a>(
    subjects: &'a ScriptSubjects,
    sizes: &'a Sizes,
) -> impl Iterator<Item = (usize, String, usize)> + Clone + 'a {
    (0..rotation_length(subjects, sizes)).map(|turn| {
        let (number, subject) = subjects.at(turn);
        (number, subject, sizes.0[turn % sizes.0.len()])
    })
}

fn rotation_length(subjects: &ScriptSubjects, sizes: &Sizes) -> usize {
    let (subjects, kinds) = (subjects.count(), sizes.0.len());
    subjects * kinds / common_divisor(subjects, kinds)
}

/// Messages in a script: whole rotations, within the memory limit.
fn script_length(subjects: &ScriptSubjects, sizes: &Sizes, burst_size: usize) -> usize {
    let rotation = rotation_length(subjects, sizes);
    let average = sizes.average() + 24;
    let rotations = (burst_size / (rotation * average)).max(1);
    (rotation * rotations).min((MAX_SCRIPT / average).max(1))
}

impl Burst {
    fn push(&mut self, subject: &str, sid: usize, payload: &[u8]) {
        let size = payload.len();
        self.bytes.extend_from_slice(format!("PUB {subject} {size}\r\n").as_bytes());
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(b"\r\n");
        self.ends.push(self.bytes.len());
        let frame = format!("MSG {subject} {sid} {size}\r\n").len() + size + 2;
        self.delivered.push(self.delivered.last().unwrap_or(&0) + frame as u64);
        self.payload.push(self.payload.last().unwrap_or(&0) + size as u64);
    }

    /// Messages in this burst.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// The text from which payloads up to `largest` bytes are cut: printable, and without the
/// repetition that a compressor or a branch predictor would like.
pub fn text(largest: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut text = Vec::with_capacity(largest + TEXT_STEP * TEXT_STARTS + 8);
    while text.len() < largest + TEXT_STEP * TEXT_STARTS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend(state.to_le_bytes().map(|byte| b'!' + byte % 90));
    }
    text
}

/// Text of the same length that a compressor likes as much as it does the records of real services.
pub(crate) fn json(largest: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for n in 0_u64.. {
        if text.len() >= largest + TEXT_STEP * TEXT_STARTS + 8 {
            break;
        }
        let random = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let (sensor, celsius, millis) = (random % 97, random % 4000, random % 1000);
        let record = format!(
            "{{\"id\":\"{random:011x}\",\"sensor\":\"hall-{sensor}\",\"celsius\":{}.{},\"ok\":{},\
             \"at\":\"2026-11-25T12:{:02}:{:02}.{millis:03}Z\"}},",
            celsius / 100,
            celsius % 100,
            random % 5 > 0,
            n / 60 % 60,
            n % 60,
        );
        text.extend_from_slice(record.as_bytes());
    }
    text
}

/// The payload of the message of this size on the subject with this number.
pub fn payload(text: &[u8], number: usize, size: usize) -> &[u8] {
    let start = number % TEXT_STARTS * TEXT_STEP;
    &text[start..start + size]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::frame::FrameCounter;

    fn rotating(count: usize) -> ScriptSubjects {
        ScriptSubjects::Rotating { base: "b".into(), first: 0, count }
    }

    /// The bytes that a receiver gets for a script, made the slow way.
    fn delivered(script: &Script, subjects: &ScriptSubjects) -> Vec<u8> {
        let text = text(4096);
        let mut bytes = Vec::new();
        for (turn, message) in script.messages.iter().enumerate() {
            let (number, subject) = subjects.at(turn);
            assert_eq!(number, message.number);
            let payload = std::str::from_utf8(payload(&text, number, message.size)).unwrap();
            let sid = subjects.sid(number);
            bytes.extend(format!("MSG {subject} {sid} {}\r\n{payload}\r\n", message.size).into_bytes());
        }
        bytes
    }

    #[test]
    fn the_announced_sums_are_those_of_the_frames() {
        let own = ScriptSubjects::Own { base: "own".into(), count: 1000 };
        for subjects in [rotating(64), own, rotating(1)] {
            for (nominal, burst) in [(128, 4096), (0, 256), (1024, 100)] {
                let script = Script::encode(&subjects, &Sizes::around(nominal, 1 << 20), burst);
                let frames = delivered(&script, &subjects);
                let sum = |of: fn(&Burst) -> u64| script.bursts.iter().map(of).sum::<u64>();
                let announced = sum(|b| *b.delivered.last().unwrap());
                assert_eq!(announced, frames.len() as u64);
                let mut counter = FrameCounter::default();
                counter.feed(&frames).unwrap();
                assert_eq!(counter.tally().messages, sum(|b| b.len() as u64));
                assert_eq!(counter.tally().payload_bytes, sum(|b| *b.payload.last().unwrap()));
            }
        }
    }

    #[test]
    fn bursts_hold_whole_messages_and_respect_the_size() {
        let script = Script::encode(&rotating(64), &Sizes::around(128, 1 << 20), 4096);
        assert!(script.bursts.len() > 1);
        for burst in &script.bursts {
            assert!(burst.bytes.len() <= 4096 && burst.bytes.starts_with(b"PUB b."));
            assert_eq!(burst.ends.last(), Some(&burst.bytes.len()));
        }
        let large = Script::encode(&rotating(4), &Sizes::exactly(5000), 4096);
        assert!(large.bursts.iter().all(|burst| burst.len() == 1));
    }

    #[test]
    fn the_average_size_is_the_nominal_one() {
        for nominal in [0, 1, 7, 8, 16, 128, 4096, 16_384, 1 << 20] {
            let Sizes(sizes) = Sizes::around(nominal, 1 << 20);
            assert_eq!(sizes.iter().sum::<usize>(), nominal * sizes.len());
            assert!(sizes.iter().all(|&size| size <= 1 << 20));
        }
        assert_eq!(Sizes::around(128, 1 << 20).0.len(), 5);
        assert_eq!(Sizes::around(1 << 20, 1 << 20).0.len(), 1);
    }

    #[test]
    fn a_script_uses_every_subject_equally_often() {
        for count in [1, 5, 64, 1000] {
            let script = Script::encode(&rotating(count), &Sizes::around(16, 1 << 20), 1 << 14);
            let mut uses = vec![0; count];
            script.messages.iter().for_each(|message| uses[message.number] += 1);
            assert!(uses.iter().all(|&n| n == uses[0]), "{count}: {uses:?}");
        }
    }
}
