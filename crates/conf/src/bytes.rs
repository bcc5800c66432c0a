//! Sizes for people.

use std::fmt::{self, Display};

/// A number of bytes as log lines show it: `17.66 GB`, in powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let power = self.0.ilog2() / 10;
        let scaled = self.0 as f64 / (1u64 << (10 * power)) as f64;
        write!(f, "{scaled:.2} {}", UNITS[power as usize - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_fits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KB"),
            (1_000_000_000, "953.67 MB"),
            (20_000_000_000, "18.63 GB"),
            (u64::MAX, "16.00 EB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
    }
}
