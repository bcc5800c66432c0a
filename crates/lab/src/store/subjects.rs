//! A million distinct subjects: the index alone, and appends that need it.

use std::hint::black_box;

use myelin_loadgen::error::BenchError;
use myelin_store::StreamConfig;
use myelin_store::index::SubjectIndex;

use crate::servers::scratch::Scratch;
use crate::store::StoreSettings;
use crate::store::append::fill;
use crate::store::figure::Figure;
use crate::store::load::AppendLoad;
use crate::store::meter::{ThreadMeter, resident};

const SUBJECTS: u64 = 1_000_000;

/// Measures an index of all subjects: its memory, its updates, and the appends that need it.
pub(crate) fn distinct(settings: &StoreSettings, scratch: &Scratch) -> Result<Vec<Figure>, BenchError> {
    let subjects = settings.divide(SUBJECTS) as usize;
    let load = AppendLoad::shuffled(subjects, 128);
    let (mut many, mut few) = (Vec::new(), Vec::new());
    let mut alone = Index::default();
    for round in 0..settings.rounds {
        alone.measure(&load);
        for is_many in if round % 2 == 0 { [true, false] } else { [false, true] } {
            let room = scratch.room("subjects")?;
            let small = AppendLoad::new(64, 128);
            let used = if is_many { &load } else { &small };
            // The first time through all subjects makes them.
            let passes = (subjects as u64, 2 * subjects as u64);
            let (count, spent) = fill(&room, used, StreamConfig::default(), passes)?;
            if is_many { &mut many } else { &mut few }.push(spent.nanos_each(count));
        }
    }
    let more = many.iter().zip(&few).map(|(many, few)| many - few).collect();
    Ok(vec![
        Figure::new("memory of a subject beyond its text", "B", alone.bytes).at_most(64.0),
        Figure::new("resident memory of a subject beyond its text", "B", alone.resident),
        Figure::new("an update of the index", "ns", alone.updates).at_most(150.0),
        Figure::new("an update of the index, none brought near before", "ns", alone.singles),
        Figure::new("a new subject", "ns", alone.news),
        Figure::new("CPU of an append above one to 64 subjects", "ns", more).at_most(150.0),
        Figure::new("CPU of an append", "ns", many),
        Figure::new("CPU of an append, 64 subjects", "ns", few),
    ])
}

/// The index without a stream.
#[derive(Debug, Default)]
struct Index {
    bytes: Vec<f64>,
    resident: Vec<f64>,
    news: Vec<f64>,
    updates: Vec<f64>,
    singles: Vec<f64>,
}

impl Index {
    fn measure(&mut self, load: &AppendLoad) {
        let subjects: Vec<&[u8]> = load.subjects().collect();
        let count = subjects.len() as u64;
        let text: usize = subjects.iter().map(|text| text.len()).sum();
        let mut index = SubjectIndex::new(7);
        let mut seq = 0;
        let before = resident().0;
        let mut pass = |index: &mut SubjectIndex, batch: usize| {
            let meter = ThreadMeter::start();
            for texts in subjects.chunks(batch) {
                if batch > 1 {
                    index.warm(texts.iter().copied());
                }
                for text in texts {
                    seq += 1;
                    let id = index.enter(text);
                    index.appended(id, seq, 128);
                }
            }
            meter.spent().nanos_each(count)
        };
        let each = |bytes: u64| (bytes as f64 - text as f64) / count as f64;
        self.news.push(pass(&mut index, load.per_batch()));
        self.updates.push(pass(&mut index, load.per_batch()));
        self.singles.push(pass(&mut index, 1));
        // As when a segment is closed.
        drop(black_box(index.take_touched()));
        self.bytes.push(each(index.memory_bytes() as u64));
        self.resident.push(each(resident().0.saturating_sub(before)));
    }
}
