//! The tree that a configuration file is parsed into.
//!
//! Every node remembers where it was written. Knows nothing of what the names mean.

use std::collections::HashMap;

use crate::diagnostic::Position;
use crate::duration;

/// A parsed value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// Checked, in the form `2006-01-02T15:04:05Z`.
    DateTime(String),
    Array(Vec<Node>),
    Map(Map),
}

impl Value {
    /// Name of a value of this type in errors.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Boolean(_) => "a boolean",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Text(_) => "a string",
            Value::DateTime(_) => "a date",
            Value::Array(_) => "an array",
            Value::Map(_) => "a map",
        }
    }

    /// Name of a value of this type as the reference has it, which is that of a type of Go.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Value::Boolean(_) => "bool",
            Value::Integer(_) => "int64",
            Value::Float(_) => "float64",
            Value::Text(_) => "string",
            Value::DateTime(_) => "time.Time",
            Value::Array(_) => "[]interface {}",
            Value::Map(_) => "map[string]interface {}",
        }
    }

    /// The value in an error; what is in a list or a map is left out.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Boolean(boolean) => boolean.to_string(),
            Value::Integer(integer) => integer.to_string(),
            Value::Float(float) => float.to_string(),
            Value::Text(text) | Value::DateTime(text) => text.clone(),
            Value::Array(_) => "[...]".to_owned(),
            Value::Map(_) => "map[...]".to_owned(),
        }
    }

    /// Seconds, as a number or as a duration in Go's notation; `Err(None)` for another type.
    pub(crate) fn seconds(&self) -> Result<f64, Option<String>> {
        match self {
            Value::Integer(seconds) => Ok(*seconds as f64),
            Value::Float(seconds) => Ok(*seconds),
            Value::Text(text) => duration::parse(text).map(|nanos| nanos as f64 / 1e9).map_err(Some),
            _ => Err(None),
        }
    }

    /// The nodes directly below this value.
    fn children(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        match self {
            Value::Array(items) => Box::new(items.iter()),
            Value::Map(map) => Box::new(map.iter().map(|(_, node)| node)),
            _ => Box::new(std::iter::empty()),
        }
    }

    /// How many levels of nodes are below this value, and about how many bytes it takes.
    pub(crate) fn measure(&self) -> (usize, usize) {
        let text = match self {
            Value::Text(text) => text.len(),
            _ => 0,
        };
        self.children().fold((0, size_of::<Node>() + text), |(depth, bytes), child| {
            let (below, inner) = child.value.measure();
            (depth.max(below + 1), bytes + inner)
        })
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    /// Of the key in a map, of the value in an array. Compat: a map in an array is placed at its
    /// end.
    pub(crate) position: Position,
    /// Some `$NAME` referred to this node, so it need not be a known field.
    pub(crate) is_used_variable: bool,
}

impl Node {
    pub(crate) fn new(value: Value, position: Position) -> Self {
        Self { value, position, is_used_variable: false }
    }

    /// Moves this node and all below it to `position`.
    pub(crate) fn relocate(&mut self, position: &Position) {
        self.position = position.clone();
        match &mut self.value {
            Value::Array(items) => items.iter_mut().for_each(|node| node.relocate(position)),
            Value::Map(map) => map.nodes_mut().for_each(|node| node.relocate(position)),
            _ => {}
        }
    }
}

/// Keys and values in the order of the file. Keys are kept as written and differ by case.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Map {
    entries: Vec<(String, Node)>,
    index: HashMap<String, usize>,
}

impl Map {
    /// Sets a key; a key that is set again keeps its place in the order and takes the new value.
    pub(crate) fn insert(&mut self, key: String, node: Node) {
        match self.index.get(&key) {
            Some(&at) => self.entries[at].1 = node,
            None => {
                self.index.insert(key.clone(), self.entries.len());
                self.entries.push((key, node));
            }
        }
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.index.get(key).map(|&at| &mut self.entries[at].1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.entries.iter().map(|(key, node)| (key.as_str(), node))
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = (String, Node)> {
        self.entries.into_iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.entries.iter_mut().map(|(_, node)| node)
    }
}
