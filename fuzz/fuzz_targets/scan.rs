//! Any text as a DAG file, and as a module that a DAG file imports. The scan neither panics nor hangs, whatever it is.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rmq_watcher::discovery::scan;
use rmq_watcher::domain::declaration::FileProblemKind;

/// What stands between the text of the DAG file and that of the module `consts`.
const CUT: &[u8] = b"\n#---\n";

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder to write to").keep()
});

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.windows(CUT.len()).position(|window| window == CUT);
    let (dag, consts) = at.map_or((bytes, &b""[..]), |at| (&bytes[..at], &bytes[at + CUT.len()..]));
    let mut dag = dag.to_vec();
    dag.extend_from_slice(b"\n# rmq_trigger\n");
    fs::write(FOLDER.join("dag.py"), dag).expect("written");
    fs::write(FOLDER.join("consts.py"), consts).expect("written");
    let found = scan(&FOLDER).expect("the folder can be listed");
    let failed = found.unreadable.iter().find(|problem| problem.kind == FileProblemKind::ParserFailed);
    assert!(failed.is_none(), "{failed:?}");
});
