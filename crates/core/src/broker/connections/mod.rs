//! Connections and channels: bytes in and out, frames, methods, and the life of both.

pub(crate) mod channel;
pub(crate) mod clients;
pub(crate) mod connection;
pub(crate) mod content;
pub(crate) mod cut_body;
pub(crate) mod delivery_frames;
pub(crate) mod dispatch;
pub(crate) mod fairness;
pub(crate) mod input;
pub(crate) mod input_buffer;
pub(crate) mod lifecycle;
pub(crate) mod output;
pub(crate) mod output_buffer;
pub(crate) mod turn;
