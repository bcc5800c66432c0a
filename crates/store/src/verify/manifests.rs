//! The two copies of a manifest: valid, and equal?

use crate::damage::Damage;
use crate::manifest::{COPIES, Manifest};

use super::Finding;
use super::stream::Checking;

const OTHER_COPY: &str = "The other copy is good; the next manifest that is written replaces this one.";
const NO_COPY: &str =
    "The server does not open this stream without a manifest: restore one copy from a backup.";

/// Checks both copies. The one in force, if there is one; and whether the stream can be opened
/// without it.
pub(super) fn check(checking: &mut Checking<'_, '_>) -> Result<Option<Manifest>, ()> {
    let mut valid: Vec<Option<Manifest>> = Vec::new();
    let mut faults: Vec<(&'static str, Damage)> = Vec::new();
    for name in COPIES {
        match read(checking, name) {
            Ok(manifest) => valid.push(Some(manifest)),
            Err(damage) => {
                valid.push(None);
                faults.push((name, damage));
            }
        }
    }
    if faults.len() == COPIES.len() && faults.iter().all(|(_, damage)| is_missing(damage)) {
        return Ok(None);
    }
    let has_other = valid.iter().any(Option::is_some);
    for (name, damage) in &faults {
        let path = checking.path(name);
        let finding = match damage {
            // The first one is written before the second.
            damage if is_missing(damage) && has_other && *name == COPIES[1] => Finding::note(
                path,
                "it is missing",
                "A crash came between the two copies; the other one is good.",
            ),
            damage => Finding::damage(path, damage.to_string(), if has_other { OTHER_COPY } else { NO_COPY }),
        };
        checking.emit(finding);
    }
    if let [Some(first), Some(second)] = &valid[..] {
        compare(checking, first, second);
    }
    let best = valid.into_iter().flatten().max_by_key(|manifest| manifest.generation);
    best.map(Some).ok_or(())
}

fn read(checking: &Checking<'_, '_>, name: &str) -> Result<Manifest, Damage> {
    let manifest = Manifest::decode(&checking.read_whole(name)?)?;
    // Another stream's is as good as none.
    if manifest.stream == checking.id() {
        Ok(manifest)
    } else {
        Err(Damage::Content("manifest of another stream"))
    }
}

fn is_missing(damage: &Damage) -> bool {
    matches!(damage, Damage::Io(error) if error.kind() == std::io::ErrorKind::NotFound)
}

fn compare(checking: &mut Checking<'_, '_>, first: &Manifest, second: &Manifest) {
    if first == second {
        return;
    }
    let (one, other) = (first.generation, second.generation);
    let what = format!("generation {one}, the other copy has {other}");
    let path = checking.path(COPIES[1]);
    checking.emit(if one == other {
        let meaning =
            "Two manifests of the same generation never differ: one of them is another stream's state.";
        Finding::damage(path, "it differs from the other copy", meaning)
    } else if one == other + 1 {
        Finding::note(path, what, "A crash came between the two copies; the newer one is in force.")
    } else {
        Finding::suspicious(
            path,
            what,
            "The newer one is in force; the older one is an old copy that came back.",
        )
    });
}
