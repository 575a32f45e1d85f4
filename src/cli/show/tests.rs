use super::table::{Cell, Column, Row, lines};
use super::text::{cut, plain, span, width, wrap};
use super::*;
use crate::domain::view::Tone;

#[test]
fn long_text_loses_its_middle_and_fits_in_every_script() {
    for (text, most, expected) in [
        ("orders", 6, "orders"),
        ("abcdefghij", 5, "ab…ij"),
        ("abcdefghij", 6, "abc…ij"),
        ("日本語のとても長い名前", 9, "日本…名前"),
        ("日本語のとても長い名前", 8, "日本…前"),
        ("ab", 1, "…"),
        ("ab", 0, ""),
    ] {
        let short = cut(text, most);
        assert_eq!(short, expected);
        assert!(width(&short) <= most, "{short}");
    }
}

#[test]
fn nothing_rules_the_terminal() {
    assert_eq!(plain("a\nb\tc\u{1b}[2J\u{202e}d\u{200b}é日"), "a\\nb\\tc\\u{1b}[2J\\u{202e}d\\u{200b}é日");
}

#[test]
fn texts_are_broken_between_words_and_words_where_they_must() {
    assert_eq!(wrap("one two three", 7), ["one two", "three"]);
    assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
    assert_eq!(wrap("x abcdefgh", 3), ["x", "abc", "def", "gh"]);
    assert_eq!(wrap("", 3), [""]);
    assert_eq!(wrap("日本語", 3), ["日", "本", "語"]);
}

#[test]
fn spans_have_two_units_at_most() {
    for (secs, words) in
        [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3_599, "59 min"), (3_600, "1 h 0 min"), (90_061, "1 d 1 h")]
    {
        assert_eq!(span(secs), words);
    }
}

#[test]
fn moments_are_utc_to_the_second() {
    assert_eq!(instant(1_700_000_000_999), "2023-11-14T22:13:20Z");
    assert_eq!(instant(-1), "1969-12-31T23:59:59Z");
    assert_eq!(instant(i64::MAX), format!("{} ms", i64::MAX));
}

fn table(rows: &[Row], most: usize, paint: Paint) -> Vec<String> {
    let columns = [
        Column { title: "ID", is_number: true, may_be_cut: false },
        Column { title: "NAME", is_number: false, may_be_cut: true },
        Column { title: "STATUS", is_number: false, may_be_cut: false },
        Column { title: "NOTE", is_number: false, may_be_cut: true },
    ];
    lines(&columns, rows, most, paint)
}

fn row(id: &str, name: &str, note: &str, below: Option<&str>) -> Row {
    let cells = vec![Cell::of(id), Cell::of(name), Cell::toned("error", Tone::Bad), Cell::of(note)];
    Row { cells, below: below.map(str::to_owned) }
}

#[test]
fn table_fits_and_leaves_empty_columns_out() {
    let rows = [row("1", "short", "", None), row("200", "a-rather-long-name-of-a-dag", "", Some("it is down"))];
    assert_eq!(
        table(&rows, 30, Paint::Plain),
        [
            " ID  NAME               STATUS",
            "  1  short              error",
            "200  a-rather…of-a-dag  error",
            "    it is down",
        ]
    );
    assert!(table(&rows, 30, Paint::Plain).iter().all(|line| width(line) <= 30));
}

#[test]
fn sentence_below_a_row_has_three_lines_at_most_and_says_so() {
    let long = "word ".repeat(100);
    let shown = table(&[row("1", "n", "", Some(&long))], 40, Paint::Plain);
    assert_eq!(shown.len(), 2 + 3);
    assert!(shown[4].ends_with(" …") && shown.iter().all(|line| width(line) <= 40), "{shown:?}");
}

#[test]
fn colours_take_no_room_and_stay_away_where_nobody_sees_them() {
    let rows = [row("1", "n", "later", None)];
    let (plain, coloured) = (table(&rows, 40, Paint::Plain), table(&rows, 40, Paint::Colours));
    assert!(!plain.concat().contains('\u{1b}'));
    assert_eq!(coloured[1], plain[1].replace("error", "\u{1b}[31merror\u{1b}[0m"));
}
