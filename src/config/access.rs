//! The section `[airflow]`: where Airflow's REST API is and who we are there.

use super::airflow::AirflowSettings;
use super::airflow_own::AirflowOwn;
use super::credentials;
use super::keys;
use super::load::{seconds_up_to, show_secs};
use super::problem::Origin;
use super::reader::{Raw, Reader, show_path};
use super::url::BaseUrl;

/// Taken when nothing says otherwise: Airflow's own default port.
const DEFAULT_URL: &str = "http://localhost:8080";
/// Requests in flight at most.
const DEFAULT_MAX_IN_FLIGHT: u16 = 8;

/// What Airflow 3 tells its tasks, on top of the base address.
const EXECUTION_SUFFIX: &str = "/execution";

pub(super) fn read(reader: &mut Reader<'_>, own: &AirflowOwn<'_>, warnings: &mut Vec<String>) -> AirflowSettings {
    let environment = reader.environment();
    let (url, url_source) = read_url(reader, own, warnings);
    let credentials = credentials::read(reader);
    AirflowSettings {
        url,
        url_source,
        credentials,
        request_timeout: reader.required(&keys::AIRFLOW_REQUEST_TIMEOUT_SECS, |raw| seconds_up_to(raw, 600), show_secs),
        ca_file: reader
            .optional(&keys::AIRFLOW_CA_FILE, |raw| raw.path(environment), |p| show_path(p))
            .map(|(path, _)| path),
        max_in_flight: usize::from(read_max_in_flight(reader, own, warnings)),
    }
}

/// The first of: our key; Airflow 3's `core.execution_api_server_url`; `api.base_url`; `webserver.base_url`; the default.
/// An address in Airflow's settings that is none is passed over with a warning.
fn read_url(reader: &mut Reader<'_>, own: &AirflowOwn<'_>, warnings: &mut Vec<String>) -> (String, String) {
    let parse = |raw: &Raw| BaseUrl::parse(raw.text()?).map(BaseUrl::into_text);
    if let Some((url, origin)) = reader.optional(&keys::AIRFLOW_URL, parse, String::clone) {
        return (url, origin.to_string());
    }
    for (section, name) in [("core", "execution_api_server_url"), ("api", "base_url"), ("webserver", "base_url")] {
        let Some((text, origin)) = own.get(section, name, &mut reader.problems) else {
            continue;
        };
        let Some(url) = BaseUrl::parse(&text).map(BaseUrl::into_text) else {
            warnings.push(format!(
                "Airflow's {section}.{name} ({origin}) is not an http or https address without user, password or query, and is passed over; set airflow.url"
            ));
            continue;
        };
        let url = url.strip_suffix(EXECUTION_SUFFIX).map_or(url.clone(), str::to_owned);
        reader.record(&keys::AIRFLOW_URL, url.clone(), &origin);
        return (url, origin.to_string());
    }
    let origin = Origin::Default("Airflow's configuration names no address".to_owned());
    reader.record(&keys::AIRFLOW_URL, DEFAULT_URL.to_owned(), &origin);
    (DEFAULT_URL.to_owned(), origin.to_string())
}

/// What Airflow's own database is.
enum Database {
    /// Airflow says so, or a setting that it takes from there.
    Sqlite(Origin),
    /// Nothing is said, and SQLite is what Airflow then uses.
    SqliteByDefault,
    /// Another one, or one whose address comes from a command or a secrets backend.
    Other,
}

fn database(reader: &mut Reader<'_>, own: &AirflowOwn<'_>) -> Database {
    for section in ["database", "core"] {
        if let Some((address, origin)) = own.get(section, "sql_alchemy_conn", &mut reader.problems) {
            return if address.trim_start().to_ascii_lowercase().starts_with("sqlite") {
                Database::Sqlite(origin)
            } else {
                Database::Other
            };
        }
        if own.is_indirect(section, "sql_alchemy_conn") {
            return Database::Other;
        }
    }
    Database::SqliteByDefault
}

/// Airflow on SQLite fails under parallel posts, its scheduler included, so there one at a time is not a matter of taste.
///
/// Source: Airflow 3.3.2 on SQLite, 8 posts in parallel: "database is locked", scheduler and DAG processor exit.
fn read_max_in_flight(reader: &mut Reader<'_>, own: &AirflowOwn<'_>, warnings: &mut Vec<String>) -> u16 {
    let key = &keys::AIRFLOW_MAX_IN_FLIGHT;
    let parse = |raw: &Raw| u16::try_from(raw.integer(1..=64)?).ok();
    let given = reader.optional(key, parse, u16::to_string);
    match (given, database(reader, own)) {
        (Some((number, origin)), Database::Sqlite(database)) if number > 1 => {
            warnings.push(format!(
                "airflow.max_in_flight ({origin}) is {number}, but Airflow runs on SQLite ({database}), which breaks under parallel requests; 1 is used"
            ));
            let why = "Airflow runs on SQLite".to_owned();
            reader.record(key, "1".to_owned(), &Origin::Default(why));
            1
        }
        (Some((number, _)), _) => number,
        (None, Database::Sqlite(_) | Database::SqliteByDefault) => {
            let why = "Airflow runs on SQLite, or says nothing else".to_owned();
            reader.record(key, "1".to_owned(), &Origin::Default(why));
            1
        }
        (None, Database::Other) => {
            let number = DEFAULT_MAX_IN_FLIGHT;
            reader.record(key, number.to_string(), &Origin::Default(String::new()));
            number
        }
    }
}
