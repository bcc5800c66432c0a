//! What was probably meant by an option that does not exist: a slip of the pen, or the wrong block.

use super::Scope;

/// How unlike a name may be to still be taken for a slip.
const LIKENESS: f64 = 0.8;

/// The rest of the complaint about an unknown option, or nothing.
pub(super) fn meant(scope: Scope, written: &str) -> String {
    let written = written.to_lowercase();
    if scope.find(&written).is_some() {
        // Compat: the reference calls some options unknown whose value is of the wrong type.
        return String::new();
    }
    if let Some(name) = nearest(scope, &written) {
        return format!("; did you mean {name:?}?");
    }
    let mut others = Scope::ALL.iter().filter(|other| other.find(&written).is_some());
    match (others.next(), others.next()) {
        (Some(Scope::Top), None) => "; it stands at the top level, in no block".to_owned(),
        (Some(only), None) => format!("; it is an option of {}", only.block().title),
        _ => String::new(),
    }
}

fn nearest(scope: Scope, written: &str) -> Option<&'static str> {
    let names = scope.block().entries.iter().flat_map(|entry| entry.names);
    // Perf: names of too different a length are not alike whatever they say; a long key costs nothing then.
    let names = names.filter(|name| may_be_alike(name, written));
    let alike = names.map(|name| (strsim::normalized_damerau_levenshtein(name, written), *name));
    let best = alike.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness >= LIKENESS).map(|(_, name)| name)
}

/// Whether their lengths allow it: each letter that one has more is a change.
fn may_be_alike(name: &str, written: &str) -> bool {
    let [one, other] = [name, written].map(|text| text.chars().count() as f64);
    one.min(other) / one.max(other) >= LIKENESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_the_lengths_passes_over_nothing_that_is_alike() {
        let names = Scope::ALL.iter().flat_map(|scope| scope.block().entries).flat_map(|entry| entry.names);
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            let shorter = (0..name.len()).map(|len| name[..len].to_owned());
            let longer = (0..name.len()).map(|len| format!("{name}{}", &name[..len]));
            for written in shorter.chain(longer) {
                let is_alike = strsim::normalized_damerau_levenshtein(name, &written) >= LIKENESS;
                assert!(!is_alike || may_be_alike(name, &written), "{name} {written}");
            }
        }
    }

    #[test]
    fn slips_and_wrong_blocks_are_recognised() {
        for (scope, written, hint) in [
            (Scope::Top, "autorization", "; did you mean \"authorization\"?"),
            (Scope::Top, "Max_Payloda", "; did you mean \"max_payload\"?"),
            (Scope::User, "passwrod", "; did you mean \"password\"?"),
            (Scope::Top, "routes", "; it is an option of cluster"),
            (Scope::Cluster, "lame_duck_duration", "; it stands at the top level, in no block"),
            (Scope::Top, "users", ""),
            (Scope::Top, "quux", ""),
        ] {
            assert_eq!(meant(scope, written), hint, "{written}");
        }
    }
}
