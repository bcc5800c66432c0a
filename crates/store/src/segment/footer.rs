//! Footer of a segment, written behind the entries when it is sealed: three sections and a trailer.
//!
//! Owns their layout and their checks. The trailer is the last thing in the file: a file without
//! one is not sealed, and its entries are the only truth. With one, the sections are read instead
//! of the entries.
//!
//! ```text
//! records_end  changes   states after the segment      all three encrypted, where the segment is
//!              slots     a row per message
//!              dictionary  the texts of both
//!     end-128  trailer   0 "MYELFOOT"  8 u32 version  12 u32 0  16 u64 records_end
//!                       24 [48] summary  72 3 x (u64 length, u32 checksum)  108 [8] 0
//!                      116 "MYELSEAL"  124 u32 checksum
//! ```

use myelin_disk::File;

use super::{Changes, HEADER_BYTES, Sizes, Slots, Texts, Totals};
use crate::cipher::Nonce;
use crate::damage::Damage;
use crate::record::FileContext;

/// Bytes of the trailer, the last of a sealed file.
pub const TRAILER_BYTES: usize = 128;

const MAGIC: [u8; 8] = *b"MYELFOOT";
const SEAL: [u8; 8] = *b"MYELSEAL";
const VERSION: u32 = 1;
const SUMMARY_AT: usize = 24;
const SECTIONS_AT: usize = SUMMARY_AT + Totals::BYTES;
const SEAL_AT: usize = 116;
const WHAT: &str = "segment trailer";

/// Footer that sealing adds to a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Of the segment alone, as it was sealed: messages that were deleted since still count.
    pub summary: Totals,
    /// Of the stream, for what the segment touched.
    pub changes: Changes,
    /// Of the segment's messages. Their subjects are all in `changes`.
    pub slots: Slots,
}

/// The three sections, in the order of the file. The codes are those of their nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FooterSection {
    Changes,
    Slots,
    Dictionary,
}

impl FooterSection {
    const ALL: [Self; 3] = [Self::Changes, Self::Slots, Self::Dictionary];

    const fn code(self) -> u32 {
        match self {
            Self::Changes => 1,
            Self::Slots => 2,
            Self::Dictionary => 3,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Changes => "footer section changes",
            Self::Slots => "footer section slots",
            Self::Dictionary => "footer section dictionary",
        }
    }
}

/// Trailer of a sealed segment: where its footer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Where the entries end, and the sections begin.
    pub records_end: u64,
    /// Of the segment alone.
    pub summary: Totals,
    /// Length and checksum.
    sections: [(u64, u32); 3],
}

impl Footer {
    /// Everything that stands behind `records_end` in the sealed file.
    ///
    /// # Panics
    /// If a subject of `slots` is missing in `changes`.
    #[must_use]
    pub fn encode(&self, records_end: u64, context: &FileContext) -> Vec<u8> {
        let numbers = self.numbers();
        let mut trailer = Trailer { records_end, summary: self.summary, sections: [(0, 0); 3] };
        let opening = trailer.to_bytes();
        let aad = &opening[..SECTIONS_AT];
        let mut out = Vec::new();
        for (part, entry) in FooterSection::ALL.into_iter().zip(&mut trailer.sections) {
            let start = out.len();
            match part {
                FooterSection::Changes => out = self.changes.encode(),
                FooterSection::Slots => out.extend_from_slice(&self.slots.encode(&numbers)),
                FooterSection::Dictionary => self.changes.subjects.texts().encode(&mut out),
            }
            if let Some(cipher) = &context.cipher {
                cipher.seal(Nonce::section_at(part.code(), records_end), aad, &mut out, start);
            }
            *entry = ((out.len() - start) as u64, crc32c::crc32c_append(context.seed, &out[start..]));
        }
        let length = trailer.file_len();
        let mut trailer = trailer.to_bytes();
        let checksum = crc32c::crc32c_append(context.seed, &trailer[..124]);
        trailer[124..].copy_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&trailer);
        assert_eq!(records_end + out.len() as u64, length, "the trailer says where the file ends");
        out
    }

    /// Where the subjects of the slots stand among all that the segment touched: both are sorted.
    fn numbers(&self) -> Vec<u32> {
        let mut all = (0u32..).zip(self.changes.subjects.texts().iter());
        let mut number = |text: &[u8]| all.find(|(_, other)| *other == text).map(|(number, _)| number);
        let texts = self.slots.dictionary().texts();
        texts
            .iter()
            .map(|text| number(text).expect("the changes name every subject of the segment"))
            .collect()
    }
}

impl Trailer {
    /// Without its checksum.
    fn to_bytes(self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.records_end.to_le_bytes());
        bytes[SUMMARY_AT..SECTIONS_AT].copy_from_slice(&self.summary.to_bytes());
        for (place, (length, checksum)) in bytes[SECTIONS_AT..].chunks_exact_mut(12).zip(self.sections) {
            place[..8].copy_from_slice(&length.to_le_bytes());
            place[8..].copy_from_slice(&checksum.to_le_bytes());
        }
        bytes[SEAL_AT..124].copy_from_slice(&SEAL);
        bytes
    }

    fn decode(bytes: &[u8; TRAILER_BYTES], file_len: u64, context: &FileContext) -> Result<Self, Damage> {
        if crc32c::crc32c_append(context.seed, &bytes[..124]).to_le_bytes() != bytes[124..] {
            return Err(Damage::Checksum(WHAT));
        }
        let (words, numbers) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<8>().0);
        let version = u32::from_le_bytes(words[2]);
        if version != VERSION {
            return Err(Damage::Version(WHAT, version));
        }
        let mut sections = [(0, 0); 3];
        for (section, place) in sections.iter_mut().zip(bytes[SECTIONS_AT..].as_chunks::<12>().0) {
            let [a, b, c, d, e, f, g, h, i, j, k, l] = *place;
            *section = (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes([i, j, k, l]));
        }
        let summary = bytes[SUMMARY_AT..].first_chunk().and_then(Totals::decode);
        let summary = summary.ok_or(Damage::Content(WHAT))?;
        let trailer = Self { records_end: u64::from_le_bytes(numbers[2]), summary, sections };
        let end = sections.iter().try_fold(trailer.records_end, |end, (length, _)| end.checked_add(*length));
        let fits = end.and_then(|end| end.checked_add(TRAILER_BYTES as u64)) == Some(file_len);
        let zeros = words[3] == [0; 4] && words[27] == [0; 4] && words[28] == [0; 4];
        if zeros && fits && trailer.records_end >= HEADER_BYTES as u64 {
            Ok(trailer)
        } else {
            Err(Damage::Content(WHAT))
        }
    }

    /// Length of the sealed file.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.sections.iter().fold(self.records_end + TRAILER_BYTES as u64, |sum, (length, _)| sum + length)
    }

    fn read_part(
        &self,
        part: FooterSection,
        file: &dyn File,
        context: &FileContext,
    ) -> Result<Vec<u8>, Damage> {
        let index = part.code() as usize - 1;
        let before: u64 = self.sections[..index].iter().map(|(length, _)| length).sum();
        let (length, checksum) = self.sections[index];
        // The trailer's lengths add up to that of the file: there is nothing to allocate that is
        // not there.
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| Damage::Content(part.name()))?];
        if file.read_at(&mut bytes, self.records_end + before)? < bytes.len() {
            return Err(Damage::Short(part.name()));
        }
        if crc32c::crc32c_append(context.seed, &bytes) != checksum {
            return Err(Damage::Checksum(part.name()));
        }
        let Some(cipher) = &context.cipher else { return Ok(bytes) };
        let nonce = Nonce::section_at(part.code(), self.records_end);
        let opened = cipher.open(nonce, &self.to_bytes()[..SECTIONS_AT], &mut bytes);
        bytes.truncate(opened.map_err(|_| Damage::Unauthentic(part.name()))?);
        Ok(bytes)
    }
}

/// Reads the trailer of a file; `None` if it is not sealed.
///
/// # Errors
/// `Checksum`, `Version` or `Content` if the file ends as a sealed one does, but not quite. Where
/// nothing else says that it was sealed, it was not: a payload may look like that. `Io`.
pub fn read_trailer(file: &dyn File, context: &FileContext) -> Result<Option<Trailer>, Damage> {
    let length = file.len()?;
    if length < (HEADER_BYTES + TRAILER_BYTES) as u64 {
        return Ok(None);
    }
    let mut bytes = [0; TRAILER_BYTES];
    if file.read_at(&mut bytes, length - TRAILER_BYTES as u64)? < TRAILER_BYTES {
        return Err(Damage::Short(WHAT));
    }
    // Either of the two marks: a flipped bit in one of them must not turn a sealed file into an
    // open one.
    if bytes[..8] != MAGIC && bytes[SEAL_AT..124] != SEAL {
        return Ok(None);
    }
    Trailer::decode(&bytes, length, context).map(Some)
}

/// Whether the sections are what was written, which can be told without keys.
///
/// # Errors
/// What is wrong with the first that is not.
pub fn check_sections(file: &dyn File, trailer: &Trailer, context: &FileContext) -> Result<(), Damage> {
    let context = FileContext { seed: context.seed, cipher: None };
    FooterSection::ALL.into_iter().try_for_each(|part| trailer.read_part(part, file, &context).map(drop))
}

fn read_texts(file: &dyn File, trailer: &Trailer, context: &FileContext) -> Result<Texts, Damage> {
    let bytes = trailer.read_part(FooterSection::Dictionary, file, context)?;
    let mut input = &bytes[..];
    let texts = Texts::decode(&mut input).filter(|_| input.is_empty());
    texts.ok_or(Damage::Content(FooterSection::Dictionary.name()))
}

/// Reads what the segment changed.
///
/// # Errors
/// What is wrong with the sections `changes` and `dictionary`.
pub fn read_changes(file: &dyn File, trailer: &Trailer, context: &FileContext) -> Result<Changes, Damage> {
    let texts = read_texts(file, trailer, context)?;
    let bytes = trailer.read_part(FooterSection::Changes, file, context)?;
    Changes::decode(&bytes, texts).ok_or(Damage::Content(FooterSection::Changes.name()))
}

/// Reads what the segment's messages count.
///
/// # Errors
/// What is wrong with the section `slots`.
pub fn read_sizes(file: &dyn File, trailer: &Trailer, context: &FileContext) -> Result<Sizes, Damage> {
    let bytes = trailer.read_part(FooterSection::Slots, file, context)?;
    Sizes::decode(&bytes).ok_or(Damage::Content(FooterSection::Slots.name()))
}

/// Reads where the segment's messages stand.
///
/// # Errors
/// What is wrong with the sections `slots` and `dictionary`.
pub fn read_slots(file: &dyn File, trailer: &Trailer, context: &FileContext) -> Result<Slots, Damage> {
    let texts = read_texts(file, trailer, context)?;
    let bytes = trailer.read_part(FooterSection::Slots, file, context)?;
    let slots = Slots::decode(&bytes, texts, trailer.summary.first_seq);
    slots
        .filter(|slots| slots.len() as u64 == trailer.summary.messages)
        .ok_or(Damage::Content(FooterSection::Slots.name()))
}
