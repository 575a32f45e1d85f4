//! Looks how deep a syntax tree really is, and takes one that is too deep apart so that freeing it needs little stack.
//!
//! [`super::nesting`] bounds the levels from the tokens before the tree is built. In a broken text the parser reads some
//! characters again as other tokens, so that bound is not the last word: this one is. Nothing here recurses deeper than
//! [`MAX_DEPTH`] nodes, whatever the tree is.

use std::cell::{Cell, RefCell};
use std::mem;

use ruff_python_ast::visitor::transformer::{
    Transformer, walk_expr, walk_interpolated_string_element, walk_pattern, walk_stmt,
};
use ruff_python_ast::{
    AtomicNodeIndex, Expr, ExprNoneLiteral, InterpolatedStringElement, InterpolatedStringLiteralElement, Pattern,
    PatternMatchStar, Stmt, StmtPass,
};
use ruff_text_size::TextRange;

use super::nesting::MAX_LEVELS;

/// The deepest tree that is walked, in nodes: the levels of an expression, and room for the blocks around it and for the
/// two nodes that one bracket can be.
const MAX_DEPTH: usize = MAX_LEVELS + 1_000;

/// Cuts a file's tree into pieces of at most [`MAX_DEPTH`] nodes. Returns whether it was in one piece and still is.
pub(super) fn is_bounded(body: &mut [Stmt]) -> bool {
    let cutter = Cutter::default();
    cutter.visit_body(body);
    let mut is_whole = true;
    loop {
        let next = cutter.cut.borrow_mut().pop();
        let Some(mut piece) = next else {
            return is_whole;
        };
        is_whole = false;
        match &mut piece {
            Piece::Stmt(stmt) => cutter.visit_stmt(stmt),
            Piece::Expr(expr) => cutter.visit_expr(expr),
            Piece::Pattern(pattern) => cutter.visit_pattern(pattern),
            Piece::Element(element) => cutter.visit_interpolated_string_element(element),
        }
    }
}

/// A part that was cut off.
enum Piece {
    Stmt(Stmt),
    Expr(Expr),
    Pattern(Pattern),
    Element(InterpolatedStringElement),
}

#[derive(Default)]
struct Cutter {
    depth: Cell<usize>,
    cut: RefCell<Vec<Piece>>,
}

impl Cutter {
    /// Walks a node one level deeper, or puts `stump` in its place.
    fn visit<N>(&self, node: &mut N, stump: impl FnOnce() -> N, piece: fn(N) -> Piece, walk: fn(&Self, &mut N)) {
        let depth = self.depth.get();
        if depth >= MAX_DEPTH {
            self.cut.borrow_mut().push(piece(mem::replace(node, stump())));
            return;
        }
        self.depth.set(depth + 1);
        walk(self, node);
        self.depth.set(depth);
    }
}

impl Transformer for Cutter {
    fn visit_stmt(&self, stmt: &mut Stmt) {
        let stump = || Stmt::Pass(StmtPass { node_index: AtomicNodeIndex::NONE, range: TextRange::default() });
        self.visit(stmt, stump, Piece::Stmt, walk_stmt);
    }

    fn visit_expr(&self, expr: &mut Expr) {
        let stump =
            || Expr::NoneLiteral(ExprNoneLiteral { node_index: AtomicNodeIndex::NONE, range: TextRange::default() });
        self.visit(expr, stump, Piece::Expr, walk_expr);
    }

    fn visit_pattern(&self, pattern: &mut Pattern) {
        let stump = || {
            Pattern::MatchStar(PatternMatchStar {
                node_index: AtomicNodeIndex::NONE,
                range: TextRange::default(),
                name: None,
            })
        };
        self.visit(pattern, stump, Piece::Pattern, walk_pattern);
    }

    fn visit_interpolated_string_element(&self, element: &mut InterpolatedStringElement) {
        let stump = || {
            InterpolatedStringElement::Literal(InterpolatedStringLiteralElement {
                node_index: AtomicNodeIndex::NONE,
                range: TextRange::default(),
                value: Box::default(),
            })
        };
        self.visit(element, stump, Piece::Element, walk_interpolated_string_element);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use ruff_python_ast::Mod;
    use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};

    use super::*;

    fn is_whole(text: &str) -> bool {
        match parse_unchecked(text, ParseOptions::from(Mode::Module)).into_syntax() {
            Mod::Module(mut module) => is_bounded(&mut module.body),
            Mod::Expression(_) => unreachable!("a module was asked for"),
        }
    }

    /// As much as the thread that reads files has, of which the trees below would need more to be freed whole.
    fn on_a_reader_stack(test: fn()) {
        let stack = super::super::super::READER_STACK_BYTES;
        std::thread::Builder::new().stack_size(stack).spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn is_bounded_leaves_a_tree_that_is_shallow_enough() {
        for text in ["x = 1", "match x:\n    case [a, {'k': b}]: f'{a:{b}}'\n"] {
            assert!(is_whole(text), "{text}");
        }
    }

    #[test]
    fn is_bounded_takes_any_tree_apart() {
        on_a_reader_stack(|| {
            let deep = 300_000;
            for text in [
                "x = 1".to_owned() + &"+1".repeat(deep),
                "x = a".to_owned() + &".b".repeat(deep),
                "x = ".to_owned() + &"-".repeat(deep / 10) + "1",
                "x = ".to_owned() + &"lambda a,b:".repeat(deep / 10) + "1",
                "match x:\n    case ".to_owned() + &"[".repeat(deep / 50) + "a",
                "f'''".to_owned() + &"{a:".repeat(deep / 50),
            ] {
                assert!(!is_whole(&text), "{}", &text[..20]);
            }
        });
    }
}
