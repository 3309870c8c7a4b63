//! What a filter's program asks of the fields that are indexed.
//!
//! Classic BPF that libpcap makes runs forwards only, so one pass over the instructions knows at
//! each what A and X hold and what was tested on all ways there ([`Facts`]). Each branch that
//! tests an indexed field becomes an edge with a condition. Parts that no way through all its
//! conditions reaches hold nothing that the program accepts.

use crate::facts::{Facts, Load, shift};
use crate::fields::{Field, Place, fields};
use crate::key::Condition;
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_filter::classic::{Alu, Operand, Operation, Test, Width, jump_target};
use ringside_filter::validate;
use std::collections::HashMap;

/// Instructions of a program that is looked at: some 3,000 hosts. A longer one is not pruned, for
/// each keeps 128 bytes while parts are chosen.
const INSTRUCTIONS_MAX: usize = 1 << 15;

/// Where a program can go, and what is asked on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(crate) nodes: Vec<Node>,
    pub(crate) conditions: Vec<Condition>,
}

/// An instruction at which a way goes on or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// To these nodes, further on, if their conditions hold.
    To(Edge, Option<Edge>),
    /// The frame is accepted.
    Accept,
    /// The frame is rejected, or no way leads here.
    Reject,
}

/// A way to a later node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) node: usize,
    /// Number of what is asked, if that is anything.
    pub(crate) condition: Option<usize>,
}

/// What the registers hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    a: Option<Load>,
    /// The IPv4 header whose length X is.
    x: Option<u32>,
    facts: Facts,
}

impl State {
    fn meet(&mut self, other: &State) {
        self.a = self.a.filter(|a| Some(*a) == other.a);
        self.x = self.x.filter(|x| Some(*x) == other.x);
        self.facts.meet(&other.facts);
    }
}

impl Plan {
    /// The plan of a program for frames of `link`; none if it asks nothing of indexed fields, runs
    /// backwards (`protochain`) or is very long.
    pub fn new(program: &ClassicProgram, link: LinkType) -> Option<Plan> {
        let operations = validate(program).ok()?;
        if operations.len() > INSTRUCTIONS_MAX {
            return None;
        }
        let mut maker = Maker {
            link,
            states: vec![None; operations.len()],
            plan: Plan { nodes: Vec::with_capacity(operations.len()), conditions: Vec::new() },
            numbers: HashMap::new(),
        };
        let first = State { a: None, x: None, facts: Facts::default() };
        *maker.states.first_mut()? = Some(first);
        for (index, operation) in operations.iter().enumerate() {
            let node = match maker.states[index].take() {
                Some(state) => maker.step(index, *operation, state)?,
                None => Node::Reject,
            };
            maker.plan.nodes.push(node);
        }
        (!maker.plan.conditions.is_empty()).then_some(maker.plan)
    }
}

struct Maker {
    link: LinkType,
    states: Vec<Option<State>>,
    plan: Plan,
    /// The conditions of the plan, by what they ask.
    numbers: HashMap<Condition, usize>,
}

impl Maker {
    /// Runs one instruction; none if it jumps backwards.
    fn step(&mut self, index: usize, operation: Operation, mut state: State) -> Option<Node> {
        let next = index + 1;
        match operation {
            Operation::JumpIf(test, operand, jump_true, jump_false) => {
                let ways = [(true, jump_true), (false, jump_false)];
                let [yes, no] = ways.map(|(holds, by)| {
                    self.branch(&state, test, operand, holds, next + usize::from(by))
                });
                return Some(match (yes, no) {
                    (Some(yes), no) => Node::To(yes, no),
                    (None, Some(no)) => Node::To(no, None),
                    (None, None) => Node::Reject,
                });
            }
            Operation::Return(0) => return Some(Node::Reject),
            Operation::Return(_) | Operation::ReturnA => return Some(Node::Accept),
            Operation::Jump(by) => {
                let node = jump_target(index, by).filter(|&to| to > index)?;
                self.arrive(node, state);
                return Some(Node::To(Edge { node, condition: None }, None));
            }
            Operation::LoadAbsolute(width, at) => state.a = Some(load(width, Place::at(at))),
            Operation::LoadIndirect(width, offset) => {
                let behind = |header| load(width, Place { behind: Some(header), offset });
                state.a = state.x.map(behind);
            }
            Operation::Alu(Alu::And, Operand::Constant(bits)) => {
                state.a = state.a.map(|a| Load { mask: a.mask & bits, ..a });
            }
            Operation::LoadHeaderLength(at) => state.x = Some(at),
            Operation::LoadLength
            | Operation::LoadConstant(_)
            | Operation::LoadScratch(_)
            | Operation::Alu(..)
            | Operation::Negate
            | Operation::CopyXToA => state.a = None,
            Operation::LoadLengthX
            | Operation::LoadConstantX(_)
            | Operation::LoadScratchX(_)
            | Operation::CopyAToX => state.x = None,
            Operation::Store(_) | Operation::StoreX(_) => {}
        }
        self.arrive(next, state);
        Some(Node::To(Edge { node: next, condition: None }, None))
    }

    /// The way on to `node` if a test holds, or if it does not; none if that cannot be.
    fn branch(
        &mut self,
        state: &State,
        test: Test,
        operand: Operand,
        holds: bool,
        node: usize,
    ) -> Option<Edge> {
        let mut state = state.clone();
        let mut condition = None;
        if let (Some(load), Operand::Constant(k)) = (state.a, operand) {
            if !learn(&mut state.facts, load, test, k, holds) {
                return None;
            }
            condition = self.condition(&state.facts, &load);
        }
        self.arrive(node, state);
        Some(Edge { node, condition })
    }

    fn arrive(&mut self, node: usize, state: State) {
        match &mut self.states[node] {
            Some(known) => known.meet(&state),
            empty => *empty = Some(state),
        }
    }

    /// Number of what is asked of the field in which a load lies.
    fn condition(&mut self, facts: &Facts, load: &Load) -> Option<usize> {
        let mut found: Option<Field> = None;
        fields(self.link, facts, &mut |field| {
            found = found.or_else(|| shift(load, &field).map(|_| field));
        });
        let condition = facts.condition(&found?)?;
        let conditions = &mut self.plan.conditions;
        Some(*self.numbers.entry(condition).or_insert_with(|| {
            conditions.push(condition);
            conditions.len() - 1
        }))
    }
}

fn load(width: Width, place: Place) -> Load {
    let bytes = width.bytes();
    Load { place, bytes, mask: u32::MAX >> (32 - 8 * bytes) }
}

/// Adds what a test says; false if it cannot come out so.
fn learn(facts: &mut Facts, load: Load, test: Test, k: u32, holds: bool) -> bool {
    match (test, holds) {
        (Test::Equal, true) => facts.equal(load, k),
        (Test::Equal, false) => facts.unequal(load, k),
        (Test::AnyBit, true) if k.is_power_of_two() => {
            let mask = load.mask & k;
            facts.equal(Load { mask, ..load }, k)
        }
        (Test::AnyBit, true) => true,
        (Test::AnyBit, false) => match load.mask & k {
            0 => true,
            mask => facts.equal(Load { mask, ..load }, 0),
        },
        _ if !load.is_whole() => true,
        (Test::Greater, true) => k != u32::MAX && facts.within(load, k + 1, u32::MAX),
        (Test::Greater, false) => facts.within(load, 0, k),
        (Test::GreaterOrEqual, true) => facts.within(load, k, u32::MAX),
        (Test::GreaterOrEqual, false) => k != 0 && facts.within(load, 0, k - 1),
    }
}
