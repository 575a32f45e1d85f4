//! Where DAG files are: Airflow's `core.dags_folder`, and in Airflow 3 every local path of its DAG bundles.
//!
//! A setting that says nothing usable is kept as the reason why there is no scan; it never becomes an empty set of folders.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::airflow_own::AirflowOwn;
use super::problem::Origin;
use super::reader::{Reader, show_path};

/// The class of the bundles whose files are on this machine. Source: Airflow 3.3.2.
const LOCAL_BUNDLE: &str = "airflow.dag_processing.bundles.local.LocalDagBundle";

const FOLDER: &str = "Airflow's core.dags_folder";
const BUNDLES: &str = "Airflow's dag_processor.dag_bundle_config_list";
const SYNTAX: &str = "Airflow's core.dag_ignore_file_syntax";

/// The folders that are scanned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DagFolders {
    /// At least one, unless there is a `fault`.
    pub roots: Vec<DagRoot>,
    /// Why it is not known which folders there are, as a clause.
    pub fault: Option<String>,
    /// How `.airflowignore` files are read; `None` where Airflow's default decides, which differs between its versions.
    pub ignore_syntax: Option<IgnoreSyntax>,
}

/// One folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DagRoot {
    /// The name of its bundle, which tells its files from those of another root.
    pub bundle: String,
    /// Where it is.
    pub path: PathBuf,
}

/// How the lines of an `.airflowignore` file are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IgnoreSyntax {
    /// Regular expressions, found anywhere in the path below the folder: Airflow 2's default.
    Regexp,
    /// As in `.gitignore`: Airflow 3's default.
    Glob,
}

impl DagFolders {
    /// One folder and no others.
    pub fn one(path: impl Into<PathBuf>) -> Self {
        let root = DagRoot { bundle: "dags-folder".to_owned(), path: path.into() };
        Self { roots: vec![root], ..Self::default() }
    }

    /// The folders for people, separated by commas.
    pub fn shown(&self) -> String {
        let paths: Vec<String> = self.roots.iter().map(|root| show_path(&root.path)).collect();
        paths.join(", ")
    }
}

/// An entry of `dag_bundle_config_list`.
#[derive(Deserialize)]
struct Bundle {
    name: String,
    classpath: String,
    kwargs: serde_json::Map<String, serde_json::Value>,
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    own: &AirflowOwn<'_>,
    home: &Path,
    warnings: &mut Vec<String>,
) -> DagFolders {
    let folder = read_folder(reader, own, home, warnings);
    let bundles = own.get("dag_processor", "dag_bundle_config_list", &mut reader.problems);
    let read = match bundles {
        Some((text, origin)) => {
            let read = read_bundles(&text, &origin, &folder, home, warnings);
            let shown = read.as_ref().map_or_else(Clone::clone, |roots| show_roots(roots));
            reader.note(BUNDLES, shown, &origin);
            read
        }
        None => folder.map(|path| DagFolders::one(path).roots),
    };
    let ignore_syntax = read_syntax(reader, own, warnings);
    match read {
        Ok(roots) => DagFolders { roots, fault: None, ignore_syntax },
        Err(fault) => DagFolders { roots: Vec::new(), fault: Some(fault), ignore_syntax },
    }
}

fn read_folder(
    reader: &mut Reader<'_>,
    own: &AirflowOwn<'_>,
    home: &Path,
    warnings: &mut Vec<String>,
) -> Result<PathBuf, String> {
    let given = own.get("core", "dags_folder", &mut reader.problems);
    if given.is_none() && own.is_indirect("core", "dags_folder") {
        warnings.push(format!(
            "{FOLDER} is given by a command or a secrets backend, which is not followed; the default folder is taken"
        ));
    }
    let (path, origin) = match given {
        Some((text, origin)) => (home.join(text), origin),
        None => match own.blank("core", "dags_folder") {
            Some(origin) => {
                reader.note(FOLDER, "empty".to_owned(), &origin);
                return Err(format!("{FOLDER} ({origin}) is empty; name the folder, or take the setting out"));
            }
            None => (home.join("dags"), Origin::Default("in Airflow's home".to_owned())),
        },
    };
    reader.note(FOLDER, show_path(&path), &origin);
    Ok(path)
}

fn read_bundles(
    text: &str,
    origin: &Origin,
    folder: &Result<PathBuf, String>,
    home: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<DagRoot>, String> {
    // The reader's own message may quote a value, which may be a password in a bundle's arguments.
    let bundles: Vec<Bundle> = serde_json::from_str(text).map_err(|_| {
        format!("{BUNDLES} ({origin}) is not a JSON list of objects with `name`, `classpath` and `kwargs`")
    })?;
    let mut roots: Vec<DagRoot> = Vec::new();
    for (index, bundle) in bundles.iter().enumerate() {
        let Bundle { name, classpath, kwargs } = bundle;
        if bundles[..index].iter().any(|other| other.name == *name) {
            return Err(format!("{BUNDLES} ({origin}) names the bundle {name:?} twice"));
        }
        if classpath != LOCAL_BUNDLE {
            warnings.push(format!(
                "DAG bundle {name:?} is a {classpath}: only local bundles are scanned, so subscriptions in it are not seen"
            ));
            continue;
        }
        let path = match kwargs.get("path") {
            None | Some(serde_json::Value::Null) => folder.clone()?,
            Some(serde_json::Value::String(path)) if !path.trim().is_empty() => home.join(path),
            Some(_) => return Err(format!("{BUNDLES} ({origin}): the path of the bundle {name:?} is no path")),
        };
        roots.push(DagRoot { bundle: name.clone(), path });
    }
    if roots.is_empty() {
        return Err(format!("{BUNDLES} ({origin}) has no local bundle, so there is no folder to scan"));
    }
    Ok(roots)
}

fn show_roots(roots: &[DagRoot]) -> String {
    let shown: Vec<String> = roots.iter().map(|root| format!("{}={}", root.bundle, show_path(&root.path))).collect();
    shown.join(", ")
}

fn read_syntax(reader: &mut Reader<'_>, own: &AirflowOwn<'_>, warnings: &mut Vec<String>) -> Option<IgnoreSyntax> {
    let (text, origin) = own.get("core", "dag_ignore_file_syntax", &mut reader.problems)?;
    let syntax = match text.trim() {
        "regexp" => IgnoreSyntax::Regexp,
        "glob" => IgnoreSyntax::Glob,
        _ => {
            warnings.push(format!("{SYNTAX} ({origin}) is neither regexp nor glob; the default of Airflow is taken"));
            return None;
        }
    };
    reader.note(SYNTAX, text.trim().to_owned(), &origin);
    Some(syntax)
}
