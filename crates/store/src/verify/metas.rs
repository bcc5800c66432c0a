//! The two copies of `meta`: valid, and equal?

use crate::meta::{Meta, MetaCopies, MetaFault, read_copies};

use super::stream::Checking;
use super::{Finding, Severity};

const OTHER_COPY: &str = "The other copy is good; the next start writes this one again.";
const NO_COPY: &str = "Without a copy nobody knows the stream's name and key, and the server does not open it: \
                       `myelin store repair --config` makes it again, or restore the file from a backup.";
const LATER: &str = "Use a server of that version: this one leaves the stream alone.";

/// Checks both copies; the one that counts.
pub(super) fn check(checking: &mut Checking<'_, '_>) -> Option<Meta> {
    let MetaCopies { best, faults } = read_copies(&*checking.looking.disk, checking.directory, checking.id());
    if let Ok(meta) = &best {
        // Findings name the stream.
        checking.call(meta);
    }
    for (name, fault) in faults {
        let (severity, meaning) = judge(&fault, &best);
        checking.emit(Finding::new(severity, checking.path(name), fault.to_string(), meaning));
    }
    best.ok()
}

fn judge(fault: &MetaFault, best: &Result<Meta, crate::damage::Damage>) -> (Severity, &'static str) {
    match (fault, best) {
        (_, Err(crate::damage::Damage::Version(..))) => (Severity::Damage, LATER),
        (_, Err(_)) => (Severity::Damage, NO_COPY),
        (MetaFault::Missing { is_first: true }, _) => {
            (Severity::Note, "An earlier version wrote one copy; the next start writes the other one.")
        }
        (MetaFault::Older { generation, newest }, _) if generation + 1 == *newest => {
            (Severity::Note, "A crash came between the two copies; the newer one is in force.")
        }
        (MetaFault::Older { .. }, _) => {
            (Severity::Suspicious, "The newer one is in force; the older one is an old copy that came back.")
        }
        (MetaFault::Elsewhere(_), _) => {
            (Severity::Damage, "The other copy is good; the next start moves this one to quarantine.")
        }
        _ => (Severity::Damage, OTHER_COPY),
    }
}
