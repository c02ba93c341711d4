//! Binary decision diagrams: each filter is a reduced, ordered diagram, and all diagrams share their nodes.
//!
//! A node asks one literal and leads on for true and for not true. Literals are asked in one order by all filters, no
//! node leads to one place both ways, and no two nodes are equal. A message walks from the root of each filter to an
//! end; a node that another walk has passed is known already.
//!
//! Cost: a walk for each distinct diagram, each literal evaluated at most once a message. It cannot leave a filter out:
//! "the algorithm becomes exhaustive search" (the ITMO paper). A diagram may be exponential in its literals; a filter that
//! takes over [`STEPS_MAX`] steps to compile is kept aside and evaluated for every message.
//!
//! Source: the ITMO paper, section "BE-tree, k-index, BDD"; Campailla et al., "Efficient filtering in publish-subscribe
//! systems using binary decision diagrams", ICSE 2001, section 3.

use hashbrown::HashMap;

use super::BooleanMatcher;
use super::filter::{BooleanFilter, FilterLiteral, FilterMessage, Schema, Tree};

/// How many nodes may be joined for one filter.
pub const STEPS_MAX: usize = 10_000;

/// A node's number, or one of the two ends.
type Diagram = u32;
const NOT_TRUE: Diagram = 0;
const TRUE: Diagram = 1;
const FIRST_NODE: Diagram = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BddNode {
    literal: u32,
    if_true: Diagram,
    if_not: Diagram,
}

/// All diagrams. `nodes[0]` and `nodes[1]` stand for the two ends.
#[derive(Debug)]
pub struct Bdd {
    nodes: Vec<BddNode>,
    literals: Vec<FilterLiteral>,
    /// Each filter's root and number; filters with the same diagram lie together.
    roots: Vec<(Diagram, u32)>,
    aside: Vec<(u32, Tree)>,
}

/// What is known of the message at hand, by literal and by node: the generation, twice, plus the answer.
#[derive(Debug, Default)]
pub struct BddScratch {
    generation: u32,
    literals: Vec<u32>,
    ends: Vec<u32>,
    passed: Vec<Diagram>,
}

impl BooleanMatcher for Bdd {
    const NAME: &'static str = "BDD";
    type Scratch = BddScratch;

    fn build(filters: &[BooleanFilter], _: &Schema) -> Self {
        let mut compiler = Compiler::default();
        let (mut roots, mut aside) = (Vec::new(), Vec::new());
        for (number, filter) in (0..).zip(filters) {
            compiler.steps_left = STEPS_MAX;
            match compiler.compile(&filter.tree) {
                Some(root) => roots.push((root, number)),
                None => aside.push((number, filter.tree.clone())),
            }
        }
        let nodes = compiler.sweep(&mut roots);
        roots.sort_unstable();
        let mut literals: Vec<(FilterLiteral, u32)> = compiler.literals.into_iter().collect();
        literals.sort_unstable_by_key(|(_, place)| *place);
        Self { nodes, literals: literals.into_iter().map(|(literal, _)| literal).collect(), roots, aside }
    }

    fn match_into(&self, message: &FilterMessage, scratch: &mut BddScratch, matched: &mut Vec<u32>) {
        scratch.begin(self.literals.len(), self.nodes.len());
        for (root, number) in &self.roots {
            if self.walk(*root, &message.values, scratch) == TRUE {
                matched.push(*number);
            }
        }
        let is_true = |(_, tree): &&(u32, Tree)| tree.is_true(&message.values);
        matched.extend(self.aside.iter().filter(is_true).map(|(number, _)| number));
    }
}

impl Bdd {
    /// Follow the answers from `root` to an end, and remember it for every node on the way.
    fn walk(&self, root: Diagram, values: &[i64], scratch: &mut BddScratch) -> Diagram {
        let mut at = root;
        scratch.passed.clear();
        while at >= FIRST_NODE {
            if let Some(end) = recall(scratch.ends[at as usize], scratch.generation) {
                at = Diagram::from(end);
                break;
            }
            scratch.passed.push(at);
            let node = self.nodes[at as usize];
            at = if self.ask(node.literal, values, scratch) { node.if_true } else { node.if_not };
        }
        for node in &scratch.passed {
            scratch.ends[*node as usize] = remember(at == TRUE, scratch.generation);
        }
        at
    }

    fn ask(&self, literal: u32, values: &[i64], scratch: &mut BddScratch) -> bool {
        recall(scratch.literals[literal as usize], scratch.generation).unwrap_or_else(|| {
            let answer = self.literals[literal as usize].is_true(values);
            scratch.literals[literal as usize] = remember(answer, scratch.generation);
            answer
        })
    }
}

impl BddScratch {
    fn begin(&mut self, literal_count: usize, node_count: usize) {
        self.literals.resize(literal_count, 0);
        self.ends.resize(node_count, 0);
        self.generation += 1;
        if self.generation > u32::MAX / 2 {
            self.literals.fill(0);
            self.ends.fill(0);
            self.generation = 1;
        }
    }
}

fn remember(answer: bool, generation: u32) -> u32 {
    generation << 1 | u32::from(answer)
}

fn recall(remembered: u32, generation: u32) -> Option<bool> {
    (remembered >> 1 == generation).then_some(remembered & 1 == 1)
}

/// What is needed only while filters are compiled.
#[derive(Default)]
struct Compiler {
    nodes: Vec<BddNode>,
    numbers: HashMap<BddNode, Diagram>,
    literals: HashMap<FilterLiteral, u32>,
    steps_left: usize,
}

impl Compiler {
    /// The diagram of `tree`; None when it takes too many steps.
    fn compile(&mut self, tree: &Tree) -> Option<Diagram> {
        let (operands, deciding) = match tree {
            Tree::Literal(literal) => {
                let next = self.literals.len() as u32;
                let literal = *self.literals.entry_ref(literal).or_insert(next);
                return Some(self.node(BddNode { literal, if_true: TRUE, if_not: NOT_TRUE }));
            }
            Tree::And(operands) => (operands, NOT_TRUE),
            Tree::Or(operands) => (operands, TRUE),
        };
        let compiled: Option<Vec<_>> = operands.iter().map(|operand| self.compile(operand)).collect();
        // From the right: literals are numbered from the left, so that most joins put one node on top.
        let mut done = HashMap::new();
        compiled?.into_iter().rev().try_fold(TRUE - deciding, |joined, operand| {
            done.clear();
            self.join(operand, joined, deciding, &mut done)
        })
    }

    fn node(&mut self, node: BddNode) -> Diagram {
        if node.if_true == node.if_not {
            return node.if_true;
        }
        *self.numbers.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1 + FIRST_NODE
        })
    }

    /// The AND of two diagrams when NOT_TRUE decides, their OR when TRUE does.
    fn join(
        &mut self,
        a: Diagram,
        b: Diagram,
        deciding: Diagram,
        done: &mut HashMap<(Diagram, Diagram), Diagram>,
    ) -> Option<Diagram> {
        if a < FIRST_NODE || a == b {
            return Some(if a == deciding { deciding } else { b });
        }
        if b < FIRST_NODE {
            return Some(if b == deciding { deciding } else { a });
        }
        if let Some(known) = done.get(&(a, b)) {
            return Some(*known);
        }
        self.steps_left = self.steps_left.checked_sub(1)?;
        let (first, second) = (self.nodes[(a - FIRST_NODE) as usize], self.nodes[(b - FIRST_NODE) as usize]);
        let literal = first.literal.min(second.literal);
        let edges = |node: BddNode, itself| {
            if node.literal == literal { (node.if_true, node.if_not) } else { (itself, itself) }
        };
        let ((a_true, a_not), (b_true, b_not)) = (edges(first, a), edges(second, b));
        let if_true = self.join(a_true, b_true, deciding, done)?;
        let if_not = self.join(a_not, b_not, deciding, done)?;
        let joined = self.node(BddNode { literal, if_true, if_not });
        done.insert((a, b), joined);
        Some(joined)
    }

    /// The nodes that `roots` need, numbered anew, without what was made on the way.
    fn sweep(&self, roots: &mut [(Diagram, u32)]) -> Vec<BddNode> {
        let end = BddNode { literal: 0, if_true: NOT_TRUE, if_not: NOT_TRUE };
        let mut kept = vec![end; FIRST_NODE as usize];
        let mut renumbered: HashMap<Diagram, Diagram> = HashMap::from([(NOT_TRUE, NOT_TRUE), (TRUE, TRUE)]);
        for (root, _) in roots {
            let mut pending = vec![*root];
            while let Some(&diagram) = pending.last() {
                if renumbered.contains_key(&diagram) {
                    pending.pop();
                    continue;
                }
                let node = self.nodes[(diagram - FIRST_NODE) as usize];
                match (renumbered.get(&node.if_true), renumbered.get(&node.if_not)) {
                    (Some(&if_true), Some(&if_not)) => {
                        renumbered.insert(diagram, kept.len() as u32);
                        kept.push(BddNode { literal: node.literal, if_true, if_not });
                    }
                    _ => pending.extend([node.if_true, node.if_not]),
                }
            }
            *root = renumbered[root];
        }
        kept
    }
}
