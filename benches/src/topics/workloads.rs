//! The topics and patterns of the OpenAMQ and RabbitMQ papers.

use hashbrown::HashSet;

use crate::random::SplitMix64;

/// The tables of the OpenAMQ paper's program, level by level.
const LEVELS: [&[&str]; 5] = [
    &["gold", "oil", "pork", "chips", "bonds", "debt"],
    &["lon", "ny", "hk", "jo", "tk", "sg", "mo"],
    &["usd", "eur", "gbp", "jpy", "chy", "aud"],
    &["buy", "sell", "hold", "short", "long"],
    &["spot", "early", "late", "open", "close", "future"],
];

/// `count` names, all different: at each level a uniform choice of its words and of stopping, which is one more.
#[must_use]
pub fn openamq_topics(count: usize, random: &mut SplitMix64) -> Vec<String> {
    let mut known = HashSet::new();
    while known.len() < count {
        let words: Vec<&str> =
            LEVELS.iter().map_while(|level| level.get(random.below(level.len() + 1)).copied()).collect();
        if !words.is_empty() {
            known.insert(words.join("."));
        }
    }
    let mut names: Vec<String> = known.into_iter().collect();
    names.sort(); // a set has no order of its own, and every run shall do the same
    names
}

/// `count` patterns, some of them alike: at each level 1 in 10 is `*`, of the others 1 in 10 is `#` and the last.
pub fn openamq_patterns(count: usize, random: &mut SplitMix64) -> Vec<String> {
    (0..count).map(|_| openamq_pattern(random)).collect()
}

fn openamq_pattern(random: &mut SplitMix64) -> String {
    let mut words = Vec::new();
    for level in LEVELS {
        if random.percent(10) {
            words.push("*");
        } else if random.percent(10) {
            words.push("#");
            break;
        } else {
            words.push(level[random.below(level.len())]);
        }
    }
    words.join(".")
}

/// How many different words the RabbitMQ workload has at each place: a guess, as are the lengths; the blog gives the
/// numbers of patterns and topics and the densities of `*` and `#`.
const WORDS: usize = 10;
const LENGTH_MIN: usize = 2;
const LENGTH_MAX: usize = 6;

/// `count` topics of words that are single letters, from [`LENGTH_MIN`] to [`LENGTH_MAX`] of them.
#[must_use]
pub fn rabbitmq_topics(count: usize, random: &mut SplitMix64) -> Vec<String> {
    (0..count).map(|_| joined(random, letter)).collect()
}

/// `count` patterns like the topics, in which one word in 10 is `*` and one in 100 is `#`.
#[must_use]
pub fn rabbitmq_patterns(count: usize, random: &mut SplitMix64) -> Vec<String> {
    let word = |random: &mut SplitMix64| match random.below(100) {
        0..10 => "*".to_owned(),
        10 => "#".to_owned(),
        _ => letter(random),
    };
    (0..count).map(|_| joined(random, word)).collect()
}

fn joined(random: &mut SplitMix64, word: impl Fn(&mut SplitMix64) -> String) -> String {
    let length = LENGTH_MIN + random.below(LENGTH_MAX - LENGTH_MIN + 1);
    (0..length).map(|_| word(random)).collect::<Vec<_>>().join(".")
}

fn letter(random: &mut SplitMix64) -> String {
    char::from(b'a' + random.below(WORDS) as u8).to_string()
}

/// `count` patterns of three to five words as a large broker has them: mostly literal, a tenth with `*`, a tenth with a
/// final `#`. `count` different first words keep the number of matches small whatever `count` is.
#[must_use]
pub fn many_patterns(count: usize, random: &mut SplitMix64) -> Vec<String> {
    let pattern = |number: usize| {
        let mut words = many_words(number, random);
        if random.percent(10) {
            let place = 1 + random.below(words.len() - 1);
            words[place] = "*".to_owned();
        } else if random.percent(10) {
            words.push("#".to_owned());
        }
        words.join(".")
    };
    (0..count).map(pattern).collect()
}

/// `count` topics, each different, of which one of [`many_patterns`] of as many or more may fit.
#[must_use]
pub fn many_topics(count: usize, random: &mut SplitMix64) -> Vec<String> {
    (0..count).map(|number| many_words(number, random).join(".")).collect()
}

fn many_words(number: usize, random: &mut SplitMix64) -> Vec<String> {
    let mut words = vec![format!("device{number}")];
    words.extend((0..2 + random.below(3)).map(|level| format!("l{level}w{}", random.below(20))));
    words
}

/// The pattern that backtracking cannot bear, and the topic that shows it.
pub const ADVERSARIAL_PATTERN: &str = "#.a.#.a.#.a.#.a.#.z";

/// The word `a`, `words` times.
#[must_use]
pub fn adversarial_topic(words: usize) -> String {
    vec!["a"; words].join(".")
}
