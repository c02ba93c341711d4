//! Random topologies and messages, each from a seed.

use crate::amqp::{FieldValue, PropertyFields, RawTable, Table};
use crate::testing::Random;

impl Random {
    /// A routing key of few words, or with `wildcards` a binding's.
    pub fn key(&mut self, wildcards: bool) -> String {
        let words = ["a", "b", "c", "", "*", "#"];
        let count = self.below(4);
        let word = |random: &mut Self| match wildcards || random.one_in(20) {
            true => random.pick(&words),
            false => random.pick(&words[..4]),
        };
        (0..count).map(|_| word(self)).collect::<Vec<_>>().join(".")
    }

    /// The value of a header, one of few so that they meet.
    pub fn value(&mut self) -> FieldValue {
        match self.below(16) {
            0 => FieldValue::Bool(true),
            1 | 2 => FieldValue::I32(self.below(4) as i32),
            3 => FieldValue::I64(self.below(4) as i64),
            4 => FieldValue::U8(self.below(4) as u8),
            5 => FieldValue::F64(self.below(8) as f64 / 2.0),
            6 => FieldValue::Decimal { scale: 1, unscaled: 5 * self.below(8) as i32 },
            7 => FieldValue::Timestamp(self.below(3) as u64 * 1_000_000_000),
            8 => FieldValue::Void,
            9 => FieldValue::Array(vec![self.below(3).to_string().as_str().into(), (self.below(3) as i32).into()]),
            10 => FieldValue::Table([("k", self.below(3) as i32)].into_iter().collect::<Table>()),
            11 => FieldValue::Bytes(b"a".as_slice().into()),
            12 => FieldValue::Text(b"\xff".as_slice().into()),
            _ => self.pick(&["a", "ab", "b", "1", ""]).into(),
        }
    }

    /// Headers of a message, or of a binding of a headers exchange.
    pub fn headers(&mut self) -> Table {
        let names = ["n", "s", "t", "x-h", "priority", "user_id", "body", "body.x", "t.k", "\0body"];
        let mut table = Table::new();
        for _ in 0..self.below(5) {
            let name = if self.one_in(4) { self.pick(&names) } else { self.pick(&names[..3]) };
            table.insert(name, self.value());
        }
        table
    }

    /// The arguments of a binding.
    pub fn arguments(&mut self, is_headers: bool) -> Table {
        let mut table = Table::new();
        if is_headers {
            // Bindings of NULs and of what is no UTF-8 are another test's.
            for (name, value) in self.headers().iter() {
                if !name.starts_with('\0') && *value != FieldValue::Text(b"\xff".as_slice().into()) {
                    table.insert(name, value.clone());
                }
            }
            if self.one_in(2) {
                table.insert("x-match", self.pick(&["all", "any", "all-with-x", "any-with-x"]));
            }
        }
        if self.one_in(2) {
            let (text, is_boolean) = self.query();
            table.insert("x-query", text.as_str());
            if is_boolean {
                table.insert("x-query-language", "boolean");
            }
            if text.contains("body") {
                table.insert("x-query-body", self.pick(&["text", "json"]));
            } else if self.one_in(2) {
                table.insert("x-query-body", self.pick(&["none", "text", "json"]));
            }
        }
        table
    }

    fn query(&mut self) -> (String, bool) {
        const PREDICATES: [&str; 26] = [
            "n = 1",
            "n > 1.5",
            "n BETWEEN 1 AND 2",
            "s = 'a'",
            "s LIKE 'a%'",
            "s IN ('b', '1')",
            "s <> t",
            "t.k = 1",
            "t IS NULL",
            "EXISTS(s)",
            "priority >= 2",
            "message_id = 'm1'",
            "user_id = 'me'",
            "type = 'a'",
            "delivery_mode = 2",
            "\"timestamp\" > TIMESTAMP '2001-01-01T00:00:00Z'",
            "topic = 'a.b'",
            "TOPIC('a.#')",
            "PREFIX(topic, 'b')",
            "body.x = 1",
            "body.items.name = 'z'",
            "body IS NULL",
            "CONTAINS(body, 'hello')",
            "NEAR(body, 'hello', 'world')",
            "REGEX(s, '^a+$')",
            "x",
        ];
        if self.one_in(10) {
            return (self.pick(&["n = 1 && s == a", "!(n == 2) || s in {a, b}"]).to_owned(), true);
        }
        let mut text = self.pick(&PREDICATES).to_owned();
        for _ in 0..self.below(3) {
            let joint = self.pick(&["AND", "OR"]);
            let not = if self.one_in(4) { "NOT " } else { "" };
            text = format!("({text}) {joint} {not}({})", self.pick(&PREDICATES));
        }
        (text, false)
    }

    /// The bytes of a message's properties, and its body.
    pub fn message(&mut self) -> (Vec<u8>, &'static [u8]) {
        let headers = self.headers().to_bytes();
        let mut some = |choices: &[&'static str]| if self.one_in(3) { Some(self.pick(choices)) } else { None };
        let fields = PropertyFields {
            message_id: some(&["m1", "m2"]),
            user_id: some(&["me", "you"]),
            message_type: some(&["a", "b"]),
            headers: (!headers.is_empty()).then_some(RawTable::new(&headers)),
            priority: self.one_in(3).then_some(2),
            delivery_mode: self.one_in(3).then_some(2),
            timestamp: self.one_in(3).then_some(1_000_000_000),
            ..PropertyFields::default()
        };
        let mut bytes = Vec::new();
        fields.encode(&mut bytes);
        let bodies: [&[u8]; 8] = [
            b"",
            b"hello world",
            b"hello \xff world",
            br#"{"x": 1, "items": [{"name": "y"}, {"name": "z"}]}"#,
            br#"{"x": 2, "s": "hello"}"#,
            br#"[{"x": 1}, {"x": 3}]"#,
            br#"{"x": 1"#,
            b"\"hello world\"",
        ];
        (bytes, bodies[self.below(bodies.len())])
    }
}
