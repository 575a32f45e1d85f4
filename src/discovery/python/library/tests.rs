use super::*;
use crate::discovery::python::{SourceFile, read};

/// Files by their names.
struct Files(HashMap<&'static str, &'static str>);

impl Modules for Files {
    fn text(&self, file: &str) -> ModuleText {
        self.0.get(file).map_or(ModuleText::Absent, |text| ModuleText::Text((*text).into()))
    }
}

const FILES: [(&str, &str); 6] = [
    ("names.py", "A = 'a'\nB = A + 'b'\nC = [A]\nD = str(A)\nE = names2.F\nimport names2\n"),
    ("names2.py", "F = 'f'\n"),
    ("pack/__init__.py", "from . import inner\nfrom .inner import G as H\nfrom . import inner as inner_too\n"),
    ("pack/inner.py", "from ..names import B\nG = B + 'g'\n"),
    ("one.py", "from two import X\nY = X\n"),
    ("two.py", "from one import Y\nX = Y\n"),
];

fn constant(path: &str) -> Result<String, String> {
    let files = Files(FILES.into_iter().collect());
    let library = Library::new(&files);
    library.constant(path).map(|value| value.shown()).map_err(|reason| reason.to_string())
}

#[test]
fn constants_are_found_by_every_way_that_python_has() {
    for (path, value) in [
        ("names.A", "\"a\""),
        ("names.B", "\"ab\""),
        ("names.C", "a list"),
        ("names.names2.F", "\"f\""),
        ("pack.H", "\"abg\""),
        ("pack.inner.G", "\"abg\""),
        ("pack.inner_too.G", "\"abg\""),
        ("pack.inner.B", "\"ab\""),
    ] {
        assert_eq!(constant(path), Ok(value.to_owned()), "{path}");
    }
}

#[test]
fn constant_that_cannot_be_known_says_why() {
    for (path, because) in [
        ("names.D", "this is a call"),
        ("names.E", "only after it is used"),
        ("names.Z", "gives no such name a value"),
        ("nowhere.Z", "the module `nowhere` is not a file of the DAG folder"),
        ("os.sep", "`os` is a module of Python or Airflow"),
        ("airflow.configuration.conf", "`airflow` is a module of Python or Airflow"),
        ("one.Y", "lead"),
        ("names", "is not a file of the DAG folder"),
    ] {
        let reason = constant(path).expect_err(path);
        assert!(reason.contains(because), "{path}: {reason}");
    }
}

#[test]
fn reading_says_which_files_it_asked_for() {
    let files = Files(FILES.into_iter().collect());
    let library = Library::new(&files);
    let text = "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\nfrom pack.inner import G\n\
                @rmq_trigger(queue=G)\n@dag\ndef d(): ...\n";
    let file = |name| SourceFile { name, path: name, text };
    let first = read(file("first.py"), &library).expect("Python");
    let expected = ["names.py", "names/__init__.py", "pack/__init__.py", "pack/inner.py", "pack/inner/__init__.py"];
    assert_eq!(first.asked, expected);
    assert_eq!(first.declarations[0].queue.as_str(), "abg");
    let second = read(file("second.py"), &library).expect("Python");
    assert_eq!(second.asked, expected, "also where another file has asked before");
}
