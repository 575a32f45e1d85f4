//! Stops a text that nests too deeply before its syntax tree is built.
//!
//! The parser looks after its own stack; walking and freeing the tree recurses once per level and does not. So the levels
//! are bounded here, from the tokens alone. The count errs upwards: every token that could open a level counts until the
//! next comma, statement or closing bracket of its level. What it refuses CPython cannot import either: its own limits
//! are 200 brackets, 100 indents and about a thousand levels of expression.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// The most open brackets. Source: `MAXLEVEL` of CPython's tokenizer.
const MAX_BRACKETS: usize = 200;

/// The most open blocks. Source: `MAXINDENT` of CPython's tokenizer.
const MAX_INDENTS: usize = 100;

/// The most tokens that may each open a level of an expression, along one path.
const MAX_LEVELS: usize = 3_000;

/// Whether a text's tree can be walked within [`super::super::READER_STACK_BYTES`].
pub(super) fn is_bounded(text: &str) -> bool {
    let mut lexer = lexer::lex(text, Mode::Module);
    let mut brackets: Vec<usize> = Vec::new();
    let mut indents = 0_usize;
    let mut outer = 0_usize;
    let mut here = 0_usize;
    loop {
        match levels(lexer.next_token()) {
            Levels::End => return true,
            Levels::None => {}
            Levels::One => here += 1,
            Levels::Open => {
                brackets.push(here + 1);
                outer += here + 1;
                here = 0;
            }
            Levels::Close => {
                // What was inside may be the head of a chain such as `f(…)(…)(…)`: one level stays.
                let before = brackets.pop().unwrap_or(0);
                outer -= before;
                here = before;
            }
            Levels::Again => here = 0,
            Levels::Indent => indents += 1,
            Levels::Dedent => indents = indents.saturating_sub(1),
        }
        if brackets.len() > MAX_BRACKETS || indents > MAX_INDENTS || outer + here > MAX_LEVELS {
            return false;
        }
    }
}

/// What a token does to the count.
enum Levels {
    End,
    None,
    One,
    Open,
    Close,
    Again,
    Indent,
    Dedent,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a token that is not named here counts as a level, which errs to the safe side"
)]
fn levels(token: TokenKind) -> Levels {
    match token {
        TokenKind::EndOfFile => Levels::End,
        TokenKind::Name
        | TokenKind::Int
        | TokenKind::Float
        | TokenKind::Complex
        | TokenKind::String
        | TokenKind::FStringMiddle
        | TokenKind::TStringMiddle
        | TokenKind::Comment
        | TokenKind::NonLogicalNewline
        | TokenKind::True
        | TokenKind::False
        | TokenKind::None => Levels::None,
        TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => Levels::Open,
        TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => Levels::Close,
        TokenKind::Comma | TokenKind::Newline | TokenKind::Semi => Levels::Again,
        TokenKind::Indent => Levels::Indent,
        TokenKind::Dedent => Levels::Dedent,
        _ => Levels::One,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_bounded_passes_what_real_files_hold() {
        let wide = format!("x = [{}]\n", "(1, 2 + 3), ".repeat(20_000));
        let long = format!("x = ({})\n", "'a'\n".repeat(20_000));
        let chain = format!("x = a{}\n", ".b(1, c=2)".repeat(500));
        let many = "def f(a, b=1):\n    return a.b + b\n".repeat(5_000);
        for text in [wide, long, chain, many, "f'{a!r:>{w}} {b}'\n".repeat(4_000)] {
            assert!(is_bounded(&text), "{}", &text[..15]);
        }
    }

    #[test]
    fn is_bounded_stops_what_would_exhaust_the_stack() {
        let deep = 100_000;
        for text in [
            "(".repeat(deep),
            "[".repeat(deep) + &"]".repeat(deep),
            "x = ".to_owned() + &"-".repeat(deep) + "1",
            "x = ".to_owned() + &"not ".repeat(deep) + "1",
            "x = 1".to_owned() + &" + 1".repeat(deep),
            "x = a".to_owned() + &".b".repeat(deep),
            "x = a".to_owned() + &"()".repeat(deep),
            "x = a".to_owned() + &"[0]".repeat(deep),
            "x = ".to_owned() + &"lambda: ".repeat(deep) + "1",
            "x = ".to_owned() + &"1 if 1 else ".repeat(deep) + "1",
            (0..200).fold(String::new(), |text, n| text + &" ".repeat(n) + "if 1:\n") + &" ".repeat(200) + "pass\n",
        ] {
            assert!(!is_bounded(&text), "{}", &text[..20]);
        }
    }
}
