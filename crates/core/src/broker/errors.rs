//! Errors that are told to clients, and the method at which they happened.

use crate::amqp::method::BasicPublish;
use crate::amqp::{AmqpError, MethodId, ReplyCode};

/// An error at no particular method: the caller fills it in with [`FailedAt::failed_at`].
pub(crate) fn error(code: ReplyCode, reason: &str) -> AmqpError {
    AmqpError::new(code, reason, MethodId::NONE)
}

/// Names the method that failed, where an error does not know it.
pub(crate) trait FailedAt: Sized {
    /// The error, at `method` unless it names another one.
    fn failed_at(self, method: MethodId) -> Self;

    /// The error, at basic.publish unless it names another method.
    fn at_publish(self) -> Self {
        self.failed_at(BasicPublish::ID)
    }
}

impl FailedAt for AmqpError {
    fn failed_at(mut self, method: MethodId) -> Self {
        if self.method == MethodId::NONE {
            self.method = method;
        }
        self
    }
}
