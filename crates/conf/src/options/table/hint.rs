//! Hints at what was probably meant by an option that does not exist: a slip of the pen, or the
//! wrong block.

use super::BlockKind;

/// How unlike a name may be to still be taken for a slip.
const LIKENESS: f64 = 0.8;

/// The rest of the diagnostic about an unknown option, or nothing.
pub(super) fn meant(scope: BlockKind, written: &str) -> String {
    let written = written.to_lowercase();
    if scope.find(&written).is_some() {
        // Compat: the reference calls some options unknown whose value is of the wrong type.
        return String::new();
    }
    if let Some(name) = nearest(scope, &written) {
        return format!("; did you mean {name:?}?");
    }
    let mut others = BlockKind::ALL.iter().filter(|other| other.find(&written).is_some());
    match (others.next(), others.next()) {
        (Some(BlockKind::Top), None) => "; it stands at the top level, in no block".to_owned(),
        (Some(only), None) => format!("; it is an option of {}", only.block().title),
        _ => String::new(),
    }
}

fn nearest(scope: BlockKind, written: &str) -> Option<&'static str> {
    let names = scope.block().entries.iter().flat_map(|entry| entry.names);
    // Perf: names of too different a length or of other characters are not alike whatever they say;
    // a long key costs nothing then, and most others are compared with no name character by
    // character.
    let characters = CharacterCounts::of(written);
    let names = names.filter(|name| CharacterCounts::of(name).may_be_like(&characters));
    let alike = names.map(|name| (strsim::normalized_damerau_levenshtein(name, written), *name));
    let best = alike.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(likeness, _)| *likeness >= LIKENESS).map(|(_, name)| name)
}

/// How often each character occurs in a name, with one count for several characters.
struct CharacterCounts {
    counts: [u32; 64],
    len: u32,
}

impl CharacterCounts {
    fn of(name: &str) -> Self {
        let mut characters = Self { counts: [0; 64], len: 0 };
        for character in name.chars() {
            characters.counts[character as usize % 64] += 1;
            characters.len += 1;
        }
        characters
    }

    /// Whether names of these characters may be alike: each character that one has and the other
    /// has not is a change, of which one may be for two such characters.
    fn may_be_like(&self, other: &Self) -> bool {
        let longest = f64::from(self.len.max(other.len));
        let allows = |changes: u32| 1.0 - f64::from(changes) / longest >= LIKENESS;
        let beyond = |one: &Self, other: &Self| -> u32 {
            one.counts.iter().zip(&other.counts).map(|(one, other)| one.saturating_sub(*other)).sum()
        };
        allows(self.len.abs_diff(other.len)) && allows(beyond(self, other)) && allows(beyond(other, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names with a character less, more or another, or two of them turned around.
    fn slips(name: &str) -> impl Iterator<Item = String> {
        let places = (0..name.len()).filter(|at| name.is_char_boundary(*at) && name.is_char_boundary(at + 1));
        places.flat_map(move |at| {
            let (front, back) = name.split_at(at);
            let (character, rest) = back.split_at(1);
            let turned = rest
                .chars()
                .next()
                .map_or(String::new(), |next| format!("{next}{character}{}", &rest[next.len_utf8()..]));
            [rest.to_owned(), format!("x{back}"), format!("\u{a1}{rest}"), turned]
                .map(|back| front.to_owned() + &back)
        })
    }

    #[test]
    fn a_look_at_the_letters_passes_over_nothing_that_is_alike() {
        let names =
            BlockKind::ALL.iter().flat_map(|scope| scope.block().entries).flat_map(|entry| entry.names);
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            let shorter = (0..name.len()).map(|len| name[..len].to_owned());
            let longer = (0..name.len()).map(|len| format!("{name}{}", &name[..len]));
            let once: Vec<_> = slips(name).collect();
            let twice = once.iter().flat_map(|slip| slips(slip)).step_by(31);
            for written in shorter.chain(longer).chain(once.iter().cloned()).chain(twice) {
                let is_alike = strsim::normalized_damerau_levenshtein(name, &written) >= LIKENESS;
                assert!(
                    !is_alike || CharacterCounts::of(name).may_be_like(&CharacterCounts::of(&written)),
                    "{name} {written}"
                );
            }
        }
    }

    #[test]
    fn slips_and_wrong_blocks_are_recognised() {
        for (scope, written, hint) in [
            (BlockKind::Top, "autorization", "; did you mean \"authorization\"?"),
            (BlockKind::Top, "Max_Payloda", "; did you mean \"max_payload\"?"),
            (BlockKind::User, "passwrod", "; did you mean \"password\"?"),
            (BlockKind::Top, "routes", "; it is an option of cluster"),
            (BlockKind::Cluster, "lame_duck_duration", "; it stands at the top level, in no block"),
            (BlockKind::Top, "users", ""),
            (BlockKind::Top, "quux", ""),
        ] {
            assert_eq!(meant(scope, written), hint, "{written}");
        }
    }
}
