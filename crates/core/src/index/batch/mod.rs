//! Matches Arrow tables: the result holds the subscriptions that each row satisfies.
//!
//! A row is a record: its columns are the properties, and those called `topic` (text) and `body` (text or bytes) also the
//! message's parts. With a column `properties` (a struct, a map, JSON text or a variant), that is the record, and `topic` and
//! `body` beside it are the parts where they are not null. The decoder of each
//! column is chosen once per batch; rows are then decoded and matched one by one.
//!
//! Source: Arrow columnar format; `docs/semantics.md`, "Engine".

mod column;
#[cfg(test)]
mod tests;
pub(crate) mod variant;

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_schema::DataType;

use crate::error::EngineError;
use crate::index::AskedParts;
use crate::index::versions::version::Version;
use crate::index::{Engine, Scratch, SubscriptionId};
use crate::json;
use crate::message::{Body, Message, Properties, Value};
use column::{BytesDecoder, ValueDecoder};

/// Minimum number of rows per thread.
const ROWS_PER_THREAD_MIN: usize = 128;

/// The matches of a batch.
#[derive(Debug)]
pub struct BatchMatches {
    /// The ids of the subscriptions that each row satisfies, ascending; null for a row that cannot be read.
    pub ids: ListArray,
    /// The rows that cannot be read, ascending.
    pub unreadable: Vec<UnreadableRow>,
}

/// A row that cannot be a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow {
    /// Its number, from 0.
    pub row: usize,
    /// The column in which it is wrong.
    pub column: String,
    /// The reason.
    pub reason: String,
}

impl Engine {
    /// The ids of the subscriptions that each row of `batch` satisfies, ascending.
    ///
    /// Up to `threads` threads share the rows. Bytes that are not UTF-8 become a property without a value; timestamps and
    /// dates become instants, in UTC if they have no zone; decimals become floats. Columns that no query asks for do not
    /// matter, whatever they hold.
    ///
    /// # Errors
    /// A column of a type that no property can have, a value beyond 64 bits, JSON or a variant that cannot be decoded (named
    /// by column and row); more than 2^31 matches; a damaged snapshot.
    pub fn match_batch(&self, batch: &RecordBatch, threads: usize) -> Result<ListArray, EngineError> {
        let matches = self.match_rows(batch, threads)?;
        match matches.unreadable.first() {
            None => Ok(matches.ids),
            Some(UnreadableRow { row, column, reason }) => {
                Err(EngineError::Row(format!("column '{column}', row {row}: {reason}")))
            }
        }
    }

    /// Match a batch as [`Self::match_batch`] does, but list the rows that cannot be read, and match the others.
    ///
    /// # Errors
    /// A column of a type that no property can have; more than 2^31 matches; a damaged snapshot.
    pub fn match_rows(&self, batch: &RecordBatch, threads: usize) -> Result<BatchMatches, EngineError> {
        let version = self.current(); // the same for all rows, so that the names are those of every query
        let matches = match_columns(&version, batch, &|name| version.may_ask(name), threads);
        if matches.as_ref().is_ok_and(|matches| matches.unreadable.is_empty()) {
            return matches;
        }
        // Only a removed query may have asked for what cannot be read.
        let asked = version.asked()?;
        match_columns(&version, batch, &|name| asked.has(name), threads)
    }

    /// The parts of a message that queries ask for now; what else it holds makes no difference.
    ///
    /// # Errors
    /// A damaged snapshot.
    pub fn asked(&self) -> Result<AskedParts, EngineError> {
        self.current().asked().cloned()
    }
}

/// Calls `each` with the message of every row, or with what is wrong with that row.
///
/// # Errors
/// A column of a type that no property can have, and the errors of `each`.
pub fn read_messages<E: From<EngineError>>(
    batch: &RecordBatch,
    mut each: impl FnMut(Result<Message<'_>, UnreadableRow>) -> Result<(), E>,
) -> Result<(), E> {
    let (rows, mut properties) = (MessageRows::new(batch, &|_| true)?, Properties::default());
    (0..batch.num_rows()).try_for_each(|row| each(rows.read(row, &mut properties)))
}

/// Match every row, with those properties whose name `is_asked`.
fn match_columns(
    version: &Version,
    batch: &RecordBatch,
    is_asked: &IsAsked<'_>,
    threads: usize,
) -> Result<BatchMatches, EngineError> {
    let rows = MessageRows::new(batch, is_asked)?;
    let share = batch.num_rows().div_ceil(threads.max(1)).max(ROWS_PER_THREAD_MIN);
    let starts = (0..batch.num_rows()).step_by(share);
    let ranges: Vec<_> = starts.map(|start| start..batch.num_rows().min(start + share)).collect();
    join(match ranges.as_slice() {
        [single] => vec![match_range(version, &rows, single.clone())?],
        several => match_in_threads(version, &rows, several)?,
    })
}

fn match_in_threads(
    version: &Version,
    rows: &MessageRows<'_>,
    ranges: &[Range<usize>],
) -> Result<Vec<MatchedRows>, EngineError> {
    scope(|scope| {
        let start = |range: &Range<usize>| {
            let range = range.clone();
            Builder::new().spawn_scoped(scope, move || match_range(version, rows, range))
        };
        let threads = ranges.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn match_range(version: &Version, rows: &MessageRows<'_>, range: Range<usize>) -> Result<MatchedRows, EngineError> {
    let (mut scratch, mut properties) = (Scratch::new(), Properties::default());
    let mut matched = MatchedRows { ends: Vec::with_capacity(range.len()), ..MatchedRows::default() };
    for row in range {
        match rows.read(row, &mut properties) {
            Ok(message) => version.match_into(&message, &mut scratch, &mut matched.ids)?,
            Err(unreadable) => matched.unreadable.push(unreadable),
        }
        matched.ends.push(matched.ids.len());
    }
    Ok(matched)
}

/// The ids that several rows match, one after the other, and where those of each row end.
#[derive(Default)]
struct MatchedRows {
    ids: Vec<SubscriptionId>,
    ends: Vec<usize>,
    unreadable: Vec<UnreadableRow>,
}

fn join(parts: Vec<MatchedRows>) -> Result<BatchMatches, EngineError> {
    let count = parts.iter().map(|part| part.ids.len()).sum();
    if i32::try_from(count).is_err() {
        let reason = format!("{count} matches in one batch, more than a list array holds: send fewer rows at a time");
        return Err(EngineError::Row(reason));
    }
    let rows = parts.iter().map(|part| part.ends.len()).sum();
    let unreadable: Vec<_> = parts.iter().flat_map(|part| &part.unreadable).cloned().collect();
    let mut bad = unreadable.iter().map(|unreadable| unreadable.row).peekable();
    let mut builder = ListBuilder::with_capacity(UInt64Builder::with_capacity(count), rows);
    let mut row = 0;
    for part in parts {
        let mut start = 0;
        for end in part.ends {
            part.ids[start..end].iter().for_each(|id| builder.values().append_value(id.0));
            builder.append(bad.next_if_eq(&row).is_none());
            (start, row) = (end, row + 1);
        }
    }
    Ok(BatchMatches { ids: builder.finish(), unreadable })
}

/// Whether a property of this name has to be read; what stands in a mapping is named with dots.
type IsAsked<'a> = dyn Fn(&str) -> bool + Send + Sync + 'a;

/// The columns of a batch as records.
struct MessageRows<'a> {
    /// The columns beside a column `properties`; None without one.
    topic: Option<BytesDecoder<'a>>,
    body: Option<BytesDecoder<'a>>,
    properties: PropertyColumns<'a>,
}

impl<'a> MessageRows<'a> {
    fn new(batch: &'a RecordBatch, is_asked: &'a IsAsked<'a>) -> Result<Self, EngineError> {
        let Some(array) = batch.column_by_name("properties") else {
            return Ok(Self { topic: None, body: None, properties: PropertyColumns::of_all_columns(batch, is_asked)? });
        };
        let texts = |name: &str| {
            let Some(array) = batch.column_by_name(name) else { return Ok(None) };
            let expected = || in_column(name, &format!("expected text, found {}", array.data_type()));
            column::texts(array).map(Some).ok_or_else(expected)
        };
        let properties = PropertyColumns::of_column(array, is_asked)?;
        Ok(Self { topic: texts("topic")?, body: texts("body")?, properties })
    }

    /// The message of a row, with its properties in `properties`.
    fn read<'p>(&self, row: usize, properties: &'p mut Properties) -> Result<Message<'p>, UnreadableRow>
    where
        'a: 'p,
    {
        self.properties.read(row, properties)?;
        Ok(Message::of_record(properties, self.topic(row)?, self.body(row)))
    }

    /// The topic of a row that is given beside its properties.
    fn topic(&self, row: usize) -> Result<Option<&'a str>, UnreadableRow> {
        let bytes = self.topic.as_ref().and_then(|texts| texts(row));
        bytes.map(std::str::from_utf8).transpose().map_err(|_| in_row("topic", row, "expected text in UTF-8"))
    }

    /// The body of a row that is given beside its properties.
    fn body(&self, row: usize) -> Option<Body<'a>> {
        self.body.as_ref().and_then(|texts| texts(row)).map(Body::from_bytes)
    }
}

/// The columns that the properties of a row come from.
enum PropertyColumns<'a> {
    /// A column per property, with its name. If they are the fields of a struct, its null rows have no properties.
    Columns { parent: Option<&'a StructArray>, columns: Vec<(&'a str, ValueDecoder<'a>)> },
    /// The column `properties`, as a mapping or null.
    Mapping(ValueDecoder<'a>),
}

impl<'a> PropertyColumns<'a> {
    fn of_all_columns(batch: &'a RecordBatch, is_asked: &IsAsked<'_>) -> Result<Self, EngineError> {
        let fields = batch.schema_ref().fields().iter().map(|field| field.name().as_str());
        let named = fields.zip(batch.columns()).filter(|(name, _)| is_asked(name));
        let read = |(name, array): (&'a str, &'a ArrayRef)| match column::value_decoder(array, 0) {
            Ok(decode) => Ok((name, decode)),
            Err(reason) => Err(in_column(name, &reason)),
        };
        Ok(Self::Columns { parent: None, columns: named.map(read).collect::<Result<_, _>>()? })
    }

    fn of_column(array: &'a dyn Array, is_asked: &'a IsAsked<'a>) -> Result<Self, EngineError> {
        let failed = |reason: String| in_column("properties", &reason);
        if let Some(texts) = column::texts(array) {
            let read = move |text: &[u8]| {
                let other =
                    |reason| json::parse(text).ok().filter(|other| !matches!(other, Value::Map(_))).ok_or(reason);
                json::parse_object(text, is_asked).map(Value::Map).or_else(other)
            };
            return Ok(Self::Mapping(Box::new(move |row| texts(row).map_or(Ok(Value::Null), read))));
        }
        if let Some(decode) = variant::value_decoder(array) {
            return Ok(Self::Mapping(decode));
        }
        match array.data_type() {
            DataType::Struct(_) => {
                let parent = array.as_struct();
                let columns = column::fields(parent, 0, is_asked).map_err(failed)?;
                Ok(Self::Columns { parent: Some(parent), columns })
            }
            DataType::Map(..) => column::value_decoder(array, 0).map(Self::Mapping).map_err(failed),
            other => Err(failed(format!("expected a struct, a map, JSON text or a variant, found {other}"))),
        }
    }

    /// Write the properties of `row` to `properties`. Names are kept from row to row, so that only values are allocated.
    fn read(&self, row: usize, properties: &mut Properties) -> Result<(), UnreadableRow> {
        match self {
            Self::Columns { parent: Some(parent), .. } if parent.is_null(row) => properties.clear(),
            Self::Columns { parent, columns } => {
                for (name, decode) in columns {
                    let value = decode(row).map_err(|reason| match parent {
                        None => in_row(name, row, &reason),
                        Some(_) => in_row(&format!("properties.{name}"), row, &reason),
                    })?;
                    match properties.get_mut(*name) {
                        Some(known) => *known = value,
                        None => _ = properties.insert((*name).into(), value),
                    }
                }
            }
            Self::Mapping(decode) => {
                *properties = match decode(row).map_err(|reason| in_row("properties", row, &reason))? {
                    Value::Map(properties) => properties,
                    Value::Null => Properties::default(),
                    _ => return Err(in_row("properties", row, "expected an object: names and values")),
                }
            }
        }
        Ok(())
    }
}

fn in_column(name: &str, reason: &str) -> EngineError {
    EngineError::Batch(format!("column '{name}': {reason}"))
}

fn in_row(column: &str, row: usize, reason: &str) -> UnreadableRow {
    UnreadableRow { row, column: column.to_owned(), reason: reason.to_owned() }
}
