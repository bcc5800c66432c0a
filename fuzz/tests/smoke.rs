//! A short run of every target on the pinned stable toolchain: the seeds, then mutations of them.
//!
//! Deterministic for a seed, which is printed. `MYELIN_FUZZ_SEED` and `MYELIN_FUZZ_CASES` change
//! the seed and the count. A find is written to `artifacts/NAME/`, and
//! `cargo run --bin NAME -- FILE` in `libfuzzer/` replays it.

use myelin_stdx::rng::Rng;
use std::fs;
use std::path::{Path, PathBuf};

const SEED: u64 = 20_261_120;
const CASES: u64 = 8_000;
/// Longer inputs are cut: they take time and find little.
const LONGEST: usize = 1024;

#[test]
fn batch() {
    smoke("batch", myelin_fuzz::batch);
}

#[test]
fn callout() {
    smoke("callout", myelin_fuzz::callout);
}

#[test]
fn permissions() {
    smoke("permissions", myelin_fuzz::permissions);
}

#[test]
fn member() {
    smoke("member", myelin_fuzz::member);
}

#[test]
fn peer_parser() {
    smoke("peer_parser", myelin_fuzz::peer_parser);
}

#[test]
fn gateway() {
    smoke("gateway", myelin_fuzz::gateway);
}

#[test]
fn mapped_reply() {
    smoke("mapped_reply", myelin_fuzz::mapped_reply);
}

#[test]
fn leaf() {
    smoke("leaf", myelin_fuzz::leaf);
}

#[test]
fn link() {
    smoke("link", myelin_fuzz::link);
}

#[test]
fn peer_json() {
    smoke("peer_json", myelin_fuzz::peer_json);
}

#[test]
fn client_parser() {
    smoke("client_parser", myelin_fuzz::client_parser);
}

#[test]
fn certificate_names() {
    smoke("certificate_names", myelin_fuzz::certificate_names);
}

#[test]
fn mqtt_headers() {
    smoke("mqtt_headers", myelin_fuzz::mqtt_headers);
}

#[test]
fn mqtt_packets() {
    smoke("mqtt_packets", myelin_fuzz::mqtt_packets);
}

#[test]
fn mqtt_records() {
    smoke("mqtt_records", myelin_fuzz::mqtt_records);
}

#[test]
fn mqtt_topics() {
    smoke("mqtt_topics", myelin_fuzz::mqtt_topics);
}

#[test]
fn ocsp() {
    smoke("ocsp", myelin_fuzz::ocsp);
}

#[test]
fn proxy() {
    smoke("proxy", myelin_fuzz::proxy);
}

#[test]
fn s2_frames() {
    smoke("s2_frames", myelin_fuzz::s2_frames);
}

#[test]
fn headers() {
    smoke("headers", myelin_fuzz::headers);
}

#[test]
fn connect_json() {
    smoke("connect_json", myelin_fuzz::connect_json);
}

#[test]
fn nkey() {
    smoke("nkey", myelin_fuzz::nkey);
}

#[test]
fn jwt() {
    smoke("jwt", myelin_fuzz::jwt);
}

#[test]
fn api_json() {
    smoke("api_json", myelin_fuzz::api_json);
}

#[test]
fn direct_get() {
    smoke("direct_get", myelin_fuzz::direct_get);
}

#[test]
fn acknowledgement() {
    smoke("acknowledgement", myelin_fuzz::acknowledgement);
}

#[test]
fn pull_request() {
    smoke("pull_request", myelin_fuzz::pull_request);
}

#[test]
fn consumer_json() {
    smoke("consumer_json", myelin_fuzz::consumer_json);
}

#[test]
fn configuration() {
    smoke("configuration", myelin_fuzz::configuration);
}

#[test]
fn flags() {
    smoke("flags", myelin_fuzz::flags);
}

#[test]
fn publish() {
    smoke("publish", myelin_fuzz::publish);
}

#[test]
fn websocket_upgrade() {
    smoke("websocket_upgrade", myelin_fuzz::websocket_upgrade);
}

#[test]
fn websocket_frames() {
    smoke("websocket_frames", myelin_fuzz::websocket_frames);
}

#[test]
fn websocket_inflate() {
    smoke("websocket_inflate", myelin_fuzz::websocket_inflate);
}

#[test]
fn schedule() {
    smoke("schedule", myelin_fuzz::schedule);
}

#[test]
fn session() {
    smoke("session", myelin_fuzz::session);
}

#[test]
fn monitoring() {
    smoke("monitoring", myelin_fuzz::monitoring);
}

#[test]
fn store_pack() {
    smoke("store_pack", myelin_fuzz::store_pack);
}

#[test]
fn store_consumer() {
    smoke("store_consumer", myelin_fuzz::store_consumer);
}

#[test]
fn store_journal() {
    smoke("store_journal", myelin_fuzz::store_journal);
}

#[test]
fn transform() {
    smoke("transform", myelin_fuzz::transform);
}

#[test]
fn store_records() {
    smoke("store_records", myelin_fuzz::store_records);
}

#[test]
fn store_segment() {
    smoke("store_segment", myelin_fuzz::store_segment);
}

#[test]
fn store_footer() {
    smoke("store_footer", myelin_fuzz::store_footer);
}

#[test]
fn store_base() {
    smoke("store_base", myelin_fuzz::store_base);
}

#[test]
fn backup_archive() {
    smoke("backup_archive", myelin_fuzz::backup_archive);
}

#[test]
fn store_import() {
    smoke("store_import", myelin_fuzz::store_import);
}

fn smoke(name: &'static str, body: fn(&[u8])) {
    let (seed, cases) = (number("MYELIN_FUZZ_SEED", SEED), number("MYELIN_FUZZ_CASES", CASES));
    println!("{name}: {cases} cases, MYELIN_FUZZ_SEED={seed}");
    let corpus = read_seeds(name);
    for bytes in &corpus {
        run(name, body, bytes);
    }
    let mut mutator = Mutator::new(&corpus, seed);
    for _ in 0..cases {
        run(name, body, &mutator.next_case());
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("the variable holds a number"))
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The committed seeds in the order of their names, so that a run can be repeated.
fn read_seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = home().join("seeds").join(name);
    let entries = fs::read_dir(folder).expect("every target has seeds");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{name} has no seeds");
    files.iter().map(|file| fs::read(file).expect("a readable seed")).collect()
}

fn run(name: &'static str, body: fn(&[u8]), bytes: &[u8]) {
    let witness = Witness { name, bytes };
    body(bytes);
    drop(witness);
}

/// Keeps the input of a run that panics.
struct Witness<'a> {
    name: &'static str,
    bytes: &'a [u8],
}

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("{} found: b\"{}\"", self.name, self.bytes.escape_ascii());
        let folder = home().join("artifacts").join(self.name);
        let file = folder.join("smoke");
        let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, self.bytes));
        match kept {
            Ok(()) => {
                eprintln!("replay: cd fuzz/libfuzzer; cargo run --bin {} -- {}", self.name, file.display())
            }
            Err(error) => eprintln!("cannot keep it in {}: {error}", file.display()),
        }
    }
}

/// Makes new inputs out of old ones.
struct Mutator<'a> {
    corpus: &'a [Vec<u8>],
    /// Words of the seeds, and the pieces between words.
    words: Vec<&'a [u8]>,
    rng: Rng,
}

impl<'a> Mutator<'a> {
    fn new(corpus: &'a [Vec<u8>], seed: u64) -> Self {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
        let chunks = corpus.iter().flat_map(|seed| seed.chunk_by(move |a, b| is_word(a) == is_word(b)));
        let mut words: Vec<&[u8]> = chunks.filter(|word| word.len() <= 24).collect();
        words.sort_unstable();
        words.dedup();
        Self { corpus, words, rng: Rng::seeded(seed) }
    }

    fn next_case(&mut self) -> Vec<u8> {
        if self.below(32) == 0 {
            let len = self.below(64);
            return (0..len).map(|_| self.byte()).collect();
        }
        let mut case = self.seed().to_vec();
        for _ in 0..=self.below(5) {
            self.mutate(&mut case);
        }
        case.truncate(LONGEST);
        case
    }

    fn mutate(&mut self, case: &mut Vec<u8>) {
        let (from, to) = self.range(case.len());
        match self.below(8) {
            0 => case.truncate(to),
            1 => drop(case.drain(from..to)),
            2 => case.extend_from_within(from..to),
            3 => {
                let other = self.seed();
                let (from, to) = self.range(other.len());
                case.extend_from_slice(&other[from..to]);
            }
            4 if from < to => case[from] = self.byte(),
            5 => {
                let times = if self.below(4) == 0 { self.below(48) } else { 1 };
                let byte = self.byte();
                case.splice(from..from, std::iter::repeat_n(byte, times));
            }
            _ => {
                let word = self.word();
                let replaced = from..if self.below(2) == 0 { from } else { to.min(from + word.len()) };
                case.splice(replaced, word.iter().copied());
            }
        }
    }

    fn seed(&mut self) -> &'a [u8] {
        let at = self.below(self.corpus.len());
        &self.corpus[at]
    }

    /// Nothing where the seeds have no short words.
    fn word(&mut self) -> &'a [u8] {
        let at = self.below(self.words.len());
        self.words.get(at).copied().unwrap_or_default()
    }

    /// A part of something that long, mostly a short one.
    fn range(&mut self, len: usize) -> (usize, usize) {
        let from = self.below(len + 1);
        let most = if self.below(4) == 0 { len - from } else { (len - from).min(8) };
        (from, from + self.below(most + 1))
    }

    /// A byte that means something somewhere, or any.
    fn byte(&mut self) -> u8 {
        const TELLING: &[u8] = b"\0\t\n\r \"#$'*,-./019:;=>[\\]{|}\x7f\x80\xc3\xff";
        match self.below(TELLING.len() * 2) {
            at if at < TELLING.len() => TELLING[at],
            _ => self.below(256) as u8,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }
}
