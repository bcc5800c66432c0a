//! The threads of this process and what the kernel says of them.

use myelin_monitor::ThreadSnapshot;
use std::fs;
use std::path::Path;

/// All threads, by number. One that ends meanwhile may be missed.
pub(crate) fn threads() -> Vec<ThreadSnapshot> {
    let Ok(folder) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let mut threads: Vec<_> = folder.flatten().filter_map(|entry| thread(&entry.path())).collect();
    threads.sort_unstable_by_key(|thread| thread.id);
    threads
}

fn thread(folder: &Path) -> Option<ThreadSnapshot> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    let stat = read("stat")?;
    let waits_in = read("wchan").unwrap_or_default();
    Some(ThreadSnapshot {
        id,
        name: read("comm")?.trim_end().to_owned(),
        state: state(&stat, waits_in.trim_end())?,
    })
}

/// The state in words, and the function of the kernel that the thread waits in, where that is told.
fn state(stat: &str, waits_in: &str) -> Option<String> {
    let (_, fields) = stat.rsplit_once(')')?;
    let word = match fields.trim_start().chars().next()? {
        'R' => "running",
        'S' => "sleeping",
        'D' => "waiting for a device",
        'T' | 't' => "stopped",
        'Z' | 'X' => "ended",
        _ => "idle",
    };
    Some(match waits_in {
        "" | "0" => word.to_owned(),
        function => format!("{word}, {function}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_in_words() {
        assert_eq!(state("7 (a) b) S 1 2", "ep_poll").as_deref(), Some("sleeping, ep_poll"));
        assert_eq!(state("7 (a) R 1", "0").as_deref(), Some("running"));
        assert_eq!(state("7 (a)", ""), None);
    }

    #[test]
    fn a_thread_is_found_by_its_name() {
        let name = "found-by-name";
        let (ready, wait) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let body = move || {
            ready.send(()).unwrap();
            let _ = ended.recv();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap();
        wait.recv().unwrap();
        assert!(threads().iter().any(|thread| thread.name == name && !thread.state.is_empty()));
        drop(end);
        thread.join().unwrap();
    }
}
