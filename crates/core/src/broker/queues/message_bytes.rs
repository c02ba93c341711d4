//! The bytes of a message in memory, which a large message shares with the journal and with outputs.

use std::ops::Deref;
use std::sync::Arc;

/// The size from which on a message is shared: to copy less than this costs no more than to count who has it.
pub(crate) const SHARED_BYTES_MIN: usize = 128 * 1024;

/// Route, properties and body in one piece.
#[derive(Debug, Clone)]
pub(crate) enum MessageBytes {
    Own(Box<[u8]>),
    Shared(Arc<Vec<u8>>),
}

impl Deref for MessageBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The body of a large message, which an output writes from where it is.
#[derive(Debug, Clone)]
pub(crate) struct SharedBody {
    pub bytes: Arc<Vec<u8>>,
    /// The offset of the body.
    pub start: usize,
    /// The offset of what is behind it.
    pub end: usize,
}

impl SharedBody {
    /// The body that begins at `start` and is the rest of `bytes`.
    pub fn rest(bytes: Arc<Vec<u8>>, start: usize) -> Self {
        let end = bytes.len();
        Self { bytes, start, end }
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}
