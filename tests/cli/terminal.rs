//! What `status` does on a terminal and nowhere else: colours, and `--watch` in place.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::process::{Child, Stdio};

use nix::pty::{OpenptyResult, openpty};

use crate::kept::Kept;
use crate::support::Setup;

const GREEN: &str = "\u{1b}[32mlistening\u{1b}[0m";
const TO_THE_TOP: &str = "\u{1b}[H\u{1b}[2J";

/// A verb whose standard output is a terminal, and the terminal's other side.
fn on_a_terminal(kept: &Kept, verb: &[&str], environment: &[(&str, &str)]) -> (Child, File) {
    let OpenptyResult { master, slave } = openpty(None, None).unwrap();
    let mut command = Setup::in_folder(kept.folder.path()).command(verb);
    command.envs(environment.iter().copied());
    let child = command.stdin(Stdio::null()).stdout(Stdio::from(slave)).stderr(Stdio::null()).spawn().unwrap();
    (child, File::from(master))
}

/// What the terminal shows, until that is enough or nobody writes any more.
fn shown(terminal: &mut File, enough: impl Fn(&str) -> bool) -> String {
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if enough(&text) {
            return text;
        }
        match terminal.read(&mut part) {
            Ok(0) => return text,
            Ok(length) => all.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The kernel's word for a terminal that nobody has open any more.
            Err(_) => return text,
        }
    }
}

#[test]
fn colours_come_on_a_terminal_and_not_where_nobody_wants_them() {
    let kept = Kept::new();
    let _alive = kept.alive(|_| unreachable!("status asks nobody"));
    for (environment, is_coloured) in [
        (&[("TERM", "xterm")][..], true),
        (&[("TERM", "xterm"), ("NO_COLOR", "")], true),
        (&[("TERM", "xterm"), ("NO_COLOR", "1")], false),
        (&[("TERM", "dumb")], false),
    ] {
        for verb in [&["status"][..], &["subscriptions", "list"]] {
            let (mut child, mut terminal) = on_a_terminal(&kept, verb, environment);
            let text = shown(&mut terminal, |_| false);
            assert!(child.wait().unwrap().success(), "{text}");
            assert!(text.contains("listening"), "{text}");
            assert_eq!(
                (text.contains(GREEN), text.contains('\u{1b}')),
                (is_coloured, is_coloured),
                "{environment:?} {text}"
            );
        }
    }
    let said = kept.says(&["status"]);
    assert!(said.out.contains("listening") && !said.out.contains('\u{1b}'), "a pipe is no terminal: {said:?}");
}

#[test]
fn json_has_no_colours_on_a_terminal_either() {
    let kept = Kept::new();
    let (mut child, mut terminal) = on_a_terminal(&kept, &["status", "--json"], &[("TERM", "xterm")]);
    let text = shown(&mut terminal, |_| false);
    child.wait().unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["watcher"]["state"], "dead");
}

#[test]
fn watch_begins_each_look_at_the_top_of_a_terminal() {
    let kept = Kept::new();
    let verb = ["status", "--watch"];
    let (mut child, mut terminal) = on_a_terminal(&kept, &verb, &[("TERM", "xterm"), ("NO_COLOR", "1")]);
    let is_second_look = |text: &str| text.matches(TO_THE_TOP).count() == 2 && text.ends_with("1 disconnected\r\n\r\n");
    let text = shown(&mut terminal, is_second_look);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(text.starts_with(TO_THE_TOP), "{text:?}");
    for look in text.split(TO_THE_TOP).skip(1) {
        assert!(look.contains("every 2 s until Ctrl-C") && look.contains("WATCHER  dead"), "{look:?}");
    }
}
