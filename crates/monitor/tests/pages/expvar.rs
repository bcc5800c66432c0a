//! `/debug/vars`.

use myelin_monitor::{JournalSnapshot, RuntimeSnapshot};
use serde_json::{Value, json};

use crate::fixture::{Fixed, text};

#[test]
fn the_command_line_comes_first() {
    let command_line = ["server", "-js"].map(str::to_owned).into();
    let runtime = RuntimeSnapshot { command_line, panics: 3, ..RuntimeSnapshot::default() };
    let source = Fixed { runtime, ..Fixed::default() };
    let answer = source.ask("/debug/vars");
    assert_eq!(answer.headers, [("content-type", "application/json; charset=utf-8")]);
    let body = text(&answer);
    assert!(body.starts_with("{\n\"cmdline\": [\"server\",\"-js\"],\n\"memstats\": {"), "{body}");
    // In the order of names, as Go has it.
    assert!(body.ends_with("},\n\"panics\": 3\n}\n"), "{body}");
}

#[test]
fn what_a_loss_of_power_would_take_is_told_where_there_is_a_store() {
    let journal = JournalSnapshot {
        loss_window: 1,
        loss_window_max: 5_000_000,
        positions_window: 2,
        positions_window_max: 50_000_000,
        rounds: 3,
        waiting_erasures: 4,
        carries_refused: 5,
        ..JournalSnapshot::default()
    };
    let runtime = RuntimeSnapshot { journal: Some(journal), ..RuntimeSnapshot::default() };
    let answer = Fixed { runtime, ..Fixed::default() }.ask("/debug/vars");
    let expected = json!({
        "loss_window": 1, "loss_window_max": 5_000_000, "positions_window": 2, "positions_window_max": 50_000_000,
        "rounds": 3, "waiting_erasures": 4, "carries_refused": 5
    });
    assert_eq!(serde_json::from_slice::<Value>(&answer.body).unwrap()["journal"], expected);
    let body = text(&answer);
    let at = |key: &str| body.find(key);
    assert!(at("\"cmdline\"") < at("\"journal\"") && at("\"journal\"") < at("\"memstats\""), "{body}");
    let without = Fixed::default().ask("/debug/vars");
    assert!(!text(&without).contains("journal"));
}

#[test]
fn memory_is_told_in_gos_terms() {
    let runtime =
        RuntimeSnapshot { mapped: 900, data: 100, resident_data: 60, stack: 8, ..RuntimeSnapshot::default() };
    let answer = Fixed { runtime, ..Fixed::default() }.ask("/debug/vars");
    let stats = &serde_json::from_slice::<Value>(&answer.body).unwrap()["memstats"];
    let expected = [
        ("Alloc", 60),
        ("TotalAlloc", 0),
        ("Sys", 900),
        ("HeapSys", 100),
        ("HeapIdle", 40),
        ("HeapInuse", 60),
        ("StackInuse", 8),
        ("NumGC", 0),
    ];
    for (name, value) in expected {
        assert_eq!(stats[name], json!(value), "{name}");
    }
    assert_eq!(stats["EnableGC"], false);
}
