//! Streams of S2: what is written is read, whatever the pieces; strangers break nothing; and the
//! reference's library reads what we write, and the other way round.

mod go;

use myelin_wire::s2::{IDENTIFIER, MAX_BLOCK, S2Error, S2Level, S2Reader, S2Writer, WRITTEN_BLOCK};
use proptest::prelude::*;

const LEVELS: [(S2Level, &str); 4] = [
    (S2Level::Uncompressed, "uncompressed"),
    (S2Level::Fast, "fast"),
    (S2Level::Better, "better"),
    (S2Level::Best, "best"),
];

fn written(level: S2Level, frames: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let (mut writer, mut out) = (S2Writer::new(level), Vec::new());
    for pieces in frames {
        writer.write(pieces.iter().map(Vec::as_slice), &mut out);
    }
    out
}

/// Everything that the stream holds, given in pieces of `step` bytes.
fn read(bytes: &[u8], step: usize) -> Result<Vec<u8>, S2Error> {
    let (mut reader, mut all) = (S2Reader::default(), Vec::new());
    for piece in bytes.chunks(step.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let (used, data) = reader.read(rest)?;
            assert!(used > 0, "it goes on");
            all.extend_from_slice(data);
            rest = &rest[used..];
        }
    }
    if reader.is_between_chunks() { Ok(all) } else { Err(S2Error::Truncated) }
}

fn flat(frames: &[Vec<Vec<u8>>]) -> Vec<u8> {
    frames.iter().flatten().flatten().copied().collect()
}

/// Pieces as links have them: words, and now and then noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::collection::vec(0_usize..6, 0..400).prop_map(|words| {
        words.iter().flat_map(|word| b"RMSG $G some.subject 16\r\n"[..word * 4].to_vec()).collect()
    });
    let noise = prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![4 => words, 1 => noise]
}

fn frames() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    prop::collection::vec(prop::collection::vec(piece(), 0..4), 0..5)
}

proptest! {
    #[test]
    fn what_was_written_is_read(frames in frames(), step in 1_usize..200, level in 0_usize..4) {
        let stream = written(LEVELS[level].0, &frames);
        prop_assert_eq!(read(&stream, step), Ok(flat(&frames)));
        prop_assert_eq!(read(&stream, stream.len()), Ok(flat(&frames)));
    }

    #[test]
    fn strangers_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<usize>(), bit in 0..8) {
        let _ = read(&bytes, 7);
        let mut hurt = written(S2Level::Fast, &[vec![b"some text that is text ".repeat(9), bytes]]);
        let at = at % hurt.len();
        hurt[at] ^= 1_u8 << bit;
        let (pieces, whole) = (read(&hurt, 5), read(&hurt, hurt.len()));
        prop_assert_eq!(pieces, whole);
    }
}

#[test]
fn blocks_are_no_longer_than_a_megabyte() {
    let text: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    for (level, _) in LEVELS {
        let pieces = vec![text[..5].to_vec(), text[5..3_000_000].to_vec(), text[3_000_000..].to_vec()];
        let stream = written(level, &[pieces]);
        let mut reader = S2Reader::new(WRITTEN_BLOCK);
        let (mut rest, mut all) = (&stream[..], Vec::new());
        while !rest.is_empty() {
            let (used, data) = reader.read(rest).expect("blocks that are allowed");
            all.extend_from_slice(data);
            rest = &rest[used..];
        }
        assert!(all == text, "{level:?}");
    }
}

#[test]
fn nothing_is_written_of_nothing() {
    assert_eq!(written(S2Level::Fast, &[vec![], vec![Vec::new()]]), b"");
}

#[test]
fn memory_is_bounded_and_given_back() {
    let mut long = IDENTIFIER.to_vec();
    long.extend_from_slice(&[0x01, 0xff, 0xff, 0xff]);
    assert_eq!(read(&long, 99), Err(S2Error::TooLong));
    // A block that is larger than the reader allows, though the format does.
    let bomb = written(S2Level::Fast, &[vec![vec![0; WRITTEN_BLOCK]]]);
    assert!(bomb.len() < 1000);
    assert_eq!(S2Reader::new(WRITTEN_BLOCK - 1).read(&bomb).map(|_| ()), Err(S2Error::TooLong));
    // What is passed over is not held, and what came in part is not held twice over.
    let mut reader = S2Reader::default();
    let mut passed = IDENTIFIER.to_vec();
    passed.extend_from_slice(&[0x99, 0xff, 0xff, 0xff]);
    for piece in [&passed[..], &[0; 100_000][..], &[0; 100_000][..]] {
        assert_eq!(reader.read(piece).map(|(used, data)| (used, data.len())), Ok((piece.len(), 0)));
    }
    assert!(reader.held() < 100, "{}", reader.held());
    let mut reader = S2Reader::default();
    let noise: Vec<u8> =
        (0..WRITTEN_BLOCK as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let stream = written(S2Level::Uncompressed, &[vec![noise]]);
    reader.read(&stream[..5000]).expect("a part");
    assert!(reader.held() <= 10_000, "{}", reader.held());
    reader.read(&stream[5000..]).expect("the rest");
    reader.release();
    assert_eq!(reader.held(), 0);
    assert!(reader.is_between_chunks());
}

#[test]
fn each_fault_has_its_name() {
    let good = written(S2Level::Fast, &[vec![b"text text text text".to_vec()]]);
    assert_eq!(read(&good[..good.len() - 1], 99), Err(S2Error::Truncated));
    assert_eq!(read(b"plain text", 99), Err(S2Error::NotS2));
    let with = |at: usize, byte: u8| {
        let mut other = good.clone();
        other[at] = byte;
        read(&other, 99)
    };
    assert_eq!(with(10, 0x02), Err(S2Error::Unsupported));
    assert_eq!(with(14, good[14] ^ 1), Err(S2Error::Checksum));
    assert_eq!(with(5, b'3'), Err(S2Error::NotS2));
    assert_eq!(with(11, 3), Err(S2Error::Corrupt));
    // Of Snappy, blocks are shorter.
    let mut snappy = b"\xff\x06\0\0sNaPpY".to_vec();
    S2Writer::new(S2Level::Fast).block(&[0; 65_537], &mut snappy);
    assert_eq!(read(&snappy, 99), Err(S2Error::TooLong));
    snappy.truncate(10);
    S2Writer::new(S2Level::Fast).block(&[0; 65_536], &mut snappy);
    assert_eq!(read(&snappy, 99).map(|all| all.len()), Ok(65_536));
    let mut large = IDENTIFIER.to_vec();
    S2Writer::new(S2Level::Fast).block(&vec![0; MAX_BLOCK], &mut large);
    assert_eq!(read(&large, 99).map(|all| all.len()), Ok(MAX_BLOCK));
}

/// Links between two nats-servers 2.15.2, `s2_fast` and `s2_better`, from the first compressed byte
/// on, recorded by a proxy on 25 November 2026. One new stream begins with each write.
#[test]
fn recorded_links_are_read() {
    let links: [(&[u8], &str); 2] = [
        (include_bytes!("recorded/fast.s2"), "RMSG $G a.49 5\r\nhello\r\n"),
        (include_bytes!("recorded/better.s2"), "RS+ $G a.>\r\n"),
    ];
    for (bytes, expected) in links {
        assert_eq!(bytes.windows(IDENTIFIER.len()).filter(|start| *start == IDENTIFIER).count(), 8);
        let whole = read(bytes, bytes.len()).expect("a stream");
        assert!(whole.starts_with(b"INFO {"), "the INFO that the negotiation ends with comes first");
        assert!(String::from_utf8_lossy(&whole).contains(expected));
        for step in [1, 7, 4096] {
            assert!(read(bytes, step).as_ref() == Ok(&whole), "{step}");
        }
    }
}

/// Content of links, of every size that levels treat in their own way.
fn samples() -> Vec<Vec<Vec<Vec<u8>>>> {
    let mut seed = 1_u32;
    let mut noise = |count: usize| -> Vec<u8> {
        (0..count)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect()
    };
    let json = |count: usize| -> Vec<u8> {
        let line = |n: usize| {
            format!("RMSG $G orders.{} 60\r\n{{\"id\":{n},\"name\":\"n{}\",\"ok\":true}}\r\n", n % 7, n * 31)
        };
        (0..).flat_map(|n| line(n).into_bytes()).take(count).collect()
    };
    let mut all = Vec::new();
    for size in [1, 15, 16, 31, 32, 33, 100, 500, 1024, 4096, 20_000, 70_000, 1_048_577] {
        all.push(vec![vec![json(size)]]);
        all.push(vec![vec![noise(size)], vec![vec![b'x'; size]]]);
    }
    all.push((0..200).map(|n| vec![json(n * 3), noise(n % 40)]).collect());
    all
}

/// Frames as the reference's program takes them.
fn framed(frames: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let number = |n: usize| (n as u32).to_le_bytes();
    let mut all = Vec::new();
    for pieces in frames {
        all.extend_from_slice(&number(pieces.len()));
        for piece in pieces {
            all.extend_from_slice(&number(piece.len()));
            all.extend_from_slice(piece);
        }
    }
    all
}

#[test]
fn the_reference_reads_what_we_write() {
    let Some(go) = go::shared() else { return };
    for (level, name) in LEVELS {
        let frames: Vec<_> = samples().into_iter().flatten().collect();
        let output = go.run(&["decode"], &written(level, &frames));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == flat(&frames), "{name}");
    }
}

#[test]
fn we_read_what_the_reference_writes_to_links() {
    let Some(go) = go::shared() else { return };
    let frames: Vec<_> = samples().into_iter().flatten().collect();
    for (level, name) in LEVELS {
        let theirs = go.run(&["encode", name], &framed(&frames)).stdout;
        assert!(read(&theirs, 4096) == Ok(flat(&frames)), "{name}");
        assert!(read(&theirs, theirs.len()) == Ok(flat(&frames)), "{name}");
        let ours = written(level, &frames);
        // Their assembly finds other matches, hence other bytes and nearly as many.
        assert!(ours.len() * 100 <= theirs.len() * 101, "{name}: {} {}", ours.len(), theirs.len());
        assert!(ours == theirs || level != S2Level::Uncompressed);
    }
}

#[test]
fn we_read_everything_that_the_reference_can_write() {
    let Some(go) = go::shared() else { return };
    let text = flat(&samples()[24]);
    for (_, name) in LEVELS {
        // Two streams: the second begins with an identifier in the middle.
        let theirs =
            [go.run(&["write", name], &text).stdout, go.run(&["write", name], &text).stdout].concat();
        assert!(
            theirs.windows(4).any(|head| head[0] == 0xfe) && theirs.windows(2).any(|head| head[0] == 0x99)
        );
        for step in [1, 1000, theirs.len()] {
            assert!(read(&theirs, step) == Ok(text.repeat(2)), "{name}, {step}");
        }
    }
}

#[test]
fn damage_is_refused_as_the_reference_refuses_it() {
    let Some(go) = go::shared() else { return };
    let stream = written(S2Level::Fast, &[vec![b"text text text text ".repeat(3)], vec![vec![7; 60]]]);
    for at in (0..stream.len()).step_by(3) {
        for byte in [stream[at] ^ 1, 0x00, 0x05, 0xfe] {
            let mut hurt = stream.clone();
            hurt[at] = byte;
            let theirs = go.run(&["decode"], &hurt);
            let ours = read(&hurt, 9);
            match &ours {
                Ok(data) => assert!(theirs.status.success() && theirs.stdout == *data, "{at} {byte}"),
                Err(error) => assert_eq!(
                    String::from_utf8_lossy(&theirs.stderr),
                    error.to_string(),
                    "byte {at} is {byte:#x}: {error:?}"
                ),
            }
        }
    }
}
