//! Rendering of an origin's message for this stream: its subject, its headers, and where it comes
//! from.

use myelin_jsapi::config::StreamSource;
use myelin_store::{Message, Seq};
use myelin_streams::consumer::account_hash as hash;
use myelin_subject::Transform;
use myelin_wire::encode;

/// Headers that are not copied: what the publisher expected of the other stream, and of its batch.
const DROPPED: [&[u8]; 2] = [b"Nats-Expected-", b"Nats-Batch-"];
const SOURCE: &[u8] = b"Nats-Stream-Source:";
const FIRST: &[u8] = b"NATS/1.0\r\n";

/// The name by which positions are kept and that headers carry, in three tokens: the stream (with a
/// hash of how it is reached, and one of the consumer), what is taken of it, what is made of that.
pub(super) fn index_name(source: &StreamSource) -> String {
    let mut name = source.name.clone();
    if let Some(external) = &source.external {
        name = format!("{name}:{}", hash(&external.api));
    }
    if let Some(consumer) = &source.consumer {
        name = format!("{name}:C={}", hash(&consumer.name));
    }
    let or_all = |subject: &str| if subject.is_empty() { ">".to_owned() } else { subject.to_owned() };
    let (mut from, mut to) = (vec![or_all(&source.filter_subject)], vec![">".to_owned()]);
    if !source.subject_transforms.is_empty() {
        from = source.subject_transforms.iter().map(|pair| or_all(&pair.source)).collect();
        to = source.subject_transforms.iter().map(|pair| or_all(&pair.destination)).collect();
    }
    format!("{name} {} {}", from.join("\u{c}"), to.join("\u{c}"))
}

/// How the messages of one origin are rendered.
pub(super) struct SourceRenderer {
    transforms: Vec<Transform>,
    /// The three tokens; `None` for a mirror, which does not say.
    index: Option<[Box<str>; 3]>,
    subject: Vec<u8>,
    headers: Vec<u8>,
}

impl SourceRenderer {
    pub(super) fn new(source: &StreamSource, is_mirror: bool) -> Self {
        let pairs = source.subject_transforms.iter();
        // One without a destination only filters.
        let transforms = pairs.filter_map(|pair| {
            let from = if pair.source.is_empty() { ">" } else { &pair.source };
            Transform::new(from, &pair.destination).ok()
        });
        let name = index_name(source);
        let mut tokens = name.split(' ');
        let mut token = || Box::from(tokens.next().unwrap_or_default());
        Self {
            transforms: transforms.collect(),
            index: (!is_mirror).then(|| [token(), token(), token()]),
            subject: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// Subject and headers as they are to be stored.
    pub(super) fn render<'a>(
        &'a mut self,
        message: &'a Message<'_>,
        identity: &str,
        random: &mut impl FnMut() -> u32,
    ) -> (&'a [u8], &'a [u8]) {
        let Self { transforms, index, subject, headers } = self;
        let is_mapped =
            transforms.iter().any(|transform| transform.transform(message.subject, random, subject).is_ok());
        let mapped = if is_mapped { subject.as_slice() } else { message.subject };
        if let Some(index) = index {
            headers.clear();
            write_kept(message.headers, headers);
            write_source(index, (message.seq, message.subject, identity), headers);
        } else if drops_some(message.headers) {
            headers.clear();
            write_kept(message.headers, headers);
            if headers.len() > FIRST.len() {
                headers.extend_from_slice(b"\r\n");
            } else {
                headers.clear();
            }
        } else {
            return (mapped, message.headers);
        }
        (mapped, headers)
    }
}

fn lines(headers: &[u8]) -> impl Iterator<Item = &[u8]> {
    headers.split_inclusive(|&byte| byte == b'\n').skip(1)
}

fn is_dropped(line: &[u8]) -> bool {
    DROPPED.iter().any(|prefix| line.starts_with(prefix))
}

fn drops_some(headers: &[u8]) -> bool {
    !headers.is_empty() && lines(headers).any(is_dropped)
}

/// Writes the first line and those that are taken along, without the empty one.
fn write_kept(headers: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(FIRST);
    if headers.is_empty() {
        return;
    }
    let kept =
        lines(headers).filter(|line| !is_dropped(line) && !line.starts_with(SOURCE) && *line != b"\r\n");
    kept.for_each(|line| out.extend_from_slice(line));
}

/// `<stream> <seq> <filter> <mapping> <subject> <identity>`, and the end of the headers.
fn write_source(index: &[Box<str>; 3], (seq, subject, identity): (Seq, &[u8], &str), out: &mut Vec<u8>) {
    let [stream, filter, mapping] = index;
    out.extend_from_slice(SOURCE);
    out.push(b' ');
    out.extend_from_slice(stream.as_bytes());
    out.push(b' ');
    encode::number(out, seq);
    for part in [filter.as_bytes(), mapping.as_bytes(), subject, identity.as_bytes()] {
        out.push(b' ');
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b"\r\n\r\n");
}

/// Fields of the header that names a message's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceHeader<'a> {
    /// The three tokens of the name by which positions are kept.
    name: [&'a str; 3],
    /// The sequence there.
    pub(super) seq: Seq,
    /// Hash that tells the origin from another stream of its name.
    pub(super) identity: &'a str,
}

impl<'a> SourceHeader<'a> {
    /// Compat: without the fourth token it says nothing that could be used.
    pub(super) fn read(value: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let mut tokens = text.split(' ');
        let mut token = || tokens.next();
        let (stream, seq, filter, mapping) = (token()?, token()?, token()?, token()?);
        let _subject = token();
        let identity = token().unwrap_or_default();
        Some(Self { name: [stream, filter, mapping], seq: seq.parse().ok()?, identity })
    }

    /// The name by which its position is kept.
    pub(super) fn index(&self) -> String {
        self.name.join(" ")
    }

    /// Whether that is `index`.
    pub(super) fn is_of(&self, index: &str) -> bool {
        index.split(' ').eq(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_jsapi::config::{ExternalStream, SubjectTransform};

    fn message<'a>(headers: &'a [u8]) -> Message<'a> {
        Message { seq: 7, timestamp: 1, expires: None, subject: b"o.a", headers, payload: b"x" }
    }

    fn pair(source: &str, destination: &str) -> SubjectTransform {
        SubjectTransform { source: source.into(), destination: destination.into() }
    }

    #[test]
    fn a_sourced_message_says_where_it_comes_from() {
        let source =
            StreamSource { name: "O".into(), filter_subject: "o.*".into(), ..StreamSource::default() };
        let mut renderer = SourceRenderer::new(&source, false);
        let headers = b"NATS/1.0\r\nA: 1\r\nNats-Expected-Stream: O\r\nNats-Stream-Source: X 1 > > y\r\nNats-Batch-Id: b\r\n\r\n";
        let message = message(headers);
        let (subject, headers) = renderer.render(&message, "ident123", &mut || 0);
        assert_eq!(subject, b"o.a");
        let expected = "NATS/1.0\r\nA: 1\r\nNats-Stream-Source: O 7 o.* > o.a ident123\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(headers), expected);
        let value = "O 7 o.* > o.a ident123";
        let origin = SourceHeader::read(value.as_bytes()).unwrap();
        assert_eq!((origin.index(), origin.seq, origin.identity), (index_name(&source), 7, "ident123"));
        assert!(origin.is_of(&index_name(&source)) && !origin.is_of("O > >"));
        assert_eq!(SourceHeader::read(b"O 7 >"), None);
    }

    #[test]
    fn a_mirrored_message_is_as_it_was_but_for_what_was_expected() {
        let source = StreamSource {
            name: "O".into(),
            subject_transforms: vec![pair("x", ""), pair("o.*", "m.{{wildcard(1)}}")],
            ..StreamSource::default()
        };
        let mut renderer = SourceRenderer::new(&source, true);
        let plain = message(b"NATS/1.0\r\nA: 1\r\n\r\n");
        let (subject, headers) = renderer.render(&plain, "", &mut || 0);
        assert_eq!((subject, headers), (&b"m.a"[..], &b"NATS/1.0\r\nA: 1\r\n\r\n"[..]));
        let expecting = message(b"NATS/1.0\r\nNats-Expected-Last-Sequence: 6\r\n\r\n");
        assert_eq!(renderer.render(&expecting, "", &mut || 0).1, b"");
        let both = message(b"NATS/1.0\r\nNats-Batch-Id: b\r\nA: 1\r\n\r\n");
        assert_eq!(renderer.render(&both, "", &mut || 0).1, b"NATS/1.0\r\nA: 1\r\n\r\n");
    }

    #[test]
    fn names_of_sources_are_the_references() {
        let external = Some(ExternalStream { api: "$JS.hub.API".into(), deliver: String::new() });
        let transforms = vec![pair("a.*", "b.{{wildcard(1)}}"), pair("", "")];
        let source = StreamSource {
            name: "O".into(),
            subject_transforms: transforms,
            external,
            ..StreamSource::default()
        };
        let name = index_name(&source);
        let tokens: Vec<&str> = name.split(' ').collect();
        assert_eq!(tokens[1..], ["a.*\u{c}>", "b.{{wildcard(1)}}\u{c}>"]);
        assert_eq!(tokens[0].len(), "O:".len() + 8);
        assert_eq!(index_name(&StreamSource { name: "O".into(), ..StreamSource::default() }), "O > >");
    }
}
