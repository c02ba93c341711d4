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
use crate::index::{Engine, Scratch, SubscriptionId};
use crate::json;
use crate::message::{Body, Message, Properties, Value};
use column::{BytesDecoder, ValueDecoder};

/// Minimum number of rows per thread.
const ROWS_PER_THREAD_MIN: usize = 128;

impl Engine {
    /// The ids of the subscriptions that each row of `batch` satisfies, ascending.
    ///
    /// Up to `threads` threads share the rows. Bytes that are not UTF-8 become a property without a value; timestamps and
    /// dates become instants, in UTC if they have no zone; decimals become floats.
    ///
    /// # Errors
    /// A column of a type that no property can have, a value beyond 64 bits, JSON or a variant that cannot be decoded (named
    /// by column and row); more than 2^31 matches; a damaged snapshot.
    pub fn match_batch(&self, batch: &RecordBatch, threads: usize) -> Result<ListArray, EngineError> {
        let rows = MessageRows::new(batch)?;
        let share = batch.num_rows().div_ceil(threads.max(1)).max(ROWS_PER_THREAD_MIN);
        let starts = (0..batch.num_rows()).step_by(share);
        let ranges: Vec<_> = starts.map(|start| start..batch.num_rows().min(start + share)).collect();
        let parts = match ranges.as_slice() {
            [single] => vec![self.match_rows(&rows, single.clone())?],
            several => self.match_in_threads(&rows, several)?,
        };
        join(&parts)
    }

    fn match_in_threads(
        &self,
        rows: &MessageRows<'_>,
        ranges: &[Range<usize>],
    ) -> Result<Vec<MatchedRows>, EngineError> {
        scope(|scope| {
            let start = |range: &Range<usize>| {
                let range = range.clone();
                Builder::new().spawn_scoped(scope, move || self.match_rows(rows, range))
            };
            let threads = ranges.iter().map(start).collect::<Result<Vec<_>, _>>()?;
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    fn match_rows(&self, rows: &MessageRows<'_>, range: Range<usize>) -> Result<MatchedRows, EngineError> {
        let (mut scratch, mut properties) = (Scratch::new(), Properties::new());
        let mut matched = MatchedRows { ids: Vec::new(), ends: Vec::with_capacity(range.len()) };
        for row in range {
            rows.properties.read(row, &mut properties)?;
            let message = Message::of_record(&properties, rows.topic(row)?, rows.body(row));
            self.match_into(&message, &mut scratch, &mut matched.ids)?;
            matched.ends.push(matched.ids.len());
        }
        Ok(matched)
    }
}

/// The ids that several rows match, one after the other, and where those of each row end.
struct MatchedRows {
    ids: Vec<SubscriptionId>,
    ends: Vec<usize>,
}

fn join(parts: &[MatchedRows]) -> Result<ListArray, EngineError> {
    let count = parts.iter().map(|part| part.ids.len()).sum();
    if i32::try_from(count).is_err() {
        let reason = format!("{count} matches in one batch, more than a list array holds: send fewer rows at a time");
        return Err(EngineError::Row(reason));
    }
    let rows = parts.iter().map(|part| part.ends.len()).sum();
    let mut builder = ListBuilder::with_capacity(UInt64Builder::with_capacity(count), rows);
    for part in parts {
        let mut start = 0;
        for &end in &part.ends {
            part.ids[start..end].iter().for_each(|id| builder.values().append_value(id.0));
            builder.append(true);
            start = end;
        }
    }
    Ok(builder.finish())
}

/// The columns of a batch as records.
struct MessageRows<'a> {
    /// The columns beside a column `properties`; None without one.
    topic: Option<BytesDecoder<'a>>,
    body: Option<BytesDecoder<'a>>,
    properties: PropertyColumns<'a>,
}

impl<'a> MessageRows<'a> {
    fn new(batch: &'a RecordBatch) -> Result<Self, EngineError> {
        let Some(array) = batch.column_by_name("properties") else {
            return Ok(Self { topic: None, body: None, properties: PropertyColumns::of_all_columns(batch)? });
        };
        let texts = |name: &str| {
            let Some(array) = batch.column_by_name(name) else { return Ok(None) };
            let expected = || in_column(name, &format!("expected text, found {}", array.data_type()));
            column::texts(array).map(Some).ok_or_else(expected)
        };
        Ok(Self { topic: texts("topic")?, body: texts("body")?, properties: PropertyColumns::of_column(array)? })
    }

    /// The topic of a row that is given beside its properties.
    fn topic(&self, row: usize) -> Result<Option<&'a str>, EngineError> {
        let bytes = self.topic.as_ref().and_then(|texts| texts(row));
        let text = bytes.map(std::str::from_utf8).transpose();
        text.map_err(|_| in_row("topic", row, "expected text in UTF-8"))
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
    fn of_all_columns(batch: &'a RecordBatch) -> Result<Self, EngineError> {
        let fields = batch.schema_ref().fields().iter().map(|field| field.name().as_str());
        let named = fields.zip(batch.columns());
        let read = |(name, array): (&'a str, &'a ArrayRef)| match column::value_decoder(array, 0) {
            Ok(decode) => Ok((name, decode)),
            Err(reason) => Err(in_column(name, &reason)),
        };
        Ok(Self::Columns { parent: None, columns: named.map(read).collect::<Result<_, _>>()? })
    }

    fn of_column(array: &'a dyn Array) -> Result<Self, EngineError> {
        let failed = |reason: String| in_column("properties", &reason);
        if let Some(texts) = column::texts(array) {
            return Ok(Self::Mapping(Box::new(move |row| texts(row).map_or(Ok(Value::Null), json::parse))));
        }
        if let Some(decode) = variant::value_decoder(array) {
            return Ok(Self::Mapping(decode));
        }
        match array.data_type() {
            DataType::Struct(_) => {
                let parent = array.as_struct();
                let columns = column::fields(parent, 0).map_err(failed)?;
                Ok(Self::Columns { parent: Some(parent), columns })
            }
            DataType::Map(..) => column::value_decoder(array, 0).map(Self::Mapping).map_err(failed),
            other => Err(failed(format!("expected a struct, a map, JSON text or a variant, found {other}"))),
        }
    }

    /// Write the properties of `row` to `properties`. Names are kept from row to row, so that only values are allocated.
    fn read(&self, row: usize, properties: &mut Properties) -> Result<(), EngineError> {
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
                    Value::Null => Properties::new(),
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

fn in_row(name: &str, row: usize, reason: &str) -> EngineError {
    EngineError::Row(format!("column '{name}', row {row}: {reason}"))
}
