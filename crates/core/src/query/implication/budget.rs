//! The bound on the work that one question about queries may cost.

/// Comparisons of claims and of values that one question may cost. Beyond it the answer is "not known", which is
/// sound. A usual query takes tens; 1,000 predicates on one attribute are within it.
pub(super) const STEPS_MAX: usize = 1_000_000;

/// What is left of the work that a question may cost.
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
