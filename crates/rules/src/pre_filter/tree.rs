//! Questions about a packet's words that find out whether any of many shapes may have it.
//!
//! Each question cuts a region in two, at the border of a piece: in one part fewer shapes are left,
//! or less of them (as HyperSplit does: Qi, Xu, Yang, Xue and Li, INFOCOM 2009). What lies outside
//! of everything that is left of a region's shapes is rejected at once. Regions are cut in the
//! order of their depth; when there is no room for more questions, the regions that are open then
//! are accepted as they are. So a tree of any size accepts every packet of every shape, and the
//! larger it is the fewer others.

use super::shape::{FIELDS, Region, Shape, WORDS, hull, without_repeats};
use crate::table::{Space, Span};
use std::collections::{HashMap, VecDeque};

/// Regions whose shapes have at most this number of pieces are recognised when they come again.
const KNOWN_PIECES_MAX: usize = 128;

/// Shapes of all regions that are open: some 30 MiB. Where every cut leaves most shapes on both
/// sides a tree ends here.
const OPEN_SHAPES_MAX: usize = 1 << 18;

/// Steps of a walk through a tree ([`Tree::accepts_all`]). More than there are ways through most
/// trees; a walk takes some milliseconds then.
const STEPS_MAX: usize = 1 << 16;

/// What follows the answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Some rule may match.
    Accept,
    /// No rule matches.
    Reject,
    /// The question with this index is asked next.
    Ask(usize),
}

/// A question about one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Is it in the span? If not, no rule matches.
    Within {
        /// Index of the word.
        word: usize,
        /// The values that are left.
        span: Span,
        /// What follows if it is.
        inside: Next,
    },
    /// Is it less than `at`?
    Below {
        /// Index of the word.
        word: usize,
        /// The first value that is not below.
        at: u32,
        /// What follows if it is.
        below: Next,
        /// What follows if not.
        above: Next,
    },
}

/// The questions about packets of one version of IP.
#[derive(Debug)]
pub(super) struct Tree {
    space: Space,
    /// Each behind those that follow it.
    questions: Vec<Question>,
    root: Next,
}

impl Tree {
    /// A tree of at most `questions_max` questions.
    pub(super) fn new(space: Space, shapes: Vec<Shape>, questions_max: usize) -> Tree {
        let mut grower = Grower::default();
        let root = grower.open(Region::of(space), shapes);
        grower.grow(questions_max);
        let mut questions = Vec::new();
        let root = grower.finish(root, &mut HashMap::new(), &mut questions);
        Tree { space, questions, root }
    }

    /// How many questions there are.
    pub(super) fn len(&self) -> usize {
        self.questions.len()
    }

    /// The first question.
    pub(super) fn root(&self) -> Next {
        self.root
    }

    /// The questions, each before those that follow it.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (usize, Question)> {
        self.questions.iter().copied().enumerate().rev()
    }

    /// Which words are asked about.
    pub(super) fn asked_words(&self) -> [bool; WORDS] {
        let mut asked = [false; WORDS];
        for question in &self.questions {
            let (&Question::Within { word, .. } | &Question::Below { word, .. }) = question;
            asked[word] = true;
        }
        asked
    }

    /// True if every packet of a shape is accepted; false may also mean that there are too many
    /// ways to look at.
    pub(super) fn accepts_all(&self, shape: &Shape) -> bool {
        let mut open = vec![(self.root, Region::of(self.space), shape.clone())];
        let mut steps = 0;
        while let Some((next, region, shape)) = open.pop() {
            let question = match next {
                Next::Accept => continue,
                Next::Reject => return false,
                Next::Ask(index) => self.questions[index],
            };
            steps += 1;
            if steps > STEPS_MAX {
                return false;
            }
            let mut go = |next, word, span| {
                let part = region.with(word, span).and_then(|r| Some((r, shape.part(word, &r)?)));
                open.extend(part.map(|(region, shape)| (next, region, shape)));
            };
            match question {
                Question::Within { word, span, inside } => {
                    for outside in outside(span) {
                        go(Next::Reject, word, outside);
                    }
                    go(inside, word, span);
                }
                Question::Below { word, at, below, above } => {
                    go(below, word, Span { first: 0, last: at - 1 });
                    go(above, word, Span { first: at, last: u32::MAX });
                }
            }
        }
        true
    }
}

/// The values before and behind a span.
fn outside(span: Span) -> impl Iterator<Item = Span> {
    let before = span.first.checked_sub(1).map(|last| Span { first: 0, last });
    let behind = span.last.checked_add(1).map(|first| Span { first, last: u32::MAX });
    before.into_iter().chain(behind)
}

/// A region whose question is not known yet, and what shapes accept of it.
struct Open {
    index: usize,
    region: Region,
    shapes: Vec<Shape>,
}

/// What a region's answer hangs on: its spans of the words that shapes ask about, and the shapes.
#[derive(PartialEq, Eq, Hash)]
struct Likeness(Region, Vec<Shape>);

impl Likeness {
    fn of(region: &Region, shapes: &[Shape]) -> Likeness {
        let mut region = *region;
        for (field, words) in FIELDS.into_iter().enumerate() {
            if shapes.iter().all(|shape| shape.fields[field].is_none()) {
                region.0[words].fill(Span { first: 0, last: 0 });
            }
        }
        Likeness(region, shapes.to_vec())
    }
}

/// A tree that grows.
#[derive(Default)]
struct Grower {
    /// None of a region that is open.
    questions: Vec<Option<Question>>,
    open: VecDeque<Open>,
    /// Of all that are open.
    shapes: usize,
    known: HashMap<Likeness, usize>,
}

impl Grower {
    /// Asks until all is known, or there is no room for another question.
    fn grow(&mut self, questions_max: usize) {
        for _ in 0..questions_max {
            let Some(open) = self.open.pop_front() else { return };
            self.shapes -= open.shapes.len();
            self.questions[open.index] = self.ask(open.region, &open.shapes);
            if self.shapes > OPEN_SHAPES_MAX {
                return;
            }
        }
    }

    /// What follows for a region of which shapes have these parts.
    fn open(&mut self, region: Region, shapes: Vec<Shape>) -> Next {
        let shapes = without_repeats(shapes);
        if shapes.is_empty() {
            return Next::Reject;
        }
        if shapes.iter().any(Shape::is_all) {
            return Next::Accept;
        }
        let index = self.questions.len();
        if shapes.iter().map(Shape::piece_count).sum::<usize>() <= KNOWN_PIECES_MAX {
            let likeness = Likeness::of(&region, &shapes);
            if let Some(&known) = self.known.get(&likeness) {
                return Next::Ask(known);
            }
            self.known.insert(likeness, index);
        }
        self.questions.push(None);
        self.shapes += shapes.len();
        self.open.push_back(Open { index, region, shapes });
        Next::Ask(index)
    }

    fn ask(&mut self, region: Region, shapes: &[Shape]) -> Option<Question> {
        if let Some((word, span)) = narrowed(&region, shapes) {
            let inside = self.part(&region, shapes, word, span);
            // What was narrowed goes on at once: questions that reject much come first.
            let is_new = self.open.back().is_some_and(|open| inside == Next::Ask(open.index));
            if let Some(open) = is_new.then(|| self.open.pop_back()).flatten() {
                self.open.push_front(open);
            }
            return Some(Question::Within { word, span, inside });
        }
        let (word, at) = border(&region, shapes)?;
        let Span { first, last } = region.0[word];
        let below = self.part(&region, shapes, word, Span { first, last: at - 1 });
        let above = self.part(&region, shapes, word, Span { first: at, last });
        Some(Question::Below { word, at, below, above })
    }

    /// What follows for a part of a region.
    fn part(&mut self, region: &Region, shapes: &[Shape], word: usize, span: Span) -> Next {
        let Some(region) = region.with(word, span) else { return Next::Reject };
        let parts = shapes.iter().filter_map(|shape| shape.part(word, &region)).collect();
        self.open(region, parts)
    }

    /// Puts a question behind those that follow it, once. What is open is accepted, and a question
    /// that makes no difference is left out. The depth is at most the number of questions.
    fn finish(&self, next: Next, done: &mut HashMap<usize, Next>, to: &mut Vec<Question>) -> Next {
        let Next::Ask(index) = next else { return next };
        if let Some(&answer) = done.get(&index) {
            return answer;
        }
        let question = match self.questions[index] {
            None => None,
            Some(Question::Within { word, span, inside }) => {
                let inside = self.finish(inside, done, to);
                Some(Question::Within { word, span, inside })
            }
            Some(Question::Below { word, at, below, above }) => {
                let [below, above] = [below, above].map(|side| self.finish(side, done, to));
                Some(Question::Below { word, at, below, above })
            }
        };
        let answer = match question {
            None => Next::Accept,
            Some(Question::Below { below, above, .. }) if below == above => below,
            Some(question) => {
                to.push(question);
                Next::Ask(to.len() - 1)
            }
        };
        done.insert(index, answer);
        answer
    }
}

/// A word of which shapes have at most half of what a region has, and the values that they have;
/// the most telling one. Of a single shape every word counts.
fn narrowed(region: &Region, shapes: &[Shape]) -> Option<(usize, Span)> {
    let width = |span: Span| u128::from(span.last - span.first) + 1;
    let mut best: Option<(usize, Span)> = None;
    for (word, &all) in region.0.iter().enumerate() {
        let bounds = shapes.iter().map(|shape| shape.bounds(word, region)).reduce(hull)?;
        let is_less = bounds != all && (shapes.len() == 1 || 2 * width(bounds) <= width(all));
        let is_better = best.is_none_or(|(other, span)| {
            width(bounds) * width(region.0[other]) < width(span) * width(all)
        });
        if is_less && is_better {
            best = Some((word, bounds));
        }
    }
    best
}

/// Where to cut a region: in the middle of the borders of a field's pieces, of that field in which
/// the fewest shapes are then on both sides.
fn border(region: &Region, shapes: &[Shape]) -> Option<(usize, u32)> {
    let mut best = None;
    for (field, words) in FIELDS.into_iter().enumerate() {
        // Where pieces differ in one word of an address, the next says nothing yet.
        let middle = words.clone().find_map(|word| {
            let pieces = shapes.iter().flat_map(|shape| shape.fields[field].iter());
            let spans =
                pieces.flat_map(|pieces| pieces.iter()).map(|piece| piece[word - words.start]);
            middle_border(region.0[word], spans).map(|at| (word, at))
        });
        let Some((word, at)) = middle else { continue };
        let Span { first, last } = region.0[word];
        let count = |span| shapes.iter().filter(|shape| shape.meets(word, span)).count();
        let below = count(Span { first, last: at - 1 });
        let above = count(Span { first: at, last });
        let cost = (below + above, below.max(above));
        if best.is_none_or(|(least, _)| cost < least) {
            best = Some((cost, (word, at)));
        }
    }
    best.map(|(_, border)| border)
}

/// The middle one of the borders that spans have within another: each is the first value behind it.
fn middle_border(all: Span, spans: impl Iterator<Item = Span>) -> Option<u32> {
    let mut borders = Vec::new();
    for span in spans {
        borders.extend((span.first > all.first).then_some(span.first));
        borders.extend((span.last < all.last).then(|| span.last + 1));
    }
    borders.sort_unstable();
    borders.dedup();
    borders.get(borders.len() / 2).copied()
}
