//! Distinguished names: the text of RFC 4514 as users of a configuration are called, and the
//! subject of a certificate, in one form in which they can be compared.
//!
//! Reads text only; the certificate itself is opened elsewhere, which hands in the parts of its
//! subject.

/// A name as its relative names, the most specific first, as RFC 4514 writes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DistinguishedName(Vec<RelativeName>);

/// The attributes of one relative name, in an order of our own: it says nothing.
type RelativeName = Vec<Attribute>;

/// The type of an attribute in capitals, because case does not matter there, and its value, where
/// it does.
type Attribute = (String, Vec<u8>);

impl DistinguishedName {
    /// The name that `text` writes; `None` if it writes none.
    ///
    /// Compat: lenient where the reference is. A second `=` in an attribute begins it anew, an
    /// attribute at the end of the text without a value is overlooked, and so is a backslash.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut reader = NameReader { bytes: text.as_bytes(), ..NameReader::default() };
        reader.read()?;
        Self::of(reader.names)
    }

    /// The subject of a certificate: its relative names in the order in which they stand there.
    /// `None` if it is empty.
    #[must_use]
    pub fn from_certificate(names: Vec<Vec<(String, Vec<u8>)>>) -> Option<Self> {
        Self::of(names.into_iter().rev().filter(|name| !name.is_empty()).collect())
    }

    fn of(mut names: Vec<RelativeName>) -> Option<Self> {
        for name in &mut names {
            name.iter_mut().for_each(|(kind, _)| kind.make_ascii_uppercase());
            name.sort_unstable();
        }
        (!names.is_empty()).then_some(Self(names))
    }

    /// Sorts the relative names, so that two names are equal which differ only in their order.
    #[must_use]
    pub(crate) fn sorted(&self) -> Self {
        let mut names = self.0.clone();
        names.sort_unstable();
        Self(names)
    }
}

/// Reads RFC 4514.
#[derive(Default)]
struct NameReader<'t> {
    bytes: &'t [u8],
    at: usize,
    names: Vec<RelativeName>,
    attributes: RelativeName,
    kind: Vec<u8>,
    value: Vec<u8>,
    /// Blanks at the end of `value` that were not escaped, and so may be none of it.
    blanks: usize,
}

impl NameReader<'_> {
    fn read(&mut self) -> Option<()> {
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.escaped()?,
                b'=' => {
                    self.kind = self.take();
                    if self.bytes.get(self.at) == Some(&b'#') {
                        // A value in BER.
                        return None;
                    }
                }
                b',' | b'+' => {
                    self.push()?;
                    if byte == b',' {
                        self.names.push(std::mem::take(&mut self.attributes));
                    }
                }
                b' ' if self.value.is_empty() => {}
                _ => {
                    self.blanks = if byte == b' ' { self.blanks + 1 } else { 0 };
                    self.value.push(byte);
                }
            }
        }
        if !self.value.is_empty() {
            self.push()?;
            self.names.push(std::mem::take(&mut self.attributes));
        }
        Some(())
    }

    /// Reads what stands behind a backslash: a special character, or a byte in hex.
    fn escaped(&mut self) -> Option<()> {
        self.blanks = 0;
        let Some(&byte) = self.bytes.get(self.at) else { return Some(()) };
        if b" \"#+,;<=>\\".contains(&byte) {
            self.value.push(byte);
            self.at += 1;
            return Some(());
        }
        let digit = |at: usize| char::from(*self.bytes.get(at)?).to_digit(16);
        let (high, low) = (digit(self.at)?, digit(self.at + 1)?);
        self.value.push(u8::try_from(high * 16 + low).ok()?);
        self.at += 2;
        Some(())
    }

    fn push(&mut self) -> Option<()> {
        if self.kind.is_empty() {
            return None;
        }
        let kind = String::from_utf8(std::mem::take(&mut self.kind)).ok()?;
        let value = self.take();
        self.attributes.push((kind, value));
        Some(())
    }

    /// Takes what was collected, without blanks at its end.
    fn take(&mut self) -> Vec<u8> {
        let length = self.value.len() - std::mem::take(&mut self.blanks);
        self.value.truncate(length);
        std::mem::take(&mut self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&[(&str, &str)]]) -> DistinguishedName {
        let part = |&(kind, value): &(&str, &str)| (kind.to_owned(), value.as_bytes().to_vec());
        let names = parts.iter().map(|name| name.iter().map(part).collect()).collect();
        DistinguishedName::from_certificate(names).expect("a name")
    }

    /// As the tables of the reference's own tests have it, and RFC 4514.
    #[test]
    fn text_is_read_as_rfc_4514_writes_it() {
        let dc = of(&[&[("DC", "net")], &[("DC", "example")], &[("OU", "Sales"), ("CN", "J. Smith")]]);
        for text in [
            "OU=Sales+CN=J. Smith,DC=example,DC=net",
            "ou=Sales+cn=J. Smith, dc=example , dc=net",
            "CN=J. Smith+OU=Sales,DC=example,DC=net",
            "CN=J\\2e\\20Smith+OU=Sales,DC=example,DC=net\\",
        ] {
            assert_eq!(DistinguishedName::parse(text), Some(dc.clone()), "{text}");
        }
        let odd = of(&[&[("CN", " a,b=\"c\" ")]]);
        assert_eq!(DistinguishedName::parse("CN=\\ a\\,b\\=\\\"c\\\"\\ "), Some(odd));
        for text in ["", " ", "a", "CN", "=a", ",", "CN=a,b", "CN=#04024869", "CN=\\", "CN=a\\z0", "CN=a\\0"]
        {
            assert_eq!(DistinguishedName::parse(text), None, "{text:?}");
        }
        // The oddities.
        assert_eq!(DistinguishedName::parse("CN=a,O="), DistinguishedName::parse("CN=a"));
        assert_eq!(DistinguishedName::parse("CN=a=b"), DistinguishedName::parse("A=b"));
    }

    /// SN 2026-13: what a certificate says in another order, or more than once, was taken for
    /// somebody else.
    #[test]
    fn order_is_one_thing_and_what_stands_there_another() {
        let name = |text| DistinguishedName::parse(text).expect(text);
        let (one, other) = (name("CN=a,OU=b,O=c"), name("O=c,OU=b,CN=a"));
        assert_ne!(one, other);
        assert_eq!(one.sorted(), other.sorted());
        // No part may stand for two.
        for (one, other) in [
            ("CN=a,CN=a,O=c", "CN=a,O=c,O=c"),
            ("CN=a+CN=a+O=c", "CN=a+O=c+O=c"),
            ("CN=a,O=c", "CN=a,O=c,O=d"),
            ("CN=a+O=c", "CN=a,O=c"),
            ("CN=a", "CN=A"),
            ("CN=a", "OU=a"),
        ] {
            assert_ne!(name(one).sorted(), name(other).sorted(), "{one} {other}");
        }
    }
}
