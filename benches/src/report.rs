//! Prints the figures of a benchmark: a table for people, and with `--json PATH` the same figures for programs.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::machine;

/// Where a column's figures come from, how it is called and how many places it has after the point.
#[derive(Clone, Copy, Debug)]
pub struct ReportColumn {
    /// The key in the records.
    pub key: &'static str,
    /// The words above it.
    pub title: &'static str,
    /// Places after the point.
    pub places: usize,
}

/// A column.
#[must_use]
pub const fn column(key: &'static str, title: &'static str, places: usize) -> ReportColumn {
    ReportColumn { key, title, places }
}

/// Collects tables, prints their lines as they come, writes all at the end.
#[derive(Debug)]
pub struct BenchReport {
    benchmark: &'static str,
    arguments: String,
    path: Option<PathBuf>,
    started: u64,
    load: Option<f64>,
    tables: Vec<ReportTable>,
    unlisted: Vec<ReportTable>,
}

/// What `benchmarks/write_page.py` shows as a table.
#[derive(Debug, Default)]
struct ReportTable {
    name: String,
    title: String,
    columns: Vec<ReportColumn>,
    records: Vec<Value>,
    notes: Vec<String>,
}

impl BenchReport {
    /// A report of `benchmark`, written to the file or into the folder `--json` where that is given.
    #[must_use]
    pub fn new(benchmark: &'static str, arguments: &Arguments) -> Self {
        let file = |path: PathBuf| if path.is_dir() { path.join(format!("{benchmark}.json")) } else { path };
        let path = arguments.path("json").map(file);
        let arguments = arguments.summary();
        let (started, load) = (machine::now(), machine::load());
        Self { benchmark, arguments, path, started, load, tables: Vec::new(), unlisted: Vec::new() }
    }

    /// Begin a table: `name` for programs, `title` above it.
    pub fn table(&mut self, name: &str, title: &str, columns: &[ReportColumn]) {
        println!("\n{title}");
        let mut line = String::new();
        for (index, column) in columns.iter().enumerate() {
            line += &pad(column.title, index, column);
        }
        println!("{}", line.trim_end());
        self.tables.push(ReportTable { columns: columns.to_vec(), ..ReportTable::new(name, title) });
    }

    /// One line of the table; what is not among its columns is in the JSON only.
    pub fn line(&mut self, record: Value) {
        let table = self.current();
        let fields = record.as_object().expect("a record is an object");
        let mut line = String::new();
        for (index, column) in table.columns.iter().enumerate() {
            let is_text = index > 0 && fields.get(column.key).is_some_and(Value::is_string);
            let text = shown(fields, column);
            line += &if is_text { format!("  {text}") } else { pad(&text, index, column) };
        }
        println!("{}", line.trim_end());
        table.records.push(record);
    }

    /// A record that no table shows, under a name of its own.
    pub fn record(&mut self, name: &str, record: Value) {
        self.unlisted.push(ReportTable { records: vec![record], ..ReportTable::new(name, "") });
    }

    /// A sentence below the lines.
    pub fn note(&mut self, text: &str) {
        println!("{text}");
        self.current().notes.push(text.trim().to_owned());
    }

    /// The table that was begun last; one without a name before any was.
    fn current(&mut self) -> &mut ReportTable {
        if self.tables.is_empty() {
            self.tables.push(ReportTable::default());
        }
        self.tables.last_mut().expect("there is one")
    }

    /// Write the JSON file, if one was asked for.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn finish(self) {
        let Some(path) = self.path else { return };
        let tables: Vec<Value> = self.tables.iter().chain(&self.unlisted).map(ReportTable::json).collect();
        let document = json!({
            "benchmark": self.benchmark, "arguments": self.arguments, "version": env!("CARGO_PKG_VERSION"),
            "machine": machine::facts(), "started": self.started, "seconds": machine::now() - self.started,
            "load": [self.load, machine::load()], "tables": tables,
        });
        let text = serde_json::to_string_pretty(&document).expect("plain values");
        std::fs::write(&path, text + "\n").unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

impl ReportTable {
    fn new(name: &str, title: &str) -> Self {
        Self { name: name.to_owned(), title: title.to_owned(), ..Self::default() }
    }

    fn json(&self) -> Value {
        let column = |column: &ReportColumn| json!([column.key, column.title, column.places]);
        let columns: Vec<Value> = self.columns.iter().map(column).collect();
        json!({
            "name": self.name, "title": self.title, "columns": columns, "records": self.records, "notes": self.notes,
        })
    }
}

fn shown(fields: &Map<String, Value>, column: &ReportColumn) -> String {
    match fields.get(column.key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.as_f64().map_or_else(String::new, |n| format!("{n:.*}", column.places)),
        Some(Value::Bool(truth)) => truth.to_string(),
        _ => "-".to_owned(),
    }
}

/// The first column is words, the others are figures, or words that come last.
fn pad(text: &str, index: usize, column: &ReportColumn) -> String {
    if index == 0 { format!("{text:<28}") } else { format!("{text:>width$}", width = column.title.len().max(9) + 2) }
}
