//! Which message of a table comes next with the same subject.
//!
//! A stream that keeps a few messages of each subject removes the oldest of one with every message,
//! and has to know which is the oldest then. Only such streams pay: a chain is made when it is
//! first asked, and then grows with its table.

use hashbrown::HashMap;

/// No row.
const NONE: u32 = u32::MAX;

/// Links between the rows of one table that have one subject.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Row by row, the next row with the same subject.
    next: Vec<u32>,
    /// Of each subject, its first row and its last one so far.
    ends: HashMap<u32, (u32, u32), foldhash::fast::FixedState>,
}

impl Chain {
    /// Takes in the rows that were added; `subjects` are those of all rows.
    pub(crate) fn extend(&mut self, subjects: &[u32]) {
        let known = self.next.len();
        debug_assert!(known <= subjects.len(), "a table only grows");
        self.next.resize(subjects.len(), NONE);
        for (row, &subject) in (known as u32..).zip(&subjects[known..]) {
            let (_, last) = self.ends.entry(subject).or_insert((row, row));
            if *last != row {
                self.next[*last as usize] = row;
                *last = row;
            }
        }
    }

    /// The next row with the subject of `row`.
    pub(crate) fn after(&self, row: usize) -> Option<usize> {
        self.next.get(row).filter(|&&next| next != NONE).map(|&next| next as usize)
    }

    /// The first row of a subject.
    pub(crate) fn first(&self, subject: u32) -> Option<usize> {
        self.ends.get(&subject).map(|&(first, _)| first as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_subject_follow_each_other_however_the_table_grew() {
        let subjects = [7, 3, 7, 7, 3, 9];
        for known in 0..=subjects.len() {
            let mut chain = Chain::default();
            chain.extend(&subjects[..known]);
            chain.extend(&subjects);
            let walk = |subject| std::iter::successors(chain.first(subject), |&row| chain.after(row));
            assert_eq!(walk(7).collect::<Vec<_>>(), [0, 2, 3]);
            assert_eq!(walk(3).collect::<Vec<_>>(), [1, 4]);
            assert_eq!(walk(9).collect::<Vec<_>>(), [5]);
            assert_eq!(walk(1).count(), 0);
            assert_eq!(chain.after(6), None);
        }
    }
}
