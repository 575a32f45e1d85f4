use super::file::Trouble;
use super::python::Reading;
mod tree;
pub(super) fn read(_name: &str, bytes: &[u8]) -> Result<Reading, Trouble> {
    let _ = tree::parse(std::str::from_utf8(bytes).unwrap_or_default());
    Ok(Reading::default())
}
