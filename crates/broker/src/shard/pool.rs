//! Buffers that a shard uses again and again.

/// First chunk of a stage: most receivers get little per tick.
pub(super) const SMALL: usize = 2 * 1024;
/// Every further chunk.
pub(super) const LARGE: usize = 64 * 1024;

/// Buffers kept for reuse; what exceeds the counts goes back to the allocator.
const KEEP_SMALL: usize = 1024;
const KEEP_LARGE: usize = 32;

/// Pool of buffers that a shard uses again and again.
#[derive(Default)]
pub(super) struct Pool {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

impl Pool {
    /// An empty buffer with room for `need` bytes, or more.
    pub(super) fn get(&mut self, need: usize, first: bool) -> Vec<u8> {
        if first && need <= SMALL {
            return self.small.pop().unwrap_or_else(|| Vec::with_capacity(SMALL));
        }
        if need <= LARGE {
            return self.large.pop().unwrap_or_else(|| Vec::with_capacity(LARGE));
        }
        Vec::with_capacity(need)
    }

    /// Takes a buffer back.
    pub(super) fn put(&mut self, mut buffer: Vec<u8>) {
        let kept = match buffer.capacity() {
            SMALL if self.small.len() < KEEP_SMALL => &mut self.small,
            LARGE if self.large.len() < KEEP_LARGE => &mut self.large,
            _ => return,
        };
        buffer.clear();
        kept.push(buffer);
        debug_assert!(self.small.len() <= KEEP_SMALL && self.large.len() <= KEEP_LARGE, "few are kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_in_their_own_size() {
        let mut pool = Pool::default();
        for (need, first, capacity) in [(10, true, SMALL), (10, false, LARGE), (SMALL + 1, true, LARGE)] {
            let mut buffer = pool.get(need, first);
            let memory = buffer.as_ptr();
            assert_eq!(buffer.capacity(), capacity);
            buffer.extend_from_slice(b"left behind");
            pool.put(buffer);
            let again = pool.get(need, first);
            assert_eq!((again.len(), again.as_ptr()), (0, memory));
        }
    }

    #[test]
    fn odd_and_surplus_buffers_are_let_go() {
        let mut pool = Pool::default();
        assert!(pool.get(LARGE + 1, true).capacity() > LARGE);
        pool.put(Vec::with_capacity(LARGE + 1));
        pool.put(Vec::with_capacity(100));
        assert_eq!((pool.small.len(), pool.large.len()), (0, 0));
        for _ in 0..2 * KEEP_LARGE {
            pool.put(Vec::with_capacity(LARGE));
        }
        assert_eq!(pool.large.len(), KEEP_LARGE);
    }
}
