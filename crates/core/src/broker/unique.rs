//! Serials and generated names: numbers that were not given before.

use crate::broker::ids::Serial;

/// Source of serials, which count, and of numbers for names, which look random.
#[derive(Debug)]
pub(crate) struct Unique {
    serial: u32,
    random: u64,
}

impl Unique {
    /// A source whose names follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { serial: 0, random: seed }
    }

    /// A number that no connection, channel, queue or consumer ever had (of the last four billion).
    pub fn next_serial(&mut self) -> Serial {
        self.serial = self.serial.wrapping_add(1);
        Serial(self.serial)
    }

    /// A name that begins with `prefix` and goes on with 128 random bits.
    pub fn next_name(&mut self, prefix: &str) -> String {
        format!("{prefix}{:016x}{:016x}", self.next_random(), self.next_random())
    }

    /// The next of a sequence of numbers that look random (SplitMix64).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
