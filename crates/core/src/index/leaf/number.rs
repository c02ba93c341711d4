//! A number of a message as bounds are compared with it: exact, and as a rank of 32 bits.
//!
//! Most bounds are whole numbers. The whole number n has *rank* 2n, and all that lies between n and n + 1 has rank 2n + 1.
//! Ranks take four bytes, so that twice as many are compared at once.

/// The largest whole number that has a rank, and less its sign the smallest.
const WHOLE_MAX: f64 = ((1 << 30) - 1) as f64;
/// The rank of what is below all numbers with a rank.
const LOWEST: i32 = i32::MIN + 1;
/// The rank of what is above all numbers with a rank.
const HIGHEST: i32 = i32::MAX;
/// The rank of what is no number, which lies between no bounds.
const NOWHERE: i32 = i32::MIN;

/// A number of a message, or a timestamp.
#[derive(Clone, Copy, Debug)]
pub struct MessageNumber {
    /// The number itself.
    pub exact: f64,
    /// Its rank.
    pub rank: i32,
}

impl MessageNumber {
    /// No number: between no bounds.
    pub const NONE: Self = Self { exact: f64::NAN, rank: NOWHERE };
}

impl From<f64> for MessageNumber {
    fn from(exact: f64) -> Self {
        let floor = exact.floor();
        let rank = 2.0 * floor + f64::from(u8::from(floor != exact));
        #[expect(clippy::cast_possible_truncation, reason = "a whole number between two that fit")]
        let rank = if exact.is_nan() { NOWHERE } else { rank.clamp(LOWEST.into(), HIGHEST.into()) as i32 };
        Self { exact, rank }
    }
}

/// The rank of a whole number.
fn whole_rank(number: f64) -> Option<i32> {
    let is_whole = number.abs() <= WHOLE_MAX && number.floor() == number;
    is_whole.then(|| MessageNumber::from(number).rank)
}

/// The first rank of the numbers from `low` on; None when that rank also holds lower numbers.
pub fn low_rank(low: f64) -> Option<i32> {
    if low == f64::NEG_INFINITY {
        return Some(LOWEST);
    }
    whole_rank(low).or_else(|| whole_rank(low.next_down()).map(|rank| rank + 1))
}

/// The last rank of the numbers up to `high`; None when that rank also holds higher numbers.
pub fn high_rank(high: f64) -> Option<i32> {
    if high == f64::INFINITY {
        return Some(HIGHEST);
    }
    whole_rank(high).or_else(|| whole_rank(high.next_up()).map(|rank| rank - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [f64; 23] = [
        f64::NEG_INFINITY,
        -1e300,
        -1_073_741_825.0,
        -1_073_741_824.0,
        -1_073_741_823.5,
        -1_073_741_823.0,
        -7.0,
        -1.5,
        -1.0,
        -5e-324,
        -0.0,
        0.0,
        5e-324,
        0.5,
        1.0,
        41.999_999_999,
        42.0,
        1_073_741_822.5,
        1_073_741_823.0,
        1_073_741_823.5,
        1_073_741_824.0,
        9_007_199_254_740_992.0,
        f64::INFINITY,
    ];

    fn around() -> impl Iterator<Item = f64> + Clone {
        NUMBERS.iter().flat_map(|number| [number.next_down(), *number, number.next_up()])
    }

    #[test]
    fn ranks_compare_as_numbers_do() {
        let mut with_rank = 0;
        for bound in around() {
            for number in around() {
                let MessageNumber { exact, rank } = MessageNumber::from(number);
                if let Some(low) = low_rank(bound) {
                    assert_eq!(rank >= low, exact >= bound, "{number:?} >= {bound:?}");
                    with_rank += 1;
                }
                if let Some(high) = high_rank(bound) {
                    assert_eq!(rank <= high, exact <= bound, "{number:?} <= {bound:?}");
                    with_rank += 1;
                }
            }
        }
        assert!(with_rank > 2_000, "{with_rank}");
        for bound in around() {
            for nothing in [MessageNumber::NONE, MessageNumber::from(f64::NAN)] {
                assert!(low_rank(bound).is_none_or(|low| nothing.rank < low), "{bound:?}");
            }
        }
    }

    #[test]
    fn bounds_between_whole_numbers_and_very_large_ones_have_no_rank() {
        for bound in [0.5, -1.25, 42.000_001, 1_073_741_824.0, -1e18, f64::NAN] {
            assert_eq!((low_rank(bound), high_rank(bound)), (None, None), "{bound}");
        }
        assert_eq!((low_rank(42.0), high_rank(42.0)), (Some(84), Some(84)));
        assert_eq!((low_rank(42_f64.next_up()), high_rank(42_f64.next_down())), (Some(85), Some(83)));
        assert_eq!((low_rank(42_f64.next_down()), high_rank(42_f64.next_up())), (None, None));
        assert_eq!((low_rank(f64::NEG_INFINITY), high_rank(f64::INFINITY)), (Some(LOWEST), Some(HIGHEST)));
        assert_eq!((low_rank(f64::INFINITY), high_rank(f64::NEG_INFINITY)), (None, None));
    }
}
