//! Cost of encryption per record and of compression per byte: `cargo run --release -p myelin-store
//! --example seal_and_pack`. One thread; the best of five rounds, for a shared machine only ever
//! adds to it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use minlz::s2;
use myelin_store::cipher::{Cipher, CipherKind, Nonce, TAG_BYTES};
use myelin_store::entropy::{Entropy, SeededEntropy};
use myelin_store::pack::{FRAME_TARGET, FrameTable, Packer, unpack_frame};

const ROUNDS: u32 = 5;

fn main() {
    for kind in [CipherKind::ChaCha20Poly1305, CipherKind::Aes256Gcm] {
        for length in [16, 128, 1024, 16 * 1024, FRAME_TARGET] {
            records(kind, length);
        }
    }
    for (name, raw) in [("orders", orders()), ("counters", counters()), ("noise", noise())] {
        encoders(name, &raw);
        for cipher in [None, Some(Cipher::new(CipherKind::Aes256Gcm, &[1; 32]))] {
            frames(name, &raw, cipher);
        }
    }
}

/// The time of one call, best of some rounds.
fn best(calls: u32, mut call: impl FnMut(u32)) -> Duration {
    let round = |call: &mut dyn FnMut(u32)| {
        let begin = Instant::now();
        (0..calls).for_each(call);
        begin.elapsed() / calls
    };
    (0..ROUNDS).map(|_| round(&mut call)).min().unwrap_or_default()
}

fn speed(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_nanos().max(1) as f64
}

fn records(kind: CipherKind, length: usize) {
    let cipher = Cipher::new(kind, &[1; 32]);
    let calls = 40_000_000 / (length as u32 + 400);
    let mut buffer = Vec::with_capacity(length + TAG_BYTES);
    buffer.resize(length, 7);
    let sealing = best(calls, |call| {
        buffer.truncate(length);
        cipher.seal(Nonce::entry(u64::from(call)), &[0; 24], &mut buffer, 0);
    });
    buffer.truncate(length);
    cipher.seal(Nonce::entry(1), &[0; 24], &mut buffer, 0);
    let mut body = buffer.clone();
    let copying = best(calls, |_| black_box(&mut body).copy_from_slice(&buffer));
    let opening = best(calls, |_| {
        body.copy_from_slice(&buffer);
        assert!(cipher.open(Nonce::entry(1), &[0; 24], &mut body).is_ok());
    });
    let opening = opening.saturating_sub(copying);
    println!(
        "{kind:?} {length:>6} B: seal {:>6} ns ({:.2} GB/s)  open {:>6} ns ({:.2} GB/s)",
        sealing.as_nanos(),
        speed(length, sealing),
        opening.as_nanos(),
        speed(length, opening)
    );
}

/// S2's three efforts, to see which one is worth it.
fn encoders(name: &str, raw: &[u8]) {
    type Effort = fn(&mut s2::Encoder, &[u8]) -> Vec<u8>;
    let efforts: [(&str, Effort); 3] = [
        ("fast", s2::Encoder::encode),
        ("better", s2::Encoder::encode_better),
        ("best", s2::Encoder::encode_best),
    ];
    for (effort, encode) in efforts {
        let mut encoder = s2::Encoder::new();
        let time = best(3, |_| raw.chunks(FRAME_TARGET).for_each(|chunk| drop(encode(&mut encoder, chunk))));
        let packed: usize = raw.chunks(FRAME_TARGET).map(|chunk| encode(&mut encoder, chunk).len()).sum();
        println!("{name}: S2 {effort}: {:.2} GB/s, to {}%", speed(raw.len(), time), packed * 100 / raw.len());
    }
}

fn frames(name: &str, raw: &[u8], cipher: Option<Cipher>) {
    let mut out = Vec::with_capacity(raw.len() * 2);
    let mut table = FrameTable::default();
    let packing = best(3, |_| {
        out.clear();
        let mut packer = Packer::new(1, cipher.clone());
        let mut raw_offset = 0;
        for chunk in raw.chunks(FRAME_TARGET) {
            let file_offset = out.len() as u64;
            packer.push_frame(raw_offset, chunk, &mut out, file_offset).expect("frames are in order");
            raw_offset += chunk.len() as u64;
        }
        table = packer.finish();
    });
    let mut frame = Vec::new();
    let unpacking = best(3, |_| {
        for place in table.frames() {
            frame.clear();
            frame.extend_from_slice(&out[place.file_offset as usize..][..place.size as usize]);
            unpack_frame(*place, 1, cipher.as_ref(), &mut frame).expect("the frame is as it was written");
        }
    });
    println!(
        "{name}: frames, {}: pack {:.2} GB/s, unpack {:.2} GB/s ({} us per frame), to {}%",
        if cipher.is_some() { "AES-256-GCM" } else { "plain" },
        speed(raw.len(), packing),
        speed(raw.len(), unpacking),
        unpacking.as_micros() / table.frames().len() as u128,
        out.len() * 100 / raw.len()
    );
}

/// 8 MiB of records as a shop may send them.
fn orders() -> Vec<u8> {
    let entropy = SeededEntropy::new(1);
    let mut raw = Vec::new();
    for seq in 0u64.. {
        let mut random = [0; 8];
        entropy.fill(&mut random);
        let id = u64::from_le_bytes(random);
        raw.extend_from_slice(&seq.to_le_bytes());
        raw.extend_from_slice(&random[..4]);
        raw.extend_from_slice(
            format!(
                "orders.eu.{}{{\"order\":\"{id:016x}\",\"customer\":{},\"total\":{}.{:02},\"currency\":\"EUR\",\
                 \"state\":\"accepted\"}}",
                id % 1000,
                id % 99_991,
                id % 512,
                id % 100
            )
            .as_bytes(),
        );
        if raw.len() > 8 << 20 {
            break;
        }
    }
    raw
}

/// 8 MiB of records that hardly differ.
fn counters() -> Vec<u8> {
    (0u64..180_000)
        .flat_map(|seq| {
            [&seq.to_le_bytes()[..], b"metrics.cpu.host-1 {\"idle\":0.97,\"user\":0.01}"].concat()
        })
        .collect()
}

/// 8 MiB that nothing can compress.
fn noise() -> Vec<u8> {
    let mut raw = vec![0; 8 << 20];
    SeededEntropy::new(2).fill(&mut raw);
    raw
}
