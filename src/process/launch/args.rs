//! The launcher's command line, parsed by hand: one small pure function instead of an argument crate in a binary that must
//! start in about a millisecond.

use std::ffi::{CStr, CString};

/// What `--help` prints.
pub const USAGE: &str = "\
Starts rmq-watcher as a child of this process, then becomes CMD: same PID, descriptors, signals, limits and exit code.
CMD starts whatever happens to the watcher.

Usage: rmq-launcher [OPTIONS] -- CMD [ARGS]...

Options:
      --watcher PATH      The watcher's program [default: rmq-watcher beside this one, else on PATH]
      --config FILE       Handed on to the watcher: rmq-watcher run --config FILE
      --require-watcher   Exit with 2 instead of starting CMD when the watcher cannot be started
  -h, --help              Print this help
  -V, --version           Print the version

Example: rmq-launcher -- airflow scheduler
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Print [`USAGE`].
    Help,
    /// Print the version.
    Version,
    /// Start the watcher, then become the command.
    Launch(Launch),
}

/// A launch as asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// `--watcher`.
    pub watcher: Option<CString>,
    /// `--config`.
    pub config: Option<CString>,
    /// `--require-watcher`.
    pub require_watcher: bool,
    /// The command and its arguments; never empty.
    pub command: Vec<CString>,
}

/// Parses everything after the program's own name.
///
/// # Errors
/// One sentence for the user; exit with 2.
pub fn parse(arguments: &[CString]) -> Result<Request, String> {
    let mut launch = Launch::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let (flag, inline) = split(argument);
        match flag {
            b"--" => {
                launch.command = rest.cloned().collect();
                if launch.command.is_empty() {
                    return Err("there is no command after -- (such as: rmq-launcher -- airflow scheduler)".to_owned());
                }
                return Ok(Request::Launch(launch));
            }
            b"-h" | b"--help" => return Ok(Request::Help),
            b"-V" | b"--version" => return Ok(Request::Version),
            b"--require-watcher" if inline.is_none() => launch.require_watcher = true,
            b"--watcher" => launch.watcher = Some(value(argument, inline, &mut rest)?),
            b"--config" => launch.config = Some(value(argument, inline, &mut rest)?),
            _ => {
                return Err(format!(
                    "{} is not an option of rmq-launcher; put -- before the command (see rmq-launcher --help)",
                    argument.to_string_lossy()
                ));
            }
        }
    }
    Err("there is no -- followed by the command to start (such as: rmq-launcher -- airflow scheduler)".to_owned())
}

/// `--name=value` as its two parts.
fn split(argument: &CStr) -> (&[u8], Option<CString>) {
    let bytes = argument.to_bytes();
    if bytes.starts_with(b"--")
        && let Some(at) = bytes.iter().position(|byte| *byte == b'=')
        && let (name, [_, value @ ..]) = bytes.split_at(at)
    {
        return (name, CString::new(value).ok());
    }
    (bytes, None)
}

fn value<'a>(
    argument: &CStr,
    inline: Option<CString>,
    rest: &mut impl Iterator<Item = &'a CString>,
) -> Result<CString, String> {
    inline
        .or_else(|| rest.next().cloned())
        .filter(|value| !value.is_empty() && value.as_bytes() != b"--")
        .ok_or_else(|| format!("{} needs a value", argument.to_string_lossy()))
}

/// Whether the command is an Airflow scheduler that leaves its process for the background (`airflow scheduler -D`).
///
/// Airflow's own rules for the flag: `-D`, `--daemon` or an abbreviation of it, or `D` in a group of flags without values
/// (`-vD`). Source: Airflow 2.11 and 3.3, `airflow/cli/cli_config.py`, `ARG_DAEMON` and the scheduler's other flags.
pub fn daemonizes(command: &[CString]) -> bool {
    let mut words = command.iter().map(|word| word.as_bytes());
    words.any(|word| word == b"scheduler") && words.any(is_daemon_flag)
}

fn is_daemon_flag(word: &[u8]) -> bool {
    match word {
        [b'-', b'-', ..] => word.len() >= "--dae".len() && b"--daemon".starts_with(word),
        [b'-', flags @ ..] => flags.contains(&b'D') && flags.iter().all(|flag| b"Dpsv".contains(flag)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<CString> {
        words.iter().map(|word| CString::new(*word).expect("no NUL in a test word")).collect()
    }

    #[test]
    fn launch_with_every_option_is_understood() {
        let expected = Launch {
            watcher: Some(c"/opt/w".to_owned()),
            config: Some(c"/etc/c.toml".to_owned()),
            require_watcher: true,
            command: words(&["airflow", "scheduler", "--", "--watcher"]),
        };
        for line in [
            "--watcher /opt/w --config /etc/c.toml --require-watcher -- airflow scheduler -- --watcher",
            "--require-watcher --config=/etc/c.toml --watcher=/opt/w -- airflow scheduler -- --watcher",
        ] {
            let line: Vec<&str> = line.split(' ').collect();
            assert!(matches!(parse(&words(&line)), Ok(Request::Launch(launch)) if launch == expected), "{line:?}");
        }
    }

    #[test]
    fn command_keeps_empty_and_odd_arguments() {
        let command = words(&["cmd", "", "a b", "--help", "-D"]);
        let mut line = words(&["--"]);
        line.extend(command.iter().cloned());
        assert!(matches!(parse(&line), Ok(Request::Launch(launch)) if launch.command == command));
    }

    #[test]
    fn wrong_lines_are_refused_with_a_sentence() {
        for (line, part) in [
            (&[][..], "there is no -- followed"),
            (&["airflow", "scheduler"], "airflow is not an option"),
            (&["--"], "no command after --"),
            (&["--watcher"], "--watcher needs a value"),
            (&["--watcher", "--", "x"], "--watcher needs a value"),
            (&["--config="], "--config= needs a value"),
            (&["--require-watcher=1", "--", "x"], "is not an option"),
            (&["-x"], "-x is not an option"),
        ] {
            let answer = parse(&words(line));
            assert!(matches!(&answer, Err(text) if text.contains(part)), "{line:?}: {answer:?}");
        }
        assert_eq!(parse(&words(&["-h"])), Ok(Request::Help));
        assert_eq!(parse(&words(&["--version"])), Ok(Request::Version));
    }

    #[test]
    fn daemon_flag_counts_only_after_the_word_scheduler() {
        for line in [
            "airflow scheduler -D",
            "/entrypoint scheduler --daemon",
            "airflow scheduler -vD",
            "airflow scheduler -n 5 --daem",
        ] {
            let line: Vec<&str> = line.split(' ').collect();
            assert!(daemonizes(&words(&line)), "{line:?}");
        }
        for line in [
            "airflow scheduler",
            "airflow -D",
            "java -Dx=1 scheduler",
            "airflow scheduler -S /Data",
            "airflow scheduler --dag-id x",
            "airflow scheduler --daemonic",
            "airflow scheduler -SD",
        ] {
            let line: Vec<&str> = line.split(' ').collect();
            assert!(!daemonizes(&words(&line)), "{line:?}");
        }
    }
}
