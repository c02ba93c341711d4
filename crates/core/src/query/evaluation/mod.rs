//! The meaning of a query for one message: whether it is true, why, where, and at what cost.

mod cost;
pub mod distance;
pub mod evaluate;
pub mod explain;
pub mod highlight;
mod residual;
