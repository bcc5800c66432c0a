//! Counts by words of which there are few: subjects of a stream.

/// A number for each word; a word that is new has 0.
#[derive(Default)]
pub(crate) struct Tally<'a>(Vec<(&'a str, u64)>);

impl<'a> Tally<'a> {
    pub(crate) fn of(&mut self, word: &'a str) -> &mut u64 {
        // Perf: they differ in their last letters.
        let is_it = |other: &str| {
            other.len() == word.len()
                && other.bytes().next_back() == word.bytes().next_back()
                && other == word
        };
        let at = self.0.iter().position(|(other, _)| is_it(other)).unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push((word, 0));
        }
        &mut self.0[at].1
    }

    /// The words with their numbers, in the order of the words.
    pub(crate) fn sorted(mut self) -> Vec<(&'a str, u64)> {
        self.0.sort_unstable();
        self.0
    }
}
