//! Reads a workload in the neutral format: `schema.json`, `filters.jsonl`, `messages.jsonl` of one folder.
//!
//! A filter is `["and", ..]`, `["or", ..]`, `["not", f]` or a predicate `[operator, attribute, value]` with `eq`,
//! `ne`, `in`, `nin`, `lt`, `le`, `gt`, `ge` or `between` (which has two values, both included).

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use hashbrown::HashMap;
use serde_json::Value as Json;
use tamis_core::message::Value;

use crate::arguments::Arguments;
use crate::workload_b::WorkloadB;

use super::filter::{
    ABSENT, BooleanFilter, ColumnKind, FilterAttribute, FilterLiteral, FilterMessage, FilterTest, Schema, SchemaColumn,
    Tree,
};

/// How many of a folder's filters are measured, as far as it has them.
const FOLDER_COUNTS: [usize; 5] = [1_000, 10_000, 100_000, 500_000, 1_000_000];

/// What a folder holds.
#[derive(Debug)]
pub struct Workload {
    /// The attributes and texts.
    pub schema: Schema,
    /// The filters, in the order of the file.
    pub filters: Vec<BooleanFilter>,
    /// The messages, in the order of the file.
    pub messages: Vec<FilterMessage>,
}

impl Workload {
    /// Read at most `filters_max` filters and all messages of `folder`.
    ///
    /// # Errors
    /// What is missing or is not as the format wants it, with file and line.
    pub fn read(folder: &Path, filters_max: usize) -> Result<Self, String> {
        let open = |name: &str| {
            let path = folder.join(name);
            File::open(&path).map(BufReader::new).map_err(|error| format!("{}: {error}", path.display()))
        };
        let schema = std::io::read_to_string(open(SCHEMA)?).map_err(|error| format!("{SCHEMA}: {error}"))?;
        Self::from_lines(&schema, open(FILTERS)?.lines().take(filters_max), open(MESSAGES)?.lines())
    }

    /// The same from text.
    ///
    /// # Errors
    /// What is not as the format wants it, with the name that its file would have, and the line.
    pub fn parse(schema: &str, filters: &str, messages: &str) -> Result<Self, String> {
        let lines = |text: &str| text.lines().map(|line| Ok(line.to_owned())).collect::<Vec<_>>();
        Self::from_lines(schema, lines(filters).into_iter(), lines(messages).into_iter())
    }

    /// The same from what the lines would say.
    ///
    /// # Errors
    /// As [`Workload::parse`].
    pub fn from_json(schema: &Json, filters: &[Json], messages: &[Json]) -> Result<Self, String> {
        let lines = |values: &[Json]| values.iter().map(|value| Ok(value.to_string())).collect::<Vec<_>>();
        Self::from_lines(&schema.to_string(), lines(filters).into_iter(), lines(messages).into_iter())
    }

    /// What the arguments name: a folder, or without one, `filters` filters of workload B in the neutral format.
    /// A folder that cannot be read ends the program.
    #[must_use]
    pub fn from_arguments(arguments: &Arguments, filters: usize) -> Self {
        let Some(folder) = arguments.directory() else {
            println!(
                "no workload given (a folder with {SCHEMA}, {FILTERS} and {MESSAGES}): workload B is made instead"
            );
            return WorkloadB::new(filters, GENERATED_MESSAGES, 7).neutral();
        };
        println!("workload: {}", folder.display());
        Self::read(&folder, filters).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            std::process::exit(1)
        })
    }

    /// How many filters to measure with: `--counts`; else, of a folder, what it may have, or `generated`.
    #[must_use]
    pub fn counts(arguments: &Arguments, generated: &[usize]) -> Vec<usize> {
        let default = if arguments.directory().is_some() { &FOLDER_COUNTS } else { generated };
        arguments.numbers("counts", default)
    }

    fn from_lines(
        schema: &str,
        filters: impl Iterator<Item = Line>,
        messages: impl Iterator<Item = Line>,
    ) -> Result<Self, String> {
        let mut reader = WorkloadDecoder::new(schema).ok_or_else(|| format!("{SCHEMA}: not as expected"))?;
        let filters = read_each(FILTERS, filters, |_, json| reader.filter(&json["f"]))?;
        let messages = read_each(MESSAGES, messages, |number, json| reader.message(number, json))?;
        Ok(Self { schema: reader.schema, filters, messages })
    }
}

/// How many messages a generated workload has.
const GENERATED_MESSAGES: usize = 2_000;
const SCHEMA: &str = "schema.json";
const FILTERS: &str = "filters.jsonl";
const MESSAGES: &str = "messages.jsonl";

type Line = std::io::Result<String>;

fn read_each<T>(
    name: &str,
    lines: impl Iterator<Item = Line>,
    mut read: impl FnMut(usize, &Json) -> Option<T>,
) -> Result<Vec<T>, String> {
    let mut found = Vec::new();
    for (number, line) in lines.enumerate() {
        let at = |what: String| format!("{name}, line {}: {what}", number + 1);
        let line = line.map_err(|error| at(error.to_string()))?;
        let json = serde_json::from_str(&line).map_err(|error| at(error.to_string()))?;
        found.push(read(number, &json).ok_or_else(|| at("not as expected".to_owned()))?);
    }
    Ok(found)
}

/// Turns names and texts into numbers.
struct WorkloadDecoder {
    schema: Schema,
    attributes: HashMap<String, FilterAttribute>,
    texts: HashMap<String, i64>,
}

impl WorkloadDecoder {
    fn new(schema: &str) -> Option<Self> {
        let json: Json = serde_json::from_str(schema).ok()?;
        let mut reader = Self { schema: Schema::default(), attributes: HashMap::new(), texts: HashMap::new() };
        for (name, about) in json.as_object()? {
            let kind = match about["type"].as_str()? {
                "str" => ColumnKind::Text,
                "bool" => ColumnKind::Bool,
                "int" => ColumnKind::Int,
                _ => return None,
            };
            reader.attributes.insert(name.clone(), FilterAttribute::try_from(reader.schema.columns.len()).ok()?);
            reader.schema.columns.push(SchemaColumn { name: name.clone(), kind, cardinality: about["card"].as_u64() });
        }
        Some(reader)
    }

    fn filter(&mut self, json: &Json) -> Option<BooleanFilter> {
        let mut selector = String::new();
        write_selector(json, &mut selector)?;
        Some(BooleanFilter { tree: self.tree(json, true)?, selector })
    }

    /// The tree of "`json` is `wanted`".
    fn tree(&mut self, json: &Json, wanted: bool) -> Option<Tree> {
        let parts = json.as_array()?;
        let operator = parts.first()?.as_str()?;
        if operator == "not" {
            return self.tree(parts.get(1)?, !wanted);
        }
        if operator == "and" || operator == "or" {
            let operands: Option<Vec<_>> = parts[1..].iter().map(|part| self.tree(part, wanted)).collect();
            return Some(if (operator == "and") == wanted { Tree::And(operands?) } else { Tree::Or(operands?) });
        }
        let attribute = *self.attributes.get(parts.get(1)?.as_str()?)?;
        let test = self.test(operator, &parts[2..])?;
        Some(Tree::Literal(FilterLiteral { attribute, test: if wanted { test } else { test.negated() } }))
    }

    fn test(&mut self, operator: &str, operands: &[Json]) -> Option<FilterTest> {
        let first = operands.first()?;
        Some(match operator {
            "eq" => FilterTest::OneOf([self.value(first)?].into()),
            "ne" => FilterTest::NoneOf([self.value(first)?].into()),
            "in" => FilterTest::OneOf(self.values(first)?),
            "nin" => FilterTest::NoneOf(self.values(first)?),
            "lt" => FilterTest::Within(ABSENT, first.as_i64()? - 1),
            "le" => FilterTest::Within(ABSENT, first.as_i64()?),
            "gt" => FilterTest::Within(first.as_i64()? + 1, i64::MAX),
            "ge" => FilterTest::Within(first.as_i64()?, i64::MAX),
            "between" => FilterTest::Within(first.as_i64()?, operands.get(1)?.as_i64()?),
            _ => return None,
        })
    }

    fn values(&mut self, json: &Json) -> Option<Box<[i64]>> {
        let mut values = json.as_array()?.iter().map(|value| self.value(value)).collect::<Option<Vec<_>>>()?;
        values.sort_unstable();
        Some(values.into())
    }

    fn value(&mut self, json: &Json) -> Option<i64> {
        Some(match json {
            Json::Bool(truth) => i64::from(*truth),
            Json::Number(number) => number.as_i64()?,
            Json::String(text) => {
                if let Some(number) = self.texts.get(text.as_str()) {
                    return Some(*number);
                }
                let number = self.texts.len() as i64;
                self.texts.insert(text.clone(), number);
                self.schema.texts.push(text.clone());
                number
            }
            _ => return None,
        })
    }

    fn message(&mut self, number: usize, json: &Json) -> Option<FilterMessage> {
        let mut values = vec![ABSENT; self.schema.columns.len()].into_boxed_slice();
        let fields = json.as_object()?;
        for (name, value) in fields {
            values[usize::from(*self.attributes.get(name.as_str())?)] = self.value(value)?;
        }
        let properties = fields.iter().map(|(name, value)| Some((name.as_str().into(), property(value)?)));
        Some(FilterMessage { number, values, properties: properties.collect::<Option<_>>()? })
    }
}

fn property(json: &Json) -> Option<Value> {
    match json {
        Json::Bool(truth) => Some(Value::Bool(*truth)),
        Json::Number(number) => number.as_i64().map(Value::Int),
        Json::String(text) => Some(Value::Text(text.as_str().into())),
        _ => None,
    }
}

/// A filter of the neutral format as selector text, to be an operand of AND.
///
/// # Panics
/// When it is not as the format wants it.
#[must_use]
pub fn selector_text(json: &Json) -> String {
    let mut text = String::new();
    write_operand(json, &mut text).expect("a filter of the neutral format");
    text
}

/// Write a filter as selector text, with every operator where it stands.
fn write_selector(json: &Json, text: &mut String) -> Option<()> {
    let parts = json.as_array()?;
    let operator = parts.first()?.as_str()?;
    match operator {
        "and" | "or" => {
            for (index, part) in parts[1..].iter().enumerate() {
                if index > 0 {
                    text.push_str(if operator == "and" { " AND " } else { " OR " });
                }
                write_operand(part, text)?;
            }
            Some(())
        }
        "not" => {
            text.push_str("NOT ");
            write_operand(parts.get(1)?, text)
        }
        _ => write_predicate(operator, parts.get(1)?.as_str()?, &parts[2..], text),
    }
}

fn write_operand(json: &Json, text: &mut String) -> Option<()> {
    let is_tree = matches!(json[0].as_str()?, "and" | "or" | "not");
    text.push_str(if is_tree { "(" } else { "" });
    write_selector(json, text)?;
    text.push_str(if is_tree { ")" } else { "" });
    Some(())
}

fn write_predicate(operator: &str, name: &str, operands: &[Json], text: &mut String) -> Option<()> {
    let first = operands.first()?;
    let compared = match operator {
        "eq" => "=",
        "ne" => "<>",
        "lt" => "<",
        "le" => "<=",
        "gt" => ">",
        "ge" => ">=",
        "between" => {
            write!(text, "{name} BETWEEN {} AND {}", literal(first), literal(operands.get(1)?)).ok()?;
            return Some(());
        }
        _ => {
            let values: Vec<String> = first.as_array()?.iter().map(literal).collect();
            let word = if operator == "in" { "IN" } else { "NOT IN" };
            write!(text, "{name} {word} ({})", values.join(", ")).ok()?;
            return Some(());
        }
    };
    write!(text, "{name} {compared} {}", literal(first)).ok()
}

fn literal(json: &Json) -> String {
    match json {
        Json::String(text) => format!("'{}'", text.replace('\'', "''")),
        Json::Bool(truth) => if *truth { "TRUE" } else { "FALSE" }.to_owned(),
        other => other.to_string(),
    }
}
