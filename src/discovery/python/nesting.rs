//! Stops a text that nests too deeply before its syntax tree is built.
//!
//! The parser looks after its own stack; walking and freeing the tree recurses once per level and does not. So the levels
//! are bounded here, from the tokens alone. Whatever nests does so by a token of its own or inside brackets, and a path
//! through the tree enters at most one of the brackets that stand side by side. So the levels of a piece between two
//! commas are at most its tokens plus the levels of its deepest bracket, in whichever order they lean. A comma ends a
//! piece except between `lambda` and its colon and after `yield`, which hold what follows. What the parser makes of a
//! broken text can differ from its tokens: [`super::depth`] looks at the tree itself. CPython's own limits are 200
//! brackets, 100 indents and some thousand levels of expression; only a flat chain of thousands of operators without a
//! comma is refused here and taken there.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// The most open brackets. Source: `MAXLEVEL` of CPython's tokenizer.
const MAX_BRACKETS: usize = 200;

/// The most open blocks. Source: `MAXINDENT` of CPython's tokenizer.
const MAX_INDENTS: usize = 100;

/// The most tokens that may each open a level of an expression, along one path.
pub(super) const MAX_LEVELS: usize = 3_000;

/// Whether a text's tree can be walked within [`super::super::READER_STACK_BYTES`].
pub(super) fn is_bounded(text: &str) -> bool {
    let mut lexer = lexer::lex(text, Mode::Module);
    let mut count = Count::default();
    let mut indents = 0_usize;
    loop {
        let token = lexer.next_token();
        match effect(token) {
            Effect::End => return !count.may_hide_text(),
            Effect::None => {}
            Effect::Level => count.here.tokens += 1,
            Effect::Open => count.open(),
            Effect::Close => count.close(),
            Effect::Comma if count.here.holds_commas() => count.here.tokens += 1,
            Effect::Comma => count.here.end_piece(),
            // Not in brackets: the parser may go on with what it was in.
            Effect::Statement if token == TokenKind::Semi && !count.outer.is_empty() => count.here.tokens += 1,
            Effect::Statement => count.end_statement(),
            Effect::Indent => indents += 1,
            Effect::Dedent => indents = indents.saturating_sub(1),
        }
        count.note(token);
        if count.outer.len() > MAX_BRACKETS || indents > MAX_INDENTS || count.levels() > MAX_LEVELS {
            return false;
        }
    }
}

/// What was read of the inside of one bracket, or of a statement outside all brackets.
#[derive(Debug, Default)]
struct Inside {
    /// The tokens of this piece that may each open a level, those inside its brackets left out.
    tokens: usize,
    /// The levels of the deepest closed bracket of this piece.
    deepest: usize,
    /// The levels of the deepest piece before this one.
    finished: usize,
    /// `lambda`s of which the colon is still to come.
    lambdas: usize,
    /// Whether a `yield` stands in this piece.
    yields: bool,
}

impl Inside {
    fn holds_commas(&self) -> bool {
        self.lambdas > 0 || self.yields
    }

    fn end_piece(&mut self) {
        self.finished = self.finished.max(self.tokens + self.deepest);
        self.tokens = 0;
        self.deepest = 0;
    }
}

#[derive(Debug, Default)]
struct Count {
    outer: Vec<Inside>,
    /// The tokens of all that is in `outer`.
    outer_tokens: usize,
    here: Inside,
    /// Formatted strings that are not closed yet.
    strings: usize,
    /// Whether the last token that means anything was a string.
    after_string: bool,
}

impl Count {
    /// The levels of the deepest path that goes through this piece, as far as it is read.
    fn levels(&self) -> usize {
        self.outer_tokens + self.here.tokens + self.here.deepest
    }

    fn open(&mut self) {
        self.here.tokens += 1;
        self.outer_tokens += self.here.tokens;
        self.outer.push(std::mem::take(&mut self.here));
    }

    fn close(&mut self) {
        // One that was never opened closes nothing.
        if let Some(outer) = self.outer.pop() {
            self.here.end_piece();
            let inside = std::mem::replace(&mut self.here, outer);
            self.outer_tokens -= self.here.tokens;
            self.here.deepest = self.here.deepest.max(inside.finished);
        }
    }

    fn end_statement(&mut self) {
        self.here.end_piece();
        self.here.lambdas = 0;
        self.here.yields = false;
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all other tokens only end what a string was the last of")]
    fn note(&mut self, token: TokenKind) {
        match token {
            TokenKind::Newline
            | TokenKind::NonLogicalNewline
            | TokenKind::Comment
            | TokenKind::Dedent
            | TokenKind::EndOfFile => return,
            TokenKind::Lambda => self.here.lambdas += 1,
            TokenKind::Colon => self.here.lambdas = self.here.lambdas.saturating_sub(1),
            TokenKind::Yield => self.here.yields = true,
            TokenKind::FStringStart | TokenKind::TStringStart => self.strings += 1,
            TokenKind::FStringEnd | TokenKind::TStringEnd => self.strings = self.strings.saturating_sub(1),
            _ => {}
        }
        self.after_string = token == TokenKind::String;
    }

    /// Whether the text ends in a string inside a formatted string. The parser, unlike the lexer, takes the first quotes
    /// of such a string for the end of the formatted one and the rest for code.
    fn may_hide_text(&self) -> bool {
        self.strings > 0 && self.after_string && !self.outer.is_empty()
    }
}

/// What a token does to the count.
enum Effect {
    End,
    None,
    Level,
    Open,
    Close,
    Comma,
    Statement,
    Indent,
    Dedent,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a token that is not named here counts as a level, which errs to the safe side"
)]
fn effect(token: TokenKind) -> Effect {
    match token {
        TokenKind::EndOfFile => Effect::End,
        TokenKind::Name
        | TokenKind::Int
        | TokenKind::Float
        | TokenKind::Complex
        | TokenKind::String
        | TokenKind::FStringMiddle
        | TokenKind::FStringEnd
        | TokenKind::TStringMiddle
        | TokenKind::TStringEnd
        | TokenKind::Comment
        | TokenKind::NonLogicalNewline
        | TokenKind::True
        | TokenKind::False
        | TokenKind::None => Effect::None,
        TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => Effect::Open,
        TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => Effect::Close,
        TokenKind::Comma => Effect::Comma,
        TokenKind::Newline | TokenKind::Semi => Effect::Statement,
        TokenKind::Indent => Effect::Indent,
        TokenKind::Dedent => Effect::Dedent,
        _ => Effect::Level,
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
            "x = ".to_owned() + &"lambda a,b: ".repeat(deep) + "1",
            "x = ".to_owned() + &"lambda a=1,*b,c=lambda d,e: 1,**f: ".repeat(deep) + "1",
            "x = ".to_owned() + &"yield a, ".repeat(deep) + "1",
            "x = ".to_owned() + &"(".repeat(150) + "a" + &(".b".repeat(100) + ")").repeat(150),
            "x = ".to_owned() + &"(".repeat(150) + "1" + &("+1".repeat(100) + ")").repeat(150),
            "f'''{'''\nx = ".to_owned() + &"-".repeat(deep) + "1",
            (0..200).fold(String::new(), |text, n| text + &" ".repeat(n) + "if 1:\n") + &" ".repeat(200) + "pass\n",
        ] {
            assert!(!is_bounded(&text), "{}", &text[..20]);
        }
    }
}
