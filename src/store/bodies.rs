//! Bodies that are too large for a conf, as files beside the state file.
//!
//! Serves `pipeline::body`: a run names its file, so the file is whole and on the disk before the run is asked for, and a second
//! delivery of the message finds or writes the same one. Files go by age alone: nothing tells when the last task has read one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use crate::domain::content::{BodyFile, body_digest, file_name};
use crate::domain::ids::RunId;

/// The folder's name within the state directory.
pub const FOLDER: &str = "files";

/// What a file is called until it is whole.
const UNFINISHED: &str = ".part";

/// The folder of such files.
#[derive(Clone, Debug)]
pub struct Bodies {
    folder: PathBuf,
    kept_for: Duration,
}

impl Bodies {
    /// The folder within a state directory; it is made (mode 0700) with the first file.
    pub fn new(state_dir: &Path, kept_for: Duration) -> Self {
        Self { folder: state_dir.join(FOLDER), kept_for }
    }

    /// Writes the body of a run to its file (mode 0600), whole or not at all, and returns once it is on the disk. A thread of
    /// its own does it.
    ///
    /// # Errors
    /// The system's word: no room, no right.
    pub async fn keep(&self, run_id: &RunId, body: Bytes) -> io::Result<BodyFile> {
        let (folder, run_id) = (self.folder.clone(), run_id.clone());
        let written = tokio::task::spawn_blocking(move || write(&folder, run_id.as_str(), &body)).await;
        written.map_err(io::Error::other)?
    }

    /// Removes files that were written longer ago than they are kept, unfinished ones included; returns how many went. A thread
    /// of its own does it.
    ///
    /// # Errors
    /// The system's word about the folder, or about the first file that cannot be removed; the others are removed all the same.
    pub async fn prune(&self, now_ms: i64) -> io::Result<usize> {
        let (folder, kept_for) = (self.folder.clone(), self.kept_for);
        let pruned = tokio::task::spawn_blocking(move || prune(&folder, kept_for, now_ms)).await;
        pruned.map_err(io::Error::other)?
    }
}

fn write(folder: &Path, run_id: &str, body: &[u8]) -> io::Result<BodyFile> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    let sha256 = body_digest(body);
    let path = folder.join(file_name(run_id, &sha256));
    let mut unfinished = path.clone().into_os_string();
    unfinished.push(format!("{UNFINISHED}{:x}", fastrand::u64(..)));
    let written = write_new(Path::new(&unfinished), body).and_then(|()| fs::rename(&unfinished, &path));
    if let Err(error) = written {
        drop(fs::remove_file(&unfinished)); // It may not be there; what stays is pruned by age.
        return Err(error);
    }
    File::open(folder)?.sync_all()?;
    Ok(BodyFile { path: path.to_string_lossy().into_owned(), size: body.len(), sha256 })
}

fn write_new(path: &Path, body: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(body)?;
    file.sync_all()
}

fn prune(folder: &Path, kept_for: Duration, now_ms: i64) -> io::Result<usize> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(now_ms).unwrap_or(0));
    let (mut gone, mut fault) = (0, None);
    for entry in entries {
        let entry = entry?;
        let is_old = entry.metadata().and_then(|facts| facts.modified()).is_ok_and(|written| {
            // A file from the future is not old.
            now.duration_since(written).is_ok_and(|age| age > kept_for)
        });
        if !is_old || !is_ours(&entry.file_name().to_string_lossy()) {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Ok(()) => gone += 1,
            Err(error) => fault = fault.or(Some(error)),
        }
    }
    fault.map_or(Ok(gone), Err)
}

fn is_ours(name: &str) -> bool {
    name.ends_with(".body") || name.contains(&format!(".body{UNFINISHED}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn later(days: u32) -> i64 {
        let now = UNIX_EPOCH.elapsed().expect("after 1970") + DAY * days;
        i64::try_from(now.as_millis()).expect("a date")
    }

    #[test]
    fn a_body_is_written_whole_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join(FOLDER);
        let first = write(&folder, "rmq__q__m", b"abc").expect("written");
        assert_eq!(write(&folder, "rmq__q__m", b"abc").expect("written again"), first);
        let other = write(&folder, "rmq__q__m", b"abd").expect("written");
        assert_ne!(other.path, first.path);
        assert_eq!(fs::read(&first.path).expect("the file"), b"abc");
        assert_eq!((first.size, &first.sha256), (3, &body_digest(b"abc")));
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(Path::new(&first.path)), mode(&folder)), (0o600, 0o700));
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 2);
    }

    #[test]
    fn files_go_by_age_and_nothing_else_goes() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join(FOLDER);
        assert_eq!(prune(&folder, DAY, later(9)).expect("no folder"), 0);
        write(&folder, "r", b"abc").expect("written");
        for name in ["r.00.body.part1", "notes.txt"] {
            fs::write(folder.join(name), "x").expect("written");
        }
        assert_eq!(prune(&folder, DAY, later(0)).expect("all are young"), 0);
        assert_eq!(prune(&folder, DAY, 0).expect("all are of the future"), 0);
        assert_eq!(prune(&folder, DAY, later(2)).expect("all are old"), 2);
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(write(&file, "r", b"abc").is_err());
        assert!(prune(&file, DAY, 0).is_err());
    }
}
