//! Frames against the raw file they stand for, and against everything a disk may do to them.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::cipher::CipherKind;

const SEED: u32 = 0x5eed;
const HEADER: u64 = 128;

/// A file in memory that can only be read.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl File for Bytes {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn cipher(kind: CipherKind) -> Cipher {
    Cipher::new(kind, &[3; 32])
}

fn ciphers() -> [Option<Cipher>; 3] {
    [None, Some(cipher(CipherKind::ChaCha20Poly1305)), Some(cipher(CipherKind::Aes256Gcm))]
}

/// The packed file of `frames` (gap in the raw file before the frame, its raw bytes), and its
/// table.
fn pack(frames: &[(u64, Vec<u8>)], cipher: Option<Cipher>) -> (Bytes, FrameTable) {
    let mut packer = Packer::new(SEED, cipher);
    let (mut file, mut raw_offset) = (vec![0; HEADER as usize], HEADER);
    for (gap, raw) in frames {
        raw_offset += gap;
        let file_offset = file.len() as u64;
        packer.push_frame(raw_offset, raw, &mut file, file_offset).unwrap();
        raw_offset += raw.len() as u64;
    }
    (Bytes(file), packer.finish())
}

fn text(length: usize) -> Vec<u8> {
    let words =
        (0u32..).flat_map(|number| format!("order {number} of customer {};", number % 7).into_bytes());
    words.take(length).collect()
}

/// Bytes that S2 can do nothing with.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    crate::entropy::Entropy::fill(&crate::entropy::SeededEntropy::new(5), &mut bytes);
    bytes
}

fn read(
    file: &Bytes,
    table: &FrameTable,
    at: u64,
    cipher: Option<&Cipher>,
) -> Result<(u64, Vec<u8>), FrameError> {
    let mut out = Vec::new();
    read_frame(file, table, at, SEED, cipher, &mut out).map(|raw_offset| (raw_offset, out))
}

/// Writes the right checksum into the frame that begins at `at`.
fn mend_checksum(file: &mut Bytes, at: u64, size: u32) {
    let frame = &mut file.0[at as usize..][..size as usize];
    let crc = checksum(SEED, frame);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// The layout on disk: a change of these bytes is a change of the format.
#[test]
fn a_frame_is_pinned() {
    let mut out = Vec::new();
    Packer::new(SEED, None).push_frame(0x80, b"raw!", &mut out, 0x80).unwrap();
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(SEED, &out[..4]), &out[8..]);
    assert_eq!(out[..4], [28, 0, 0, 0]);
    assert_eq!(out[4..8], crc.to_le_bytes());
    assert_eq!(out[8..], *b"\x80\0\0\0\0\0\0\0\x04\0\0\0\x01\0\0\0raw!");
}

#[test]
fn text_is_compressed_and_noise_is_stored() {
    for (raw, flags) in [(text(FRAME_TARGET), 0), (noise(FRAME_TARGET), STORED)] {
        for cipher in ciphers() {
            let (file, table) = pack(&[(0, raw.clone())], cipher.clone());
            let place = table.frames()[0];
            let header = FrameHeader::decode(&file.0[HEADER as usize..], HEADER).unwrap();
            assert_eq!((header.place, header.flags), (place, flags));
            assert!(place.size as usize <= max_size(raw.len()));
            assert_eq!(flags == 0, (place.size as usize) < raw.len() / 2);
            assert_eq!(read(&file, &table, HEADER + 1000, cipher.as_ref()).unwrap(), (HEADER, raw.clone()));
        }
    }
}

#[test]
fn a_large_entry_makes_a_large_frame() {
    let raw = [text(3 << 20), noise(1 << 20)].concat();
    let (file, table) = pack(&[(0, raw.clone())], None);
    assert_eq!(read(&file, &table, HEADER + (4 << 20) - 1, None).unwrap(), (HEADER, raw));
}

#[test]
fn impossible_frames_are_not_written() {
    let mut packer = Packer::new(SEED, None);
    let mut out = b"before".to_vec();
    for length in [0, MAX_FRAME + 1] {
        let error = packer.push_frame(128, &vec![0; length], &mut out, 128).unwrap_err();
        assert!(matches!(error, FrameError::Size { raw_len } if raw_len == length));
    }
    packer.push_frame(128, b"raw", &mut Vec::new(), 128).unwrap();
    for (raw_offset, file_offset) in [(130, 1000), (1000, 130), (u64::MAX - 1, 1000), (1000, u64::MAX - 1)] {
        assert!(packer.push_frame(raw_offset, b"raw", &mut out, file_offset).is_err());
    }
    assert_eq!(out, b"before");
    assert_eq!(packer.finish().frames().len(), 1);
}

#[test]
fn every_flipped_bit_is_noticed() {
    for cipher in ciphers() {
        let (mut file, table) = pack(&[(0, text(700))], cipher.clone());
        for bit in HEADER as usize * 8..file.0.len() * 8 {
            file.0[bit / 8] ^= 1 << (bit % 8);
            let error = read(&file, &table, HEADER, cipher.as_ref()).unwrap_err();
            assert!(matches!(error, FrameError::Damaged { file_offset: HEADER, .. }), "bit {bit}");
            file.0[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_forged_checksum_does_not_help_without_the_key() {
    let key = cipher(CipherKind::Aes256Gcm);
    let (mut file, table) = pack(&[(0, text(700))], Some(key.clone()));
    let place = table.frames()[0];
    for at in (HEADER as usize + FRAME_HEADER_BYTES)..file.0.len() {
        file.0[at] ^= 1;
        mend_checksum(&mut file, HEADER, place.size);
        let error = read(&file, &table, HEADER, Some(&key)).unwrap_err();
        assert!(matches!(error, FrameError::Unauthentic { file_offset: HEADER }), "byte {at}");
        file.0[at] ^= 1;
    }
    file.0[HEADER as usize + 20] ^= 1; // "stored"
    mend_checksum(&mut file, HEADER, place.size);
    assert!(matches!(read(&file, &table, HEADER, Some(&key)), Err(FrameError::Unauthentic { .. })));
}

#[test]
fn a_frame_opens_at_its_place_with_its_key_only() {
    let key = cipher(CipherKind::ChaCha20Poly1305);
    let (file, table) = pack(&[(0, text(700)), (0, text(700))], Some(key.clone()));
    let [first, second] = table.frames() else { panic!("two frames") };
    let frame = |place: &FramePlace| file.0[place.file_offset as usize..][..place.size as usize].to_vec();
    let unpack = |place: FramePlace, seed, cipher: Option<&Cipher>, mut frame: Vec<u8>| {
        unpack_frame(place, seed, cipher, &mut frame).map(|()| frame)
    };

    assert_eq!(unpack(*second, SEED, Some(&key), frame(second)).unwrap(), text(700));
    let moved = FramePlace { file_offset: second.file_offset + 1, ..*second };
    assert!(matches!(unpack(moved, SEED, Some(&key), frame(second)), Err(FrameError::Unauthentic { .. })));
    let other = cipher(CipherKind::Aes256Gcm);
    assert!(matches!(unpack(*first, SEED, Some(&other), frame(first)), Err(FrameError::Unauthentic { .. })));
    assert!(matches!(unpack(*first, SEED, None, frame(first)), Err(FrameError::Damaged { .. })));
    assert!(matches!(unpack(*first, SEED + 1, Some(&key), frame(first)), Err(FrameError::Damaged { .. })));
    assert!(matches!(unpack(*first, SEED, Some(&key), frame(second)), Err(FrameError::Damaged { .. })));
    assert!(matches!(unpack(*first, SEED, Some(&key), Vec::new()), Err(FrameError::Damaged { .. })));
}

/// A frame of a few bytes, with the right checksum, that says it holds 60 MiB.
#[test]
fn a_lie_about_the_length_allocates_nothing() {
    for flags in [0, STORED] {
        let (mut file, _) = pack(&[(0, text(700))], None);
        let size = u32::try_from(file.0.len()).unwrap() - HEADER as u32;
        file.0[HEADER as usize + 16..][..4].copy_from_slice(&(60u32 << 20).to_le_bytes());
        file.0[HEADER as usize + 20..][..4].copy_from_slice(&flags.to_le_bytes());
        mend_checksum(&mut file, HEADER, size);
        let place = FramePlace { raw_offset: HEADER, file_offset: HEADER, raw_len: 60 << 20, size };
        let mut frame = file.0[HEADER as usize..].to_vec();
        let error = unpack_frame(place, SEED, None, &mut frame).unwrap_err();
        assert_eq!(error.to_string(), "the frame at 128 is damaged: its length is wrong");
        assert!(frame.capacity() < 4096);
    }
}

/// Our packer would have stored it; other writers may not.
#[test]
fn a_block_shorter_than_a_frame_header_unpacks() {
    for raw in [&b"r"[..], b"raw!", &[7; FRAME_HEADER_BYTES - 1], &[7; FRAME_HEADER_BYTES]] {
        let data = s2::encode(raw);
        let size = (FRAME_HEADER_BYTES + data.len()) as u32;
        let place = FramePlace { raw_offset: 0, file_offset: 0, raw_len: raw.len() as u32, size };
        let mut file = Bytes([&FrameHeader { place, flags: 0, crc: 0 }.encode()[..], &data].concat());
        mend_checksum(&mut file, 0, size);
        unpack_frame(place, SEED, None, &mut file.0).unwrap();
        assert_eq!(file.0, raw);
    }
}

#[test]
fn a_file_that_ends_early_is_damaged() {
    let (mut file, table) = pack(&[(0, noise(700))], None);
    file.0.pop();
    let error = read(&file, &table, HEADER, None).unwrap_err();
    assert_eq!(error.to_string(), "the frame at 128 is damaged: the file ends in it");
}

#[test]
fn tables_that_contradict_themselves_are_refused() {
    let good = FramePlace { raw_offset: 128, file_offset: 128, raw_len: 100, size: 100 };
    let next = FramePlace { raw_offset: 228, file_offset: 228, raw_len: 100, size: 100 };
    let decode = |frames: &[FramePlace]| {
        let mut bytes = Vec::new();
        FrameTable { frames: frames.to_vec() }.encode(&mut bytes);
        FrameTable::decode(&bytes, HEADER..1000)
    };
    assert_eq!(decode(&[good, next]).unwrap().frames(), [good, next]);
    assert_eq!(decode(&[]).unwrap(), FrameTable::default());
    for wrong in [
        FramePlace { raw_len: 0, ..next },
        FramePlace { raw_len: MAX_FRAME as u32 + 1, ..next },
        FramePlace { size: FRAME_HEADER_BYTES as u32, ..next },
        FramePlace { size: 100 + FRAME_HEADER_BYTES as u32 + TAG_BYTES as u32 + 1, ..next },
        FramePlace { raw_offset: 227, ..next },
        FramePlace { raw_offset: u64::MAX, ..next },
        FramePlace { file_offset: 227, ..next },
        FramePlace { file_offset: 901, ..next },
        FramePlace { file_offset: u64::MAX, ..next },
        FramePlace { file_offset: 127, ..next },
    ] {
        assert!(matches!(decode(&[good, wrong]), Err(FrameError::Table { .. })), "{wrong:?}");
    }
    assert!(FrameTable::decode(&[0; FRAME_ENTRY_BYTES - 1], HEADER..1000).is_err());
}

#[test]
fn a_lost_table_is_found_again_around_damage() {
    let frames: Vec<_> = (1..=6).map(|number| (number % 3, [text(50_000), noise(30_000)].concat())).collect();
    let (mut file, table) = pack(&frames, None);
    let range = HEADER..file.0.len() as u64;
    let found = rebuild(&file, SEED, range.clone()).unwrap();
    assert_eq!(found, Rebuilt { table: table.clone(), damaged: vec![] });

    let (second, fifth) = (table.frames()[1], table.frames()[4]);
    file.0[second.file_offset as usize + 40_000] ^= 1;
    file.0[fifth.file_offset as usize] ^= 0xff; // its size
    let found = rebuild(&file, SEED, range.clone()).unwrap();
    assert_eq!(found.damaged, [second.file(), fifth.file()]);
    assert_eq!(found.table.frames().len(), 4);
    assert!(!found.table.frames().contains(&second) && !found.table.frames().contains(&fifth));

    file.0.truncate(file.0.len() - 1);
    let found = rebuild(&file, SEED, range.clone()).unwrap();
    assert_eq!(found.damaged.last().unwrap().end, range.end - 1);
    assert_eq!(found.table.frames().len(), 3);
    assert_eq!(rebuild(&file, SEED + 1, range).unwrap().table, FrameTable::default());
}

/// Each position looks like a frame up to the end of the file: checked one by one that is
/// quadratic.
#[test]
fn a_file_full_of_false_frames_is_given_up() {
    let length = 256 * 1024;
    let mut file = Bytes(Vec::new());
    while file.0.len() < length {
        let place = FramePlace {
            raw_offset: file.0.len() as u64,
            file_offset: 0,
            raw_len: length as u32,
            size: (length - file.0.len()) as u32,
        };
        let frame = FrameHeader { place, flags: 0, crc: 1 }.encode();
        file.0.extend_from_slice(&frame);
    }
    let counted = Counted { file, bytes: Arc::default() };
    let found = rebuild(&counted, SEED, 0..length as u64).unwrap();
    assert_eq!(found.table, FrameTable::default());
    assert!(counted.bytes.load(std::sync::atomic::Ordering::Relaxed) < 20 * length);
}

/// Counts what is read.
#[derive(Debug)]
struct Counted {
    file: Bytes,
    bytes: Arc<std::sync::atomic::AtomicUsize>,
}

impl File for Counted {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = self.file.read_at(buffer, offset)?;
        self.bytes.fetch_add(length, std::sync::atomic::Ordering::Relaxed);
        Ok(length)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn some_raw() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..300),
        (1usize..5000).prop_map(text),
        (1usize..5000, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
        (1usize..2000, 1usize..40).prop_map(|(length, times)| noise(length).repeat(times)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The twin is the raw file itself: each byte of it is read through its frame.
    #[test]
    fn packed_reads_as_raw(frames in proptest::collection::vec((0u64..3, some_raw()), 1..8), which in 0usize..3) {
        let cipher = ciphers()[which].clone();
        let (file, table) = pack(&frames, cipher.clone());
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        let end = file.0.len() as u64;
        prop_assert_eq!(&FrameTable::decode(&bytes, HEADER..end).unwrap(), &table);
        prop_assert_eq!(&rebuild(&file, SEED, HEADER..end).unwrap().table, &table);

        let (mut raw_offset, mut out) = (HEADER, vec![9; 1000]);
        prop_assert!(table.find(HEADER - 1).is_none());
        for (gap, raw) in &frames {
            for at in raw_offset..raw_offset + gap {
                prop_assert!(table.find(at).is_none());
            }
            raw_offset += gap;
            let last = raw_offset + raw.len() as u64 - 1;
            for at in [raw_offset, (raw_offset + last) / 2, last] {
                let begin = read_frame(&file, &table, at, SEED, cipher.as_ref(), &mut out).unwrap();
                prop_assert_eq!((begin, &out), (raw_offset, raw));
            }
            raw_offset = last + 1;
        }
        prop_assert!(table.find(raw_offset).is_none());
    }

    #[test]
    fn any_bytes_are_a_table_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), end: u64) {
        let _ = FrameTable::decode(&bytes, 0..end);
    }

    /// Behind a right checksum, any bytes may stand where compressed data should.
    #[test]
    fn any_data_is_decompressed_or_refused(
        mut data in proptest::collection::vec(any::<u8>(), 1..300), raw_len in 1u32..5000, flags in 0u32..2,
    ) {
        if flags == 0 && raw_len % 2 == 0 {
            let mut length = vec![raw_len as u8 | 0x80, (raw_len >> 7) as u8];
            length.append(&mut data);
            data = length;
        }
        let size = (FRAME_HEADER_BYTES + data.len()) as u32;
        let place = FramePlace { raw_offset: 0, file_offset: 0, raw_len, size };
        let frame = [&FrameHeader { place, flags, crc: 0 }.encode()[..], &data].concat();
        let mut file = Bytes(frame);
        mend_checksum(&mut file, 0, size);
        let mut frame = file.0;
        if unpack_frame(place, SEED, None, &mut frame).is_ok() {
            prop_assert_eq!(frame.len(), raw_len as usize);
        }
    }
}
