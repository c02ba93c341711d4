//! Errors in bytes from a peer, and the replies that tell the peer.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::frame::FrameError;
use super::method_id::MethodId;
use super::reply::{ReplyCode, Scope};

/// Bytes that are no method, content header or table. Small and without a heap allocation, since hot code returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The code to close the connection with, or only the channel.
    pub code: ReplyCode,
    /// The reason, without the code's name.
    pub reason: &'static str,
}

impl DecodeError {
    /// An error in fields that cannot be decoded: 502.
    #[must_use]
    pub const fn syntax(reason: &'static str) -> Self {
        Self { code: ReplyCode::SyntaxError, reason }
    }

    /// An error in fields that the protocol allows, but not in this size or depth: 406, which closes only the channel.
    #[must_use]
    pub const fn over_bound(reason: &'static str) -> Self {
        Self { code: ReplyCode::PreconditionFailed, reason }
    }

    /// The error as the peer is told, with the method that could not be decoded.
    #[must_use]
    pub fn at(self, method: MethodId) -> AmqpError {
        AmqpError::new(self.code, self.reason, method)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for DecodeError {}

/// An error as `channel.close` or `connection.close` carries it. As small as a pointer: hot code returns it, and nearly
/// always none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpError(Box<ErrorReply>);

/// What the peer is told about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    /// The code; it also decides what ends (`scope`).
    pub code: ReplyCode,
    /// The whole reply text, with the code's name: one line of at most 255 bytes.
    pub text: String,
    /// The method that failed; zero where no method did.
    pub method: MethodId,
    /// The scope that the error ends, the connection or one channel, as the code says.
    pub scope: Scope,
}

impl AmqpError {
    /// An error of `code` at `method`, for `reason` (without the code's name, which is put before it). A code that
    /// closes nothing counts as one that closes the connection, since it cannot be an error.
    #[must_use]
    #[cold]
    pub fn new(code: ReplyCode, reason: &str, method: MethodId) -> Self {
        let scope = code.closes().unwrap_or(Scope::Connection);
        Self(Box::new(ErrorReply { code, text: code.text(reason), method, scope }))
    }
}

impl Deref for AmqpError {
    type Target = ErrorReply;

    fn deref(&self) -> &ErrorReply {
        &self.0
    }
}

impl DerefMut for AmqpError {
    fn deref_mut(&mut self) -> &mut ErrorReply {
        &mut self.0
    }
}

impl fmt::Display for AmqpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for AmqpError {}

impl From<FrameError> for AmqpError {
    fn from(error: FrameError) -> Self {
        Self::new(ReplyCode::FrameError, &error.to_string(), MethodId::NONE)
    }
}
