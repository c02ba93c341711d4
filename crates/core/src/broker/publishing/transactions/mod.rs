//! Transactions: what a channel publishes and settles is kept until its commit, checked whole, and then carried out.

pub(crate) mod carry_out;
pub(crate) mod check_transaction;
pub(crate) mod commit;
pub(crate) mod transact;
pub(crate) mod transaction;
pub(crate) mod transaction_check;
