//! Reads the values of a JSON text that are asked for, and checks the form of all others.

use crate::message::{NESTING_MAX, Properties, Value};

use super::cursor::{JsonCursor, NumberText};
use super::error::{JsonError, JsonResult};
use super::open_brackets::OpenBrackets;

/// For how many members that are asked for there is room at first: as many as fit into the 8 places that a table of 7 has.
const MEMBERS_FIRST: usize = 7;

/// The reader of one text.
pub struct JsonReader<'t, 'a> {
    cursor: JsonCursor<'t>,
    is_asked: &'a dyn Fn(&str) -> bool,
    /// The names of the objects around the value that is read next, with dots.
    path: String,
    /// The number of these names.
    path_names: usize,
    /// The number of values that may still come.
    left: usize,
}

impl<'t, 'a> JsonReader<'t, 'a> {
    /// A reader of `text`, of at most `values_max` values, and in objects of those whose name `is_asked`.
    pub fn new(text: &'t str, values_max: usize, is_asked: &'a dyn Fn(&str) -> bool) -> Self {
        Self { cursor: JsonCursor::new(text), is_asked, path: String::new(), path_names: 0, left: values_max }
    }

    /// Read the whole text.
    ///
    /// # Errors
    /// It is no JSON value, or one that cannot be a property's.
    pub fn read_value(mut self) -> JsonResult<Value> {
        let value = self.value(0)?;
        self.cursor.end()?;
        Ok(value)
    }

    /// Read the whole text, which has to be one object.
    ///
    /// # Errors
    /// Those of [`Self::read_value`], and a value that is not an object.
    pub fn read_object(mut self) -> JsonResult<Properties> {
        if self.cursor.value()? != b'{' {
            return Err(JsonError::Broken(self.cursor.at(), "expected a JSON object"));
        }
        let members = self.members(0)?;
        self.cursor.end()?;
        Ok(members)
    }

    /// Read the next value, which stands in `depth` lists and objects.
    fn value(&mut self, depth: usize) -> JsonResult<Value> {
        match self.cursor.value()? {
            b'"' => self.cursor.read_text().map(|text| Value::Text(text.into())),
            b'-' | b'0'..=b'9' => self.number(),
            b'{' => {
                let below = self.below(depth)?;
                self.members(below).map(Value::Map)
            }
            b'[' => {
                let below = self.below(depth)?;
                self.elements(below).map(Value::List)
            }
            b't' => self.cursor.literal("true").map(|()| Value::Bool(true)),
            b'f' => self.cursor.literal("false").map(|()| Value::Bool(false)),
            b'n' => self.cursor.literal("null").map(|()| Value::Null),
            _ => Err(self.no_value()),
        }
    }

    #[cold]
    fn no_value(&self) -> JsonError {
        JsonError::Broken(self.cursor.at(), "expected value")
    }

    fn below(&self, depth: usize) -> JsonResult<usize> {
        if depth == NESTING_MAX { Err(JsonError::TooDeep(self.cursor.at())) } else { Ok(depth + 1) }
    }

    fn number(&mut self) -> JsonResult<Value> {
        let NumberText { range, is_integer } = self.cursor.number()?;
        let text = self.cursor.text(range.clone());
        if is_integer && text != "-0" {
            return text.parse().map(Value::Int).map_err(|_| JsonError::LongInteger(range));
        }
        let number: f64 = text.parse().map_err(|_| self.no_value())?;
        if number.is_infinite() {
            return Err(JsonError::Broken(range.start, "number out of range"));
        }
        Ok(Value::Float(number))
    }

    /// Read the elements of the list that is next.
    fn elements(&mut self, depth: usize) -> JsonResult<Vec<Value>> {
        let mut elements = Vec::new();
        let mut has_more = self.cursor.first_element()?;
        while has_more {
            elements.push(self.value(depth)?);
            self.count()?;
            has_more = self.cursor.next_element()?;
        }
        Ok(elements)
    }

    /// Read the members of the object that is next; the last of those with equal names counts.
    fn members(&mut self, depth: usize) -> JsonResult<Properties> {
        let mut members = Properties::default();
        let mut has_more = self.cursor.first_name()?;
        while has_more {
            let name = self.cursor.read_text()?;
            self.cursor.colon()?;
            let outer = self.path.len();
            if self.enter(&name) {
                let value = self.value(depth)?;
                self.leave(outer);
                if members.is_empty() {
                    members.reserve(MEMBERS_FIRST);
                }
                members.insert(name.into(), value);
                self.count()?;
            } else if !self.cursor.skip_plain_value() {
                self.skip_value()?;
            }
            has_more = self.cursor.next_name()?;
        }
        Ok(members)
    }

    /// Whether the member `name` is asked for; if so, it becomes the last of the path.
    #[inline]
    fn enter(&mut self, name: &str) -> bool {
        let outer = self.path.len();
        if self.path_names == 0 {
            if !(self.is_asked)(name) {
                return false;
            }
            self.path.push_str(name);
        } else {
            self.path.push('.');
            self.path.push_str(name);
            if !(self.is_asked)(&self.path) {
                self.path.truncate(outer);
                return false;
            }
        }
        self.path_names += 1;
        true
    }

    /// Take the last name off the path, whose length is then `outer`.
    #[inline]
    fn leave(&mut self, outer: usize) {
        self.path.truncate(outer);
        self.path_names -= 1;
    }

    fn count(&mut self) -> JsonResult<()> {
        self.left = self.left.checked_sub(1).ok_or(JsonError::TooMany)?;
        Ok(())
    }

    /// Check the form of the next value, however deep it is, and say what is wrong with it.
    #[cold]
    fn skip_value(&mut self) -> JsonResult<()> {
        let mut open = OpenBrackets::default();
        loop {
            if !self.skip_to_end_or_in(&mut open)? {
                continue;
            }
            while let Some(is_object) = open.innermost() {
                let has_more = if is_object { self.cursor.next_name()? } else { self.cursor.next_element()? };
                if has_more {
                    self.skip_name(is_object)?;
                    break;
                }
                open.pop();
            }
            if open.innermost().is_none() {
                return Ok(());
            }
        }
    }

    /// Go past the next value, or to the first value in it, and push its bracket. True if the value has ended.
    #[inline]
    fn skip_to_end_or_in(&mut self, open: &mut OpenBrackets) -> JsonResult<bool> {
        let token = self.cursor.value()?;
        match token {
            b'"' => self.cursor.skip_text()?,
            b'-' | b'0'..=b'9' => _ = self.cursor.number()?,
            b't' => self.cursor.literal("true")?,
            b'f' => self.cursor.literal("false")?,
            b'n' => self.cursor.literal("null")?,
            b'{' | b'[' => {
                let is_object = token == b'{';
                let has_more = if is_object { self.cursor.first_name()? } else { self.cursor.first_element()? };
                if has_more {
                    open.push(is_object);
                    self.skip_name(is_object)?;
                }
                return Ok(!has_more);
            }
            _ => return Err(self.no_value()),
        }
        Ok(true)
    }

    /// Go past the name that is next in an object.
    #[inline]
    fn skip_name(&mut self, is_object: bool) -> JsonResult<()> {
        if is_object {
            self.cursor.skip_text()?;
            self.cursor.colon()?;
        }
        Ok(())
    }
}
