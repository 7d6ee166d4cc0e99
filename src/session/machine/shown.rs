//! What the last request showed, kept for the next: a request costs what is new.

use std::{cell::RefCell, rc::Rc};

use super::Machine;
use crate::{
    Result,
    context::{BudgetParts, Notice, Plan, Source, SourceMap, look_up},
    message::{MessageData, Usage},
};

/// What a request shows.
#[derive(Debug)]
pub(super) struct Shown<M> {
    plan: Rc<RefCell<Plan>>,
    /// The messages of the plan, a list that grows.
    messages: M,
    /// Estimated tokens of those.
    parts: BudgetParts,
    /// What the provider reported of the last answer that says so, and what is estimated of all behind that.
    reported: Option<Usage>,
    behind: u32,
    /// After how many compactions, and for which model: with others nothing of it counts any more.
    compactions: usize,
    model: String,
}

impl<M: MessageData> Machine<M> {
    /// What a request shows now. This alone decides what is kept of the last one: all of it, where messages and snapshots of turns
    /// to come were added and nothing else happened; or nothing. Messages of one machine are only ever added, but for the one of a
    /// prompt that is cancelled before it was sent, and that takes with it what it was shown in.
    pub(super) fn shown_now(&mut self) -> Result<Shown<M>> {
        let mut shown = match self.shown.take().filter(|shown| shown.is_of(self)) {
            Some(shown) => shown,
            None => Shown {
                plan: Rc::new(RefCell::new(Plan::begin(
                    &self.outlines,
                    self.compactions.last(),
                )?)),
                messages: M::growing(),
                parts: BudgetParts::default(),
                reported: None,
                behind: 0,
                compactions: self.compactions.len(),
                model: self.model_key(),
            },
        };
        shown.go_on(self)?;
        Ok(shown)
    }
}

impl<M: MessageData> Shown<M> {
    fn is_of(&self, machine: &Machine<M>) -> bool {
        self.compactions == machine.compactions.len()
            && self.model == machine.model_key()
            && self.plan.borrow().is_of(&machine.outlines, &machine.snapshots)
    }

    fn go_on(&mut self, machine: &Machine<M>) -> Result<()> {
        let compaction = machine.compactions.last();
        let mut plan = self.plan.borrow_mut();
        let from = plan.tokens.len();
        plan.go_on(&machine.outlines, &machine.snapshots);
        self.messages.add(look_up(
            machine.dialect(),
            &plan.projection,
            from,
            &|index| machine.body(index),
            &machine.outlines,
            &machine.snapshots,
            compaction,
        )?);
        let mut tokens = machine.measure(&plan.projection, from, compaction, &mut self.parts);
        // A provider's report from before a compaction is of another request.
        let compacted = compaction.map_or(0, |it| it.history_message_count);
        let new = plan.projection.sources.get(from..).unwrap_or_default();
        for (source, tokens) in new.iter().zip(&tokens) {
            if let Source::History { message_index, .. } = source
                && message_index.0 >= compacted
                && let Some(outline) = machine.outlines.get(message_index.offset())
                && let Some(usage) = outline.usage.as_ref().filter(|usage| usage.model == self.model)
            {
                self.reported = Some(usage.clone());
                self.behind = 0;
            } else {
                self.behind = self.behind.saturating_add(*tokens);
            }
        }
        plan.tokens.append(&mut tokens);
        Ok(())
    }

    /// The messages, for the host.
    pub(super) fn messages(&self) -> M {
        self.messages.handed_out()
    }

    pub(super) fn map(&self) -> SourceMap {
        SourceMap::of(&self.plan)
    }

    pub(super) fn notices(&self) -> Vec<Notice> {
        self.plan.borrow().notices()
    }

    /// Estimated tokens by part of the messages, and of the rest of the request, `overhead`. Where a provider reported what an
    /// earlier request took, only what stands behind its answer is estimated, and the difference where the system prompt or the
    /// tools are others.
    pub(super) fn parts(&self, system_prompt: u32, tools: u32) -> BudgetParts {
        let parts = BudgetParts {
            system_prompt,
            tools,
            ..self.parts
        };
        let Some(usage) = &self.reported else {
            return parts;
        };
        let overhead = system_prompt.saturating_add(tools);
        let total = usage.total.saturating_add(self.behind).saturating_add(overhead);
        parts.shared_out(total.saturating_sub(usage.overhead).max(self.behind))
    }
}
