//! Compares every approach to topic patterns on the work of the OpenAMQ and RabbitMQ papers, in one run.
//!
//! The measures are those of the RabbitMQ paper: time, memory, the cost of adding a binding, the worst case, and the
//! simple case of 1 to 10 bindings.
//!
//! `cargo bench -p tamis-benches --bench topics [-- --messages 1000000 --patterns 10000,100000 --seconds 2 --json PATH]`
//! An approach that is slower than `--seconds` allows is timed on fewer messages, and its time is given for all of
//! them. All times are CPU times of the one thread.

use std::hint::black_box;
use std::time::Duration;

use serde_json::json;
use tamis_benches::allocated::bytes_of;
use tamis_benches::arguments::Arguments;
use tamis_benches::clock::{ghz, median_by, micros, thread_cpu, timed_cpu};
use tamis_benches::random::SplitMix64;
use tamis_benches::report::{BenchReport, ReportColumn, column};
use tamis_benches::topics::TopicMatcher;
use tamis_benches::topics::brute_force::{BruteForceByText, TopicBruteForce};
use tamis_benches::topics::inverted::Inverted;
use tamis_benches::topics::lazy_dfa::WordDfa;
use tamis_benches::topics::per_word_cache::PerWordCache;
use tamis_benches::topics::per_word_index::PerWordIndex;
use tamis_benches::topics::tamis::TopicTamis;
use tamis_benches::topics::trie::WordTrie;
use tamis_benches::topics::workloads::{
    ADVERSARIAL_PATTERN, adversarial_topic, many_patterns, many_topics, openamq_patterns, openamq_topics,
    rabbitmq_patterns, rabbitmq_topics,
};
use tamis_core::topic::TopicDialect;

/// How many topics are matched between two looks at the clock.
const ROUND: usize = 500;

/// Run a generic function for every approach.
macro_rules! for_each_matcher {
    ($measure:ident, $($argument:expr),*) => {
        $measure::<TopicTamis>($($argument),*);
        $measure::<Inverted>($($argument),*);
        $measure::<PerWordCache>($($argument),*);
        $measure::<PerWordIndex>($($argument),*);
        $measure::<WordTrie>($($argument),*);
        $measure::<WordDfa>($($argument),*);
        $measure::<TopicBruteForce>($($argument),*);
        $measure::<BruteForceByText>($($argument),*);
    };
}

fn main() {
    let arguments = Arguments::from_env(&["messages", "patterns", "seconds", "json"]);
    let messages = arguments.number("messages", 1_000_000);
    let budget = Duration::from_secs(arguments.number("seconds", 1) as u64);
    let mut report = BenchReport::new("topics", &arguments);
    openamq(messages, budget, &mut report);
    rabbitmq(messages, budget, &mut report);
    for count in arguments.numbers("patterns", &[10_000, 100_000]) {
        many(count, budget, &mut report);
    }
    few(budget, &mut report);
    worst_case(budget, &mut report);
    report.finish();
}

/// Match `topics`, again from the first when all are through, until there have been `messages` or time is over.
/// Returns the seconds that all would take, and matches a message.
fn run(matcher: &mut impl TopicMatcher, topics: &[String], messages: usize, budget: Duration) -> (f64, f64) {
    let (mut matched, mut done, mut hits) = (Vec::new(), 0, 0);
    let start = thread_cpu();
    let mut all = topics.iter().cycle();
    while done < messages && thread_cpu() - start < budget {
        for topic in all.by_ref().take(ROUND.min(messages - done)) {
            matched.clear();
            matcher.match_into(topic, &mut matched);
            hits += black_box(&matched).len();
            done += 1;
        }
    }
    let seconds = (thread_cpu() - start).as_secs_f64() * messages as f64 / done as f64;
    (seconds, hits as f64 / done as f64)
}

fn build<M: TopicMatcher>(patterns: &[String], dialect: TopicDialect) -> M {
    let mut matcher = M::default();
    patterns.iter().for_each(|pattern| matcher.add(pattern, dialect));
    matcher.settle();
    matcher
}

/// The sum of all answers must be the definition's: a benchmark of wrong answers is worth nothing.
fn check<M: TopicMatcher>(patterns: &[String], topics: &[String], dialect: TopicDialect) {
    let (mut matcher, mut definition) = (build::<M>(patterns, dialect), build::<TopicBruteForce>(patterns, dialect));
    for topic in topics.iter().take(50) {
        let (mut matched, mut expected) = (Vec::new(), Vec::new());
        matcher.match_into(topic, &mut matched);
        definition.match_into(topic, &mut expected);
        matched.sort_unstable();
        assert_eq!(matched, expected, "{} of '{topic}'", M::NAME);
    }
}

fn openamq(messages: usize, budget: Duration, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 7] = [
        column("matcher", "approach", 0),
        column("compile_s", "compile s", 4),
        column("match_s", "match s", 3),
        column("hits_per_message", "hits/msg", 1),
        column("million_hits_per_s", "M hits/s", 1),
        column("million_hits_per_s_per_ghz", "per GHz", 1),
        column("hash", "`#`", 0),
    ];
    let mut random = SplitMix64::new(1);
    let topics = openamq_topics(2_000, &mut random);
    let patterns = openamq_patterns(2_000, &mut random);
    let messages: Vec<String> = (0..messages).map(|_| random.pick(&topics).clone()).collect();
    let title = format!(
        "the OpenAMQ paper's program: 2,000 subscriptions, 2,000 topics, {} messages, `#` one word or more\n(paper: 12 s to \
         compile, 26 s to match 170 M, 3 M hits a second and GHz)",
        messages.len()
    );
    report.table("openamq", &title, &COLUMNS);
    for_each_matcher!(openamq_line, &patterns, &topics, &messages, budget, report);
}

/// Compiling is adding all subscriptions and meeting every topic once, so that all names are known.
fn openamq_line<M: TopicMatcher>(
    patterns: &[String],
    topics: &[String],
    messages: &[String],
    budget: Duration,
    report: &mut BenchReport,
) {
    check::<M>(patterns, topics, TopicDialect::OpenAmqProgram);
    let compile = || {
        let mut matcher = build::<M>(patterns, TopicDialect::OpenAmqProgram);
        run(&mut matcher, topics, topics.len(), Duration::MAX);
        matcher
    };
    let (mut matcher, compiled) = timed_cpu(compile);
    let (seconds, hits) = run(&mut matcher, messages, messages.len(), budget);
    let rate = hits * messages.len() as f64 / seconds / 1e6;
    report.line(json!({
        "matcher": M::NAME, "compile_s": compiled.as_secs_f64(), "match_s": seconds, "messages": messages.len(),
        "hits_per_message": hits, "million_hits_per_s": rate, "million_hits_per_s_per_ghz": ghz().map(|ghz| rate / ghz), "hash": M::HASH,
    }));
}

const COSTS: [ReportColumn; 7] = [
    column("matcher", "approach", 0),
    column("build_s", "build s", 3),
    column("bytes_per_pattern", "bytes", 0),
    column("match_s", "match s", 3),
    column("match_us", "µs/topic", 3),
    column("add_us", "add µs", 2),
    column("after_add_us", "then match µs", 2),
];

fn rabbitmq(messages: usize, budget: Duration, report: &mut BenchReport) {
    let mut random = SplitMix64::new(2);
    let patterns = rabbitmq_patterns(2_000, &mut random);
    let topics = rabbitmq_topics(messages, &mut random);
    let title = format!(
        "the RabbitMQ paper: 2,000 patterns, `*` 0.1, `#` 0.01, {messages} topics (its part 2, in Erlang: naive 175 s, trie 11.7, \
         NFA 37, DFA 15 to 27)"
    );
    report.table("rabbitmq", &title, &COSTS);
    for_each_matcher!(costs_line, &patterns, &topics, topics.len(), budget, report);
}

fn many(count: usize, budget: Duration, report: &mut BenchReport) {
    let patterns = many_patterns(count, &mut SplitMix64::new(3));
    let known = many_topics(1_000, &mut SplitMix64::new(4));
    let new = many_topics(count, &mut SplitMix64::new(5));
    report.table("many-known", &format!("{count} patterns, 1,000 recurring topics, a million in total"), &COSTS);
    for_each_matcher!(costs_line, &patterns, &known, 1_000_000, budget, report);
    report.table("many-new", &format!("{count} patterns, {count} topics, each for the first time"), &COSTS);
    for_each_matcher!(costs_line, &patterns, &new, new.len(), budget, report);
}

/// The costs of an approach in every respect that the RabbitMQ paper names. Bytes are counted after matching.
fn costs_line<M: TopicMatcher>(
    patterns: &[String],
    topics: &[String],
    messages: usize,
    budget: Duration,
    report: &mut BenchReport,
) {
    check::<M>(patterns, topics, TopicDialect::Amqp);
    let ((mut matcher, build_time, seconds, hits), bytes) = bytes_of(|| {
        let (mut matcher, build_time) = timed_cpu(|| build::<M>(patterns, TopicDialect::Amqp));
        let (seconds, hits) = run(&mut matcher, topics, messages, budget);
        (matcher, build_time, seconds, hits)
    });
    let (add, after) = add_cost(&mut matcher, &topics[0]);
    report.line(json!({
        "matcher": M::NAME, "patterns": patterns.len(), "topics": topics.len(), "messages": messages,
        "build_s": build_time.as_secs_f64(),
        "bytes_per_pattern": bytes as f64 / patterns.len() as f64, "hits_per_message": hits, "match_s": seconds,
        "match_us": seconds * 1e6 / messages as f64, "add_us": add, "after_add_us": after,
    }));
}

/// The costs of one more binding, and of the first match after it, which includes work that was put off.
fn add_cost(matcher: &mut impl TopicMatcher, topic: &str) -> (f64, f64) {
    const ADDED: usize = 20;
    let (mut add, mut after, mut matched) = (Duration::ZERO, Duration::ZERO, Vec::new());
    for number in 0..ADDED {
        let pattern = format!("added.*.w{number}");
        add += timed_cpu(|| matcher.add(&pattern, TopicDialect::Amqp)).1;
        after += timed_cpu(|| matcher.match_into(topic, &mut matched)).1;
    }
    (micros(add) / ADDED as f64, micros(after) / ADDED as f64)
}

fn few(budget: Duration, report: &mut BenchReport) {
    const COUNTS: [usize; 3] = [1, 3, 10];
    const COLUMNS: [ReportColumn; 4] = [
        column("matcher", "approach", 0),
        column("1", "1 binding", 4),
        column("3", "3 bindings", 4),
        column("10", "10 bindings", 4),
    ];
    report.table("few", "the simple case: µs per topic, 1,000 recurring topics", &COLUMNS);
    for_each_matcher!(few_line, &COUNTS, budget, report);
}

fn few_line<M: TopicMatcher>(counts: &[usize], budget: Duration, report: &mut BenchReport) {
    const MESSAGES: usize = 1_000_000;
    let topics = rabbitmq_topics(1_000, &mut SplitMix64::new(6));
    let mut line = json!({"matcher": M::NAME});
    for count in counts {
        let mut matcher = build::<M>(&rabbitmq_patterns(*count, &mut SplitMix64::new(7)), TopicDialect::Amqp);
        let (seconds, _) = run(&mut matcher, &topics, MESSAGES, budget / 2);
        line[count.to_string()] = json!(seconds * 1e6 / MESSAGES as f64);
    }
    report.line(line);
}

fn worst_case(budget: Duration, report: &mut BenchReport) {
    const COLUMNS: [ReportColumn; 4] = [
        column("matcher", "approach", 0),
        column("first_us", "first µs", 1),
        column("again_us", "again µs", 3),
        column("twice_as_long_us", "42 words", 1),
    ];
    let title = format!("the worst case: {ADVERSARIAL_PATTERN} against 21 words (RabbitMQ: 124,000 µs)");
    report.table("worst", &title, &COLUMNS);
    for_each_matcher!(worst_line, budget, report);
}

/// How often the first match is timed: the first of a process also pays for pages that nobody has touched.
const FIRST_RUNS: usize = 21;

fn worst_line<M: TopicMatcher>(budget: Duration, report: &mut BenchReport) {
    let pattern = [ADVERSARIAL_PATTERN.to_owned()];
    // A matcher that has just been built each time, as many of them remember what they have seen.
    let first = |words: usize| {
        let topic = adversarial_topic(words);
        let once = |_| {
            let mut matcher = build::<M>(&pattern, TopicDialect::Amqp);
            micros(timed_cpu(|| matcher.match_into(&topic, &mut Vec::new())).1)
        };
        median_by((0..FIRST_RUNS).map(once).collect(), |us| *us)
    };
    let (short, long) = (first(21), first(42));
    let mut matcher = build::<M>(&pattern, TopicDialect::Amqp);
    let (seconds, _) = run(&mut matcher, &[adversarial_topic(21)], 10_000, budget / 2);
    report.line(json!({
        "matcher": M::NAME, "first_us": short, "again_us": seconds * 1e6 / 10_000.0, "twice_as_long_us": long,
    }));
}
