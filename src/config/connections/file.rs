//! AMQP connections from the tables `[connections.<id>]` of the configuration file.
//!
//! Fields have Airflow's names, so that an entry reads like the form in Airflow's own page; `uri` stands alone. A password
//! may be in a file of its own, which is read at every connect by the caller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use toml::Value as Toml;

use super::{AirflowConnection, AirflowDialect, amqp, uri};
use crate::config::keys::CONNECTIONS;
use crate::config::problem::{Origin, Problem};
use crate::domain::connection::Secret;
use crate::domain::nearest::nearest;

/// The fields of a table.
pub const FIELDS: [&str; 9] =
    ["conn_type", "host", "port", "login", "password", "password_file", "schema", "extra", "uri"];

/// One table, read.
#[derive(Clone, Debug, PartialEq)]
pub struct FileConnection {
    /// Its fields.
    pub connection: AirflowConnection,
    /// Where its password is, if not among the fields.
    pub password_file: Option<PathBuf>,
}

/// Connections by id.
pub type FileConnections = BTreeMap<String, FileConnection>;

/// Reads all tables of the file at `path`; a table with problems is left out.
pub fn read(root: &toml::Table, path: &Path, problems: &mut Vec<Problem>) -> FileConnections {
    let origin = Origin::File(path.to_owned());
    let mut connections = FileConnections::new();
    let Some(section) = root.get(CONNECTIONS) else {
        return connections;
    };
    let Some(tables) = section.as_table() else {
        problems.push(Problem::said(
            CONNECTIONS,
            &origin,
            "expected one table for each connection, [connections.<id>]",
        ));
        return connections;
    };
    for (id, value) in tables {
        let key = format!("{CONNECTIONS}.{id}");
        let Some(table) = value.as_table() else {
            problems.push(Problem::said(&key, &origin, "expected a table, [connections.<id>]"));
            continue;
        };
        let mut reader = TableReader { key, table, origin: &origin, problems: Vec::new() };
        let connection = reader.read();
        if reader.problems.is_empty() {
            connections.insert(id.clone(), connection);
        } else {
            problems.append(&mut reader.problems);
        }
    }
    connections
}

struct TableReader<'a> {
    key: String,
    table: &'a toml::Table,
    origin: &'a Origin,
    problems: Vec<Problem>,
}

impl TableReader<'_> {
    fn read(&mut self) -> FileConnection {
        for name in self.table.keys() {
            if !FIELDS.contains(&name.as_str()) {
                self.refuse_unknown(name);
            }
        }
        let password_file = self.text("password_file").map(PathBuf::from);
        if password_file.as_ref().is_some_and(|path| !path.is_absolute()) {
            self.refuse("password_file", "expected an absolute path");
        }
        if password_file.is_some() && self.table.contains_key("password") {
            self.refuse("password_file", "give either this or password, not both");
        }
        let connection = match self.text("uri") {
            Some(text) => self.read_uri(&text),
            None => self.read_fields(),
        };
        FileConnection { connection, password_file }
    }

    fn read_uri(&mut self, text: &str) -> AirflowConnection {
        let others = ["conn_type", "host", "port", "login", "password", "schema", "extra"];
        if others.iter().any(|name| self.table.contains_key(*name)) {
            self.refuse("uri", "give either uri or the single fields, not both");
        }
        match uri::parse(crate::domain::python::strip(text), AirflowDialect::V3) {
            Ok(connection) => self.checked(connection, "uri"),
            Err(error) => {
                self.refuse("uri", &error.to_string());
                AirflowConnection::default()
            }
        }
    }

    fn read_fields(&mut self) -> AirflowConnection {
        let connection = AirflowConnection {
            conn_type: self.text("conn_type"),
            host: self.text("host"),
            port: self.port(),
            login: self.text("login"),
            password: self.text("password").map(Secret::new),
            schema: self.text("schema"),
            extra: self.extra(),
            ..AirflowConnection::default()
        };
        self.checked(connection, "conn_type")
    }

    /// What no settings can be made of is a problem at start, not only at the first connect.
    fn checked(&mut self, connection: AirflowConnection, blame: &str) -> AirflowConnection {
        let id = crate::domain::ids::ConnId::new(self.key.clone());
        if let Err(error) = amqp::settings(&id, &connection) {
            let field = match error {
                amqp::AmqpError::Host => "host",
                amqp::AmqpError::Port => "port",
                amqp::AmqpError::Vhost => "schema",
                amqp::AmqpError::TlsExtra { .. } => "extra",
                amqp::AmqpError::Nul(name) => name,
                amqp::AmqpError::Type(_) | amqp::AmqpError::Torn => blame,
            };
            self.refuse(field, &error.to_string());
        }
        connection
    }

    fn text(&mut self, name: &'static str) -> Option<String> {
        let text = self.table.get(name)?.as_str().map(str::to_owned);
        if text.is_none() {
            self.refuse(name, "expected text in quotes");
        }
        text
    }

    fn port(&mut self) -> Option<i64> {
        let port = self.table.get("port")?.as_integer();
        if port.is_none() {
            self.refuse("port", "expected a whole number from 1 to 65535");
        }
        port
    }

    fn extra(&mut self) -> Map<String, Value> {
        let Some(value) = self.table.get("extra") else {
            return Map::new();
        };
        match json(value) {
            Some(Value::Object(map)) => map,
            Some(_) => {
                self.refuse("extra", "expected a table");
                Map::new()
            }
            None => {
                self.refuse("extra", "expected a table of values that JSON knows: no dates, no inf, no nan");
                Map::new()
            }
        }
    }

    fn refuse_unknown(&mut self, name: &str) {
        let meant = match name {
            "vhost" | "virtual_host" => Some("schema"),
            "user" | "username" => Some("login"),
            "type" => Some("conn_type"),
            "heartbeat" | "connect_timeout" | "rpc_timeout" | "ssl_enabled" | "ssl_options" | "ca_certs"
            | "certfile" | "keyfile" | "cert_reqs" | "management_url" => Some("extra"),
            other => nearest(other, FIELDS),
        };
        let sentence = match meant {
            Some(meant) => format!("there is no such field; did you mean {meant}?"),
            None => format!("there is no such field; a connection has {}", FIELDS.join(", ")),
        };
        let key = format!("{}.{name}", self.key);
        self.problems.push(Problem::said(&key, self.origin, sentence));
    }

    fn refuse(&mut self, name: &str, sentence: &str) {
        let key = format!("{}.{name}", self.key);
        self.problems.push(Problem::said(&key, self.origin, sentence));
    }
}

/// A TOML value as JSON, where there is such a thing.
fn json(value: &Toml) -> Option<Value> {
    Some(match value {
        Toml::String(text) => Value::String(text.clone()),
        Toml::Integer(number) => Value::from(*number),
        Toml::Float(number) => Value::Number(serde_json::Number::from_f64(*number)?),
        Toml::Boolean(value) => Value::Bool(*value),
        Toml::Datetime(_) => return None,
        Toml::Array(items) => Value::Array(items.iter().map(json).collect::<Option<_>>()?),
        Toml::Table(table) => {
            Value::Object(table.iter().map(|(name, value)| Some((name.clone(), json(value)?))).collect::<Option<_>>()?)
        }
    })
}
