//! `/debug/vars`: the command line and the memory of the process, as Go's `expvar` lays them out.
//!
//! The keys of `memstats` are those of a Go program. This is none: what has a counterpart holds the
//! true figure, the rest is zero and empty lists keep their length. True are `Sys`, `HeapSys`,
//! `HeapIdle`, `HeapInuse`, `HeapReleased`, `HeapAlloc`, `Alloc`, `StackInuse` and `StackSys`;
//! nothing is collected as garbage.

use serde::Serialize;

use crate::response::PageResponse;
use crate::snapshot::{RuntimeSnapshot, SnapshotSource};
use myelin_wire::json;

/// Compat: requests for this page are not counted. Three keys are our own: `panics`, those that
/// were caught since the start, `recent_panics`, the last of them if there are any, and `journal`,
/// what a loss of power would take.
pub(crate) fn answer(source: &dyn SnapshotSource) -> PageResponse {
    let runtime = source.runtime();
    let line = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
    let journal =
        runtime.journal.as_ref().map(|journal| format!("\"journal\": {},\n", line(json::compact(journal))));
    let recent = match runtime.recent_panics.is_empty() {
        true => String::new(),
        false => format!(",\n\"recent_panics\": {}", line(json::compact(&runtime.recent_panics))),
    };
    PageResponse::vars(format!(
        "{{\n\"cmdline\": {},\n{}\"memstats\": {},\n\"panics\": {}{recent}\n}}\n",
        line(json::compact(&runtime.command_line)),
        journal.unwrap_or_default(),
        line(json::compact(&MemStats::of(&runtime))),
        runtime.panics,
    ))
}

/// Renders the variables as the response to a message, with the keys of the reference alone.
pub(crate) fn message(source: &dyn SnapshotSource) -> PageResponse {
    #[derive(Serialize)]
    struct Vars<'a> {
        memstats: MemStats,
        cmdline: &'a [String],
    }
    let runtime = source.runtime();
    PageResponse::line(200, &Vars { memstats: MemStats::of(&runtime), cmdline: &runtime.command_line })
}

/// The sizes of Go's classes of small objects.
const CLASSES: [u32; 61] = [
    0, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384,
    416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072,
    3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568,
    14336, 16384, 18432,
];

/// How many collections Go remembers.
const PAUSES: usize = 256;

#[derive(Serialize, Default)]
#[serde(rename_all = "PascalCase")]
struct MemStats {
    alloc: u64,
    total_alloc: u64,
    sys: u64,
    lookups: u64,
    mallocs: u64,
    frees: u64,
    heap_alloc: u64,
    heap_sys: u64,
    heap_idle: u64,
    heap_inuse: u64,
    heap_released: u64,
    heap_objects: u64,
    stack_inuse: u64,
    stack_sys: u64,
    #[serde(rename = "MSpanInuse")]
    mspan_inuse: u64,
    #[serde(rename = "MSpanSys")]
    mspan_sys: u64,
    #[serde(rename = "MCacheInuse")]
    mcache_inuse: u64,
    #[serde(rename = "MCacheSys")]
    mcache_sys: u64,
    buck_hash_sys: u64,
    #[serde(rename = "GCSys")]
    gc_sys: u64,
    other_sys: u64,
    #[serde(rename = "NextGC")]
    next_gc: u64,
    #[serde(rename = "LastGC")]
    last_gc: u64,
    pause_total_ns: u64,
    pause_ns: Vec<u64>,
    pause_end: Vec<u64>,
    #[serde(rename = "NumGC")]
    num_gc: u32,
    #[serde(rename = "NumForcedGC")]
    num_forced_gc: u32,
    #[serde(rename = "GCCPUFraction")]
    gc_cpu_fraction: f64,
    #[serde(rename = "EnableGC")]
    enable_gc: bool,
    #[serde(rename = "DebugGC")]
    debug_gc: bool,
    by_size: Vec<Class>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Class {
    size: u32,
    mallocs: u64,
    frees: u64,
}

impl MemStats {
    fn of(runtime: &RuntimeSnapshot) -> Self {
        let idle = runtime.data.saturating_sub(runtime.resident_data);
        Self {
            alloc: runtime.resident_data,
            sys: runtime.mapped,
            heap_alloc: runtime.resident_data,
            heap_sys: runtime.data,
            heap_idle: idle,
            heap_inuse: runtime.resident_data,
            heap_released: idle,
            stack_inuse: runtime.stack,
            stack_sys: runtime.stack,
            pause_ns: vec![0; PAUSES],
            pause_end: vec![0; PAUSES],
            by_size: CLASSES.map(|size| Class { size, mallocs: 0, frees: 0 }).into(),
            ..Self::default()
        }
    }
}
