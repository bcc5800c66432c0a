//! Verdict of a run: nothing, or everything that was not as it should be.

use crate::judge::Growth;
use crate::load::Tally;
use crate::measure::Held;
use std::fmt;
use std::path::PathBuf;

/// Held files that are named; the others are counted.
const NAMED: usize = 10;

/// The result of a run.
#[derive(Debug, Default)]
pub struct Verdict {
    pub(crate) grown: Vec<Growth>,
    pub(crate) held: Vec<Held>,
    /// Loads that did not do their work, so that nothing is known of what they should have shown.
    pub(crate) idle: Vec<Tally>,
    /// Anything else: how the server ended, what it logged.
    pub(crate) faults: Vec<String>,
    /// Where the server's files are kept, if there is a reason.
    pub(crate) folder: Option<PathBuf>,
}

impl Verdict {
    /// Whether nothing grew, nothing was held, and everybody worked.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.grown.is_empty() && self.held.is_empty() && self.idle.is_empty() && self.faults.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_good() {
            return writeln!(f, "nothing grew");
        }
        for Growth { name, settled, last, limit } in &self.grown {
            writeln!(f, "grew: {name} from {settled:.1} to {last:.1}, at most {limit:.1}")?;
        }
        for Held { path, open_for } in self.held.iter().take(NAMED) {
            writeln!(
                f,
                "held: {} was open for {:.1} s after its removal",
                path.display(),
                open_for.as_secs_f64()
            )?;
        }
        if self.held.len() > NAMED {
            writeln!(f, "held: {} more removed files", self.held.len() - NAMED)?;
        }
        for Tally { name, done, failed, last_error } in &self.idle {
            let why = last_error.as_deref().unwrap_or("no reason known");
            writeln!(f, "idle: {name} did {done} turns and failed in {failed}, the last time: {why}")?;
        }
        for fault in &self.faults {
            writeln!(f, "fault: {fault}")?;
        }
        match &self.folder {
            Some(folder) => writeln!(f, "the server's files are in {}", folder.display()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_reason_alone_is_enough() {
        assert!(Verdict::default().is_good());
        let growth = Growth { name: "rss", settled: 50.0, last: 61.25, limit: 55.0 };
        let grown = Verdict { grown: vec![growth], ..Verdict::default() };
        assert!(!grown.is_good());
        assert_eq!(grown.to_string(), "grew: rss from 50.0 to 61.2, at most 55.0\n");
        let held = Held { path: "/s/1".into(), open_for: std::time::Duration::from_secs(9) };
        let held = Verdict { held: vec![held; NAMED + 2], ..Verdict::default() };
        assert!(!held.is_good());
        assert!(held.to_string().ends_with("held: 2 more removed files\n"));
        let idle = Verdict { idle: vec![Tally::default()], ..Verdict::default() };
        assert!(!idle.is_good());
        let fault = Verdict { faults: vec!["it panicked".into()], ..Verdict::default() };
        assert!(!fault.is_good());
    }
}
