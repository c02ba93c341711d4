//! Arrow columns as values of messages: a decoder for each type, chosen once per batch.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, GenericListArray, GenericListViewArray, OffsetSizeTrait, StructArray};
use arrow_schema::{DataType, TimeUnit};

use super::variant;
use crate::message::{NESTING_MAX, Properties, Value};

/// Decodes the value of a row, or says what is wrong with it.
pub type ValueDecoder<'a> = Box<dyn Fn(usize) -> Result<Value, String> + Send + Sync + 'a>;
/// Decodes the bytes of a row; None where it is null.
pub type BytesDecoder<'a> = Box<dyn Fn(usize) -> Option<&'a [u8]> + Send + Sync + 'a>;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// The decoder of `array`, `depth` levels below the message.
///
/// # Errors
/// A type that no property can have, or nesting that is too deep.
pub fn value_decoder(array: &dyn Array, depth: usize) -> Result<ValueDecoder<'_>, String> {
    if depth > NESTING_MAX {
        return Err(format!("expected nesting of at most {NESTING_MAX}"));
    }
    if let Some(decode) = variant::value_decoder(array) {
        return Ok(decode);
    }
    let decode = present_decoder(array, depth)?;
    Ok(match array.null_count() {
        0 => decode,
        _ => Box::new(move |row| if array.is_null(row) { Ok(Value::Null) } else { decode(row) }),
    })
}

/// The decoders of those fields of a struct that are asked for, by name.
///
/// # Errors
/// The errors of [`value_decoder`], with the field's name.
pub fn fields<'a>(
    array: &'a StructArray,
    depth: usize,
    is_asked: &dyn Fn(&str) -> bool,
) -> Result<Vec<(&'a str, ValueDecoder<'a>)>, String> {
    let named = array.fields().iter().map(|field| field.name().as_str()).zip(array.columns());
    named
        .filter(|(name, _)| is_asked(name))
        .map(|(name, array)| {
            value_decoder(array, depth + 1).map(|decode| (name, decode)).map_err(|e| format!("field '{name}': {e}"))
        })
        .collect()
}

/// The decoder of text or bytes; None when `array` holds something else. A column of type null counts as text.
pub fn texts(array: &dyn Array) -> Option<BytesDecoder<'_>> {
    macro_rules! bytes_of {
        ($array:expr) => {{
            let array = $array;
            Some(Box::new(move |row| array.is_valid(row).then(|| array.value(row).as_ref())))
        }};
    }
    match array.data_type() {
        DataType::Null => Some(Box::new(|_| None)),
        DataType::Utf8 => bytes_of!(array.as_string::<i32>()),
        DataType::LargeUtf8 => bytes_of!(array.as_string::<i64>()),
        DataType::Utf8View => bytes_of!(array.as_string_view()),
        DataType::Binary => bytes_of!(array.as_binary::<i32>()),
        DataType::LargeBinary => bytes_of!(array.as_binary::<i64>()),
        DataType::BinaryView => bytes_of!(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => bytes_of!(array.as_fixed_size_binary()),
        DataType::Dictionary(..) => {
            let (keys, values) = dictionary(array);
            let texts = texts(values)?;
            Some(Box::new(move |row| keys.get(row).filter(|_| array.is_valid(row)).and_then(|key| texts(*key))))
        }
        _ => None,
    }
}

/// The key of each row of a dictionary column (none when the dictionary is empty), and the values.
fn dictionary(array: &dyn Array) -> (Vec<usize>, &dyn Array) {
    let array = array.as_any_dictionary();
    let keys = if array.values().is_empty() { Vec::new() } else { array.normalized_keys() };
    (keys, array.values())
}

/// The decoder of rows that are not null.
fn present_decoder(array: &dyn Array, depth: usize) -> Result<ValueDecoder<'_>, String> {
    if let Some(texts) = texts(array) {
        return Ok(Box::new(move |row| Ok(texts(row).map_or(Value::Null, text_value))));
    }
    Ok(match array.data_type() {
        DataType::Boolean => {
            let array = array.as_boolean();
            Box::new(move |row| Ok(Value::Bool(array.value(row))))
        }
        DataType::Int8 => primitive::<Int8Type>(array, |value| Ok(Value::Int(value.into()))),
        DataType::Int16 => primitive::<Int16Type>(array, |value| Ok(Value::Int(value.into()))),
        DataType::Int32 => primitive::<Int32Type>(array, |value| Ok(Value::Int(value.into()))),
        DataType::Int64 => primitive::<Int64Type>(array, |value| Ok(Value::Int(value))),
        DataType::UInt8 => primitive::<UInt8Type>(array, |value| Ok(Value::Int(value.into()))),
        DataType::UInt16 => primitive::<UInt16Type>(array, |value| Ok(Value::Int(value.into()))),
        DataType::UInt32 => primitive::<UInt32Type>(array, |value| Ok(Value::Int(value.into()))),
        DataType::UInt64 => primitive::<UInt64Type>(array, |value| {
            i64::try_from(value).map(Value::Int).map_err(|_| format!("{value} is beyond a signed integer of 64 bits"))
        }),
        DataType::Float16 => primitive::<Float16Type>(array, |value| Ok(Value::Float(value.to_f64()))),
        DataType::Float32 => primitive::<Float32Type>(array, |value| Ok(Value::Float(value.into()))),
        DataType::Float64 => primitive::<Float64Type>(array, |value| Ok(Value::Float(value))),
        DataType::Decimal32(_, scale) => decimal::<Decimal32Type>(array, *scale),
        DataType::Decimal64(_, scale) => decimal::<Decimal64Type>(array, *scale),
        DataType::Decimal128(_, scale) => decimal::<Decimal128Type>(array, *scale),
        DataType::Decimal256(_, scale) => decimal::<Decimal256Type>(array, *scale),
        DataType::Timestamp(TimeUnit::Second, _) => instants::<TimestampSecondType>(array, MICROS_PER_SECOND),
        DataType::Timestamp(TimeUnit::Millisecond, _) => instants::<TimestampMillisecondType>(array, 1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => instants::<TimestampMicrosecondType>(array, 1),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive::<TimestampNanosecondType>(array, |value| Ok(Value::Timestamp(value.div_euclid(1_000))))
        }
        DataType::Date32 => instants::<Date32Type>(array, MICROS_PER_DAY),
        DataType::Date64 => instants::<Date64Type>(array, 1_000),
        DataType::Dictionary(..) => {
            let (keys, values) = dictionary(array);
            let decode = value_decoder(values, depth)?;
            Box::new(move |row| keys.get(row).map_or(Ok(Value::Null), |key| decode(*key)))
        }
        DataType::Struct(_) => {
            let fields = fields(array.as_struct(), depth, &|_| true)?;
            Box::new(move |row| {
                let decode = |(name, decode): &(&str, ValueDecoder<'_>)| Ok(((*name).into(), decode(row)?));
                fields.iter().map(decode).collect::<Result<Properties, String>>().map(Value::Map)
            })
        }
        DataType::Map(..) => map(array, depth)?,
        _ => list(array, depth)?,
    })
}

/// Text if the bytes are UTF-8; otherwise a field without a value.
pub fn text_value(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or(Value::Present, |text| Value::Text(text.into()))
}

fn primitive<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    convert: impl Fn(T::Native) -> Result<Value, String> + Send + Sync + 'a,
) -> ValueDecoder<'a> {
    let array = array.as_primitive::<T>();
    Box::new(move |row| convert(array.value(row)))
}

/// A count of units since 1970-01-01, each of `micros` microseconds.
fn instants<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array, micros: i64) -> ValueDecoder<'_> {
    primitive::<T>(array, move |value| {
        let instant = value.into().checked_mul(micros).map(Value::Timestamp);
        instant.ok_or_else(|| "an instant beyond 64 bits of microseconds".to_owned())
    })
}

fn decimal<T: ArrowPrimitiveType<Native: ToString>>(array: &dyn Array, scale: i8) -> ValueDecoder<'_> {
    primitive::<T>(array, move |value| Ok(Value::Float(decimal_value(&value.to_string(), scale))))
}

/// The float nearest to `unscaled` / 10^`scale`, by way of text, which rounds once.
pub fn decimal_value(unscaled: &str, scale: i8) -> f64 {
    format!("{unscaled}e{}", -i16::from(scale)).parse().unwrap_or(f64::NAN)
}

/// A mapping with text keys.
fn map(array: &dyn Array, depth: usize) -> Result<ValueDecoder<'_>, String> {
    let array = array.as_map();
    let keys = texts(array.keys()).ok_or_else(|| format!("expected keys of text, found {}", array.key_type()))?;
    let values = value_decoder(array.values(), depth + 1)?;
    let offsets = array.value_offsets();
    Ok(Box::new(move |row| {
        let property = |index: usize| {
            let key = keys(index).and_then(|key| std::str::from_utf8(key).ok());
            Ok((key.ok_or("expected keys of text in UTF-8")?.into(), values(index)?))
        };
        span(offsets, row).map(property).collect::<Result<Properties, String>>().map(Value::Map)
    }))
}

fn list(array: &dyn Array, depth: usize) -> Result<ValueDecoder<'_>, String> {
    match array.data_type() {
        DataType::List(_) => offset_list(array.as_list::<i32>(), depth),
        DataType::LargeList(_) => offset_list(array.as_list::<i64>(), depth),
        DataType::ListView(_) => list_view(array.as_list_view::<i32>(), depth),
        DataType::LargeListView(_) => list_view(array.as_list_view::<i64>(), depth),
        DataType::FixedSizeList(..) => {
            let array = array.as_fixed_size_list();
            let length = usize::try_from(array.value_length()).unwrap_or(0);
            elements(array.values(), depth, move |row| row * length..(row + 1) * length)
        }
        other => Err(format!("a column of type {other} cannot be a property")),
    }
}

fn offset_list<O: OffsetSizeTrait>(array: &GenericListArray<O>, depth: usize) -> Result<ValueDecoder<'_>, String> {
    elements(array.values(), depth, move |row| span(array.value_offsets(), row))
}

fn list_view<O: OffsetSizeTrait>(array: &GenericListViewArray<O>, depth: usize) -> Result<ValueDecoder<'_>, String> {
    elements(array.values(), depth, move |row| {
        let start = array.value_offsets()[row].as_usize();
        start..start + array.value_sizes()[row].as_usize()
    })
}

/// Lists: the elements of a row are at `range(row)` of `values`.
fn elements<'a>(
    values: &'a dyn Array,
    depth: usize,
    range: impl Fn(usize) -> Range<usize> + Send + Sync + 'a,
) -> Result<ValueDecoder<'a>, String> {
    let decode = value_decoder(values, depth + 1)?;
    Ok(Box::new(move |row| range(row).map(&decode).collect::<Result<_, _>>().map(Value::List)))
}

fn span<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> Range<usize> {
    offsets[row].as_usize()..offsets[row + 1].as_usize()
}
