//! One YAML text as a tree of values with their places. Knows nothing of subscriptions.
//!
//! YAML 1.2, core schema: `yes`, `on` and the like are texts. Bounded in depth and in the number of values, those that an
//! alias stands for included.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

/// The deepest nesting.
const MAX_DEPTH: usize = 64;

/// The most values, each alias counting as all that it stands for.
const MAX_NODES: usize = 100_000;

/// A value and where it stands; line and column are counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) line: u32,
    pub(super) column: u32,
    /// How many values there are, this one included.
    size: usize,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order written.
    Map(Vec<(Node, Node)>),
    /// It has a tag of its own.
    Tagged,
}

/// Why a text is no tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub(super) line: u32,
    pub(super) what: Fault,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// It is no YAML; the parser's words.
    Syntax(String),
    /// It nests too deep, or is too large with all that its aliases stand for.
    TooDeep,
    TooLarge,
    /// There is more than one document.
    Documents,
}

/// Reads a text. `None` where there is no document in it.
pub(super) fn parse(text: &str) -> Result<Option<Node>, Failure> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| Failure {
            line: number(error.marker().line()),
            what: Fault::Syntax(error.info().to_owned()),
        })?;
        builder.take(event, span).map_err(|what| Failure { line: number(span.start.line()), what })?;
    }
    Ok(builder.document)
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A list or a mapping that is not closed yet.
struct Open {
    items: Vec<Node>,
    is_map: bool,
    is_tagged: bool,
    anchor: usize,
    span: Span,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    document: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                if self.document.is_none() {
                    Ok(())
                } else {
                    Err(Fault::Documents)
                }
            }
            Event::Alias(anchor) => {
                // The parser refuses names that nothing bears; what is left is an alias inside what it stands for.
                let Some(known) = self.anchors.get(&anchor) else {
                    return Err(Fault::Syntax("an alias stands inside what it stands for".to_owned()));
                };
                let node = known.clone();
                self.put(node, 0)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.put(node(value, 1, span), anchor)
            }
            Event::SequenceStart(anchor, tag) => self.begin(false, anchor, tag.is_some(), span),
            Event::MappingStart(anchor, tag) => self.begin(true, anchor, tag.is_some(), span),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn begin(&mut self, is_map: bool, anchor: usize, is_tagged: bool, span: Span) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        self.open.push(Open { items: Vec::new(), is_map, is_tagged, anchor, span });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(Open { items, is_map, is_tagged, anchor, span }) = self.open.pop() else { return Ok(()) };
        let size = 1 + items.iter().map(|item| item.size).sum::<usize>();
        let value = match (is_tagged, is_map) {
            (true, _) => Value::Tagged,
            (false, false) => Value::List(items),
            (false, true) => {
                let mut items = items.into_iter();
                let mut pairs = Vec::new();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Value::Map(pairs)
            }
        };
        // What is inside was counted when it was put there.
        self.nodes -= size - 1;
        self.put(node(value, size, span), anchor)
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        self.nodes += node.size;
        if self.nodes > MAX_NODES {
            return Err(Fault::TooLarge);
        }
        if anchor != 0 {
            // A copy that only an alias would use counts as well: it takes memory.
            self.nodes += node.size;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None => self.document = Some(node),
        }
        Ok(())
    }
}

fn node(value: Value, size: usize, span: Span) -> Node {
    Node { value, line: number(span.start.line()), column: number(span.start.col() + 1), size }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    match tag {
        None if style == ScalarStyle::Plain => plain(text),
        None => Value::Text(text.to_owned()),
        Some(tag) if !tag.is_yaml_core_schema() => Value::Tagged,
        Some(tag) => match (tag.suffix.as_str(), plain(text)) {
            ("str", _) => Value::Text(text.to_owned()),
            ("null", Value::Null) => Value::Null,
            ("bool", Value::Bool(value)) => Value::Bool(value),
            ("int", Value::Integer(value)) => Value::Integer(value),
            ("float", Value::Float(value)) => Value::Float(value),
            _ => Value::Tagged,
        },
    }
}

/// What a text without quotes is. Source: YAML 1.2.2, §10.3.2, core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Value::Float(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if let Some(value) = integer(text, unsigned) {
        return Value::Integer(value);
    }
    let looks_like_a_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '+'));
    match text.parse::<f64>() {
        Ok(value) if looks_like_a_number => Value::Float(value),
        Ok(_) | Err(_) => Value::Text(text.to_owned()),
    }
}

fn integer(text: &str, unsigned: &str) -> Option<i128> {
    if let Some(digits) = text.strip_prefix("0o") {
        return i128::from_str_radix(digits, 8).ok();
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return i128::from_str_radix(digits, 16).ok();
    }
    let is_decimal = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    if is_decimal { text.parse().ok() } else { None }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        parse(text).unwrap().unwrap().value
    }

    #[test]
    fn plain_words_follow_the_core_schema_of_yaml_1_2() {
        for word in ["yes", "on", "No", "off", "y", "truth", "1_000", "0x", "inf", "nan", "1e", "12:30", "e5", "-"] {
            if word != "-" {
                assert_eq!(value(word), Value::Text(word.to_owned()));
            }
        }
        for (word, read) in [
            ("true", Value::Bool(true)),
            ("FALSE", Value::Bool(false)),
            ("~", Value::Null),
            ("-17", Value::Integer(-17)),
            ("0o17", Value::Integer(15)),
            ("0xff", Value::Integer(255)),
            ("017", Value::Integer(17)),
            ("1.5e3", Value::Float(1500.0)),
            (".5", Value::Float(0.5)),
            ("'17'", Value::Text("17".to_owned())),
            ("!!str 17", Value::Text("17".to_owned())),
            ("!!int x", Value::Tagged),
            ("!python/object:os.system {}", Value::Tagged),
        ] {
            assert_eq!(value(word), read, "{word}");
        }
    }

    #[test]
    fn values_know_their_places() {
        let Value::Map(pairs) = value("a:\n  - ж: {b: 1}\n") else { panic!("a mapping") };
        let Value::List(items) = &pairs[0].1.value else { panic!("a list") };
        let Value::Map(inner) = &items[0].value else { panic!("a mapping") };
        assert_eq!((inner[0].0.line, inner[0].0.column), (2, 5));
        assert_eq!((inner[0].1.line, inner[0].1.column), (2, 8));
    }

    #[test]
    fn aliases_stand_for_copies_and_cannot_grow_without_end() {
        let Value::List(items) = value("[&a [1], *a]") else { panic!("a list") };
        assert_eq!(items[0], items[1]);
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert_eq!(parse(&bomb).unwrap_err().what, Fault::TooLarge);
        assert!(matches!(parse("&a [*a]").unwrap_err().what, Fault::Syntax(_)));
        assert!(matches!(parse("[*b]").unwrap_err().what, Fault::Syntax(_)));
    }

    #[test]
    fn depth_and_documents_are_bounded() {
        assert_eq!(parse(&"[".repeat(100)).unwrap_err().what, Fault::TooDeep);
        assert!(
            matches!(parse(&"[".repeat(100_000)).unwrap_err().what, Fault::Syntax(_)),
            "the parser has its own limit"
        );
        let blocks: String = (0..100).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        assert_eq!(parse(&blocks).unwrap_err().what, Fault::TooDeep);
        assert_eq!(parse("a: 1\n---\nb: 2\n").unwrap_err(), Failure { line: 2, what: Fault::Documents });
        assert_eq!(parse("# nothing\n").unwrap(), None);
        let syntax = parse("a: 1\nb: [1,\n").unwrap_err();
        assert!(matches!(syntax.what, Fault::Syntax(_)) && syntax.line >= 2, "{syntax:?}");
    }
}
