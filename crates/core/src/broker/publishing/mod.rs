//! Publishing: a message is checked, routed, kept and confirmed.

pub(crate) mod backpressure;
pub(crate) mod confirms;
pub(crate) mod further_keys;
pub(crate) mod pending;
pub(crate) mod publish;
pub(crate) mod route_memos;
pub(crate) mod send_confirms;
pub(crate) mod shortage;
pub(crate) mod transactions;
pub(crate) mod wait_for_room;
pub(crate) mod waiting_senders;
