//! The class `tamis.Query`, and the functions that make one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use tamis_core::error::QueryError;
use tamis_core::expensive::Opaque;
use tamis_core::message::{Message, Value};
use tamis_core::query::expr::{Expr, Predicate, Reference};
use tamis_core::query::structure::Structure;
use tamis_core::query::{self, boolean as boolean_language, named, selector as selector_language};
use tamis_core::topic::{TopicDialect, TopicPattern};

use crate::arguments;
use crate::convert::{self, PyBody};
use crate::errors::{query_error, query_warning};
use crate::opaque::interruptible;

/// An expensive predicate: name, declared microseconds, calls, errors, measured microseconds, the last error.
type OpaqueRow<'q> = (&'q str, f64, u64, u64, Option<f64>, Option<String>);

/// A compiled query, which is true, false or unknown for a message.
///
/// The functions of `tamis` (`selector`, `topic`, ...) make it. It is immutable and thread-safe.
///
/// - ``q & r``, ``q | r`` and ``~q`` combine queries of all languages.
/// - Two queries are equal if they are written alike, and then have the same hash.
/// - ``str(q)`` is selector text, and ``tamis.selector(str(q)) == q``.
/// - A query can be copied. It can be pickled unless it has an expensive predicate (`tamis.opaque`).
#[pyclass(frozen, eq, module = "tamis", name = "Query")]
#[derive(PartialEq)]
pub struct PyQuery(pub Arc<query::Query>);

impl PyQuery {
    fn of(py: Python<'_>, made: Result<query::Query, QueryError>) -> PyResult<Self> {
        made.map(|query| Self(Arc::new(query))).map_err(|error| query_error(py, error))
    }

    pub fn from_predicate(py: Python<'_>, predicate: Predicate) -> PyResult<Self> {
        Self::of(py, query::Query::new(predicate.into()))
    }

    fn combine(&self, py: Python<'_>, other: &Self, join: fn(Vec<Expr>) -> Expr) -> PyResult<Self> {
        let joined = query::Query::new(join(vec![self.0.expr().clone(), other.0.expr().clone()]));
        let warnings = self.0.warnings().iter().chain(other.0.warnings()).cloned();
        Self::of(py, joined.map(|query| query.with_warnings(warnings)))
    }
}

#[pymethods]
impl PyQuery {
    /// Return True, False, or None for unknown.
    ///
    /// Args:
    ///     properties: the record, name -> value. Its keys ``topic`` and ``body`` are the parts that are not given, if
    ///         they are texts.
    ///     topic: dotted words; without it and the key, the empty text.
    ///     body: text, or bytes that are text when they are valid UTF-8; without it and the key there is no body.
    ///     hierarchies: attribute -> {value: parent or None}, for UNDER, which is unknown without it.
    ///     signature: the signature of `body`, if you have it; the result is the same without it.
    ///
    /// Raises:
    ///     TypeError: an argument or a property has a type that it cannot have; the text names it.
    ///     ValueError: an integer is beyond 64 bits, a text has half of a surrogate pair, the nesting is over 100, or a
    ///         hierarchy has a cycle or a parent that is not in it.
    ///
    /// Cost: per predicate, linear in the message.
    #[pyo3(signature = (properties=None, topic=None, body=None, *, hierarchies=None, signature=None))]
    fn evaluate(
        &self,
        py: Python<'_>,
        properties: Option<&Bound<'_, PyAny>>,
        topic: Option<&Bound<'_, PyAny>>,
        body: Option<Bound<'_, PyAny>>,
        hierarchies: Option<&Bound<'_, PyAny>>,
        signature: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<bool>> {
        let properties = convert::properties(properties)?;
        let topic = topic.map(|topic| arguments::text(topic, "topic")).transpose()?;
        let hierarchies = convert::hierarchies(hierarchies)?;
        let body = body.map(PyBody::new).transpose()?;
        let body = body.as_ref().map(PyBody::borrow).transpose()?;
        let (query, signature) = (&self.0, arguments::signature(signature)?);
        py.detach(|| {
            let mut message = Message::of_record(&properties, topic, body);
            if let Some(signature) = signature {
                message = message.with_signature(signature);
            }
            interruptible(|| query.evaluate(&message, hierarchies.as_ref()))
        })
    }

    /// Return the ranges of characters in `body` that made text predicates true, ascending.
    ///
    /// Args:
    ///     properties: the record, as for `evaluate`.
    ///     topic: dotted words.
    ///     body: text; bytes that are not text have no ranges.
    ///
    /// Returns:
    ///     Pairs (start, end), as in ``body[start:end]``.
    ///
    /// Raises:
    ///     TypeError, ValueError: as `evaluate`.
    ///
    /// Cost: per text predicate, linear in the body.
    #[pyo3(signature = (properties=None, topic=None, body=None))]
    fn highlight(
        &self,
        properties: Option<&Bound<'_, PyAny>>,
        topic: Option<&Bound<'_, PyAny>>,
        body: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(usize, usize)>> {
        let properties = convert::properties(properties)?;
        let topic = topic.map(|topic| arguments::text(topic, "topic")).transpose()?;
        let body = body.map(PyBody::new).transpose()?;
        let body = body.as_ref().map(PyBody::borrow).transpose()?;
        Ok(self.0.highlight_characters(&Message::of_record(&properties, topic, body)))
    }

    /// Return the query's structure, for algorithms that are written outside the core.
    ///
    /// Returns:
    ///     Nested tuples, each with its kind first: ``("and", [trees])``, ``("or", [trees])``, ``("not", tree)``; for
    ///     ``name = value`` and ``name IN (...)`` ``("=", name, [values], query)``; for comparisons and BETWEEN with
    ///     literals ``("range", name, low, high, query)``, true only within the bounds, where None is no bound; for
    ///     any other predicate ``("predicate", query)``. Each `query` is that one predicate. Names are those of
    ///     properties; operands are in the order written.
    fn tree<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tree(py, self.0.expr())
    }

    /// The names of the properties that the query tests with UNDER: a sorted tuple, each name once.
    ///
    /// Such a query needs a hierarchy for each of these names (`Engine.hierarchy`, or `hierarchies` of `evaluate`);
    /// without it UNDER is unknown of every message. A name whose case does not matter is in lower case.
    ///
    /// Cost: linear in the predicates.
    #[getter]
    fn hierarchies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.hierarchies())
    }

    /// The warnings about probable mistakes in the query's text (`tamis.QueryWarning`), in the order of the text.
    ///
    /// A query from a snapshot has none, for a snapshot has no texts.
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let warnings = self.0.warnings();
        PyTuple::new(py, warnings.iter().map(|warning| query_warning(py, warning)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Return what the query takes: bytes when compiled, and the worst nanoseconds per byte of a message's texts.
    ///
    /// Both are estimates that are never far too low. The words of a body are found once per message, for all queries
    /// together, and are not in the price. A broker refuses queries whose price is over its limits.
    ///
    /// Cost: linear in the predicates.
    fn price(&self) -> (u64, u64) {
        let price = self.0.price();
        (price.bytes, price.ns_per_byte)
    }

    fn __and__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.combine(py, other, Expr::and)
    }

    fn __or__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.combine(py, other, Expr::or)
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<Self> {
        let negated = query::Query::new(self.0.expr().clone().negate());
        Self::of(py, negated.map(|query| query.with_warnings(self.0.warnings().iter().cloned())))
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(
            "a query is neither true nor false without a message: combine queries with `&` (and), `|` (or) and `~` (not), \
             in parentheses",
        ))
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        if self.0.opaques().next().is_some() {
            return Ok(format!("<tamis.Query {}>", self.0));
        }
        Ok(format!("tamis.selector({})", PyString::new(py, &self.0.to_string()).repr()?))
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.to_string().hash(&mut hasher);
        hasher.finish()
    }

    fn __copy__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this // it never changes
    }

    fn __deepcopy__<'py>(this: PyRef<'py, Self>, memo: &Bound<'py, PyAny>) -> PyRef<'py, Self> {
        let _ = memo; // the protocol hands it over, and there is nothing to copy
        this
    }

    /// Return the query's expensive predicates, from left to right, with their calls from all queries and engines.
    ///
    /// Returns:
    ///     (name, declared cost in microseconds, number of calls, number of failed calls, mean microseconds of the
    ///     timed calls, the last failure). One call in sixteen is timed; the last two are None before the first.
    fn opaques(&self) -> Vec<OpaqueRow<'_>> {
        self.0.opaques().map(counts).collect()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, bool))> {
        if let Some(opaque) = self.0.opaques().next() {
            let reason = format!("the expensive predicate '{}' is a function and cannot be pickled", opaque.name());
            return Err(PyTypeError::new_err(reason));
        }
        Ok((py.import("tamis.query")?.getattr("restore")?, (self.0.to_string(), self.0.is_fields())))
    }
}

fn counts(opaque: &Opaque) -> OpaqueRow<'_> {
    let counts = opaque.counts();
    let measured_us = counts.measured_ns.map(|ns| ns / 1e3);
    (opaque.name(), opaque.cost_ns() / 1e3, counts.calls, counts.errors, measured_us, counts.last_error)
}

/// The tree as nested tuples that begin with their kind; a predicate ends with the query of this predicate alone.
fn tree<'py>(py: Python<'py>, expr: &Expr) -> PyResult<Bound<'py, PyTuple>> {
    let operands =
        |children: &[Expr]| children.iter().map(|child| tree(py, child)).collect::<PyResult<Vec<Bound<'_, PyTuple>>>>();
    let bound = |value: Option<&Value>| value.map(|value| convert::to_python(py, value)).transpose();
    let predicate = || PyQuery::of(py, query::Query::new(expr.clone()));
    match expr.structure() {
        Structure::And(children) => ("and", operands(children)?).into_pyobject(py),
        Structure::Or(children) => ("or", operands(children)?).into_pyobject(py),
        Structure::Not(inner) => ("not", tree(py, inner)?).into_pyobject(py),
        Structure::Equality(name, values) => {
            let values: Vec<_> = values.iter().map(|value| convert::to_python(py, value)).collect::<PyResult<_>>()?;
            ("=", name, values, predicate()?).into_pyobject(py)
        }
        Structure::Range(name, low, high) => ("range", name, bound(low)?, bound(high)?, predicate()?).into_pyobject(py),
        Structure::Opaque => ("predicate", predicate()?).into_pyobject(py),
    }
}

/// A query from selector text. `is_fields` restores the mark of field criteria when a query is unpickled.
#[pyfunction]
#[pyo3(signature = (text, dialect, is_fields=false))]
pub fn selector(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    dialect: &Bound<'_, PyAny>,
    is_fields: bool,
) -> PyResult<PyQuery> {
    let text = arguments::text(text, "text")?;
    let dialect = match arguments::text(dialect, "dialect")? {
        "jms" => selector_language::SelectorDialect::Jms,
        "cbm" => selector_language::SelectorDialect::Cbm,
        other => return Err(PyValueError::new_err(format!("dialect: expected 'jms' or 'cbm', not '{other}'"))),
    };
    let parsed = py.detach(|| selector_language::parse(text, dialect));
    PyQuery::of(py, parsed.map(|query| query.with_fields_mark(is_fields)))
}

/// A query in the Boolean language; for the names in `groupings`, equality means UNDER.
#[pyfunction]
pub fn boolean(py: Python<'_>, text: &Bound<'_, PyAny>, groupings: Vec<String>) -> PyResult<PyQuery> {
    let text = arguments::text(text, "text")?;
    let parsed = py.detach(|| boolean_language::parse(text, &groupings));
    PyQuery::of(py, parsed)
}

/// A query for a topic pattern.
#[pyfunction]
pub fn topic(py: Python<'_>, pattern: &Bound<'_, PyAny>, dialect: &Bound<'_, PyAny>) -> PyResult<PyQuery> {
    let (pattern, dialect) = (arguments::text(pattern, "pattern")?, arguments::text(dialect, "dialect")?);
    let Some(dialect) = TopicDialect::from_name(dialect) else {
        let expected = "expected 'amqp', 'openamq' or 'openamq-program'";
        return Err(PyValueError::new_err(format!("dialect: {expected}, not '{dialect}'")));
    };
    PyQuery::from_predicate(py, Predicate::Topic(TopicPattern::new(pattern, dialect)))
}

/// The part of a message that the argument `on` names: `topic`, `body` or a property.
fn reference(on: &Bound<'_, PyAny>) -> PyResult<Reference> {
    Ok(Reference::part(arguments::text(on, "on")?))
}

/// A query for the beginning of a text.
#[pyfunction]
pub fn prefix(py: Python<'_>, text: &Bound<'_, PyAny>, on: &Bound<'_, PyAny>) -> PyResult<PyQuery> {
    let text = arguments::text(text, "text")?;
    PyQuery::from_predicate(py, Predicate::Prefix(reference(on)?, text.into()))
}

/// A query for a text in which a regular expression matches.
#[pyfunction]
pub fn regex(py: Python<'_>, pattern: &Bound<'_, PyAny>, on: &Bound<'_, PyAny>) -> PyResult<PyQuery> {
    let (pattern, on) = (arguments::text(pattern, "pattern")?, reference(on)?);
    let predicate = py.detach(|| query::criteria::regex_on(on, pattern));
    PyQuery::from_predicate(py, predicate.map_err(|error| query_error(py, error))?)
}

/// A query of field criteria: name -> value, or None for presence.
#[pyfunction]
pub fn fields(py: Python<'_>, criteria: &Bound<'_, PyDict>, require_all: bool) -> PyResult<PyQuery> {
    let mut tests = Vec::new();
    // Stop after one criterion too many: it is refused like a hundred thousand.
    for (name, wanted) in criteria.iter().take(query::TERMS_MAX + 1) {
        let name = arguments::text(&name, "criteria: a name")?;
        let value = match wanted.is_none() {
            true => None,
            false => Some(constant(convert::value(&wanted, name)?, name)?),
        };
        tests.push(query::criteria::field(name, value).into());
    }
    PyQuery::of(py, query::Query::fields(tests, require_all))
}

fn constant(value: Value, name: &str) -> PyResult<Value> {
    match value {
        Value::Float(number) if number.is_nan() => {
            Err(PyValueError::new_err(format!("field '{name}': expected a number, and NaN equals nothing")))
        }
        Value::Timestamp(micros) if !convert::DATETIME_US.contains(&micros) => {
            Err(PyValueError::new_err(format!("field '{name}': expected an instant from the year 1 to 9999 in UTC")))
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) | Value::Timestamp(_) => Ok(value),
        _ => {
            Err(PyTypeError::new_err(format!("field '{name}': expected bool, int, float, str, datetime or tamis.ANY")))
        }
    }
}

/// A query for a word or an exact phrase of the body.
#[pyfunction]
pub fn contains(py: Python<'_>, phrase: &Bound<'_, PyAny>) -> PyResult<PyQuery> {
    let phrase = arguments::text(phrase, "phrase")?;
    PyQuery::from_predicate(py, query::criteria::contains(phrase).map_err(|error| query_error(py, error))?)
}

/// A query for two words of the body with at most `distance` steps between them.
#[pyfunction]
pub fn near(
    py: Python<'_>,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
    distance: &Bound<'_, PyAny>,
) -> PyResult<PyQuery> {
    let (a, b) = (arguments::text(a, "a")?, arguments::text(b, "b")?);
    let distance = arguments::count(distance, "distance", 1)?;
    PyQuery::from_predicate(py, query::criteria::near_words(a, b, distance).map_err(|error| query_error(py, error))?)
}

/// A query in the language of that name; None when there is no such language.
#[pyfunction]
pub fn compile_query(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    language: &Bound<'_, PyAny>,
) -> PyResult<Option<PyQuery>> {
    let (text, language) = (arguments::text(text, "text")?, arguments::text(language, "language")?);
    let compiled = py.detach(|| named::compile(text, language));
    compiled.map(|compiled| PyQuery::of(py, compiled)).transpose()
}
