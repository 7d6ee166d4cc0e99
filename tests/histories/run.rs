//! Runs a history on the session machine and storage in memory, and has every step checked against what was put in.

use std::rc::Rc;

use runcontext::{
    Error, ErrorCode, Result,
    context::{
        CompactionCheckpoint, NoticeCode, RuntimeContextSnapshot, Source, Summary, materialise, project,
        text_tokens,
    },
    message::{Dialect, MessageIndex, MessageOutline, StopKind},
    permissions::{Preset, ToolPolicy, definition_digest},
    prompt::neutralise,
    session::{
        Exclusive, Incoming, Machine, ModelRequest, NewSession, Outcome, RequestReport, Stamp, Surroundings,
        ToolDeclaration, TurnInput,
    },
    storage::{
        AppendedMessage, Commit, CommitStatus, Counters, OUTLINES_PER_PACK, OutlinePack, SessionRecord,
        SessionStorage, Storage, StoredSession, memory::MemoryStorage,
    },
};
use serde_json::{Value, json};

use crate::{
    at_once::at_once,
    check::{Check, Kept, Put, Request, Told, Truth, View, check},
    history::{Ends, History, Reload, Said, Step},
    words,
};

/// Why a history is not as it should be.
#[derive(Debug)]
pub struct Failed {
    /// None where the crate refused what it should take, or took what it should refuse.
    pub checks: Vec<Check>,
    pub text: String,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            checks: Vec::new(),
            text: format!("{}: {}", error.code(), error.message()),
        }
    }
}

type Done = std::result::Result<(), Failed>;

/// What a history came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub requests: usize,
    pub interrupted: usize,
    pub compacted: usize,
    pub old_snapshots: usize,
    pub skills: usize,
    pub reloads: usize,
    pub cuts: usize,
    pub forks: usize,
    pub resumed: usize,
    pub failures: usize,
    pub left_out: usize,
    /// FNV-1a over every request, its map and its divergence.
    pub hash: u64,
}

/// May change what the crate gave before it is checked.
pub type Seam<'a> = &'a mut dyn FnMut(&Truth, &mut View);

/// All that a test knows of a session; what is saved of it is remembered too.
#[derive(Clone)]
struct State {
    truth: Truth,
    /// The calls of the running turn that have no result, with their message.
    open: Vec<(String, Value)>,
    /// Whether a turn is open, here or in storage.
    turn: bool,
    preset: Option<Preset>,
    preamble: usize,
    offered: &'static str,
}

struct Run<'a> {
    state: State,
    saved: State,
    surroundings: Surroundings<Value>,
    machine: Machine<Value>,
    storage: MemoryStorage<Value>,
    id: String,
    running: bool,
    partial: Option<Value>,
    offline: bool,
    /// Rises with everything that happens: the time, and the names of operations.
    now: u64,
    hashed: bool,
    seen: Seen,
    seam: Seam<'a>,
}

/// Runs a history to its end. The seam changes what the crate gave, between it and the checks.
pub fn run(history: &History, hashed: bool, seam: Seam) -> std::result::Result<Seen, Failed> {
    let mut run = Run::begin(history.dialect, hashed, seam)?;
    for step in &history.steps {
        let before = run.now;
        run.step(step)?;
        // Whatever the session was asked to do has its time.
        if run.now > before {
            run.at_rest(false)?;
        }
        run.now += 1;
    }
    run.at_rest(true)?;
    Ok(run.seen)
}

fn surroundings() -> Surroundings<Value> {
    let tool = |name: &str| {
        let declaration = json!({ "name": name, "description": "a tool" });
        ToolDeclaration {
            name: name.to_owned(),
            json: declaration.to_string(),
            digest: definition_digest(&declaration),
            declaration,
            policy: ToolPolicy::default(),
        }
    };
    Surroundings {
        tools: Rc::new([tool("read"), tool("write")]),
        load_tool: Some(tool("load_skill")),
        strict: false,
    }
}

fn incoming(body: Value, failed: bool) -> Incoming<Value> {
    Incoming {
        body,
        degraded: Vec::new(),
        failed,
        tokens: None,
    }
}

fn told((request, report): (ModelRequest<Value>, RequestReport)) -> Told {
    Told {
        projection: report.projection(),
        tokens: report.tokens(),
        budget: report.budget,
        notices: report.notices,
        request: Request {
            messages: request.messages(),
            system_prompt: request.system_prompt,
            tools: request.tools,
        },
    }
}

fn put(body: Value) -> Put {
    Put {
        body: Rc::new(body),
        turn: false,
        failed: false,
    }
}

impl<'a> Run<'a> {
    fn begin(dialect: Dialect, hashed: bool, seam: Seam<'a>) -> std::result::Result<Self, Failed> {
        let options = NewSession {
            dialect: Some(dialect),
            system_prompt: "preamble 0".to_owned(),
            ..NewSession::default()
        };
        let stamp = Stamp {
            now: 0.0,
            operation_id: "made".to_owned(),
        };
        let surroundings = surroundings();
        let machine = Machine::create(&options, "s".to_owned(), surroundings.clone(), &stamp)?;
        let state = State {
            truth: Truth {
                dialect,
                messages: Vec::new(),
                snapshots: Vec::new(),
                cut: None,
                prompts: Vec::new(),
                before: None,
                declared: false,
            },
            open: Vec::new(),
            turn: false,
            preset: Some(Preset::ReadOnly),
            preamble: 0,
            offered: "",
        };
        let mut run = Self {
            saved: state.clone(),
            state,
            surroundings,
            machine,
            storage: MemoryStorage::new(),
            id: "s".to_owned(),
            running: false,
            partial: None,
            offline: false,
            now: 0,
            hashed,
            seen: Seen {
                hash: 0xcbf2_9ce4_8422_2325,
                ..Seen::default()
            },
            seam,
        };
        run.save()?;
        Ok(run)
    }

    fn step(&mut self, step: &Step) -> Done {
        match step {
            Step::Prompt {
                blocks,
                skills,
                offered,
                cancelled,
            } => self.prompt(*blocks, *skills, ["", "first", "second"][*offered], *cancelled),
            Step::Answer { calls, ends } => self.answer(calls, *ends),
            Step::Results {
                first,
                count,
                together,
                failed,
            } => self.results(*first, *count, *together, *failed),
            Step::Refused => self.refused(),
            Step::Partial { calls } => self.partial(calls),
            Step::Settle(outcome) => self.settle(*outcome),
            Step::Preset(number) => self.preset(*number),
            Step::Preamble(number) => self.preamble(*number),
            Step::Compact { keep } => self.compact(*keep),
            Step::Elsewhere {
                said,
                old_snapshots,
                cut,
            } => self.elsewhere(said, *old_snapshots, *cut),
            Step::Offline => {
                self.offline = true;
                Ok(())
            }
            Step::Flush => {
                self.offline = false;
                self.save()
            }
            Step::Reload(how) => self.reload(*how),
            Step::Resume { abandon } => self.resume(*abandon),
        }
    }

    fn stamp(&mut self) -> Stamp {
        self.now += 1;
        Stamp {
            now: self.now as f64,
            operation_id: format!("o{}", self.now),
        }
    }

    // ---- the turn ----

    fn prompt(&mut self, blocks: bool, skills: usize, offered: &'static str, cancelled: bool) -> Done {
        self.settle(Outcome::Success)?;
        if !self.may(Exclusive::AtRest)? {
            return Ok(());
        }
        let time = self.now;
        let dialect = self.state.truth.dialect;
        let message = dialect.typed_message(&words::content(time, blocks), time as f64)?;
        let turn = self.state.truth.turns().len();
        let input = TurnInput {
            message,
            skills: (0..skills).map(words::skill).collect(),
            offered_skills: offered.to_owned(),
            notices: Vec::new(),
            tokens: None,
        };
        self.machine.prepare(input.clone())?;
        let stamp = self.stamp();
        let truth = &mut self.state.truth;
        let before = truth.clone();
        truth.declared |= !truth.prompts.is_empty() && offered != self.state.offered;
        truth.messages.push(Put {
            turn: true,
            ..put(words::typed(dialect, time, blocks, time))
        });
        truth.snapshots.extend(words::chosen(turn, skills, self.now));
        let request = self.request(Some(input))?;
        if cancelled {
            self.machine.settle(Outcome::Cancelled, None, &stamp)?;
            self.state.truth = before;
            return Ok(());
        }
        self.seen.skills += skills;
        let at = self.state.truth.messages.len() - 1;
        self.state.truth.prompts.push((at, request.system_prompt.clone()));
        self.machine.dispatched(&stamp)?;
        self.is_sent(request);
        (self.state.turn, self.state.offered, self.running) = (true, offered, true);
        self.save()
    }

    fn is_sent(&mut self, request: Request) {
        self.state.truth.before = Some(Rc::new(request));
        self.state.truth.declared = false;
    }

    /// Asks for the request, now and then twice, and has it checked. `input` is what the turn begins with.
    fn request(&mut self, input: Option<TurnInput<Value>>) -> std::result::Result<Request, Failed> {
        let continues = input.is_none();
        let asked = self.machine.request()?;
        if self.now.is_multiple_of(4) && self.machine.request()? != asked {
            return Err(failed("asked again, the request is another"));
        }
        let anew = told(self.opened_anew(input)?.request()?);
        let divergence = asked.1.divergence.clone();
        let told = told(asked);
        self.seen.requests += 1;
        let made = told.request.clone();
        if self.hashed {
            let mut hashed = json!([
                made.system_prompt,
                made.tools,
                made.messages,
                told.projection,
                divergence.class,
                divergence.index
            ]);
            // Where another package of the workspace asks for it, maps keep the order in which they were filled.
            hashed.sort_all_objects();
            for byte in hashed.to_string().bytes() {
                self.seen.hash = (self.seen.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        self.looked_at(View {
            request: made.clone(),
            projection: told.projection.clone(),
            divergence: Some(divergence),
            told: Some((told, anew)),
            continues,
            kept: None,
        })?;
        Ok(made)
    }

    /// The session as it would be were it opened only now, of what is here and not saved too, with the turn that runs.
    fn opened_anew(&self, input: Option<TurnInput<Value>>) -> Result<Machine<Value>> {
        let stamp = Stamp {
            now: self.now as f64,
            operation_id: "anew".to_owned(),
        };
        let machine = &self.machine;
        let stored = StoredSession {
            record: SessionRecord {
                id: self.id.clone(),
                cwd: String::new(),
                created_at: 0.0,
                updated_at: 0.0,
                message_count: machine.message_count(),
                counters: Counters::default(),
                settings: machine.header().to_settings(),
            },
            outlines: machine.outlines().to_vec(),
            snapshots: machine.snapshots().to_vec(),
            checkpoints: machine.checkpoints().to_vec(),
            compactions: machine.compactions().to_vec(),
            damage: Vec::new(),
        };
        let bodies = machine.bodies().to_vec();
        let mut opened = Machine::open(stored, machine.loaded_from(), bodies, self.surroundings.clone())?;
        match input {
            Some(input) => opened.prepare(input)?,
            None => opened.resume(&stamp)?,
        };
        Ok(opened)
    }

    fn answer(&mut self, calls: &[u8], ends: Ends) -> Done {
        if !self.running {
            return Ok(());
        }
        if self.state.open.is_empty() {
            let request = self.request(None)?;
            let stamp = self.stamp();
            self.machine.dispatched(&stamp)?;
            self.is_sent(request);
        } else {
            self.is_refused(
                |run, _| run.machine.request().map(|_| ()),
                ErrorCode::InvalidArgument,
            )?;
        }
        let dialect = self.state.truth.dialect;
        // Elsewhere than in `loop` an answer does not say that it failed.
        let ends = if dialect == Dialect::Loop {
            ends
        } else {
            Ends::Well
        };
        let body = words::answer(dialect, self.now, calls, ends);
        let stamp = self.stamp();
        self.machine.append(vec![incoming(body.clone(), false)], &stamp)?;
        self.make_up();
        self.partial = None;
        let is_failed = ends != Ends::Well;
        if !is_failed {
            let all = calls.iter().map(|number| (words::id(*number), body.clone()));
            self.state.open = all.collect();
        }
        self.seen.failures += usize::from(is_failed);
        self.state.truth.messages.push(Put {
            failed: is_failed,
            ..put(body)
        });
        self.save()
    }

    /// What is open has to be answered as interrupted, in storage.
    fn make_up(&mut self) {
        for (id, message) in std::mem::take(&mut self.state.open) {
            let made = words::interrupted(self.state.truth.dialect, &id, &message);
            self.state.truth.messages.push(put(made));
            self.seen.interrupted += 1;
        }
    }

    fn results(&mut self, first: usize, count: usize, together: bool, failed: bool) -> Done {
        let open = &mut self.state.open;
        if !self.running || open.is_empty() {
            return Ok(());
        }
        let first = first % open.len();
        let last = open.len().min(first + count);
        let ids: Vec<String> = open[first..last].iter().map(|(id, _)| id.clone()).collect();
        for id in &ids {
            // A result answers the first open call of its id.
            let at = open.iter().position(|(open, _)| open == id).unwrap();
            open.remove(at);
        }
        let bodies = words::results(self.state.truth.dialect, self.now, &ids, together, failed);
        let all = bodies.iter().map(|body| incoming(body.clone(), failed)).collect();
        let stamp = self.stamp();
        self.machine.append(all, &stamp)?;
        self.state.truth.messages.extend(bodies.into_iter().map(put));
        self.save()
    }

    fn partial(&mut self, calls: &[u8]) -> Done {
        if self.running {
            let body = words::answer(self.state.truth.dialect, self.now, calls, Ends::Well);
            self.machine.update(incoming(body.clone(), false))?;
            self.partial = Some(body);
        }
        Ok(())
    }

    fn settle(&mut self, outcome: Outcome) -> Done {
        if !self.running {
            return Ok(());
        }
        let error = (outcome == Outcome::Error).then(|| "overloaded".to_owned());
        let stamp = self.stamp();
        self.machine.settle(outcome, error.clone(), &stamp)?;
        self.machine.ended();
        self.make_up();
        if let Some(mut body) = self.partial.take().filter(|_| outcome != Outcome::Success) {
            if self.state.truth.dialect == Dialect::Loop {
                let reason = if error.is_some() { "error" } else { "aborted" };
                body["stopReason"] = json!(reason);
                if let Some(text) = error {
                    body["errorMessage"] = json!(text);
                }
            }
            self.seen.failures += 1;
            self.state.truth.messages.push(Put {
                failed: true,
                ..put(body)
            });
        }
        (self.running, self.state.turn) = (false, false);
        self.save()
    }

    fn resume(&mut self, abandon: bool) -> Done {
        if self.running || !self.state.turn || !self.may(Exclusive::Interrupted)? {
            return Ok(());
        }
        let stamp = self.stamp();
        if abandon {
            self.machine.abandon(&stamp)?;
            self.machine.ended();
            self.state.turn = false;
        } else {
            self.machine.resume(&stamp)?;
            self.running = true;
            self.seen.resumed += 1;
        }
        self.make_up();
        self.save()
    }

    /// Whether it may begin. Where not, what is pending or cut off is the reason.
    fn may(&mut self, kind: Exclusive) -> std::result::Result<bool, Failed> {
        let expected = if kind == Exclusive::AtRest && self.state.turn {
            Some(ErrorCode::SessionInterrupted)
        } else {
            self.machine.save_error().map(|_| ErrorCode::PendingSave)
        };
        let error = self.machine.begin_exclusive(kind).err().map(|error| error.code());
        if error.is_none() {
            self.machine.end_exclusive();
        }
        match error == expected {
            true => Ok(error.is_none()),
            false => Err(failed(&format!(
                "{kind:?} is refused with {error:?}, not with {expected:?}"
            ))),
        }
    }

    // ---- what is refused ----

    fn is_refused(&mut self, what: impl Fn(&mut Self, &Stamp) -> Result<()>, code: ErrorCode) -> Done {
        let stamp = self.stamp();
        match what(self, &stamp) {
            Err(error) if error.code() == code => Ok(()),
            other => Err(failed(&format!("{other:?}, not {code}"))),
        }
    }

    fn refused(&mut self) -> Done {
        let dialect = self.state.truth.dialect;
        let result = |id: &str| words::results(dialect, 0, &[id.to_owned()], false, false).remove(0);
        let typed = words::typed(dialect, 0, false, 0);
        let mut batches = vec![
            // The result of no call, and one before its call.
            vec![result("c9")],
            vec![result("c9"), words::answer(dialect, 0, &[9], Ends::Well)],
            vec![typed],
        ];
        // And two of one call.
        if let Some((id, _)) = self.state.open.first() {
            let all = self.state.open.iter().filter(|(open, _)| open == id).count();
            batches.push(vec![result(id); all + 1]);
        }
        for batch in batches {
            let append = |run: &mut Self, stamp: &Stamp| {
                let all = batch.iter().map(|body| incoming(body.clone(), false));
                run.machine.append(all.collect(), stamp)
            };
            self.is_refused(append, ErrorCode::InvalidArgument)?;
        }
        let foreign = words::foreign(dialect);
        let code = match self.running {
            true => ErrorCode::DialectMismatch,
            false => ErrorCode::InvalidArgument,
        };
        self.is_refused(
            |run, stamp| run.machine.append(vec![incoming(foreign.clone(), false)], stamp),
            code,
        )?;
        let prepare = |run: &mut Self, _: &Stamp| {
            let input = TurnInput {
                message: foreign.clone(),
                skills: Vec::new(),
                offered_skills: String::new(),
                notices: Vec::new(),
                tokens: None,
            };
            run.machine.prepare(input).map(|_| ())
        };
        self.is_refused(prepare, ErrorCode::DialectMismatch)
    }

    // ---- settings ----

    fn preset(&mut self, number: usize) -> Done {
        if self.running || !self.may(Exclusive::AtRest)? {
            return Ok(());
        }
        let all = [
            Some(Preset::ReadOnly),
            Some(Preset::WorkspaceWrite),
            Some(Preset::DangerFullAccess),
            None,
        ];
        let stamp = self.stamp();
        self.machine.set_preset(all[number], &stamp);
        self.state.truth.declared |= self.state.preset != all[number];
        self.state.preset = all[number];
        self.save()
    }

    fn preamble(&mut self, number: usize) -> Done {
        if self.running || !self.may(Exclusive::AtRest)? {
            return Ok(());
        }
        let stamp = self.stamp();
        self.machine
            .configure(None, Some(format!("preamble {number}")), None, &stamp)?;
        self.state.truth.declared |= self.state.preamble != number;
        self.state.preamble = number;
        self.save()
    }

    // ---- storage ----

    fn stored(&self) -> Rc<dyn SessionStorage<Value>> {
        self.storage.session(&self.id)
    }

    fn save(&mut self) -> Done {
        while let Some(commit) = self.machine.next_commit() {
            if self.offline {
                self.machine
                    .save_failed(Error::new(ErrorCode::StorageFailed, "offline"));
                return Ok(());
            }
            match at_once(self.stored().commit(commit))? {
                CommitStatus::Applied(counters) => self.machine.saved(counters),
                other => return Err(failed(&format!("a commit came to {other:?}"))),
            }
        }
        self.saved = self.state.clone();
        Ok(())
    }

    /// What is stored, from a message on.
    fn opened(&self, from_cut: bool) -> std::result::Result<Machine<Value>, Failed> {
        let stored = at_once(self.stored().load())?.ok_or_else(|| failed("the session is not stored"))?;
        let first = stored.compactions.last().filter(|_| from_cut);
        let first = first.map_or(0, |cut| cut.first_kept_message_index.0);
        let bodies = at_once(self.stored().read_messages(first, stored.record.message_count))?;
        Ok(Machine::open(stored, first, bodies, self.surroundings.clone())?)
    }

    fn reload(&mut self, how: Reload) -> Done {
        if !matches!(how, Reload::Reopened { .. }) {
            self.settle(Outcome::Success)?;
        }
        self.offline = false;
        self.seen.reloads += 1;
        let waiting = self.machine.waiting_commits();
        let stamp = self.stamp();
        match how {
            Reload::Fork if waiting > 0 => {
                let from = self.machine.loaded_from() as usize;
                let earlier = self.state.truth.messages[..from]
                    .iter()
                    .map(|put| (*put.body).clone());
                let fork = self.machine.fork(None, earlier.collect(), &stamp);
                let fork = fork.ok_or_else(|| failed("nothing is pending"))?;
                self.id = fork.session_id.clone();
                at_once(self.stored().commit(Rc::new(fork)))?;
                self.saved = self.state.clone();
                self.machine = self.opened(false)?;
                self.seen.forks += 1;
            }
            Reload::InPlace | Reload::Fork => {
                let stored = self.opened(self.machine.loaded_from() > 0)?;
                self.machine.show(stored, waiting)?;
                if waiting == 0 {
                    return Ok(());
                }
            }
            Reload::Reopened { from_cut } => self.machine = self.opened(from_cut)?,
        }
        self.seen.cuts += usize::from(self.saved.truth.messages.len() < self.state.truth.messages.len());
        self.state = self.saved.clone();
        self.state.truth.before = None;
        self.state.truth.declared = false;
        (self.running, self.partial) = (false, None);
        Ok(())
    }

    /// Another tab commits, and the session shows it.
    fn stored_elsewhere(
        &mut self,
        messages: Vec<(Put, MessageOutline)>,
        snapshots: Vec<RuntimeContextSnapshot>,
        cut: Option<CompactionCheckpoint>,
    ) -> Done {
        let stamp = self.stamp();
        let stored = at_once(self.stored().load())?.ok_or_else(|| failed("the session is not stored"))?;
        let (mut outlines, mut appended) = (stored.outlines, Vec::new());
        for (put, outline) in &messages {
            appended.push(AppendedMessage {
                index: MessageIndex(outlines.len() as u32),
                body: (*put.body).clone(),
            });
            outlines.push(outline.clone());
        }
        // Whole, from the one on that the first new message is in.
        let first = stored.record.message_count / OUTLINES_PER_PACK;
        let packs = outlines.chunks(OUTLINES_PER_PACK as usize).zip(0..);
        let packs = packs.skip(if appended.is_empty() {
            usize::MAX
        } else {
            first as usize
        });
        let numbered = snapshots.iter().cloned().zip(stored.snapshots.len() as u32..);
        let compacted = cut.iter().cloned().zip(stored.compactions.len() as u32..);
        let commit = Commit {
            session_id: self.id.clone(),
            operation_id: stamp.operation_id,
            timestamp: stamp.now,
            create: None,
            origin: stored.record.origin().to_owned(),
            expected: Some(stored.record.counters.conversation),
            messages: appended,
            outline_packs: packs
                .map(|(outlines, pack)| OutlinePack {
                    pack,
                    outlines: outlines.to_vec(),
                })
                .collect(),
            snapshots: numbered.map(|(snapshot, at)| (at, snapshot)).collect(),
            checkpoints: Vec::new(),
            compactions: compacted.map(|(cut, at)| (at, cut)).collect(),
            approvals: Vec::new(),
            settings: Default::default(),
        };
        match at_once(self.stored().commit(Rc::new(commit)))? {
            CommitStatus::Applied(_) => {}
            other => return Err(failed(&format!("another tab's commit came to {other:?}"))),
        }
        let truth = &mut self.state.truth;
        truth.declared |= cut.is_some() || !snapshots.is_empty();
        truth.messages.extend(messages.into_iter().map(|(put, _)| put));
        truth.snapshots.extend(snapshots);
        self.seen.compacted += usize::from(cut.is_some());
        truth.cut = cut.or(truth.cut.take());
        self.saved = self.state.clone();
        self.reload(Reload::InPlace)
    }

    /// Whether somebody else may write: nothing is under way or pending here.
    fn rests(&mut self) -> std::result::Result<bool, Failed> {
        self.settle(Outcome::Success)?;
        Ok(!self.offline && self.may(Exclusive::AtRest)?)
    }

    fn compact(&mut self, keep: usize) -> Done {
        let turns = self.state.truth.turns();
        let Some(first) = turns.len().checked_sub(keep).map(|at| turns[at]) else {
            return Ok(());
        };
        if !self.rests()? {
            return Ok(());
        }
        if self.now.is_multiple_of(2) {
            return self.compact_here();
        }
        if first <= self.first_kept() {
            return Ok(());
        }
        let cut = self.checkpoint(first, self.state.truth.messages.len());
        self.stored_elsewhere(Vec::new(), Vec::new(), Some(cut))
    }

    /// The session plans it, and what goes is shown as it was.
    fn compact_here(&mut self) -> Done {
        let number = self.now;
        let keep = number as u32 % 8 * 20;
        let goes = match self.machine.to_summarise(Some(keep)) {
            Err(error) if error.code() == ErrorCode::NothingToCompact => return Ok(()),
            goes => goes?,
        };
        let summary = Summary {
            summary: words::summary(number).0,
            provider: None,
            model: None,
            usage: None,
        };
        let tokens = text_tokens(&neutralise(&summary.summary));
        let stamp = Stamp {
            now: number as f64,
            ..self.stamp()
        };
        let made = match self.machine.summarised(&goes, summary, tokens, &stamp) {
            // It is no shorter than what goes.
            Err(error) if error.code() == ErrorCode::HostFailed => return Ok(()),
            made => made?,
        };
        let first = made.first_kept_message_index.offset();
        let turns = self.state.truth.turns();
        if first <= self.first_kept() || !turns.contains(&first) {
            return Err(failed(&format!("a summary keeps all from {first} on")));
        }
        let truth = &mut self.state.truth;
        truth.declared = true;
        truth.cut = Some(made);
        self.seen.compacted += 1;
        self.save()
    }

    fn first_kept(&self) -> usize {
        let cut = self.state.truth.cut.as_ref();
        cut.map_or(0, |cut| cut.first_kept_message_index.offset())
    }

    fn checkpoint(&self, first: usize, count: usize) -> CompactionCheckpoint {
        CompactionCheckpoint {
            id: format!("k{}", self.now),
            first_kept_message_index: MessageIndex(first as u32),
            history_message_count: count as u32,
            summary: words::summary(self.now).0,
            timestamp: self.now as f64,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            usage: None,
        }
    }

    fn elsewhere(&mut self, said: &[Said], old_snapshots: usize, cut: Option<usize>) -> Done {
        if !self.rests()? {
            return Ok(());
        }
        let dialect = self.state.truth.dialect;
        let mut messages = Vec::new();
        for said in said {
            self.now += 1;
            let number = self.now;
            let ids = |calls: &[u8]| -> Vec<String> { calls.iter().map(|it| words::id(*it)).collect() };
            let (bodies, turn, ends) = match said {
                Said::Typed { blocks, counts } => (
                    vec![words::typed(dialect, number, *blocks, number)],
                    *counts,
                    Ends::Well,
                ),
                Said::Answer { calls, ends } => {
                    (vec![words::answer(dialect, number, calls, *ends)], false, *ends)
                }
                Said::Results { calls, together } => (
                    words::results(dialect, number, &ids(calls), *together, false),
                    false,
                    Ends::Well,
                ),
                Said::Mixed { calls } => (vec![words::mixed(dialect, number, &ids(calls))], true, Ends::Well),
                Said::Note => (vec![json!({ "role": "note", "n": number })], false, Ends::Well),
            };
            for body in bodies {
                let mut outline = dialect.outline(&body, turn)?;
                outline.stop = match ends {
                    Ends::Well => None,
                    Ends::InError => Some(StopKind::Error),
                    Ends::Aborted => Some(StopKind::Aborted),
                };
                let failed = ends != Ends::Well;
                messages.push((
                    Put {
                        turn,
                        failed,
                        ..put(body)
                    },
                    outline,
                ));
            }
        }
        let before = self.state.truth.turns().len();
        let turns = before + messages.iter().filter(|(put, _)| put.turn).count();
        // Of turns that are new, and of one that is not there.
        let anchors = (before..turns).chain([turns + 90]).take(old_snapshots);
        let snapshots = anchors.map(|turn| words::old_snapshot(turn, self.now)).collect();
        let count = self.state.truth.messages.len() + messages.len();
        let cut = cut.map(|back| count.saturating_sub(back).max(self.first_kept()));
        let cut = cut.map(|first| self.checkpoint(first, count));
        self.stored_elsewhere(messages, snapshots, cut)
    }

    // ---- looking ----

    /// What the model would see of what is kept, and what is kept. At the end the storage is read too, and the system prompt at each
    /// message; before, the one at the last.
    fn at_rest(&mut self, at_end: bool) -> Done {
        let machine = &self.machine;
        let (outlines, snapshots, cut) = (
            machine.outlines(),
            machine.snapshots(),
            machine.compactions().last(),
        );
        let (projection, notices) = project(outlines, snapshots, cut)?;
        self.seen.left_out += notices
            .iter()
            .filter(|it| it.code == NoticeCode::ResultLeftOut)
            .count();
        let from = machine.loaded_from();
        let body = |index: MessageIndex| machine.bodies().get(index.0.checked_sub(from)? as usize).cloned();
        let messages = materialise(machine.dialect(), &projection, body, outlines, snapshots, cut)?;
        let count = machine.message_count();
        let first = if at_end { 0 } else { count.saturating_sub(1) };
        let prompts = (first..count).map(|at| Ok((at as usize, machine.system_prompt_at(at)?)));
        let saved = self.saved.truth.messages.len();
        let saved = match at_end {
            true => Some((at_once(self.stored().read_messages(0, saved as u32))?, saved)),
            false => None,
        };
        let view = View {
            request: Request {
                system_prompt: String::new(),
                tools: Vec::new(),
                messages,
            },
            projection,
            divergence: None,
            told: None,
            continues: false,
            kept: Some(Kept {
                loaded_from: from as usize,
                messages: machine.bodies().to_vec(),
                saved,
                snapshots: snapshots.to_vec(),
                prompts: prompts.collect::<Result<_>>()?,
            }),
        };
        self.looked_at(view)
    }

    fn looked_at(&mut self, mut view: View) -> Done {
        for source in &view.projection.sources {
            match source {
                Source::InterruptedToolResult { .. } => self.seen.interrupted += 1,
                Source::RuntimeContext { .. } => self.seen.old_snapshots += 1,
                Source::History { .. } | Source::Compaction { .. } => {}
            }
        }
        (self.seam)(&self.state.truth, &mut view);
        let found = check(&self.state.truth, &view);
        if found.is_empty() {
            return Ok(());
        }
        let (checks, texts): (Vec<Check>, Vec<String>) = found.into_iter().unzip();
        let told = checks
            .iter()
            .zip(&texts)
            .map(|(check, text)| format!("  {check:?}: {text}\n"));
        Err(Failed {
            text: told.collect(),
            checks,
        })
    }
}

fn failed(text: &str) -> Failed {
    Failed {
        checks: Vec::new(),
        text: text.to_owned(),
    }
}
