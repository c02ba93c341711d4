//! What a benchmark prints: a table for people, and with `--json PATH` the same figures for programs.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;

/// Where a column's figures come from, how it is called and how many places it has after the point.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The key in the records.
    pub key: &'static str,
    /// The words above it.
    pub title: &'static str,
    /// Places after the point.
    pub places: usize,
}

/// A column.
#[must_use]
pub const fn column(key: &'static str, title: &'static str, places: usize) -> Column {
    Column { key, title, places }
}

/// Collects records, prints them as they come, writes them at the end.
#[derive(Debug)]
pub struct Report {
    benchmark: &'static str,
    records: Vec<Value>,
    path: Option<PathBuf>,
    columns: Vec<Column>,
    table: &'static str,
}

impl Report {
    /// A report of `benchmark`, written to the file or into the folder `--json` where that is given.
    #[must_use]
    pub fn new(benchmark: &'static str, arguments: &Arguments) -> Self {
        let file = |path: PathBuf| if path.is_dir() { path.join(format!("{benchmark}.json")) } else { path };
        let path = arguments.path("json").map(file);
        Self { benchmark, records: Vec::new(), path, columns: Vec::new(), table: "" }
    }

    /// Begin a table: `name` goes into its records, `title` above it.
    pub fn table(&mut self, name: &'static str, title: &str, columns: &[Column]) {
        self.table = name;
        self.columns = columns.to_vec();
        println!("\n{title}");
        let mut line = String::new();
        for (index, column) in columns.iter().enumerate() {
            line += &pad(column.title, index, column);
        }
        println!("{}", line.trim_end());
    }

    /// One line of the table; what is not among its columns is in the JSON only.
    pub fn line(&mut self, mut record: Value) {
        let fields = record.as_object_mut().expect("a record is an object");
        let mut line = String::new();
        for (index, column) in self.columns.iter().enumerate() {
            let is_text = index > 0 && fields.get(column.key).is_some_and(Value::is_string);
            let text = shown(fields, column);
            line += &if is_text { format!("  {text}") } else { pad(&text, index, column) };
        }
        println!("{}", line.trim_end());
        fields.insert("table".to_owned(), json!(self.table));
        self.records.push(record);
    }

    /// A record that no table shows.
    pub fn record(&mut self, table: &str, mut record: Value) {
        record["table"] = json!(table);
        self.records.push(record);
    }

    /// A sentence between the lines, not in the JSON.
    pub fn note(&self, text: &str) {
        println!("{text}");
    }

    /// Write the JSON file, if one was asked for.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn finish(self) {
        let Some(path) = self.path else { return };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let document = json!({"benchmark": self.benchmark, "cores": cores, "records": self.records});
        let text = serde_json::to_string_pretty(&document).expect("plain values");
        std::fs::write(&path, text + "\n").unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

fn shown(fields: &Map<String, Value>, column: &Column) -> String {
    match fields.get(column.key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.as_f64().map_or_else(String::new, |n| format!("{n:.*}", column.places)),
        Some(Value::Bool(truth)) => truth.to_string(),
        _ => "-".to_owned(),
    }
}

/// The first column is words, the others are figures, or words that come last.
fn pad(text: &str, index: usize, column: &Column) -> String {
    if index == 0 { format!("{text:<28}") } else { format!("{text:>width$}", width = column.title.len().max(9) + 2) }
}
