//! L2: the scan on real folders. The corpus in `tests/fixtures/dagfiles` is shared with the tests of the Python package,
//! which ask real Airflow what it makes of the same files.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod contents;
mod corpus;
mod depth;
mod folder;
mod hostile;
mod ignore_files;
mod real_dagbag;
mod roots;
mod watch;
mod yaml;
