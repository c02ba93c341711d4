//! Reply codes: the reason in a close, a return or a refusal, and how much of the connection it ends.
//!
//! Source: AMQP 0-9-1 specification, section 1.1 (constants); RabbitMQ for what it closes where they differ.

use super::short_string::clamp_short;

/// The scope that an error ends: the connection or one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The channel, by `channel.close`; other channels of the connection continue.
    Channel,
    /// The connection and everything in it, by `connection.close`.
    Connection,
}

macro_rules! reply_codes {
    ($($(#[$doc:meta])* $code:ident = $number:literal $name:literal $scope:expr;)*) => {
        /// The reply codes of AMQP 0-9-1 with their standard numbers and names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum ReplyCode {
            $($(#[$doc])* $code = $number,)*
        }

        impl ReplyCode {
            /// Every code, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$code),*];

            /// The standard name, in capitals: `NOT_FOUND`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$code => $name),* }
            }

            /// The scope that an error of this code ends; None for a code that ends nothing.
            #[must_use]
            pub fn closes(self) -> Option<Scope> {
                match self { $(Self::$code => $scope),* }
            }

            /// The code of this number, if it is one.
            #[cfg(test)]
            #[must_use]
            pub fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$code),)* _ => None }
            }
        }
    };
}

const CHANNEL: Option<Scope> = Some(Scope::Channel);
const CONNECTION: Option<Scope> = Some(Scope::Connection);

reply_codes! {
    /// Success.
    Success = 200 "OK" None;
    /// A message is larger than the receiver accepts.
    ContentTooLarge = 311 "CONTENT_TOO_LARGE" CHANNEL;
    /// A mandatory message is routed to no queue: it is returned.
    NoRoute = 312 "NO_ROUTE" None;
    /// An immediate message has no consumer.
    NoConsumers = 313 "NO_CONSUMERS" CHANNEL;
    /// An operator, or a shutdown of the broker, ended the connection.
    ConnectionForced = 320 "CONNECTION_FORCED" CONNECTION;
    /// The virtual host does not exist.
    InvalidPath = 402 "INVALID_PATH" CONNECTION;
    /// The user may not do that.
    AccessRefused = 403 "ACCESS_REFUSED" CHANNEL;
    /// The exchange or queue does not exist.
    NotFound = 404 "NOT_FOUND" CHANNEL;
    /// Another connection has exclusive use of it.
    ResourceLocked = 405 "RESOURCE_LOCKED" CHANNEL;
    /// A precondition of the method does not hold.
    PreconditionFailed = 406 "PRECONDITION_FAILED" CHANNEL;
    /// The bytes are no frame.
    FrameError = 501 "FRAME_ERROR" CONNECTION;
    /// The fields of a frame cannot be decoded.
    SyntaxError = 502 "SYNTAX_ERROR" CONNECTION;
    /// The method is not allowed at this moment.
    CommandInvalid = 503 "COMMAND_INVALID" CONNECTION;
    /// The channel is not open, or is already open.
    ChannelError = 504 "CHANNEL_ERROR" CONNECTION;
    /// A frame of this kind is not allowed at this moment.
    UnexpectedFrame = 505 "UNEXPECTED_FRAME" CONNECTION;
    /// A limit of the broker is reached.
    ResourceError = 506 "RESOURCE_ERROR" CONNECTION;
    /// Forbidden for everybody.
    NotAllowed = 530 "NOT_ALLOWED" CONNECTION;
    /// The method is not implemented here.
    NotImplemented = 540 "NOT_IMPLEMENTED" CONNECTION;
    /// The fault is the broker's own.
    InternalError = 541 "INTERNAL_ERROR" CONNECTION;
}

impl ReplyCode {
    /// The number on the wire: 404.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }

    /// `NOT_FOUND - no queue 'x'`: the name and `reason` on one line of at most 255 bytes, cut between characters.
    /// Control characters, which a name in `reason` may contain, become spaces.
    #[must_use]
    pub fn text(self, reason: &str) -> String {
        let mut text = String::with_capacity(self.name().len() + 3 + reason.len().min(256));
        text.push_str(self.name());
        text.push_str(" - ");
        text.push_str(clamp_short(reason));
        let mut text = if text.chars().any(char::is_control) {
            text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
        } else {
            text
        };
        text.truncate(clamp_short(&text).len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_number() {
        for &code in ReplyCode::ALL {
            assert_eq!(ReplyCode::from_number(code.number()), Some(code));
        }
        assert_eq!(ReplyCode::from_number(999), None);
    }

    #[test]
    fn a_text_is_one_line_of_at_most_255_bytes() {
        assert_eq!(ReplyCode::NotFound.text("no queue 'a\nb'"), "NOT_FOUND - no queue 'a b'");
        let long = ReplyCode::NotFound.text(&"é".repeat(300));
        assert!(long.len() <= 255 && long.len() >= 254);
        // A control character of two bytes becomes a space of one: the cut text only gets shorter.
        assert!(ReplyCode::NotFound.text(&"\u{85}".repeat(300)).len() <= 255);
    }
}
