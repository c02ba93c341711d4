//! The topology's errors, in the words that clients know from RabbitMQ.
//!
//! The method is left at [`MethodId::NONE`]: the caller, which has decoded it, sets it.

use crate::amqp::{AmqpError, MethodId, ReplyCode};

fn error(code: ReplyCode, reason: &str) -> AmqpError {
    AmqpError::new(code, reason, MethodId::NONE)
}

/// 406 with any reason.
pub(super) fn precondition(reason: &str) -> AmqpError {
    error(ReplyCode::PreconditionFailed, reason)
}

pub(super) fn no_exchange(name: &str, vhost: &str) -> AmqpError {
    error(ReplyCode::NotFound, &format!("no exchange '{name}' in vhost '{vhost}'"))
}

pub(super) fn no_queue(name: &str, vhost: &str) -> AmqpError {
    error(ReplyCode::NotFound, &format!("no queue '{name}' in vhost '{vhost}'"))
}

pub(super) fn no_vhost() -> AmqpError {
    error(ReplyCode::InvalidPath, "the vhost is gone")
}

pub(super) fn default_exchange() -> AmqpError {
    error(ReplyCode::AccessRefused, "operation not permitted on the default exchange")
}

pub(super) fn system_exchange(name: &str, vhost: &str) -> AmqpError {
    error(ReplyCode::AccessRefused, &format!("deletion of system exchange '{name}' in vhost '{vhost}' not allowed"))
}

pub(super) fn reserved_name(what: &str, name: &str) -> AmqpError {
    error(ReplyCode::AccessRefused, &format!("{what} name '{name}' contains reserved prefix 'amq.*'"))
}

pub(super) fn internal_exchange(name: &str, vhost: &str) -> AmqpError {
    error(ReplyCode::AccessRefused, &format!("cannot publish to internal exchange '{name}' in vhost '{vhost}'"))
}

pub(super) fn locked(name: &str, vhost: &str) -> AmqpError {
    let reason = format!(
        "cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be originally declared on \
         another connection or the exclusive property value does not match that of the original declaration."
    );
    error(ReplyCode::ResourceLocked, &reason)
}

/// 406: each vhost has one exchange of this type, and no client makes another.
pub(super) fn only_predeclared(kind: &str) -> AmqpError {
    precondition(&format!(
        "every vhost has one exchange of type '{kind}', which is called '{kind}'; no other can be declared"
    ))
}

pub(super) fn in_use(what: &str, name: &str, vhost: &str) -> AmqpError {
    precondition(&format!("{what} '{name}' in vhost '{vhost}' in use"))
}

pub(super) fn not_empty(name: &str, vhost: &str) -> AmqpError {
    precondition(&format!("queue '{name}' in vhost '{vhost}' not empty"))
}

/// 406: an argument differs from that of the first declaration. `received` and `current` include their quotes.
pub(super) fn inequivalent(argument: &str, resource: &str, received: &str, current: &str) -> AmqpError {
    precondition(&format!("inequivalent arg '{argument}' for {resource}: received {received} but current is {current}"))
}

pub(super) fn unknown_kind(kind: &str) -> AmqpError {
    let reason = format!("unknown exchange type '{kind}': expected direct, fanout, topic, headers or x-query");
    error(ReplyCode::CommandInvalid, &reason)
}

pub(crate) fn too_many(what: &str, most: usize) -> AmqpError {
    error(ReplyCode::ResourceError, &format!("there are {most} {what} already, and no more are allowed"))
}
