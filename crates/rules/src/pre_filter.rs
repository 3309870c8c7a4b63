//! Which frames no rule can match, as a program that a kernel runs before it copies a frame.
//!
//! What rules ask of addresses, ports and protocol ([`cover`](crate::cover)) becomes a tree of
//! questions, and the tree a classic BPF program for the frame as on the wire. `filter` evaluates
//! the program, and translates it for a socket. It rejects only frames that no rule matches, so
//! that the default alone decides about them. It may accept others: those that it cannot read, and,
//! where rules are many, those that lie between the prefixes and ports of several rules.

mod assembler;
mod gather;
mod program;
mod shape;
mod tree;

use crate::cover::Cover;
use crate::language::{Match, RuleId, RuleSet, Verdict};
use crate::table::{Cube, Space};
use gather::{Gathered, accepts_others};
use program::{BYTES_MIN, Parts};
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use shape::Shape;
use thiserror::Error;
use tree::{Next, Tree};

/// Questions of a program. Some twenty of them lead to an answer, and 1,024 take a quarter of
/// what a socket may hold (net.core.optmem_max is 128 KiB). Where it is less, fewer must do.
pub const QUESTIONS_MAX: usize = 1_024;

/// Why frames cannot be rejected before rules are asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoPreFilter {
    /// Frames that no rule decides about are not dropped, or not counted as dropped.
    #[error("the default is {0}, and frames are rejected only where it is drop")]
    Default(Verdict),
    /// A rule asks for no field that the program knows.
    #[error("rule {0} may match any frame: it asks for no address, port or protocol")]
    Rule(RuleId),
    /// Several rules together match any frame.
    #[error("the rules together may match any frame")]
    Rules,
    /// The snapshot length cuts headers that the program would read.
    #[error("a snapshot length below {BYTES_MIN} cuts the headers that rules ask about")]
    Snaplen,
    /// Frames of another link type.
    #[error("frames of this link type are not read")]
    LinkType,
}

/// A program that finds frames that no rule can match.
#[derive(Debug)]
pub struct PreFilter {
    v4: Tree,
    v6: Tree,
    others: bool,
    program: ClassicProgram,
}

impl PreFilter {
    /// For rules about frames of a link type, of which they see the first `snaplen` bytes; by a
    /// program of at most `questions_max` questions. The smaller it is, the more frames it accepts.
    ///
    /// # Errors
    /// Why no frame, or hardly any, could be rejected.
    pub fn new(
        set: &RuleSet,
        link: LinkType,
        snaplen: u32,
        questions_max: usize,
    ) -> Result<PreFilter, NoPreFilter> {
        if set.default != Verdict::Drop {
            return Err(NoPreFilter::Default(set.default));
        }
        if !matches!(link, LinkType::ETHERNET | LinkType::RAW) {
            return Err(NoPreFilter::LinkType);
        }
        if snaplen < BYTES_MIN {
            return Err(NoPreFilter::Snaplen);
        }
        let mut gathered = Gathered::default();
        for rule in &set.rules {
            let cubes = Cover::with_files(&rule.matches).cubes;
            if cubes.iter().any(is_everything) {
                return Err(NoPreFilter::Rule(rule.id));
            }
            cubes.iter().for_each(|cube| gathered.add(cube));
        }
        let Gathered { v4, v6, others, .. } = gathered;
        // IPv4 gets what IPv6 leaves, half of them at least.
        let v6 = Tree::new(Space::V6, v6.into_iter().collect(), questions_max / 2);
        let rest = questions_max - v6.len();
        let v4 = Tree::new(Space::V4, v4.into_iter().collect(), rest);
        if (v4.root(), v6.root()) == (Next::Accept, Next::Accept) {
            return Err(NoPreFilter::Rules);
        }
        let program = program::program(&Parts { link, snaplen, v4: &v4, v6: &v6, others });
        Ok(PreFilter { v4, v6, others, program })
    }

    /// The program: 0 for a frame that no rule matches.
    pub fn program(&self) -> &ClassicProgram {
        &self.program
    }

    /// How many questions it has.
    pub fn questions(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// True if it rejects no frame of a match. False may also mean that it is not known.
    pub fn covers(&self, matches: &Match) -> bool {
        let covers = |tree: &Tree, cube: &Cube, space| {
            Shape::of(cube, space).is_none_or(|shape| tree.accepts_all(&shape))
        };
        Cover::with_files(matches).cubes.iter().all(|cube| {
            covers(&self.v4, cube, Space::V4)
                && covers(&self.v6, cube, Space::V6)
                && (self.others || !accepts_others(cube))
        })
    }
}

/// True if a cube takes all IP.
fn is_everything(cube: &Cube) -> bool {
    let all = |space| Shape::of(cube, space).is_some_and(|shape| shape.is_all());
    all(Space::V4) && all(Space::V6)
}
