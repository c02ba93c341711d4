//! Publishing: a message is checked, routed, kept and confirmed.

pub(crate) mod backpressure;
pub(crate) mod carry_out;
pub(crate) mod check_transaction;
pub(crate) mod commit;
pub(crate) mod confirms;
pub(crate) mod further_keys;
pub(crate) mod pending;
pub(crate) mod publish;
pub(crate) mod route_memo;
pub(crate) mod send_confirms;
pub(crate) mod shortage;
pub(crate) mod transact;
pub(crate) mod transaction;
pub(crate) mod transaction_check;
pub(crate) mod wait_for_room;
pub(crate) mod waiting_senders;
