//! A cache of values for topic names that recur, bounded in number and in weight.
//!
//! A name enters when it is offered for the second time, so names that never recur cost only a number in a table.
//! Values live in two generations: used ones move to the young generation, and when that is full, the old one is
//! emptied and the two change roles. So a value stays while it is used, without a list that must be kept in order.

use std::hash::BuildHasher;
use std::mem;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The maximum length of a stored name. AMQP's routing keys have at most 255 bytes.
const NAME_BYTES_MAX: usize = 255;

const TAGS_PER_POSITION: usize = 4;
/// The initial number of positions, so that the first name does not pay for all of them.
const LENGTH_MIN: usize = 64;

/// A bounded map from topic names to the values computed for them.
///
/// Cost: one look-up, or two for a name in the old generation. Emptying a generation takes time in proportion to its
/// size, but no more often than once in as many insertions.
#[derive(Debug)]
pub struct TopicCache<T> {
    young: Generation<T>,
    old: Generation<T>,
    /// Tags of offered names; of those that share a position, the newest first. It grows to at least twice the number
    /// of stored names, so that as many names as can be stored are remembered until they recur. Empty at first.
    offered: Vec<[u32; TAGS_PER_POSITION]>,
    /// The number of tags added.
    offered_count: usize,
    hasher: DefaultHashBuilder,
    /// The maximum of one generation: half of the total.
    names_max: usize,
    weight_max: usize,
}

#[derive(Debug)]
struct Generation<T> {
    topics: HashTable<CachedTopic<T>>,
    weight: usize,
}

#[derive(Debug)]
struct CachedTopic<T> {
    hash: u64,
    name: Box<str>,
    weight: usize,
    value: T,
}

impl<T> TopicCache<T> {
    /// An empty cache of at most `names_max` names, whose values together weigh at most `weight_max`. With less than
    /// 2 of either it stays empty.
    ///
    /// Besides its values it takes at most about 500 bytes per name.
    #[must_use]
    pub fn new(names_max: usize, weight_max: usize) -> Self {
        Self {
            young: Generation::new(),
            old: Generation::new(),
            offered: Vec::new(),
            offered_count: 0,
            hasher: DefaultHashBuilder::default(),
            names_max: names_max / 2,
            weight_max: weight_max / 2,
        }
    }

    /// The value of `name`, if it is stored.
    pub fn get(&mut self, name: &str) -> Option<&T> {
        self.get_hashed(self.hash(name), name)
    }

    /// The hash that [`Self::get_hashed`] and [`Self::offer_hashed`] take, so that a name is hashed once for both.
    #[inline]
    pub fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The value of `name`, whose hash is `hash`, if it is stored.
    #[inline]
    pub fn get_hashed(&mut self, hash: u64, name: &str) -> Option<&T> {
        let is_it = |topic: &CachedTopic<T>| *topic.name == *name;
        let index = match self.young.topics.find_bucket_index(hash, is_it) {
            Some(index) => index,
            None => {
                let topic = self.old.remove(hash, name)?;
                self.insert(topic)
            }
        };
        self.young.topics.get_bucket(index).map(|topic| &topic.value)
    }

    /// Tells the cache of a name whose value is not stored, or is no longer true. The cache may `make` and store the
    /// value if the name was offered before and its `weight` is at most half of the maximum.
    pub fn offer(&mut self, name: &str, weight: usize, make: impl FnOnce() -> T) {
        let hash = self.hash(name);
        let is_stored = self.get_hashed(hash, name).is_some();
        self.offer_hashed(hash, name, is_stored, weight, make);
    }

    /// Like [`Self::offer`], for a name whose hash is `hash`, when it is known whether [`Self::get_hashed`] has just
    /// returned a value.
    pub fn offer_hashed(&mut self, hash: u64, name: &str, is_stored: bool, weight: usize, make: impl FnOnce() -> T) {
        if name.len() > NAME_BYTES_MAX || weight > self.weight_max || self.names_max == 0 {
            return;
        }
        if is_stored {
            self.young.remove(hash, name); // where `get` has put it
        }
        if is_stored || self.was_offered(hash) {
            self.insert(CachedTopic { hash, name: name.into(), weight, value: make() });
        }
    }

    /// Forgets all values, for instance because the patterns have changed, but not which names were offered.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// The number of stored names.
    #[must_use]
    pub fn name_count(&self) -> usize {
        self.young.topics.len() + self.old.topics.len()
    }

    /// The total weight of all values.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.young.weight + self.old.weight
    }

    /// Remembers a name; true if it was already remembered, or another with the same tag and position.
    fn was_offered(&mut self, hash: u64) -> bool {
        self.make_room();
        let tag = hash as u32;
        let index = tag as usize & (self.offered.len() - 1);
        let tags = &mut self.offered[index];
        if tags.contains(&tag) {
            return true;
        }
        tags.rotate_right(1);
        tags[0] = tag;
        self.offered_count += 1;
        false
    }

    /// Grows the table of tags to the size that it needs before the next tag.
    fn make_room(&mut self) {
        let length_max = self.names_max.next_power_of_two();
        let length = self.offered.len();
        if length == 0 {
            self.offered.resize(LENGTH_MIN.min(length_max), [0; TAGS_PER_POSITION]);
        } else if self.offered_count >= length && length < length_max {
            self.offered.extend_from_within(..);
            // The lowest bits of a tag are its position.
            for (index, tags) in self.offered.iter_mut().enumerate() {
                tags.iter_mut().filter(|tag| (**tag as usize ^ index) & length != 0).for_each(|tag| *tag = 0);
                tags.sort_by_key(|tag| *tag == 0);
            }
        }
    }

    /// The position in the young generation of a name that is in neither.
    fn insert(&mut self, topic: CachedTopic<T>) -> usize {
        if self.young.topics.len() == self.names_max || topic.weight > self.weight_max - self.young.weight {
            mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.weight += topic.weight;
        self.young.topics.insert_unique(topic.hash, topic, |topic| topic.hash).bucket_index()
    }
}

impl<T> Generation<T> {
    fn new() -> Self {
        Self { topics: HashTable::new(), weight: 0 }
    }

    fn remove(&mut self, hash: u64, name: &str) -> Option<CachedTopic<T>> {
        let (topic, _) = self.topics.find_entry(hash, |topic| *topic.name == *name).ok()?.remove();
        self.weight -= topic.weight;
        Some(topic)
    }

    /// The memory is kept, since the generation will grow as large again.
    fn clear(&mut self) {
        self.topics.clear();
        self.weight = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;
    use crate::testing::{fewer, or_few, rounds};

    fn name(number: usize) -> String {
        format!("name.{number}")
    }

    /// Looks a name up and offers it, as a matcher does for each message.
    fn look_up(cache: &mut TopicCache<usize>, number: usize, weight: usize) -> bool {
        let name = name(number);
        match cache.get(&name) {
            Some(value) => {
                assert_eq!(*value, number);
                true
            }
            None => {
                cache.offer(&name, weight, || number);
                false
            }
        }
    }

    #[test]
    fn a_name_is_stored_when_it_comes_for_the_second_time() {
        let mut cache = TopicCache::new(100, 100);
        cache.offer("a", 1, || panic!("the first time no value is needed"));
        assert_eq!(cache.get("a"), None);
        cache.offer("a", 1, || 5);
        assert_eq!(cache.get("a"), Some(&5));
        assert_eq!(cache.get("b"), None);
    }

    #[test]
    fn a_stored_value_is_replaced_by_what_is_offered_next() {
        let mut cache = TopicCache::new(100, 100);
        for value in 0..5 {
            cache.offer("a", value, || value);
        }
        assert_eq!(cache.get("a"), Some(&4));
        assert_eq!((cache.name_count(), cache.weight()), (1, 4));
        cache.clear();
        assert_eq!((cache.name_count(), cache.weight()), (0, 0));
        assert_eq!(cache.get("a"), None);
        cache.offer("a", 1, || 6);
        assert_eq!(cache.get("a"), Some(&6), "that it was offered is not forgotten");
    }

    #[test]
    fn it_never_has_more_than_its_bounds() {
        let mut state = 1_usize;
        let mut random = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for (names_max, weight_max) in [(0, 100), (1, 100), (2, 1), (2, 2), (10, 1_000), (1_000, 50), (64, 64)] {
            let mut cache = TopicCache::new(names_max, weight_max);
            for _ in rounds(0..20_000) {
                let number = random(200);
                look_up(&mut cache, number, number % 17);
                assert!(cache.name_count() <= names_max && cache.weight() <= weight_max);
                for generation in [&cache.young, &cache.old] {
                    let weights = generation.topics.iter().map(|topic| topic.weight);
                    assert_eq!(generation.weight, weights.sum::<usize>());
                }
            }
        }
    }

    #[test]
    fn a_million_names_that_never_come_again_leave_nothing() {
        let mut cache = TopicCache::new(1_000, 1_000);
        assert!(rounds(0..1_000_000).all(|number| !look_up(&mut cache, number, 1)));
        // Two of them may share their tag and their index, or have the tag 0, which every index has at first.
        assert!(cache.name_count() < 8);
        assert!(cache.young.topics.capacity() + cache.old.topics.capacity() < 20);
    }

    #[test]
    fn names_are_remembered_while_the_room_for_their_tags_grows() {
        let mut cache = TopicCache::<()>::new(4_096, 4_096);
        let hash = |number: usize| (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut sizes = Vec::new();
        for number in 1..=or_few(4_000, 200) {
            assert!(!cache.was_offered(hash(number)), "{number} is new");
            let before = number.saturating_sub(LENGTH_MIN / 2).max(1);
            assert!((before..=number).all(|number| cache.was_offered(hash(number))), "{before} to {number}");
            sizes.push(cache.offered.len());
        }
        sizes.dedup();
        let expected = (0..).map(|power| LENGTH_MIN << power).take(sizes.len());
        assert!(sizes.len() > 1 && sizes.iter().copied().eq(expected), "{sizes:?}");
        assert_eq!(*sizes.last().expect("some"), or_few(2_048, 256), "as many positions as a generation has names");
    }

    #[test]
    fn as_many_names_as_can_be_stored_are_remembered() {
        let mut cache = TopicCache::<()>::new(2_000, 2_000);
        let count = or_few(1_000, 200);
        // The cache's own hashes differ from run to run. With some of them, 50 names share their positions with more
        // than three others.
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hashes: Vec<u64> = (0..count).map(|number| hasher.hash_one(name(number))).collect();
        let offered_before = hashes.iter().filter(|hash| cache.was_offered(**hash)).count();
        assert!(offered_before < 5, "{offered_before}");
        let remembered = hashes.iter().filter(|hash| cache.was_offered(**hash)).count();
        assert!(remembered * 100 > count * 95, "{remembered} of {count}");
    }

    #[test]
    fn a_million_names_that_come_twice_take_no_more_memory_than_the_bound() {
        let mut cache = TopicCache::new(1_000, 10_000);
        for number in 0..fewer(1_000_000) {
            look_up(&mut cache, number / 2, 1);
        }
        assert_eq!(cache.offered.len(), or_few(512, LENGTH_MIN));
        assert!(cache.name_count() <= 1_000 && cache.young.topics.capacity() <= 1_000);
    }

    #[test]
    fn names_that_are_used_stay_while_others_come_and_go() {
        let mut cache = TopicCache::new(1_000, 10_000);
        for number in 0..100 {
            look_up(&mut cache, number, 1);
            look_up(&mut cache, number, 1);
        }
        for other in rounds(100..50_000) {
            look_up(&mut cache, other, 1);
            look_up(&mut cache, other, 1);
            assert!(look_up(&mut cache, other % 100, 1), "{}", other % 100);
        }
    }

    #[test]
    fn what_is_too_long_or_too_heavy_is_not_stored() {
        let mut cache = TopicCache::new(100, 100);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (name, weight) in [(&*long, 1), ("a", 51)] {
            for _ in 0..3 {
                cache.offer(name, weight, || panic!("no value is needed"));
            }
            assert_eq!(cache.get(name), None);
        }
        for _ in 0..2 {
            cache.offer(&long[1..], 50, || 1);
        }
        assert_eq!(cache.get(&long[1..]), Some(&1));
    }
}
