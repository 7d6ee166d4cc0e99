//! Compaction: on demand between turns, and by itself before a request of `prompt` that comes close to the limit.

use std::{fmt, rc::Rc};

use super::{Session, SessionEvent, Signal};
use crate::{
    Error, ErrorCode, Result,
    context::{CompactionCheckpoint, ContextBudget, Summary, text_tokens},
    message::MessageData,
    prompt::neutralise,
    session::{Exclusive, ModelRequest, RequestReport},
    storage::LocalFuture,
};

/// A host's summariser. Errors are its own texts.
pub trait Summarizer<M> {
    /// A text that stands for these messages.
    fn summarize(
        &self,
        messages: Vec<M>,
        abort: Signal,
    ) -> LocalFuture<'_, std::result::Result<Summary, String>>;
}

/// How conversations are compacted.
pub struct CompactionOptions<M> {
    /// The part of the input limit, of 1, over which a request is compacted first.
    pub pressure: f64,
    /// Without one nothing is compacted by itself.
    pub summarizer: Option<Rc<dyn Summarizer<M>>>,
}

impl<M> Default for CompactionOptions<M> {
    fn default() -> Self {
        Self {
            pressure: 0.9,
            summarizer: None,
        }
    }
}

impl<M> fmt::Debug for CompactionOptions<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionOptions")
            .field("pressure", &self.pressure)
            .finish_non_exhaustive()
    }
}

impl<M> CompactionOptions<M> {
    fn is_pressed(&self, budget: &ContextBudget) -> bool {
        let limit = self.pressure * f64::from(budget.input_limit);
        budget.context_window > 0 && f64::from(budget.estimated_input_tokens) > limit
    }
}

impl<M: MessageData + 'static> Session<M> {
    /// Lets a summary stand for older turns, and saves that. By default the runtime's summariser writes it, and a quarter of
    /// what the model takes stays.
    ///
    /// # Errors
    /// Those of a new turn, and then nothing is changed: `disposed`, `session_busy`, `session_interrupted`, `pending_save`;
    /// `invalid_argument` without a summariser; `nothing_to_compact`; `host_failed` where the summariser fails or its summary is
    /// of no use; `aborted`. Those of the storage where it cannot be saved: it is shown then, and pending.
    pub async fn compact(
        self: &Rc<Self>,
        keep_recent_tokens: Option<u32>,
        summarizer: Option<Rc<dyn Summarizer<M>>>,
    ) -> Result<CompactionCheckpoint> {
        self.look_around(&Signal::default()).await;
        let _exclusive = self.exclusive(Exclusive::AtRest)?;
        let Some(summarizer) = summarizer.or_else(|| self.runtime.parts.compaction.summarizer.clone()) else {
            return Err(Error::invalid(
                "`compact` needs a summariser; pass `summarize`, or open the runtime with `compaction.summarize`",
            ));
        };
        let driven = self.driven(&Signal::default());
        let made = self
            .summarise(keep_recent_tokens, &*summarizer, driven.abort())
            .await?;
        self.save().await?;
        Ok(made)
    }

    /// The next request of a turn. Where it comes close to the limit, older turns are summarised first: at most twice, the second
    /// time all but the newest. Where that fails, the request stays as it is.
    ///
    /// # Errors
    /// Those of [`crate::session::Machine::request`], `budget_exceeded` among them.
    pub(super) async fn compacted_request(
        &self,
        turn: u64,
        abort: &Signal,
    ) -> Result<(ModelRequest<M>, RequestReport)> {
        let options = &self.runtime.parts.compaction;
        let mut request = self.request(turn);
        let Some(summarizer) = &options.summarizer else {
            return request;
        };
        for keep_recent_tokens in [None, Some(0)] {
            let is_pressed = match &request {
                Ok((_, report)) => options.is_pressed(&report.budget),
                Err(error) => error.code() == ErrorCode::BudgetExceeded,
            };
            if !is_pressed {
                break;
            }
            match self.summarise(keep_recent_tokens, &**summarizer, abort).await {
                Ok(_) => {
                    self.save_later().await;
                    request = self.request(turn);
                }
                Err(error) if error.code() == ErrorCode::NothingToCompact => {}
                Err(_) => break,
            }
        }
        request
    }

    /// Lets a summary stand for older turns. A commit waits in the queue then.
    async fn summarise(
        &self,
        keep_recent_tokens: Option<u32>,
        summarizer: &dyn Summarizer<M>,
        abort: &Signal,
    ) -> Result<CompactionCheckpoint> {
        self.count_texts()?;
        let mut goes = self.machine_mut().to_summarise(keep_recent_tokens)?;
        self.emit(&SessionEvent::CompactionStarted {
            first_kept: goes.first_kept,
        });
        let summary = summarizer.summarize(std::mem::take(&mut goes.messages), abort.clone());
        let summary = abort.unless_fired(summary).await;
        let summary = summary.map(|given| match given {
            Ok(summary) => match self.tokens_of_summary(&summary) {
                Ok(tokens) => Ok((summary, tokens)),
                Err(error) => Err(format!("the summary cannot be counted: {}", error.message())),
            },
            Err(text) => Err(format!("`summarize` failed: {text}")),
        });
        let stamp = self.stamp();
        let made = match summary.filter(|_| !abort.has_fired()) {
            Some(Ok((summary, tokens))) => self.machine_mut().summarised(&goes, summary, tokens, &stamp),
            Some(Err(text)) => Err(Error::new(ErrorCode::HostFailed, text)),
            None => {
                let text = "the compaction was aborted; nothing was changed";
                Err(Error::new(ErrorCode::Aborted, text))
            }
        };
        self.emit(&match made.clone() {
            Ok(compaction) => SessionEvent::CompactionEnded { compaction },
            Err(error) => SessionEvent::CompactionFailed { error },
        });
        made
    }

    /// What a summary takes as the model sees it.
    fn tokens_of_summary(&self, summary: &Summary) -> Result<u32> {
        let shown = neutralise(&summary.summary);
        let count = self.runtime.parts.count_tokens.as_ref();
        count.map_or_else(|| Ok(text_tokens(&shown)), |count| count(&M::string(&shown)))
    }
}
