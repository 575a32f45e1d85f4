//! The symbolic links on the way to a folder: where one of them is switched, another folder is scanned. Serves the control flow:
//! wake.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many as the system follows on one way. Source: path_resolution(7).
const MOST: usize = 40;

/// Every link on the way to a path, those that links point to among them, each with no link in its own way.
pub(super) fn on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let mut place = PathBuf::new();
    let mut ahead: VecDeque<OsString> = parts(path).collect();
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            place.pop();
            continue;
        }
        // The root of the file system takes the place of whatever stands before it.
        let next = place.join(&part);
        match fs::read_link(&next) {
            Ok(target) if links.len() < MOST => {
                for part in parts(&target).rev() {
                    ahead.push_front(part);
                }
                links.push(next);
            }
            Ok(_) => break,
            Err(_) => place = next,
        }
    }
    links
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_on_the_way_is_named_at_its_real_place() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("rev-1/dags")).unwrap();
        fs::create_dir(base.join("mount")).unwrap();
        symlink("../rev-1", base.join("mount/..data")).unwrap();
        symlink("..data/dags", base.join("mount/dags")).unwrap();
        symlink(base.join("mount"), base.join("current")).unwrap();
        let links = on_the_way(&base.join("current/./dags"));
        assert_eq!(links, [base.join("current"), base.join("mount/dags"), base.join("mount/..data")]);
        assert_eq!(on_the_way(&base.join("rev-1/dags")), [] as [PathBuf; 0]);
        assert_eq!(on_the_way(&base.join("gone/dags")), [] as [PathBuf; 0]);
    }

    #[test]
    fn links_in_a_circle_come_to_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        symlink("b", base.join("a")).unwrap();
        symlink("a", base.join("b")).unwrap();
        assert_eq!(on_the_way(&base.join("a")).len(), MOST);
    }
}
