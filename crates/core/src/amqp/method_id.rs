//! The two numbers that identify a method on the wire.

/// The numbers of a method, as close methods carry them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethodId {
    /// The class: 60 is basic.
    pub class_id: u16,
    /// The method within it.
    pub method_id: u16,
}

impl MethodId {
    /// No method, for a close that no method caused.
    pub const NONE: Self = Self { class_id: 0, method_id: 0 };

    /// The numbers at the start of a method frame's payload, whatever they are; `NONE` where there are none.
    #[must_use]
    pub fn of_payload(payload: &[u8]) -> Self {
        match payload {
            &[c1, c0, m1, m0, ..] => {
                Self { class_id: u16::from_be_bytes([c1, c0]), method_id: u16::from_be_bytes([m1, m0]) }
            }
            _ => Self::NONE,
        }
    }
}
