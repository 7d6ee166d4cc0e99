//! Compaction of a session: what is to be summarised, and what becomes of the summary.

use super::{Machine, Stamp};
use crate::{
    Error, ErrorCode, Result,
    context::{
        BudgetParts, CompactionCheckpoint, DeclaredEvent, Summary, materialise, plan_compaction, project,
    },
    message::{MessageData, MessageIndex},
    prompt::SKILLS,
};

/// What is kept by default where nobody says how much the model takes.
const KEPT: u32 = 20_000;

/// What a summary is to stand for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToSummarise<M> {
    /// The first message that stays.
    pub first_kept: MessageIndex,
    /// What goes, as the model sees it: the summary before this one first, skills in front of their messages.
    pub messages: Vec<M>,
    /// Tokens of that.
    tokens: u32,
}

impl<M: MessageData> Machine<M> {
    /// What to summarise so that about so many tokens of the latest turns stay; by default a quarter of what the model takes. A
    /// turn that is prepared is the newest, and stays.
    ///
    /// # Errors
    /// `nothing_to_compact`; `budget_exceeded` in a turn that would not fit without its older turns either.
    pub fn to_summarise(&mut self, keep_recent_tokens: Option<u32>) -> Result<ToSummarise<M>> {
        let prepared = self.turn.as_ref().and_then(|turn| turn.prepared.clone());
        prepared.iter().for_each(|prepared| self.show_prepared(prepared));
        let planned = self.plan(keep_recent_tokens.unwrap_or_else(|| self.kept_by_default()));
        prepared.iter().for_each(|prepared| self.hide_prepared(prepared));
        planned
    }

    fn kept_by_default(&self) -> u32 {
        let model = self.header.model.as_ref();
        let window = model.and_then(|model| Some((model.context_window?, model.max_tokens)));
        window.map_or(KEPT, |(all, answer)| all.saturating_sub(answer.unwrap_or(0)) / 4)
    }

    fn plan(&self, keep_recent_tokens: u32) -> Result<ToSummarise<M>> {
        let previous = self.compactions.last();
        let first_kept = plan_compaction(&self.outlines, &self.snapshots, previous, keep_recent_tokens)?;
        let (projection, _) = project(&self.outlines, &self.snapshots, previous)?;
        let tokens = self.measure(&projection, 0, previous, &mut BudgetParts::default());
        let tokens_of = |goes: bool, message: MessageIndex| {
            let sources = projection.sources.iter().zip(&tokens);
            let meant = sources.filter(|(source, _)| (source.message_index() < message) == goes);
            meant.fold(0u32, |sum, (_, tokens)| sum.saturating_add(*tokens))
        };
        if let Some(turn) = &self.turn {
            let newest = plan_compaction(&self.outlines, &self.snapshots, previous, 0)?;
            let (system_prompt, tools) = self.overhead(turn);
            let stays = BudgetParts {
                system_prompt,
                tools,
                messages: tokens_of(false, newest),
                ..BudgetParts::default()
            };
            self.budget_of(stays).check()?;
        }
        let tokens = tokens_of(true, first_kept);
        let goes = projection.before(first_kept);
        Ok(ToSummarise {
            first_kept,
            messages: materialise(
                self.dialect(),
                &goes,
                |index| self.body(index),
                &self.outlines,
                &self.snapshots,
                previous,
            )?,
            tokens,
        })
    }

    /// A summary stands for what was to be summarised: the next request shows it, and one commit waits in the queue. `tokens` is
    /// what it takes as it is shown.
    ///
    /// # Errors
    /// `host_failed` where it is blank, or does not make the request smaller. Nothing is changed then.
    pub fn summarised(
        &mut self,
        goes: &ToSummarise<M>,
        summary: Summary,
        tokens: u32,
        stamp: &Stamp,
    ) -> Result<CompactionCheckpoint> {
        if summary.summary.trim().is_empty() {
            let text = "`summarize` gave a blank summary; give one that says what was said";
            return Err(Error::new(ErrorCode::HostFailed, text));
        }
        if tokens >= goes.tokens {
            let text = format!(
                "`summarize` gave a summary of about {tokens} tokens in the place of {}; give a shorter one",
                goes.tokens
            );
            let error = Error::new(ErrorCode::HostFailed, text);
            return Err(error.with("tokens", tokens).with("summarizedTokens", goes.tokens));
        }
        let model = self.header.model.as_ref();
        let base = self.lengths();
        let made = CompactionCheckpoint {
            id: stamp.operation_id.clone(),
            first_kept_message_index: goes.first_kept,
            history_message_count: base.messages,
            summary: summary.summary,
            timestamp: stamp.now,
            provider: summary
                .provider
                .or_else(|| model.map(|model| model.provider.clone()))
                .unwrap_or_default(),
            model: summary
                .model
                .or_else(|| model.map(|model| model.id.clone()))
                .unwrap_or_default(),
            usage: summary.usage,
        };
        self.compactions.push(made.clone());
        self.declare(DeclaredEvent::Compaction);
        self.render_prepared();
        self.commit_conversation(&base, Vec::new(), Vec::new(), stamp);
        Ok(made)
    }

    /// A prompt that is not on its way yet may have lost statements that its permissions replace.
    fn render_prepared(&mut self) {
        let Some(mut turn) = self.turn.take() else { return };
        if let Some(prepared) = &mut turn.prepared {
            let offered = prepared.sections.iter().find(|section| section.name == SKILLS);
            let offered = offered.map(|section| section.content.clone());
            if let Ok((sections, system_prompt)) = self.render(offered.unwrap_or_default()) {
                prepared.sections = sections;
                turn.system_prompt = system_prompt;
            }
        }
        self.turn = Some(turn);
    }
}
