//! Names of a subject of one account in another, and the imported streams that have such names.

use super::config::StreamImport;
use myelin_subject::{Transform, TransformError, has_wildcard, intersection, numbered, starred};
use std::borrow::Cow;

/// The name on the other side of an import.
#[derive(Debug)]
pub(crate) enum Naming {
    /// The subject itself.
    Same,
    /// One name, whatever the subject.
    Fixed(Box<[u8]>),
    /// The wildcards go elsewhere.
    Transformed(Box<Transform>),
}

impl Naming {
    /// The other name of `subject`, which is known to match, in `out`.
    #[inline]
    pub(crate) fn write(&self, subject: &[u8], out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::Same => out.extend_from_slice(subject),
            Self::Fixed(name) => out.extend_from_slice(name),
            // What is reversible draws nothing.
            Self::Transformed(transform) => transform.rewrite(subject, &mut || 0, out),
        }
    }

    /// Returns the other name of `subject`, which is known to match.
    pub(crate) fn name<'a>(&'a self, subject: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            Self::Same => Cow::Borrowed(subject),
            Self::Fixed(name) => Cow::Borrowed(name),
            Self::Transformed(transform) => {
                let mut out = Vec::with_capacity(subject.len() + 16);
                transform.rewrite(subject, &mut || 0, &mut out);
                Cow::Owned(out)
            }
        }
    }
}

/// The names of an import on both sides.
#[derive(Debug)]
pub(crate) struct ImportNames {
    /// The pattern in the importing account.
    pub(crate) here: Box<[u8]>,
    /// From there to here.
    pub(crate) inward: Naming,
    /// From here to there. `None`: nobody can say.
    pub(crate) outward: Option<Naming>,
}

impl ImportNames {
    /// Of a stream. `there` is a pattern, `to` the name here, which may say `$1` for the first
    /// wildcard of the other.
    pub(crate) fn of_stream(there: &str, to: &str) -> Result<Self, TransformError> {
        Self::new(there, to, |there, to| Transform::inverse(there, to).ok())
    }

    /// Naming of a service import. `there` is a pattern, `to` the name here.
    pub(crate) fn of_service(there: &str, to: &str) -> Result<Self, TransformError> {
        Self::new(there, to, turned)
    }

    fn new(
        there: &str,
        to: &str,
        outward: impl FnOnce(&str, &str) -> Option<Transform>,
    ) -> Result<Self, TransformError> {
        if there == to {
            return Ok(Self {
                here: to.as_bytes().into(),
                inward: Naming::Same,
                outward: Some(Naming::Same),
            });
        }
        if !has_wildcard(there.as_bytes()) {
            let (inward, outward) =
                (Naming::Fixed(to.as_bytes().into()), Naming::Fixed(there.as_bytes().into()));
            return Ok(Self { here: to.as_bytes().into(), inward, outward: Some(outward) });
        }
        let destination = numbered(to);
        let inward = Naming::Transformed(Box::new(Transform::reversible(there, &destination)?));
        let outward = outward(there, &destination).map(|transform| Naming::Transformed(Box::new(transform)));
        Ok(Self { here: starred(&destination).0.into_bytes().into(), inward, outward })
    }
}

/// An imported stream, as a subscription that listens to it has to know it.
pub(crate) struct ImportedStream {
    /// Name of the account that imports.
    importer: Box<str>,
    pub(super) import: StreamImport,
    names: ImportNames,
}

impl ImportedStream {
    /// The stream of `import`, if its names are such that one leads to the other.
    pub(super) fn new(import: &StreamImport, importer: &str) -> Option<Self> {
        let names = ImportNames::of_stream(&import.subject, &import.to).ok()?;
        Some(Self { importer: importer.into(), import: import.clone(), names })
    }

    /// Translates `pattern`, to which somebody subscribes here, into the pattern there, if there is
    /// anything.
    pub(crate) fn reach(&self, pattern: &[u8]) -> Option<Vec<u8>> {
        let both = intersection(pattern, &self.names.here)?;
        match &self.names.outward {
            Some(outward) => Some(outward.name(&both).into_owned()),
            // Too much, but whoever does not want it does not get it either.
            None => Some(self.import.subject.as_bytes().to_vec()),
        }
    }

    /// The name here.
    pub(crate) fn naming(&self) -> &Naming {
        &self.names.inward
    }

    /// Whether what is [reached](Self::reach) is nothing but what was asked for.
    pub(crate) fn is_exact(&self) -> bool {
        self.names.outward.is_some()
    }

    /// Name of the account that imports.
    pub(crate) fn importer(&self) -> &str {
        &self.importer
    }

    /// Whether traces come along.
    pub(crate) fn allows_trace(&self) -> bool {
        self.import.allow_trace
    }
}

/// From `to` to `there`, where the numbers in `to` stand for the wildcards of `there` in their
/// order.
///
/// Compat: that is the way back of two wildcards that change places, as of all that keep theirs,
/// but not where three or more go round. Configurations count on it.
fn turned(there: &str, to: &str) -> Option<Transform> {
    let (pattern, numbers) = starred(to);
    let mut numbers = numbers.into_iter();
    let mut tokens = Vec::new();
    for token in there.split('.') {
        tokens.push(if token == "*" { format!("${}", numbers.next()?) } else { token.to_owned() });
    }
    Transform::new(&pattern, &tokens.join(".")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_go_round_as_in_the_reference() {
        let names = |to| ImportNames::of_service("a.*.*.*", to).unwrap().outward.unwrap();
        assert_eq!(&*names("b.$2.$3.$1").name(b"b.2.3.1"), b"a.3.1.2");
        assert_eq!(&*names("b.$2.$1.$3").name(b"b.2.1.3"), b"a.1.2.3");
    }

    fn both(there: &str, to: &str, subject: &str) -> (String, String, String) {
        let names = ImportNames::of_stream(there, to).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let here = names.inward.name(subject.as_bytes());
        let back = names.outward.as_ref().map(|outward| text(&outward.name(&here)));
        (text(&names.here), text(&here), back.unwrap_or_default())
    }

    #[test]
    fn what_comes_in_goes_out_under_its_own_name() {
        let cases = [
            ("a.*", "a.*", "a.1", "a.*", "a.1"),
            ("a", "b", "a", "b", "b"),
            ("a.*", "b.*", "a.1", "b.*", "b.1"),
            ("a.*.*", "b.$2.x.$1", "a.1.2", "b.*.x.*", "b.2.x.1"),
            ("a.*.*.*", "$2.$3.$1", "a.1.2.3", "*.*.*", "2.3.1"),
            ("a.*.>", "b.{{wildcard(1)}}.>", "a.1.2.3", "b.*.>", "b.1.2.3"),
            (">", "from.a.>", "x.y", "from.a.>", "from.a.x.y"),
        ];
        for (there, to, subject, pattern, here) in cases {
            let expected = (pattern.to_owned(), here.to_owned(), subject.to_owned());
            assert_eq!(both(there, to, subject), expected, "{there} to {to}");
        }
    }

    #[test]
    fn patterns_go_both_ways_too() {
        let names = ImportNames::of_stream("a.*.*", "b.$2.$1").unwrap();
        assert_eq!(&*names.outward.unwrap().name(b"b.*.x"), b"a.x.*");
    }

    #[test]
    fn who_uses_a_wildcard_twice_has_no_way_back() {
        assert!(ImportNames::of_stream("a.*.*", "b.$1.$1").unwrap().outward.is_none());
        assert!(ImportNames::of_stream("a.*.*", "b.$1").is_err());
    }
}
