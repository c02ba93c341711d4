//! Tests the trie against the definition of a match, for every short pattern and for random ones.

use super::super::{TopicDialect, TopicPattern};
use super::{LazyDfa, TopicTrie, TrieScratch, build};
use crate::testing::{Random, fewer, or_few, rounds};

const DIALECTS: [TopicDialect; 3] = [TopicDialect::Amqp, TopicDialect::OpenAmq, TopicDialect::OpenAmqProgram];

/// All texts of up to `words_max` words of `alphabet`, the empty one too.
fn every_text(alphabet: &[&str], words_max: u32) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut longest: Vec<String> = alphabet.iter().map(|word| (*word).to_owned()).collect();
    for _ in 0..words_max {
        all.extend(longest.iter().filter(|text| !text.is_empty()).cloned());
        longest = longest.iter().flat_map(|text| alphabet.iter().map(move |word| format!("{text}.{word}"))).collect();
    }
    all
}

fn every_pattern(alphabet: &[&str], words_max: u32) -> Vec<TopicPattern> {
    let texts = every_text(alphabet, words_max);
    texts.iter().flat_map(|text| DIALECTS.map(|dialect| TopicPattern::new(text, dialect))).collect()
}

fn build_all(patterns: &[TopicPattern]) -> Vec<u8> {
    build(&patterns.iter().collect::<Vec<_>>())
}

/// Sorted; with an id twice if the trie reported it twice.
fn found(trie: &TopicTrie, topic: &str, scratch: &mut TrieScratch) -> Vec<u32> {
    let mut matched = vec![u32::MAX];
    trie.match_into(topic, scratch, &mut matched).unwrap();
    assert_eq!(matched[0], u32::MAX, "what was there before stays");
    matched.remove(0);
    matched.sort_unstable();
    matched
}

fn found_by(dfa: &mut LazyDfa, trie: &TopicTrie, topic: &str, scratch: &mut TrieScratch) -> Vec<u32> {
    let mut matched = vec![u32::MAX];
    dfa.match_into(trie, topic, scratch, &mut matched).unwrap();
    assert_eq!(matched.remove(0), u32::MAX, "what was there before stays");
    matched.sort_unstable();
    matched
}

fn by_definition(patterns: &[TopicPattern], topic: &str) -> Vec<u32> {
    (0..).zip(patterns).filter(|(_, pattern)| pattern.is_match(topic)).map(|(id, _)| id).collect()
}

fn check(patterns: &[TopicPattern], topics: &[String], scratch: &mut TrieScratch) {
    let bytes = build_all(patterns);
    let trie = TopicTrie::new(&bytes).unwrap();
    let mut dfa = LazyDfa::default();
    for topic in topics {
        let texts = patterns.iter().map(|pattern| (pattern.text(), pattern.dialect()));
        let expected = by_definition(patterns, topic);
        assert_eq!(found(&trie, topic, scratch), expected, "{topic:?} {:?}", texts.take(20).collect::<Vec<_>>());
        for _ in 0..2 {
            assert_eq!(found_by(&mut dfa, &trie, topic, scratch), expected, "the automaton: {topic:?}");
        }
    }
}

/// At most `count_max` words of `alphabet`, joined by dots.
fn dotted(random: &mut Random, alphabet: &[&str], count_max: usize) -> String {
    (0..random.below(count_max + 1)).map(|_| random.pick(alphabet)).collect::<Vec<_>>().join(".")
}

#[test]
fn every_short_pattern_alone_agrees_with_the_definition_on_every_short_topic() {
    let words_max = or_few(4, 2) as u32;
    let topics = every_text(&["a", "b", ""], words_max);
    let mut scratch = TrieScratch::default();
    for pattern in rounds(every_pattern(&["a", "", "*", "#"], words_max)) {
        check(&[pattern], &topics, &mut scratch);
    }
}

#[test]
fn all_short_patterns_together_agree_with_the_definition_on_every_short_topic() {
    let patterns = every_pattern(&["a", "b", "", "*", "#", "##"], or_few(3, 2) as u32);
    let topics: Vec<String> = rounds(every_text(&["a", "b", "", "##", "#", "*"], or_few(4, 3) as u32)).collect();
    check(&patterns, &topics, &mut TrieScratch::default());
}

#[test]
fn every_pair_of_short_patterns_agrees_with_the_definition() {
    let patterns = every_pattern(&["a", "*", "#"], 2);
    let topics = every_text(&["a", "b"], 4);
    let mut scratch = TrieScratch::default();
    for one in rounds(&patterns) {
        for other in rounds(&patterns) {
            check(&[one.clone(), other.clone()], &topics, &mut scratch);
        }
    }
}

#[test]
fn random_sets_of_patterns_agree_with_the_definition() {
    let mut random = Random(5);
    let mut scratch = TrieScratch::default();
    let words = ["a", "b", "c", "d", "ä", "longer than eight bytes", "eleven byte", "", "*", "*", "#", "#", "a#", "**"];
    for _ in rounds(0..300) {
        let count = random.below(fewer(200));
        let pattern = |random: &mut Random| TopicPattern::new(&dotted(random, &words, 9), random.pick(&DIALECTS));
        let patterns: Vec<TopicPattern> = (0..count).map(|_| pattern(&mut random)).collect();
        let topics: Vec<String> = rounds(0..30).map(|_| dotted(&mut random, &words, 14)).collect();
        check(&patterns, &topics, &mut scratch);
    }
}

#[test]
fn words_of_every_length_are_told_apart() {
    let word = |length: usize, at: usize| -> String { (0..length).map(|i| if i == at { 'b' } else { 'a' }).collect() };
    let words: Vec<String> = (0..40).flat_map(|length| (0..=length).map(move |at| word(length, at))).collect();
    let patterns: Vec<TopicPattern> = words.iter().map(|word| TopicPattern::new(word, TopicDialect::Amqp)).collect();
    let topics: Vec<String> = rounds(words).collect();
    check(&patterns, &topics, &mut TrieScratch::default());
}

#[test]
fn a_trie_of_nothing_matches_nothing() {
    check(&[], &every_text(&["a", ""], 2), &mut TrieScratch::default());
}

#[test]
fn the_same_patterns_give_the_same_bytes() {
    let patterns = every_pattern(&["a", "", "*", "#"], 3);
    assert_eq!(build_all(&patterns), build_all(&patterns));
}

#[test]
fn a_scratch_forgets_which_nodes_it_entered_when_its_number_begins_again() {
    let patterns = [TopicPattern::new("#.a.#", TopicDialect::Amqp)];
    let bytes = build_all(&patterns);
    let trie = TopicTrie::new(&bytes).unwrap();
    let mut scratch = TrieScratch::default();
    assert_eq!(found(&trie, "b.a.b", &mut scratch), [0]);
    scratch.match_number = u32::MAX - 5;
    for _ in 0..4 {
        assert_eq!(found(&trie, "b.a.b", &mut scratch), [0]);
    }
}

#[test]
fn many_hashes_do_not_explode() {
    let texts: Vec<String> = (0..fewer(2_000))
        .map(|n| format!("{}w{n}", "#.a.#.b.".repeat(n % 64)))
        .chain([("#.a.".repeat(64) + "#.z"), "#.a.".repeat(64) + "#"])
        .collect();
    let patterns: Vec<TopicPattern> = texts.iter().map(|text| TopicPattern::new(text, TopicDialect::Amqp)).collect();
    let topics = ["", "z", "w1999"].map(|end| "a.b.".repeat(fewer(500)) + end);
    check(&patterns, &topics, &mut TrieScratch::default());
}

#[test]
fn only_nodes_with_edges_stay_alive() {
    let patterns = ["#.a.#", "a.#", "#", "*.b", "a.b"].map(|text| TopicPattern::new(text, TopicDialect::Amqp));
    let bytes = build_all(&patterns);
    let mut scratch = TrieScratch::default();
    assert_eq!(found(&TopicTrie::new(&bytes).unwrap(), "a.b.a.a", &mut scratch), [0, 1, 2]);
    assert_eq!((scratch.alive.len(), scratch.open.len()), (0, 0), "a.# was found once and needs no more");
}

#[test]
fn a_hash_gives_way_to_the_next_unless_its_paths_divide() {
    let mut scratch = TrieScratch::default();
    let mut open_after = |texts: &[&str], topic| {
        let patterns: Vec<TopicPattern> =
            texts.iter().map(|text| TopicPattern::new(text, TopicDialect::Amqp)).collect();
        let topics: Vec<String> = rounds(every_text(&["a", "b", "c"], 5)).collect();
        check(&patterns, &topics, &mut scratch);
        let bytes = build_all(&patterns);
        found(&TopicTrie::new(&bytes).unwrap(), topic, &mut scratch);
        scratch.open.len()
    };
    assert_eq!(open_after(&["#.a.#.b"], "a.c.c"), 1);
    assert_eq!(open_after(&["#.a.*.#.b"], "a.c.c"), 1);
    assert_eq!(open_after(&["#.a.#.b", "#.c.b"], "a.c.c"), 2, "another path begins at the first #");
    assert_eq!(open_after(&["#.a.#.b", "#.a.b"], "a.c.c"), 2, "another path leaves between them");
    assert_eq!(open_after(&["#.a.#.b", "#.a"], "a.c.c"), 2, "a pattern ends between them");
    assert_eq!(open_after(&["#.a.#.b", "#"], "a.c.c"), 1, "what ends at the first # was reported");
}

#[test]
fn a_damaged_trie_neither_panics_nor_hangs() {
    let texts = ["a.#", "#.a.#.b", "a.*", "*.*.c", "a.b", "", "#", "a longer word.*.#"];
    let patterns: Vec<TopicPattern> =
        texts.iter().flat_map(|text| DIALECTS.map(|dialect| TopicPattern::new(text, dialect))).collect();
    let bytes = build_all(&patterns);
    let mut scratch = TrieScratch::default();
    let is_possible = |trie: &TopicTrie, matched: &[u32]| {
        matched.len() <= trie.pattern_count() as usize && matched.iter().all(|id| *id < trie.pattern_count())
    };
    let mut try_all = |bytes: &[u8]| {
        let Ok(trie) = TopicTrie::new(bytes) else { return };
        let mut dfa = LazyDfa::default();
        for topic in ["", "a", "a.b", "a.a.b.c", "a longer word.a.b.a.b", ".."] {
            let mut matched = Vec::new();
            let is_whole = trie.match_into(topic, &mut scratch, &mut matched).is_ok();
            assert!(!is_whole || is_possible(&trie, &matched));
            matched.clear();
            let is_whole = dfa.match_into(&trie, topic, &mut scratch, &mut matched).is_ok();
            assert!(!is_whole || is_possible(&trie, &matched));
        }
    };
    for length in 0..bytes.len() {
        assert!(TopicTrie::new(&bytes[..length]).is_err());
    }
    let mut damaged = bytes.clone();
    for place in rounds(0..bytes.len()) {
        for byte in [0, 0xFF, bytes[place] ^ 1, bytes[place] ^ 0x80, bytes[place].wrapping_add(1)] {
            damaged[place] = byte;
            try_all(&damaged);
        }
        damaged[place] = bytes[place];
    }
    let mut random = Random(9);
    for _ in rounds(0..2_000) {
        for _ in 0..1 + random.below(20) {
            damaged[random.below(bytes.len())] = random.below(256) as u8;
        }
        try_all(&damaged);
        damaged.copy_from_slice(&bytes);
    }
}

#[test]
fn a_trie_may_lie_at_any_address() {
    let bytes = build_all(&[TopicPattern::new("a.*.#", TopicDialect::OpenAmq)]);
    for offset in 0..8 {
        let mut shifted = vec![0; offset];
        shifted.extend(&bytes);
        assert_eq!(found(&TopicTrie::new(&shifted[offset..]).unwrap(), "a.b.c", &mut TrieScratch::default()), [0]);
    }
}
