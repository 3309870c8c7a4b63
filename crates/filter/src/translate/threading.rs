//! Follows jumps whose outcome is known.
//!
//! Without its optimiser libpcap asks every `host` term anew whether the frame is IPv4, ARP or
//! RARP: 1,000 terms are 12,000 questions, of which the first three matter, and more branches than
//! the verifier follows. Here each jump is led on past tests of a field that its path has already
//! compared, in one pass in program order. The reference evaluator runs the program as it came, so
//! that the tests compare the two.

use crate::classic::{Operand, Operation, Test, Width, jump_target};

/// Fields that are remembered on a path: the types of the layers and some more.
const FIELDS_MAX: usize = 8;

/// Values that a field is known not to have.
const EXCLUDED_MAX: usize = 8;

/// Tests that one jump is led past; the next jump goes on from there.
const STEPS_MAX: usize = 256;

/// Where an instruction leads if its test holds, and if not. Equal for all that do not test.
pub(super) type Targets = (usize, usize);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Field(Width, u32);

/// What is known of a field whose load has succeeded.
#[derive(Clone, PartialEq, Eq)]
enum Known {
    Is(u32),
    IsNot(Vec<u32>),
}

/// What holds on every path to a place.
#[derive(Clone, Default)]
struct Facts {
    fields: Vec<(Field, Known)>,
    /// The field that A holds.
    a: Option<Field>,
}

/// Targets of every instruction, jumps led on as far as their outcome is known.
pub(super) fn targets(operations: &[Operation]) -> Vec<Targets> {
    let mut targets: Vec<Targets> =
        operations.iter().enumerate().map(|(index, op)| plain(index, op)).collect();
    // Facts would have to hold round a loop; `protochain` is short.
    if targets.iter().enumerate().any(|(index, (to, _))| *to <= index) {
        return targets;
    }
    let mut known: Vec<Option<Facts>> = vec![None; operations.len()];
    known[0] = Some(Facts::default());
    for (index, operation) in operations.iter().enumerate() {
        let Some(mut facts) = known[index].take() else { continue };
        match *operation {
            Operation::Return(_) | Operation::ReturnA => {}
            Operation::JumpIf(test, operand, ..) => {
                for holds in [true, false] {
                    let mut side = facts.clone();
                    side.learn(test, operand, holds);
                    let (on_true, on_false) = &mut targets[index];
                    let target = if holds { on_true } else { on_false };
                    *target = follow(operations, *target, &side);
                    merge(&mut known, *target, side);
                }
            }
            Operation::Jump(_) => {
                let target = follow(operations, targets[index].0, &facts);
                targets[index] = (target, target);
                merge(&mut known, target, facts);
            }
            _ => {
                facts.execute(operation);
                merge(&mut known, index + 1, facts);
            }
        }
    }
    targets
}

fn plain(index: usize, operation: &Operation) -> Targets {
    let next = index + 1;
    match *operation {
        Operation::JumpIf(_, _, jump_true, jump_false) => {
            (next + usize::from(jump_true), next + usize::from(jump_false))
        }
        Operation::Jump(by) => {
            // Checked by `validate`: inside the program.
            let target = jump_target(index, by).unwrap_or(next);
            (target, target)
        }
        _ => (next, next),
    }
}

fn merge(known: &mut [Option<Facts>], target: usize, facts: Facts) {
    match known.get_mut(target) {
        Some(Some(there)) => there.keep_common(&facts),
        Some(there) => *there = Some(facts),
        None => {}
    }
}

/// The farthest place from `target` on that a path with `facts` may go to at once.
fn follow(operations: &[Operation], target: usize, facts: &Facts) -> usize {
    let mut at = target;
    // What A would hold at `at`; the jump leaves out the loads on the way.
    let mut a = facts.a;
    let mut best = target;
    for _ in 0..STEPS_MAX {
        let test_at = match operations[at] {
            Operation::LoadAbsolute(width, k) if facts.find(Field(width, k)).is_some() => {
                a = Some(Field(width, k));
                at + 1
            }
            _ => at,
        };
        at = match operations[test_at] {
            Operation::Jump(_) => plain(test_at, &operations[test_at]).0,
            Operation::JumpIf(Test::Equal, Operand::Constant(value), ..) => {
                let (on_true, on_false) = plain(test_at, &operations[test_at]);
                match a.and_then(|field| facts.equals(field, value)) {
                    Some(true) => on_true,
                    Some(false) => on_false,
                    None => break,
                }
            }
            _ => break,
        };
        // A differs from what the way left out would have put there, unless that was the same.
        let same = a == facts.a;
        if same || overwrites_a(&operations[at]) {
            best = at;
        }
    }
    best
}

/// True if what A held before makes no difference.
fn overwrites_a(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::LoadAbsolute(..)
            | Operation::LoadIndirect(..)
            | Operation::LoadLength
            | Operation::LoadConstant(_)
            | Operation::LoadScratch(_)
            | Operation::Return(_)
    )
}

impl Facts {
    fn find(&self, field: Field) -> Option<&Known> {
        self.fields.iter().find(|(known, _)| *known == field).map(|(_, known)| known)
    }

    fn equals(&self, field: Field, value: u32) -> Option<bool> {
        match self.find(field)? {
            Known::Is(known) => Some(*known == value),
            Known::IsNot(excluded) => excluded.contains(&value).then_some(false),
        }
    }

    /// A test of A has come out as `holds`.
    fn learn(&mut self, test: Test, operand: Operand, holds: bool) {
        let (Test::Equal, Operand::Constant(value), Some(field)) = (test, operand, self.a) else {
            return;
        };
        let Some((_, known)) = self.fields.iter_mut().find(|(known, _)| *known == field) else {
            return;
        };
        match known {
            _ if holds => *known = Known::Is(value),
            Known::IsNot(excluded) if excluded.len() < EXCLUDED_MAX => excluded.push(value),
            _ => {}
        }
    }

    fn execute(&mut self, operation: &Operation) {
        match *operation {
            Operation::LoadAbsolute(width, k) => {
                let field = Field(width, k);
                if self.find(field).is_none() {
                    if self.fields.len() == FIELDS_MAX {
                        // The first fields are the types, which matter longest.
                        self.fields.pop();
                    }
                    self.fields.push((field, Known::IsNot(Vec::new())));
                }
                self.a = Some(field);
            }
            Operation::LoadIndirect(..)
            | Operation::LoadLength
            | Operation::LoadConstant(_)
            | Operation::LoadScratch(_)
            | Operation::Alu(..)
            | Operation::Negate
            | Operation::CopyXToA => self.a = None,
            _ => {}
        }
    }

    /// Keeps what also holds with `other`.
    fn keep_common(&mut self, other: &Facts) {
        if self.a != other.a {
            self.a = None;
        }
        self.fields.retain_mut(|(field, known)| match other.find(*field) {
            None => false,
            Some(there) => {
                *known = common(known, there);
                true
            }
        });
    }
}

fn common(one: &Known, other: &Known) -> Known {
    match (one, other) {
        (Known::Is(a), Known::Is(b)) if a == b => Known::Is(*a),
        (Known::Is(_), Known::Is(_)) => Known::IsNot(Vec::new()),
        (Known::Is(value), Known::IsNot(excluded)) | (Known::IsNot(excluded), Known::Is(value)) => {
            Known::IsNot(excluded.iter().copied().filter(|other| other != value).collect())
        }
        (Known::IsNot(a), Known::IsNot(b)) => {
            Known::IsNot(a.iter().copied().filter(|value| b.contains(value)).collect())
        }
    }
}
