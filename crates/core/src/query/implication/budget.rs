//! The bound on the work that one question about queries may cost.

/// The maximum number of comparisons of claims and of values per question. Beyond it the answer is "not known", which
/// is sound. A usual query takes tens; 1,000 predicates on one attribute are within the maximum.
pub(super) const STEPS_MAX: usize = 1_000_000;

/// The remaining work that a question may cost.
#[derive(Debug)]
pub(super) struct Budget(pub usize);

impl Budget {
    pub fn spend(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps);
    }

    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }
}
