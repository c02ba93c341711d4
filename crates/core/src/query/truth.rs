//! The truth values of three-valued logic.

/// True, false or unknown (None).
pub type Truth = Option<bool>;
