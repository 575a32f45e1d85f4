//! Folders: what is listed, what is remembered, and what cannot be read.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use rmq_watcher::discovery::{Scan, ScanError, Scanner, scan};
use rmq_watcher::domain::declaration::FileProblemKind;
use tempfile::TempDir;

pub(crate) fn dag_file(id: &str, queue: &str) -> String {
    format!(
        "from airflow.sdk import dag\nfrom airflow_rmq_watcher import rmq_trigger\n\n\
         @rmq_trigger(queue=\"{queue}\")\n@dag(dag_id=\"{id}\")\ndef build():\n    pass\n\n\nbuild()\n"
    )
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn origins(scan: &Scan) -> Vec<&str> {
    let origins = scan.declarations.iter();
    origins.map(|declared| declared.origin.file.as_str()).collect()
}

pub(crate) fn queues(scan: &Scan) -> Vec<&str> {
    let queues = scan.declarations.iter();
    queues.map(|declared| declared.queue.as_str()).collect()
}

#[test]
fn folder_missing_is_an_error_and_never_empty() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("dags");
    let error = scan(&missing).unwrap_err();
    assert!(matches!(&error, ScanError::ListFolder { folder, .. } if *folder == missing));
    assert!(error.to_string().contains("dags"), "{error}");
    fs::write(&missing, "").unwrap();
    assert!(scan(&missing).is_err(), "a file is no folder");
    assert!(scan(Path::new("")).is_err(), "no name is no folder");
}

#[test]
fn folder_empty_is_an_empty_scan() {
    let folder = TempDir::new().unwrap();
    assert_eq!(scan(folder.path()).unwrap(), Scan::default());
}

#[test]
fn walk_takes_python_files_in_order_and_leaves_dot_names() {
    let folder = TempDir::new().unwrap();
    for name in [
        "b.py",
        "a/z.py",
        "a/deep/er/y.py",
        ".git/x.py",
        ".hidden.py",
        "__pycache__/c.py",
        "a/.ipynb_checkpoints/d.py",
        "notes.txt",
        "b.pyc",
        "b.PY",
    ] {
        write(folder.path(), name, &dag_file(&name.replace('/', "."), name));
    }
    let scan = scan(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["a/deep/er/y.py", "a/z.py", "b.py"]);
    assert_eq!(scan.listed, 3);
    assert_eq!(scan.unreadable, []);
}

#[test]
fn walk_follows_links_once_and_survives_loops() {
    let folder = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    write(outside.path(), "shared.py", &dag_file("shared", "q.shared"));
    write(folder.path(), "real/one.py", &dag_file("one", "q.one"));
    symlink(folder.path(), folder.path().join("real/up")).unwrap();
    symlink(folder.path().join("real"), folder.path().join("again")).unwrap();
    symlink("one.py", folder.path().join("real/alias.py")).unwrap();
    symlink(outside.path(), folder.path().join("linked")).unwrap();
    symlink("loop_b", folder.path().join("loop_a")).unwrap();
    symlink("loop_a", folder.path().join("loop_b")).unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["linked/shared.py", "real/one.py"]);
    assert_eq!(scan.refusals, []);
    assert_eq!(scan.listed, 2);
    let kinds: Vec<_> = scan.unreadable.iter().map(|p| (p.file.as_str(), p.kind)).collect();
    let unlisted = FileProblemKind::DirectoryUnreadable;
    assert_eq!(kinds, [("loop_a", unlisted), ("loop_b", unlisted)]);
}

#[test]
fn walk_reads_the_layout_of_a_mounted_config_map() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "..2026_11/orders.py", &dag_file("orders", "q"));
    symlink("..2026_11", folder.path().join("..data")).unwrap();
    symlink("..data/orders.py", folder.path().join("orders.py")).unwrap();
    assert_eq!(origins(&scan(folder.path()).unwrap()), ["orders.py"]);
}

#[test]
fn walk_reports_what_it_cannot_read_and_goes_on() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "good.py", &dag_file("good", "q.good"));
    symlink("nowhere.py", folder.path().join("dangling.py")).unwrap();
    symlink("nowhere", folder.path().join("unmounted")).unwrap();
    let big = fs::File::create(folder.path().join("big.py")).unwrap();
    big.set_len(64 * 1024 * 1024).unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["good.py"]);
    let problems: Vec<_> = scan.unreadable.iter().map(|p| (p.file.as_str(), p.kind)).collect();
    assert_eq!(
        problems,
        [
            ("big.py", FileProblemKind::TooLarge),
            ("dangling.py", FileProblemKind::Unreadable),
            ("unmounted", FileProblemKind::DirectoryUnreadable),
        ]
    );
    assert_eq!(scan.listed, 3, "listed files, readable or not");
}

/// Scans with the file rights of nobody, which root does not have to obey otherwise.
pub(crate) fn scan_as_nobody(folder: &Path) -> Result<Scan, ScanError> {
    std::thread::scope(|scope| {
        let scanning = scope.spawn(|| {
            // Holds for this thread and those it starts.
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
            scan(folder)
        });
        scanning.join().unwrap()
    })
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn walk_without_rights_reports_file_and_directory() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "good.py", &dag_file("good", "q.good"));
    write(folder.path(), "closed/a.py", &dag_file("a", "q.a"));
    write(folder.path(), "secret.py", &dag_file("secret", "q.secret"));
    set_mode(folder.path(), 0o755);
    set_mode(&folder.path().join("closed"), 0o000);
    set_mode(&folder.path().join("secret.py"), 0o000);
    let scan = scan_as_nobody(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["good.py"]);
    let problems = scan.unreadable.iter();
    let problems: Vec<_> = problems.map(|p| (p.file.as_str(), p.kind)).collect();
    assert_eq!(
        problems,
        [("closed", FileProblemKind::DirectoryUnreadable), ("secret.py", FileProblemKind::Unreadable),]
    );

    set_mode(folder.path(), 0o000);
    let closed = scan_as_nobody(folder.path());
    set_mode(folder.path(), 0o700);
    set_mode(&folder.path().join("closed"), 0o700);
    assert!(matches!(closed, Err(ScanError::ListFolder { .. })));
}

#[test]
fn walk_never_opens_a_pipe() {
    let folder = TempDir::new().unwrap();
    nix::unistd::mkfifo(&folder.path().join("pipe.py"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    symlink("pipe.py", folder.path().join("linked_pipe.py")).unwrap();
    write(folder.path(), "good.py", &dag_file("good", "q.good"));
    let scan = scan(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["good.py"]);
    assert_eq!(scan.listed, 1);
}

#[test]
fn scanner_notices_every_kind_of_change() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.py", &dag_file("a", "q.1"));
    write(folder.path(), "b.py", &dag_file("b", "q.b"));
    let mut scanner = Scanner::new(folder.path());
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.1", "q.b"]);
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.1", "q.b"], "unchanged");

    // Same size, and the modification time set back to what it was.
    let path = folder.path().join("a.py");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    rewrite_after_a_tick(&path, &dag_file("a", "q.2"));
    fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.2", "q.b"], "rewritten");

    // Another file under the same name, same size, same modification time.
    fs::write(folder.path().join("new"), dag_file("a", "q.3")).unwrap();
    let new = fs::File::open(folder.path().join("new")).unwrap();
    new.set_modified(modified).unwrap();
    fs::rename(folder.path().join("new"), &path).unwrap();
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.3", "q.b"], "replaced");

    fs::remove_file(&path).unwrap();
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.b"], "removed");
    fs::rename(folder.path().join("b.py"), folder.path().join("c.py")).unwrap();
    let scan = scanner.scan().unwrap();
    assert_eq!(origins(&scan), ["c.py"], "renamed");
}

/// Writes the file once the file system's clock has moved on from the file's last change.
pub(crate) fn rewrite_after_a_tick(path: &Path, text: &str) {
    use std::os::unix::fs::MetadataExt;
    let changed = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = changed(path);
    let deadline = Instant::now() + Duration::from_secs(10);
    while changed(path) == before {
        assert!(Instant::now() < deadline, "the file system's clock stands still");
        fs::write(path, text).unwrap();
    }
}

#[test]
fn scanner_keeps_a_broken_file_known_and_takes_its_repair() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.py", "from airflow_rmq_watcher import rmq_trigger\ndef (:\n");
    write(folder.path(), "b.py", &dag_file("b", "q.b"));
    let mut scanner = Scanner::new(folder.path());
    for _ in 0..2 {
        let scan = scanner.scan().unwrap();
        assert_eq!(queues(&scan), ["q.b"]);
        assert_eq!(scan.unreadable[0].kind, FileProblemKind::Syntax);
        assert_eq!(scan.unreadable[0].line, Some(2));
    }
    write(folder.path(), "a.py", &dag_file("a", "q.a"));
    let scan = scanner.scan().unwrap();
    assert_eq!(queues(&scan), ["q.a", "q.b"]);
    assert_eq!(scan.unreadable, []);
}

#[test]
fn scanner_after_the_folder_is_gone_and_back_reads_it_again() {
    let folder = TempDir::new().unwrap();
    let dags = folder.path().join("dags");
    write(&dags, "a.py", &dag_file("a", "q.a"));
    let mut scanner = Scanner::new(&dags);
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.a"]);
    fs::rename(&dags, folder.path().join("away")).unwrap();
    assert!(scanner.scan().is_err());
    fs::rename(folder.path().join("away"), &dags).unwrap();
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.a"]);
}

#[test]
fn scanner_reads_a_file_again_when_a_constant_it_imports_changes() {
    let folder = TempDir::new().unwrap();
    let importing = format!("from names.base import QUEUE\n{}", dag_file("a", "q").replace("\"q\"", "QUEUE"));
    write(folder.path(), "a.py", &importing);
    let mut scanner = Scanner::new(folder.path());
    let refused = |scan: &Scan| scan.refusals.iter().map(|refused| refused.reason.code()).collect::<Vec<_>>();
    assert_eq!(refused(&scanner.scan().unwrap()), ["not_constant"], "there is no such file yet");

    write(folder.path(), "names/base.py", "QUEUE = 'q.1'\n");
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.1"], "appeared");
    rewrite_after_a_tick(&folder.path().join("names/base.py"), "QUEUE = 'q.2'\n");
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.2"], "changed");

    write(folder.path(), "names/base.py", "from .deeper import QUEUE\n");
    write(folder.path(), "names/deeper.py", "QUEUE = 'q.3'\n");
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.3"], "by way of another");
    rewrite_after_a_tick(&folder.path().join("names/deeper.py"), "QUEUE = 'q.4'\n");
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.4"], "two files away");

    write(folder.path(), "names/base/__init__.py", "QUEUE = 'q.5'\n");
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.5"], "a package comes before a file");
    fs::remove_dir_all(folder.path().join("names")).unwrap();
    assert_eq!(refused(&scanner.scan().unwrap()), ["not_constant"], "gone");
}
