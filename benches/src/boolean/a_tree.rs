//! The A-tree of the crate `a-tree`: filters share common subexpressions in one acyclic graph.
//!
//! A message climbs the graph from the predicates that it makes true.
//!
//! Cost: "zero suppression" leaves out what no true predicate reaches, but a negation is reached by everything that
//! does not mention it. Building grows faster than linear.
//!
//! Source: Ji and Jacobsen, "A-Tree: A dynamic data structure for efficiently indexing arbitrary Boolean expressions",
//! SIGMOD 2021, in the implementation of <https://crates.io/crates/a-tree>.

use std::fmt::Write as _;

use a_tree::{ATree as Graph, AttributeDefinition, Event};

use super::BooleanMatcher;
use super::filter::{
    ABSENT, BooleanFilter, ColumnKind, FilterLiteral, FilterMessage, FilterTest, Schema, SchemaColumn, Tree,
};

/// The graph, and the messages as its events.
#[derive(Debug)]
pub struct ATree {
    graph: Graph<u32>,
    schema: Schema,
    events: Vec<Event>,
}

impl BooleanMatcher for ATree {
    const NAME: &'static str = "a-tree (crate)";
    type Scratch = ();

    fn build(filters: &[BooleanFilter], schema: &Schema) -> Self {
        let attributes: Vec<_> = schema.columns.iter().map(definition).collect();
        let mut graph = Graph::new(&attributes).expect("names are unique");
        for (number, filter) in (0..).zip(filters) {
            let mut text = String::new();
            write_tree(&filter.tree, schema, &mut text);
            graph.insert(&number, &text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        Self { graph, schema: schema.clone(), events: Vec::new() }
    }

    /// Events are made before the clock runs, which favours the crate: its own users make one a message.
    fn prepare(&mut self, messages: &[FilterMessage]) {
        self.events = messages.iter().map(|message| self.event(message)).collect();
    }

    fn match_into(&self, message: &FilterMessage, (): &mut (), matched: &mut Vec<u32>) {
        let found = self.graph.search(&self.events[message.number]).expect("an event of this graph");
        matched.extend(found.matches().iter().map(|number| **number));
    }
}

impl ATree {
    fn event(&self, message: &FilterMessage) -> Event {
        let mut event = self.graph.make_event();
        for (column, value) in self.schema.columns.iter().zip(&message.values).filter(|(_, value)| **value != ABSENT) {
            match column.kind {
                ColumnKind::Text => event.with_string(&column.name, &self.schema.texts[*value as usize]),
                ColumnKind::Bool => event.with_boolean(&column.name, *value == 1),
                ColumnKind::Int => event.with_integer(&column.name, *value),
            }
            .expect("the schema has the attribute");
        }
        event.build().expect("absent attributes are undefined")
    }
}

fn definition(column: &SchemaColumn) -> AttributeDefinition {
    match column.kind {
        ColumnKind::Text => AttributeDefinition::string(&column.name),
        ColumnKind::Bool => AttributeDefinition::boolean(&column.name),
        ColumnKind::Int => AttributeDefinition::integer(&column.name),
    }
}

/// In the crate's language, which has no NOT before a comparison's operator but has its opposite.
fn write_tree(tree: &Tree, schema: &Schema, text: &mut String) {
    let (operands, word) = match tree {
        Tree::Literal(literal) => return write_literal(literal, schema, text),
        Tree::And(operands) => (operands, " and "),
        Tree::Or(operands) => (operands, " or "),
    };
    text.push('(');
    for (index, operand) in operands.iter().enumerate() {
        text.push_str(if index > 0 { word } else { "" });
        write_tree(operand, schema, text);
    }
    text.push(')');
}

fn write_literal(literal: &FilterLiteral, schema: &Schema, text: &mut String) {
    let column = &schema.columns[usize::from(literal.attribute)];
    let name = &column.name;
    let list = |values: &[i64]| {
        let shown = |value: &i64| match column.kind {
            ColumnKind::Text => format!("\"{}\"", schema.texts[*value as usize]),
            ColumnKind::Bool | ColumnKind::Int => value.to_string(),
        };
        values.iter().map(shown).collect::<Vec<_>>().join(", ")
    };
    match &literal.test {
        FilterTest::OneOf(values) | FilterTest::NoneOf(values) if column.kind == ColumnKind::Bool => {
            let is_true = (values[..] == [1]) == matches!(literal.test, FilterTest::OneOf(_));
            write!(text, "{}", if is_true { name.clone() } else { format!("(not {name})") })
        }
        FilterTest::OneOf(values) if values.len() == 1 => write!(text, "{name} = {}", list(values)),
        FilterTest::NoneOf(values) if values.len() == 1 => write!(text, "{name} <> {}", list(values)),
        FilterTest::OneOf(values) => write!(text, "{name} in ({})", list(values)),
        FilterTest::NoneOf(values) => write!(text, "{name} not in ({})", list(values)),
        FilterTest::Within(ABSENT, high) => write!(text, "{name} <= {high}"),
        FilterTest::Within(low, i64::MAX) => write!(text, "{name} >= {low}"),
        FilterTest::Within(low, high) => write!(text, "({name} >= {low} and {name} <= {high})"),
        FilterTest::Outside(ABSENT, high) => write!(text, "{name} > {high}"),
        FilterTest::Outside(low, i64::MAX) => write!(text, "{name} < {low}"),
        FilterTest::Outside(low, high) => write!(text, "({name} < {low} or {name} > {high})"),
    }
    .expect("a string takes everything");
}
