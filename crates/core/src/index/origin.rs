//! The origin of an attribute's values: properties, the topic, the body, or the needles and words in their texts.

/// The source of an attribute's values. The numbers are part of the snapshot's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AttributeOrigin {
    /// The topic of the message.
    Topic,
    /// The property of that name.
    Property,
    /// The property of that name, without regard to case.
    AnyCase,
    /// The value of that property and its ancestors, by the hierarchy as it is at the time.
    Ancestors,
    /// The patterns with wildcards that the topic matches.
    Patterns,
    /// The needles that stand in the topic.
    TopicNeedles,
    /// The needles that stand in the body.
    BodyNeedles,
    /// The needles that stand in the property of that name.
    Needles,
    /// The words, and pairs of words, of the topic.
    TopicWords,
    /// The words, and pairs of words, of the body.
    BodyWords,
    /// The words, and pairs of words, of the property of that name.
    Words,
    /// The needles that stand in the property of that name, without regard to case.
    AnyCaseNeedles,
    /// The words, and pairs of words, of the property of that name, without regard to case.
    AnyCaseWords,
}

impl AttributeOrigin {
    /// All origins, by their numbers in a snapshot.
    pub const ALL: [Self; 13] = [
        Self::Topic,
        Self::Property,
        Self::AnyCase,
        Self::Ancestors,
        Self::Patterns,
        Self::TopicNeedles,
        Self::BodyNeedles,
        Self::Needles,
        Self::TopicWords,
        Self::BodyWords,
        Self::Words,
        Self::AnyCaseNeedles,
        Self::AnyCaseWords,
    ];

    /// True when a message may have several symbols of such an attribute at once, and nothing else of it.
    #[must_use]
    pub fn is_several(self) -> bool {
        !matches!(self, Self::Topic | Self::Property | Self::AnyCase)
    }

    /// True when a text has to be searched for the values.
    #[must_use]
    pub fn is_of_text(self) -> bool {
        !matches!(self, Self::Topic | Self::Property | Self::AnyCase | Self::Ancestors | Self::Patterns)
    }

    /// True when the whole body has to be searched for the values.
    #[must_use]
    pub fn is_of_body(self) -> bool {
        matches!(self, Self::BodyNeedles | Self::BodyWords)
    }
}
