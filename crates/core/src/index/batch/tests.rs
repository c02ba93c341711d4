//! Tests columns of every type as messages, rows against single matches, and invalid variants.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int64Builder, ListBuilder, MapBuilder, StringBuilder, StringDictionaryBuilder,
};
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::*;
use arrow_schema::Field;

use super::*;
use crate::query::selector::{SelectorDialect, parse};
use crate::testing::{Random, fewer, rounds};

fn engine(selectors: &[&str]) -> Engine {
    let engine = Engine::new();
    for text in selectors {
        engine.add(Arc::new(parse(text, SelectorDialect::Jms).expect(text)));
    }
    engine
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of one length")
}

fn rows(lists: &ListArray) -> Vec<Vec<u64>> {
    (0..lists.len()).map(|row| lists.value(row).as_primitive::<UInt64Type>().values().to_vec()).collect()
}

/// The selectors that are true of the first row of a one-column table, read as the property `x`.
fn holds(array: ArrayRef, selector: &str) -> bool {
    let matched = engine(&[selector]).match_batch(&batch(vec![("x", array)]), 1).expect("readable");
    rows(&matched)[0] == [0]
}

fn refusal(columns: Vec<(&str, ArrayRef)>) -> String {
    engine(&["x = 1"]).match_batch(&batch(columns), 1).expect_err("unreadable").to_string()
}

#[test]
fn every_type_of_column_becomes_the_value_that_it_means() {
    let day = "x = TIMESTAMP '2002-08-22T00:00:00Z'";
    let micros = 1_029_974_400_000_000_i64;
    let cases: Vec<(ArrayRef, &str)> = vec![
        (Arc::new(BooleanArray::from(vec![true])), "x"),
        (Arc::new(Int8Array::from(vec![-1])), "x = -1"),
        (Arc::new(Int16Array::from(vec![-1])), "x = -1"),
        (Arc::new(Int32Array::from(vec![-1])), "x = -1"),
        (Arc::new(Int64Array::from(vec![i64::MIN])), "x = -9223372036854775808"),
        (Arc::new(UInt8Array::from(vec![255])), "x = 255"),
        (Arc::new(UInt16Array::from(vec![1])), "x = 1"),
        (Arc::new(UInt32Array::from(vec![u32::MAX])), "x = 4294967295"),
        (Arc::new(UInt64Array::from(vec![1])), "x = 1"),
        (Arc::new(Float32Array::from(vec![0.5])), "x = 0.5"),
        (Arc::new(Float64Array::from(vec![0.1])), "x = 0.1"),
        (
            Arc::new(Decimal128Array::from(vec![1_234_567]).with_precision_and_scale(20, 4).expect("fits")),
            "x = 123.4567",
        ),
        (Arc::new(Decimal128Array::from(vec![12]).with_precision_and_scale(20, -2).expect("fits")), "x = 1200"),
        (Arc::new(StringArray::from(vec!["é"])), "x = 'é'"),
        (Arc::new(LargeStringArray::from(vec!["é"])), "x = 'é'"),
        (Arc::new(StringViewArray::from(vec!["é"])), "x = 'é'"),
        (Arc::new(BinaryArray::from(vec!["é".as_bytes()])), "x = 'é'"),
        (Arc::new(BinaryArray::from(vec![b"\xff".as_slice()])), "EXISTS(x) AND x IS NOT NULL"),
        (Arc::new(TimestampSecondArray::from(vec![micros / 1_000_000])), day),
        (Arc::new(TimestampMillisecondArray::from(vec![micros / 1_000]).with_timezone("+02:00")), day),
        (Arc::new(TimestampMicrosecondArray::from(vec![micros])), day),
        (Arc::new(TimestampNanosecondArray::from(vec![micros * 1_000 + 999])), day),
        (Arc::new(Date32Array::from(vec![11_921])), day),
        (Arc::new(Date64Array::from(vec![micros / 1_000])), day),
        (Arc::new(NullArray::new(1)), "x IS NULL"),
        (Arc::new(Int64Array::from(vec![None::<i64>])), "x IS NULL"),
        (Arc::new(DictionaryArray::<Int32Type>::from_iter(["b", "a"])), "x = 'b'"),
        (Arc::new(DictionaryArray::<Int32Type>::from_iter([None, Some("a")])), "x IS NULL"),
        (Arc::new(DictionaryArray::<Int32Type>::from_iter([None::<&str>])), "x IS NULL"),
    ];
    for (array, selector) in cases {
        let kind = array.data_type().clone();
        assert!(holds(array, selector), "{kind}: {selector}");
    }
}

#[test]
fn lists_structs_and_maps_nest() {
    let mut list = ListBuilder::new(Int64Builder::new());
    list.append_value([Some(1), None, Some(3)]);
    let list: ArrayRef = Arc::new(list.finish());
    assert!(holds(list.clone(), "x = 3"));
    let inner = Field::new("n", list.data_type().clone(), true);
    let nested: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(inner), list)]));
    assert!(holds(nested.clone(), "x.n = 3"));
    let views: ArrayRef =
        Arc::new(ListViewArray::from(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(7)])])));
    assert!(holds(views, "x = 7"));
    let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([None, Some([Some(1), Some(2)])], 2);
    assert!(holds(Arc::new(fixed.slice(1, 1)), "x = 2"));

    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for (key, value) in [("Subject", "frost"), ("To", "all")] {
        map.keys().append_value(key);
        map.values().append_value(value);
    }
    map.append(true).expect("as many keys as values");
    map.append(false).expect("a null row");
    let map: ArrayRef = Arc::new(map.finish());
    assert!(holds(map.clone(), "x.Subject = 'frost'"));

    let selectors = engine(&["Subject = 'frost'", "n = 3"]);
    let matched = selectors.match_batch(&batch(vec![("properties", map)]), 1).expect("readable");
    assert_eq!(rows(&matched), [vec![0], vec![]]);
    let matched = selectors.match_batch(&batch(vec![("properties", nested)]), 1).expect("readable");
    assert_eq!(rows(&matched), [[1]]);
}

#[test]
fn topic_body_and_properties_are_taken_from_their_columns_and_nothing_else() {
    let engine = engine(&["TOPIC('a.*')", "CONTAINS(body, 'frost')", "n = 1", "topic IS NOT NULL", "other = 1"]);
    let mut topic = StringDictionaryBuilder::<Int32Type>::new();
    topic.extend([Some("a.b"), None, Some("b")]);
    let mut body = BinaryBuilder::new();
    body.extend([Some("First frost".as_bytes()), None, Some(b"\xff frost")]);
    let table = batch(vec![
        ("topic", Arc::new(topic.finish())),
        ("body", Arc::new(body.finish())),
        ("properties", Arc::new(StringArray::from(vec![Some(r#"{"n": 1.0}"#), None, Some("null")]))),
        ("other", Arc::new(Int64Array::from(vec![1, 1, 1]))),
    ]);
    assert_eq!(rows(&engine.match_batch(&table, 1).expect("readable")), [vec![0, 1, 2, 3], vec![3], vec![3]]);
    let other = table.project(&[3]).expect("a column");
    assert_eq!(rows(&engine.match_batch(&other, 1).expect("readable")), [[3, 4], [3, 4], [3, 4]]);
    assert_eq!(rows(&engine.match_batch(&other.slice(0, 0), 4).expect("readable")), Vec::<Vec<u64>>::new());
}

#[test]
fn topic_and_body_are_read_also_where_other_columns_are_left_out() {
    let engine = engine(&["TOPIC('a.*')", "CONTAINS(body, 'frost')"]);
    let texts = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; 200])) };
    let table = batch(vec![("topic", texts("a.b")), ("body", texts("Frost")), ("other", texts("x"))]);
    assert_eq!(rows(&engine.match_batch(&table, 1).expect("readable")), vec![vec![0, 1]; 200]);
}

#[test]
fn without_a_column_of_properties_the_row_is_the_record() {
    let engine =
        engine(&["topic = 'a.b'", "\"topic\" = 'a.b'", "CONTAINS(body, 'frost')", "\"body\" = 5", "topic = ''"]);
    let texts = |values: Vec<Option<&str>>| Arc::new(StringArray::from(values)) as ArrayRef;
    let (topics, bodies) = (texts(vec![Some("a.b"), None]), texts(vec![Some("first frost"), None]));
    let rows_of = |columns| rows(&engine.match_batch(&batch(columns), 1).expect("readable"));
    assert_eq!(rows_of(vec![("topic", topics.clone()), ("body", bodies.clone())]), [vec![0, 1, 2], vec![4]]);
    assert_eq!(rows_of(vec![("topic", topics.clone()), ("Body", bodies)]), [vec![0, 1, 2], vec![4]]);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
    assert_eq!(rows_of(vec![("body", numbers)]), [vec![3, 4], vec![4]]);
    let records = texts(vec![Some(r#"{"topic": "a.b", "body": "frost"}"#), Some(r#"{"topic": "a.b"}"#)]);
    assert_eq!(rows_of(vec![("properties", records.clone())]), [vec![0, 1, 2], vec![0, 1]]);
    let given = texts(vec![Some("x"), None]);
    assert_eq!(rows_of(vec![("properties", records), ("topic", given)]), [vec![1, 2], vec![0, 1]]);
}

#[test]
fn a_null_struct_has_no_properties_and_keeps_none_of_the_row_before() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2]));
    let fields = vec![Field::new("n", DataType::Int64, true)];
    let nulls = vec![true, false, true].into();
    let table = batch(vec![("properties", Arc::new(StructArray::new(fields.into(), vec![values], Some(nulls))))]);
    let engine = engine(&["n = 1", "EXISTS(n)"]);
    assert_eq!(rows(&engine.match_batch(&table, 1).expect("readable")), [vec![0, 1], vec![], vec![1]]);
}

#[test]
fn what_cannot_be_read_is_named_by_column_and_row() {
    let duration: ArrayRef = Arc::new(DurationSecondArray::from(vec![1]));
    assert_eq!(refusal(vec![("x", duration)]), "column 'x': a column of type Duration(s) cannot be a property");
    let large: ArrayRef = Arc::new(UInt64Array::from(vec![0, u64::MAX]));
    assert!(refusal(vec![("x", large)]).starts_with("column 'x', row 1: 18446744073709551615 is beyond"));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let beside: ArrayRef = Arc::new(StringArray::from(vec!["{}"]));
    let columns = vec![("topic", number.clone()), ("properties", beside)];
    assert_eq!(refusal(columns), "column 'topic': expected text, found Int64");
    assert!(refusal(vec![("properties", number)]).contains("expected a struct, a map, JSON text"));
    let json = |text: &str| vec![("properties", Arc::new(StringArray::from(vec!["{}", text])) as ArrayRef)];
    assert!(refusal(json("{")).starts_with("column 'properties', row 1: EOF"));
    assert!(refusal(json("[1]")).contains("row 1: expected an object"));
    let early: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
    assert!(refusal(vec![("x", early)]).contains("beyond 64 bits"));
}

#[test]
fn rows_that_cannot_be_read_are_listed_and_the_others_matched() {
    let texts: Vec<_> = (0..400).map(|row| if row % 150 == 7 { "{" } else { r#"{"x": 1}"# }).collect();
    let table = batch(vec![("properties", Arc::new(StringArray::from(texts)))]);
    for threads in [1, 3] {
        let matches = engine(&["x = 1"]).match_rows(&table, threads).expect("readable");
        assert_eq!(matches.unreadable.iter().map(|bad| bad.row).collect::<Vec<_>>(), [7, 157, 307]);
        assert!(matches.unreadable[0].reason.starts_with("EOF") && matches.unreadable[0].column == "properties");
        let nulls: Vec<_> = (0..400).filter(|row| matches.ids.is_null(*row)).collect();
        assert_eq!((nulls, matches.ids.values().len()), (vec![7, 157, 307], 397));
    }
}

#[test]
fn columns_that_no_query_asks_for_do_not_matter() {
    let mut columns = vec![("x", Arc::new(Int64Array::from(vec![1, 1])) as ArrayRef)];
    columns.push(("span", Arc::new(DurationSecondArray::from(vec![1, 2]))));
    columns.push(("large", Arc::new(UInt64Array::from(vec![0, u64::MAX]))));
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    let of_struct = batch(vec![("properties", Arc::new(StructArray::new(fields.into(), arrays, None)) as ArrayRef)]);
    let many: Vec<_> = (0..1_000).map(|n| format!("x = 1 AND y <> {n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).chain(["x = 1"]).collect();
    for engine in [engine(&["x = 1"]), engine(&many)] {
        let all: Vec<_> = (0..engine.len() as u64).filter(|id| *id + 1 == engine.len() as u64).collect();
        for table in [batch(columns.clone()), of_struct.clone()] {
            assert_eq!(rows(&engine.match_batch(&table, 1).expect("readable")), [all.clone(), all.clone()]);
        }
    }
    let asking = engine(&["x = 1", "span.seconds = 1"]);
    assert!(asking.match_batch(&batch(columns.clone()), 1).expect_err("asked for").to_string().contains("'span'"));
    let asked = asking.asked().expect("in memory");
    assert_eq!(["span", "large", "x"].map(|name| asked.has(name)), [true, false, true]);
    assert!(engine(&["large = 1"]).match_rows(&batch(columns), 1).is_ok_and(|found| found.unreadable.len() == 1));
}

#[test]
fn any_number_of_threads_gives_the_answers_of_single_matches() {
    let mut random = Random(23);
    let engine = engine(&["x = 1", "x IN (2, 3) OR y = 'a'", "NOT y = 'b'", "x > 5", "y LIKE 'a%'"]);
    let xs: Vec<_> = (0..fewer(2_000)).map(|_| (random.below(5) > 0).then(|| random.below(8) as i64)).collect();
    let ys: Vec<_> = (0..fewer(2_000)).map(|_| ["a", "b", "ab"].get(random.below(4)).copied()).collect();
    let table =
        batch(vec![("x", Arc::new(Int64Array::from(xs.clone()))), ("y", Arc::new(StringArray::from(ys.clone())))]);
    let single = |(x, y): (Option<i64>, Option<&str>)| {
        let x = x.map_or(Value::Null, Value::Int);
        let y = y.map_or(Value::Null, |y| Value::Text(y.into()));
        let properties = [("x".into(), x), ("y".into(), y)].into_iter().collect();
        let mut matched = Vec::new();
        let message = Message::new("", &properties, Body::Absent);
        engine.match_into(&message, &mut Scratch::new(), &mut matched).expect("in memory");
        matched.into_iter().map(|id| id.0).collect::<Vec<_>>()
    };
    let expected: Vec<_> = xs.into_iter().zip(ys).map(single).collect();
    for threads in [0, 1, 2, 3, 7, 10_000] {
        assert_eq!(rows(&engine.match_batch(&table, threads).expect("readable")), expected, "{threads} threads");
    }
}

/// `{"a": 1, "b": [true, null, "text"], "c": {"d": -2.5e3, "price": 12.75}, "e": 12345678901, "long": "x" * 70}`
/// as Spark 4 encodes it.
const VALUE: &str = "\
    0205000102050600020f252e790c01030300010207040011746578740202030400090f1c000000000088a3c02002fb040000\
    18351cdcdf020000004046000000787878787878787878787878787878787878787878787878787878787878787878787878\
    78787878787878787878787878787878787878787878787878787878787878787878";
const METADATA: &str = "01070001020304090a0e616263647072696365656c6f6e67";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// A column of one variant, as Spark makes it.
fn variant_column() -> StructArray {
    let column = |name, hex| {
        let array: ArrayRef = Arc::new(BinaryArray::from(vec![bytes(hex).as_slice()]));
        (Arc::new(Field::new(name, DataType::Binary, false)), array)
    };
    StructArray::from(vec![column("value", VALUE), column("metadata", METADATA)])
}

#[test]
fn a_variant_beside_other_columns_is_a_property() {
    let field = Arc::new(Field::new("v", variant_column().data_type().clone(), false));
    let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, Arc::new(variant_column()) as ArrayRef)]));
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let engine = engine(&["v.a = 1 AND n = 1", "v.c.price = 12.75", "s.v.a = 1", "v.value IS NULL", "a IS NULL"]);
    let columns = vec![("v", Arc::new(variant_column()) as ArrayRef), ("n", one), ("s", nested)];
    let matched = engine.match_batch(&batch(columns), 1).expect("readable");
    assert_eq!(rows(&matched), [[0, 1, 2, 3, 4]]);
}

#[test]
fn a_variant_of_spark_is_properties() {
    let variant = variant_column();
    let engine = engine(&[
        "a = 1",
        "b = 'text' AND b",
        "c.d = -2500",
        "c.price = 12.75",
        "e = 12345678901",
        "long LIKE 'xxx%'",
        "f IS NULL",
    ]);
    let matched = engine.match_batch(&batch(vec![("properties", Arc::new(variant))]), 1).expect("readable");
    assert_eq!(rows(&matched), [[0, 1, 2, 3, 4, 5, 6]]);
}

#[test]
fn a_damaged_variant_is_refused_or_read_and_never_crashes() {
    let (value, metadata) = (bytes(VALUE), bytes(METADATA));
    for offset in rounds(0..value.len() + metadata.len()) {
        for replacement in rounds(0..=255) {
            let (mut value, mut metadata) = (value.clone(), metadata.clone());
            match offset.checked_sub(value.len()) {
                None => value[offset] = replacement,
                Some(offset) => metadata[offset] = replacement,
            }
            _ = variant::decode(&value, &metadata);
        }
    }
    for length in rounds(0..value.len()) {
        _ = variant::decode(&value[..length], &metadata);
    }
    // Arrays of two elements that are the same bytes, one in the other: 2^90 values if they were read.
    let bomb: Vec<u8> = (0..90).flat_map(|_| [3, 2, 0, 0, 1]).chain([0]).collect();
    assert!(variant::decode(&bomb, &metadata).expect_err("a bomb").contains("repeats"));
}
