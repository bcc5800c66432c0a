//! `offset` and `limit`: which part of a long list is shown.

use crate::query::{BadQuery, Query};

/// Rows that are shown when no limit is given, or one that makes no sense.
pub(crate) const DEFAULT_LIMIT: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageWindow {
    pub(crate) offset: u64,
    /// At least 1.
    pub(crate) limit: u64,
}

impl PageWindow {
    /// Compat: a negative offset is 0, and a limit below 1 is the default; neither is an error.
    pub(crate) fn read(query: &Query) -> Result<Self, BadQuery> {
        let offset = query.int("offset")?;
        let limit = query.int("limit")?;
        Ok(Self {
            offset: u64::try_from(offset).unwrap_or(0),
            limit: u64::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIMIT),
        })
    }

    /// The part of `list` inside the window: empty when it begins behind the end.
    pub(crate) fn of<T>(self, list: &[T]) -> &[T] {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX).min(list.len());
        let rest = &list[start..];
        let count = usize::try_from(self.limit).unwrap_or(usize::MAX).min(rest.len());
        &rest[..count]
    }

    /// Whether the item at `index` of a list is inside.
    pub(crate) fn contains(self, index: u64) -> bool {
        index >= self.offset && index - self.offset < self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_values_become_defaults() {
        let read = |text| PageWindow::read(&Query::parse(text)).unwrap();
        assert_eq!(read(""), PageWindow { offset: 0, limit: 1024 });
        assert_eq!(read("offset=-5&limit=-1"), PageWindow { offset: 0, limit: 1024 });
        assert_eq!(read("offset=7&limit=0"), PageWindow { offset: 7, limit: 1024 });
        assert_eq!(read("offset=7&limit=3"), PageWindow { offset: 7, limit: 3 });
    }

    #[test]
    fn both_views_of_a_window_agree() {
        let list: Vec<u64> = (0..5).collect();
        for offset in [0, 1, 4, 5, 6, i64::MAX as u64, u64::MAX] {
            for limit in [1, 2, 5, 6, i64::MAX as u64, u64::MAX] {
                let window = PageWindow { offset, limit };
                let expected: Vec<u64> = list.iter().copied().filter(|i| window.contains(*i)).collect();
                assert_eq!(window.of(&list), expected, "{window:?}");
            }
        }
    }

    /// SN 2026-28: the sum of an offset and a limit was more than a number holds, and the server
    /// ended.
    #[test]
    fn sn_2026_28_offset_and_limit_at_their_ends_do_not_overflow() {
        let list = [1, 2, 3];
        let huge = i64::MAX as u64;
        assert_eq!(PageWindow { offset: 1, limit: huge }.of(&list), [2, 3]);
        assert!(PageWindow { offset: huge, limit: huge }.of(&list).is_empty());
    }
}
