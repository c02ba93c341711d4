//! Topic patterns: dotted words with `*` and `#`, in three dialects.

pub mod cache;
pub mod trie;

/// The rules that `*` and `#` follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicDialect {
    /// AMQP 0-9-1: `*` matches one word, `#` zero or more.
    Amqp,
    /// The OpenAMQ paper's table: one final `*` may also match nothing; `#` matches one or more words.
    OpenAmq,
    /// The OpenAMQ paper's program: `*` matches exactly one word, `#` one or more.
    OpenAmqProgram,
}

impl TopicDialect {
    /// The name of the dialect in selectors and in the library.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amqp => "amqp",
            Self::OpenAmq => "openamq",
            Self::OpenAmqProgram => "openamq-program",
        }
    }

    /// The dialect called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Amqp, Self::OpenAmq, Self::OpenAmqProgram].into_iter().find(|dialect| dialect.name() == name)
    }
}

/// A pattern of topic names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPattern {
    text: Box<str>,
    dialect: TopicDialect,
    is_literal: bool,
}

impl TopicPattern {
    /// Compiles `text`; every text is a pattern.
    #[must_use]
    pub fn new(text: &str, dialect: TopicDialect) -> Self {
        let is_literal = !words(text).any(|word| matches!(word, "*" | "#"));
        Self { text: text.into(), dialect, is_literal }
    }

    /// The pattern as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The dialect.
    #[must_use]
    pub fn dialect(&self) -> TopicDialect {
        self.dialect
    }

    /// True when it has no wildcards, so that it matches only its own text.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.is_literal
    }

    /// True when `topic` matches the pattern.
    ///
    /// Cost: one comparison without wildcards; with them, at most the words of the pattern times the words of `topic`.
    #[must_use]
    pub fn is_match(&self, topic: &str) -> bool {
        if self.is_literal {
            return *self.text == *topic;
        }
        let hash_least = usize::from(self.dialect != TopicDialect::Amqp);
        fits(words(&self.text), words(topic), hash_least)
            || self.without_optional_star().is_some_and(|shorter| fits(shorter, words(topic), hash_least))
    }

    /// The pattern without its final `*`, where that may match nothing.
    fn without_optional_star(&self) -> Option<impl Iterator<Item = &str> + Clone> {
        let has_star = self.dialect == TopicDialect::OpenAmq && self.text.ends_with(".*");
        has_star.then(|| words(&self.text).take(words(&self.text).count() - 1))
    }
}

/// The words of a topic or pattern. The empty text has none, while `.` has two empty ones.
fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split('.').filter(|_| !text.is_empty())
}

/// True when `topic` matches `pattern`, in which a `#` takes at least `hash_least` words.
///
/// Every `#` takes as few words as it can. When the words after it do not match, the last `#` takes one more. An
/// earlier one need not, since the last can take all that it would leave. So only one `#` is ever tried again, where
/// trying all of them would take exponential time (`#.a.#.a.#.z`).
fn fits<'a>(
    mut pattern: impl Iterator<Item = &'a str> + Clone,
    mut topic: impl Iterator<Item = &'a str> + Clone,
    hash_least: usize,
) -> bool {
    let mut last_hash = None;
    loop {
        match pattern.next() {
            Some("#") => {
                if hash_least > 0 && topic.nth(hash_least - 1).is_none() {
                    return false;
                }
                last_hash = Some((pattern.clone(), topic.clone()));
                continue;
            }
            wanted => match (wanted, topic.next()) {
                (None, None) => return true,
                (Some(wanted), Some(word)) if wanted == "*" || wanted == word => continue,
                (Some(_), None) => return false,
                _ => {}
            },
        }
        let Some((after, from)) = &mut last_hash else { return false };
        if from.next().is_none() {
            return false;
        }
        (pattern, topic) = (after.clone(), from.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::rounds;

    /// The definition, by recursion: exponential, for short topics only.
    fn by_definition(pattern: &[&str], topic: &[&str], dialect: TopicDialect, is_whole: bool) -> bool {
        let Some((first, rest)) = pattern.split_first() else { return topic.is_empty() };
        let least = usize::from(dialect != TopicDialect::Amqp);
        match *first {
            "#" => (least..=topic.len()).any(|taken| by_definition(rest, &topic[taken..], dialect, false)),
            "*" if rest.is_empty() && !is_whole && dialect == TopicDialect::OpenAmq => topic.len() <= 1,
            word => topic.split_first().is_some_and(|(head, tail)| {
                (word == "*" || word == *head) && by_definition(rest, tail, dialect, false)
            }),
        }
    }

    fn split(text: &str) -> Vec<&str> {
        if text.is_empty() { Vec::new() } else { text.split('.').collect() }
    }

    fn every_text(alphabet: &[&str], words_max: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut longest: Vec<String> = alphabet.iter().map(|word| (*word).to_owned()).collect();
        for _ in 0..words_max {
            all.extend(longest.iter().filter(|text| !text.is_empty()).cloned());
            longest =
                longest.iter().flat_map(|text| alphabet.iter().map(move |word| format!("{text}.{word}"))).collect();
        }
        all
    }

    #[test]
    fn every_short_pattern_agrees_with_the_definition_on_every_short_topic() {
        let topics = every_text(&["a", "b", ""], 4);
        for pattern in rounds(&every_text(&["a", "", "*", "#"], 4)) {
            for dialect in [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram] {
                let compiled = TopicPattern::new(pattern, dialect);
                for topic in &topics {
                    let expected = by_definition(&split(pattern), &split(topic), dialect, true);
                    assert_eq!(compiled.is_match(topic), expected, "{pattern} {topic} {dialect:?}");
                }
            }
        }
    }

    #[test]
    fn the_table_of_the_paper_holds() {
        let topics = ["forex", "forex.gbp", "forex.eur", "forex.usd", "trade", "trade.usd", "trade.jpy"];
        let rows = [("forex.*", "1111000"), ("*.usd", "0001010"), ("*.eur", "0010000"), ("#", "1111111")];
        for (pattern, row) in rows {
            let pattern = TopicPattern::new(pattern, TopicDialect::OpenAmq);
            let found: String = topics.iter().map(|topic| if pattern.is_match(topic) { '1' } else { '0' }).collect();
            assert_eq!(found, row, "{}", pattern.text());
        }
    }

    #[test]
    fn wildcards_are_whole_words() {
        for (pattern, topic) in [("##", "##"), ("a#b.#", "a#b.c"), ("**.#", "**")] {
            assert!(TopicPattern::new(pattern, TopicDialect::Amqp).is_match(topic));
        }
        assert!(!TopicPattern::new("##", TopicDialect::Amqp).is_match("a"));
        assert!(!TopicPattern::new("a#b.#", TopicDialect::Amqp).is_match("axb"));
    }

    #[test]
    fn many_hashes_do_not_explode() {
        let pattern = TopicPattern::new(&("#.a.".repeat(200) + "#.z"), TopicDialect::Amqp);
        assert!(!pattern.is_match(&"a.".repeat(4_000)));
        assert!(pattern.is_match(&("a.".repeat(4_000) + "z")));
    }
}
