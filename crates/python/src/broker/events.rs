//! The events of the data plane as the log has them: a name and fields.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tamis_core::amqp::AmqpError;
use tamis_core::broker::Event;

pub(super) fn event_to_py(py: Python<'_>, event: Event) -> PyResult<(&'static str, Bound<'_, PyDict>)> {
    let fields = PyDict::new(py);
    let set_error = |error: AmqpError| -> PyResult<()> {
        fields.set_item("code", error.code.number())?;
        fields.set_item("text", &error.text)
    };
    let name = match event {
        Event::ConnectionRefused { connection, error } => {
            fields.set_item("connection", connection.to_bits())?;
            set_error(error)?;
            "connection closed"
        }
        Event::ChannelRefused { connection, channel, error } => {
            fields.set_item("connection", connection.to_bits())?;
            fields.set_item("channel", channel)?;
            set_error(error)?;
            "channel closed"
        }
        Event::HeartbeatMissed { connection } => {
            fields.set_item("connection", connection.to_bits())?;
            "heartbeat missed"
        }
        Event::OutputNotTaken { connection } => {
            fields.set_item("connection", connection.to_bits())?;
            "client does not read"
        }
        Event::Blocked { reason } => {
            fields.set_item("reason", reason)?;
            "publishers blocked"
        }
        Event::Fatal { reason } => {
            fields.set_item("reason", reason)?;
            "nothing can be made durable any more"
        }
        Event::SpillFailed { reason } => {
            fields.set_item("reason", reason)?;
            "entries of queues stay in memory"
        }
        Event::Unblocked => "publishers go on",
        Event::Warning { connection, subject, reason } => {
            fields.set_item("connection", connection.to_bits())?;
            fields.set_item("subject", subject)?;
            fields.set_item("reason", reason)?;
            "accepted with a warning"
        }
        Event::MessageLost { queue, reason } => {
            fields.set_item("queue", queue)?;
            fields.set_item("reason", reason)?;
            "message lost"
        }
    };
    Ok((name, fields))
}
