//! The imperative shell: it carries out what the machine of a session decides, against storage, a model and tools.
//!
//! It is one and the same code natively and in wasm. What differs (clock, ids, model, tools) comes in through the
//! traits here. No `RefCell` borrow is held while foreign code runs.

mod approvals;
mod compaction;
mod driver;
mod gate;
mod http;
mod permissions;
mod session;
mod signal;
mod skills;
mod tabs;
mod transfer;
mod turn;
mod work;

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::{Rc, Weak},
};

use crate::{
    Error, ErrorCode, Result,
    list::Listed,
    message::{CountTokens, Dialect, MessageData, MessageOutline},
    paths::{Fold, PathStyle},
    permissions::{PathRequest, Policy, ResolvedPath},
    run_context::Defaults,
    session::{
        Exclusive, Header, Hint, Incoming, Machine, ModelRef, ModelRequest, NewSession, RequestReport,
        Surroundings, ToolCall, ToolDeclaration,
    },
    skills::LOAD_SKILL,
    storage::{
        Damage, ListFilter, LocalFuture, Persistence, SessionRecord, SessionStorage, Storage, StorageEvent,
        StorageInfo, StoredSession, is_damage, keys,
    },
};

pub use approvals::{Answer, ApprovalOutcome, ApprovalResult, FurtherBypass};
pub use compaction::{CompactionOptions, Summarizer};
pub use gate::Decided;
pub use permissions::PermissionStore;
pub use session::{PromptOptions, Session, SessionEvent, TurnReport};
pub use signal::Signal;
pub use skills::{
    ListedFile, Progress, Refreshing, SkillChange, SkillFile, SkillOptions, SkillSource, load_tool,
};
pub use tabs::Tabs;
pub use transfer::{Export, ImportOptions, ImportProgress, Part, Source};
pub use turn::Turn;

/// What the surroundings give: time, ids, and a place for work that nobody awaits.
pub trait World {
    /// Milliseconds since the epoch, a whole number.
    fn now(&self) -> f64;
    /// Milliseconds by a clock that nobody can set, where there is one.
    fn monotonic(&self) -> Option<f64> {
        None
    }
    /// A new UUID, version 4.
    fn new_id(&self) -> String;
    /// A second or so: so often somebody who waits looks at what others have stored. Never, where there is no such clock.
    fn a_while(&self) -> LocalFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
    /// Waits until a signal fires, which another request of a server may do.
    fn fired(&self, signal: Signal) -> LocalFuture<'static, ()> {
        Box::pin(async move { signal.fired().await })
    }
    /// Runs a future to its end in the background.
    fn spawn(&self, future: LocalFuture<'static, ()>);
}

/// Takes the answer so far of a model that streams.
pub type OnUpdate<M> = Rc<dyn Fn(Incoming<M>) -> Result<()>>;

/// A host's model client. Errors are its own texts.
pub trait Model<M> {
    /// Preflight, before anything is kept.
    fn check(&self, model: Option<ModelRef>) -> LocalFuture<'_, std::result::Result<(), String>>;
    /// One answer.
    fn complete(
        &self,
        request: ModelRequest<M>,
        report: RequestReport,
        on_update: OnUpdate<M>,
        abort: Signal,
    ) -> LocalFuture<'_, std::result::Result<Incoming<M>, String>>;
}

/// A host's file system, as far as paths go. Errors are its own texts.
pub trait Host {
    /// How paths are written.
    fn path_style(&self) -> PathStyle;
    /// The root of the workspace, absolute; by default the session's working directory.
    fn workspace_root(&self) -> Option<String>;
    /// Where a path really leads, where that can be said at once.
    fn resolve_now(&self, base: &str, path: &str) -> Option<ResolvedPath> {
        let (_, _) = (base, path);
        None
    }
    /// Where paths really lead: one answer for each, in order. `base` is absolute, and what a relative path is relative to.
    fn resolve(
        &self,
        base: String,
        paths: Vec<String>,
    ) -> LocalFuture<'_, std::result::Result<Vec<ResolvedPath>, String>>;
}

/// What a tool is told beside its arguments.
#[derive(Clone)]
pub struct ToolContext {
    /// The session's effective working directory.
    pub working_directory: String,
    /// Why the call may run.
    pub decided: Decided,
    /// The host that the tool works on.
    pub host: Option<Rc<dyn Host>>,
}

impl ToolContext {
    /// Whether a tool that goes on below a tree by itself must not show this path.
    pub fn is_hidden(&self, path: &str) -> bool {
        let host = self.host.as_ref();
        let resolved = host.and_then(|host| host.resolve_now(&self.working_directory, path));
        self.decided.hides(path, resolved)
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("working_directory", &self.working_directory)
            .finish_non_exhaustive()
    }
}

/// A host's tools. Errors are their own texts, code unit for code unit, shown to the model as failed results.
pub trait Tools<M> {
    /// The paths that the tool finds in the arguments itself; none where it does not look.
    fn found_paths(&self, call: &ToolCall<M>) -> std::result::Result<Option<Vec<PathRequest>>, String> {
        let _ = call;
        Ok(None)
    }
    /// Runs one call in the session's effective working directory.
    fn run(
        &self,
        call: ToolCall<M>,
        context: ToolContext,
        abort: Signal,
    ) -> LocalFuture<'_, std::result::Result<Incoming<M>, M>>;
}

/// Among so many sessions is the one to continue. Where all of these are damaged, a person begins anew.
const RECENT: u32 = 32;

/// What a runtime is made of.
pub struct Parts<M> {
    /// Where sessions are kept.
    pub storage: Rc<dyn Storage<M>>,
    /// Time, ids, background work.
    pub world: Rc<dyn World>,
    /// Others on the same storage; none where it is this page's alone.
    pub tabs: Option<Rc<dyn Tabs>>,
    /// For `prompt`.
    pub model: Option<Rc<dyn Model<M>>>,
    /// For `prompt`.
    pub tools: Rc<dyn Tools<M>>,
    /// Answers where paths lead; without one no path is known.
    pub host: Option<Rc<dyn Host>>,
    /// What the model is told of the tools.
    pub declarations: Vec<ToolDeclaration<M>>,
    /// Whether results of calls that were not allowed are refused.
    pub strict: bool,
    /// How names are compared.
    pub fold: Fold,
    /// Names that are closed below the roots, folded.
    pub protected: Vec<String>,
    /// What sessions run as that are given nothing else.
    pub defaults: Defaults,
    /// The person's data directory, which sessions of projects may write.
    pub data_dir: Option<String>,
    /// How skills are listed.
    pub skills: SkillOptions,
    /// Counts tokens, by a tokenizer of the host; without one they are estimated.
    pub count_tokens: Option<Rc<CountTokens<M>>>,
    /// How conversations are compacted.
    pub compaction: CompactionOptions<M>,
}

impl<M> fmt::Debug for Parts<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}

/// Of a stored conversation, what is known: a position, and the messages from there on.
type Known<'a, M> = &'a dyn Fn(&StoredSession) -> Option<(u32, Vec<M>)>;

/// Something that happened to the runtime as a whole.
#[derive(Clone, Debug, PartialEq)]
pub enum RuntimeEvent {
    /// A session was created.
    SessionCreated(String),
    /// A session was deleted.
    SessionDeleted(String),
    /// Another tab or worker stored something of a session.
    SessionChanged(String),
    /// The skills to choose from changed.
    SkillsChanged,
    /// Permission groups or rules changed, here or elsewhere.
    PermissionsChanged,
    /// Something happened to the storage as a whole.
    Storage(StorageEvent),
}

/// Takes events; an error is collected, never passed on.
pub type Listener<E> = Rc<dyn Fn(&E) -> std::result::Result<(), String>>;

/// Everything that sessions of one page or worker share.
pub struct Runtime<M> {
    parts: Parts<M>,
    surroundings: Surroundings<M>,
    policy: RefCell<Rc<Policy>>,
    skills: skills::Skills,
    sessions: RefCell<Vec<(String, Weak<Session<M>>)>>,
    /// Sessions with a pending save.
    held: RefCell<Vec<Rc<Session<M>>>>,
    /// Sessions that were opened for an answer alone, in which a person does not want to be asked for a while.
    bypassed: RefCell<Vec<Rc<Session<M>>>>,
    listeners: Rc<Listeners<RuntimeEvent>>,
    permissions: PermissionStore,
    /// Nothing begins any more. Imports that run end, and the last of them lets go of the storage.
    closed: Signal,
    imports: Cell<u32>,
    gone: Signal,
}

impl<M> fmt::Debug for Runtime<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl<M: MessageData + 'static> Runtime<M> {
    /// Opens a runtime on a storage, and reads the skills that it keeps.
    ///
    /// # Errors
    /// `invalid_argument` for defaults that open the root of a file system; those of the storage.
    pub async fn open(parts: Parts<M>) -> Result<Rc<Self>> {
        let style = parts.host.as_ref().map(|host| host.path_style());
        parts.defaults.check(style.unwrap_or_default())?;
        let stored = skills::Stored::read(&parts.storage.shared().list(keys::SKILLS).await?);
        let is_ours = |tool: &ToolDeclaration<M>| tool.name == LOAD_SKILL;
        let surroundings = Surroundings {
            tools: parts.declarations.clone().into(),
            // A host may have its own.
            load_tool: (!parts.declarations.iter().any(is_ours)).then(skills::load_tool),
            strict: parts.strict,
        };
        let listeners = Rc::new(Listeners::default());
        let permissions = PermissionStore::new(
            parts.storage.shared(),
            parts.fold,
            &parts.protected,
            listeners.clone(),
            parts.tabs.clone(),
            parts.world.clone(),
        );
        // Where it fails it is tried again when somebody asks, and said then: conversations can be read all the same.
        let policy = match permissions.in_force().await {
            Ok((policy, _)) => policy,
            Err(_) => Rc::new(Policy::compile(Vec::new(), None, parts.fold)?),
        };
        let runtime = Rc::new(Self {
            skills: skills::Skills::new(parts.skills.clone(), stored, parts.world.clone()),
            parts,
            policy: RefCell::new(policy),
            surroundings,
            sessions: RefCell::default(),
            held: RefCell::default(),
            bypassed: RefCell::default(),
            listeners,
            permissions,
            closed: Signal::default(),
            imports: Cell::new(0),
            gone: Signal::default(),
        });
        runtime.hear_others();
        let world = runtime.parts.world.clone();
        runtime.parts.storage.lend(world.clone());
        let clearing = runtime.clone();
        world.spawn(Box::pin(async move { clearing.clear_leftovers().await }));
        let told = Rc::downgrade(&runtime);
        runtime.parts.storage.watch(Rc::new(move |event| {
            if let Some(runtime) = told.upgrade() {
                // What is there when it is opened again may be another database of the same version.
                runtime.permissions.forget();
                runtime.listeners.emit(&RuntimeEvent::Storage(event));
            }
        }));
        Ok(runtime)
    }

    fn path_style(&self) -> PathStyle {
        self.parts
            .host
            .as_ref()
            .map_or_else(PathStyle::default, |host| host.path_style())
    }

    fn workspace_root(&self) -> Option<String> {
        self.parts.host.as_ref().and_then(|host| host.workspace_root())
    }

    /// What kind of storage it uses.
    pub fn storage_info(&self) -> StorageInfo {
        self.parts.storage.info()
    }

    /// Asks that what is saved is never cleared but by somebody who deletes it; a browser may ask a person.
    ///
    /// # Errors
    /// `disposed`.
    pub async fn request_persistence(&self) -> Result<Persistence> {
        self.check_open()?;
        Ok(self.parts.storage.persist().await)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.has_fired() {
            return Err(Error::new(
                ErrorCode::Disposed,
                "the runtime was closed; open another with `Runtime.open`",
            ));
        }
        Ok(())
    }

    /// A new session, saved, with the run context that is found for it now: what was given, or else what its ticket, its project or
    /// the runtime's defaults say.
    ///
    /// # Errors
    /// `invalid_argument` for bad options, `not_found` for a project, ticket or job that is not there, `conflict` where the id is
    /// taken, and those of the storage.
    pub async fn create_session(self: &Rc<Self>, mut options: NewSession) -> Result<Rc<Session<M>>> {
        self.check_open()?;
        self.resolve(&mut options).await?;
        self.check_open()?;
        if let Some(Some(context)) = &options.run_context {
            context.check(self.path_style(), "options.runContext")?;
        }
        let id = options.id.clone().unwrap_or_else(|| self.parts.world.new_id());
        let machine = Machine::create(&options, id.clone(), self.surroundings.clone(), &self.stamp())?;
        let session = Session::new(self, machine);
        if let Err(error) = session.save().await {
            session.release();
            return Err(match error.code() {
                ErrorCode::Conflict => {
                    let text = format!("a session with the id `{id}` exists; open it or choose another id");
                    Error::new(ErrorCode::Conflict, text).with("id", id)
                }
                _ => error,
            });
        }
        if self.closed.has_fired() {
            session.release();
            self.check_open()?;
        }
        self.remember(&id, &session);
        self.listeners.emit(&RuntimeEvent::SessionCreated(id));
        Ok(session)
    }

    /// A stored session. Opening one that is open gives the same one.
    ///
    /// # Errors
    /// `not_found`, and those of the storage.
    pub async fn open_session(self: &Rc<Self>, id: &str) -> Result<Rc<Session<M>>> {
        self.check_open()?;
        if let Some(open) = self.open_now(id) {
            return Ok(open);
        }
        let storage = self.parts.storage.session(id);
        let Some(machine) = self.load(&*storage, &|_| None).await? else {
            return Err(not_found(id));
        };
        self.check_open()?;
        // Somebody else may have opened it while we were reading: one object per session.
        if let Some(open) = self.open_now(id) {
            return Ok(open);
        }
        let session = Session::new(self, machine);
        self.remember(id, &session);
        Ok(session)
    }

    /// A session as it is stored; none where there is none. What is known of its messages is not read again: from the first
    /// loaded one on.
    async fn load(&self, storage: &dyn SessionStorage<M>, known: Known<'_, M>) -> Result<Option<Machine<M>>> {
        let (stored, mut asked, first, bodies) = loop {
            let opened = storage.open().await?;
            let shown = opened.filter(|(stored, _)| !stored.record.is_staged());
            let Some((mut stored, asked)) = shown else {
                return Ok(None);
            };
            stored.damage.append(&mut stored.miscounted());
            let (first, mut bodies) =
                known(&stored).unwrap_or_else(|| (Machine::<M>::first_to_load(&stored), Vec::new()));
            let next = first.saturating_add(u32::try_from(bodies.len()).unwrap_or(u32::MAX));
            match storage.read_messages(next, stored.record.message_count).await {
                Ok(mut rest)
                    if stored.is_whole()
                        && mistaken(dialect_of(&stored), &stored.outlines, next, &rest).is_empty() =>
                {
                    bodies.append(&mut rest);
                    break (stored, asked, first, bodies);
                }
                Err(error) if !is_damage(&error) => return Err(error),
                _ => {}
            }
            // Nothing is missing of a session that was deleted meanwhile, and perhaps made again.
            let now = storage.counters().await;
            if !stored.damage.is_empty() || now.is_err() || now == Ok(Some(stored.record.standing())) {
                let bodies = salvage(storage, &mut stored).await?;
                break (stored, asked, 0, bodies);
            }
        };
        let mut machine = Machine::open(stored, first, bodies, self.surroundings.clone())?;
        machine.take_approvals(&asked);
        let left_over = machine
            .check_whole()
            .is_ok()
            .then(|| machine.left_over(&asked, self.parts.world.new_id()));
        if let Some(commit) = left_over.flatten() {
            // Where that fails it is tried again the next time.
            if storage.commit(Rc::new(commit)).await.is_ok() {
                asked.clear();
            }
        } else if machine.has_open_turn() {
            // More may have been asked for meanwhile.
            asked = storage.approvals().await?;
        }
        machine.take_approvals(&asked);
        if machine.has_open_turn() {
            machine.set_runs_elsewhere(self.runs_elsewhere(machine.id()).await);
        }
        Ok(Some(machine))
    }

    fn open_sessions(&self) -> Vec<Rc<Session<M>>> {
        let sessions = self.sessions.borrow();
        sessions
            .iter()
            .filter_map(|(_, session)| session.upgrade())
            .listed()
    }

    fn remember(&self, id: &str, session: &Rc<Session<M>>) {
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|(other, held)| other != id && held.strong_count() > 0);
        sessions.push((id.to_owned(), Rc::downgrade(session)));
    }

    fn open_now(&self, id: &str) -> Option<Rc<Session<M>>> {
        let sessions = self.sessions.borrow();
        let (_, open) = sessions.iter().find(|(other, _)| other == id)?;
        open.upgrade().filter(|session| !session.machine().is_disposed())
    }

    /// Keeps a session whose save is pending: what it holds is nowhere else.
    fn hold(&self, session: Option<Rc<Session<M>>>) {
        let Some(session) = session else { return };
        let mut held = self.held.borrow_mut();
        if !held.iter().any(|other| Rc::ptr_eq(other, &session)) {
            held.push(session);
        }
    }

    fn let_go(&self, session: &Session<M>) {
        self.held
            .borrow_mut()
            .retain(|other| !std::ptr::eq(Rc::as_ptr(other), session));
    }

    /// The session that was used last, of a working directory or of all; where there is none, a new one there. One that is
    /// damaged is passed over, and stays in the list; so is one that was deleted meanwhile.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn continue_recent(
        self: &Rc<Self>,
        cwd: Option<String>,
        new: NewSession,
    ) -> Result<Rc<Session<M>>> {
        let filter = ListFilter {
            cwd: cwd.clone(),
            limit: RECENT,
            before: None,
        };
        let listed = self.list_sessions(filter).await?;
        let ids = listed.into_iter().map(|record| record.id).listed();
        for id in ids {
            match self.open_session(&id).await {
                Ok(session) if session.machine().damage().is_empty() => return Ok(session),
                Ok(_) => {}
                Err(error) if is_damage(&error) || error.code() == ErrorCode::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let cwd = cwd.or(new.cwd);
        self.create_session(NewSession { cwd, ..new }).await
    }

    /// Stored sessions, newest first.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn list_sessions(&self, filter: ListFilter) -> Result<Vec<SessionRecord>> {
        self.check_open()?;
        self.parts.storage.directory().list(filter).await
    }

    /// Deletes a session for good.
    ///
    /// # Errors
    /// `not_found`; `session_busy` while it runs a turn here; those of the storage.
    pub async fn delete_session(&self, id: &str) -> Result<()> {
        self.check_open()?;
        let storage = self.parts.storage.session(id);
        let open = self.open_now(id);
        let exclusive = match &open {
            Some(open) => Some(open.exclusive(Exclusive::Flush)?),
            None => None,
        };
        // One that is damaged has counters that cannot be read, and can be deleted all the same.
        if open.is_none() && matches!(storage.counters().await, Ok(None)) {
            return Err(not_found(id));
        }
        storage.delete().await?;
        drop(exclusive);
        // Opened while we were deleting, perhaps: it is gone all the same.
        if let Some(open) = self.open_now(id) {
            open.release();
        }
        self.sessions.borrow_mut().retain(|(other, _)| other != id);
        self.tell(&Hint::Session(id.to_owned()));
        self.listeners.emit(&RuntimeEvent::SessionDeleted(id.to_owned()));
        Ok(())
    }

    /// What sessions run as that are given nothing else.
    pub fn defaults(&self) -> &Defaults {
        &self.parts.defaults
    }

    /// Permission groups and rules.
    pub fn permissions(&self) -> &PermissionStore {
        &self.permissions
    }

    /// The rules in force: they are read again only where somebody changed them.
    ///
    /// # Errors
    /// Those of the storage, and `storage_failed` where a record cannot be read.
    pub async fn policy(&self) -> Result<Rc<Policy>> {
        self.permissions.policy().await
    }

    /// Takes events until the returned number is given to [`Runtime::unsubscribe`].
    pub fn subscribe(&self, listener: Listener<RuntimeEvent>) -> u32 {
        self.listeners.add(listener)
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, number: u32) {
        self.listeners.remove(number);
    }

    /// Texts of errors of listeners.
    pub fn listener_errors(&self) -> ListenerErrors {
        self.listeners.errors.clone()
    }

    /// Waits until what is on its way is saved, or could not be, in every session.
    pub async fn at_rest(&self) {
        for session in self.open_sessions() {
            session.at_rest().await;
        }
    }

    /// Lets go of every session and of the storage.
    ///
    /// # Errors
    /// `session_busy` or `pending_save` of the first session that cannot be let go; then nothing is closed.
    pub fn close(&self) -> Result<()> {
        if self.closed.has_fired() {
            return Ok(());
        }
        let open = self.open_sessions();
        for session in &open {
            session.check_disposable()?;
        }
        for session in &open {
            session.dispose()?;
        }
        self.closed.fire();
        self.leave();
        Ok(())
    }

    /// Lets go of the storage, once, where the runtime is closed and no import has something there that it is to take away.
    fn leave(&self) {
        if !self.closed.has_fired() || self.imports.get() > 0 || self.gone.has_fired() {
            return;
        }
        if let Some(tabs) = &self.parts.tabs {
            tabs.close();
        }
        self.parts.storage.close();
        self.gone.fire();
    }

    /// Waits until a closed runtime has let go of its storage.
    pub async fn gone(&self) {
        self.gone.fired().await;
    }

    fn stamp(&self) -> crate::session::Stamp {
        crate::session::Stamp {
            now: self.parts.world.now(),
            operation_id: self.parts.world.new_id(),
        }
    }
}

/// Beyond its outlines a damaged session has at most so many messages: its count may be damaged, too.
const SALVAGED: u32 = 2_000;

/// Every message of a damaged session; where one is not there, something that is none stands in its place. Where the outlines do
/// not fit, the messages are looked at anew.
async fn salvage<M: MessageData>(
    storage: &dyn SessionStorage<M>,
    stored: &mut StoredSession,
) -> Result<Vec<M>> {
    let outlined = u32::try_from(stored.outlines.len()).unwrap_or(u32::MAX);
    let most = outlined.saturating_add(SALVAGED);
    let count = stored.record.message_count.clamp(outlined, most);
    let missing = || M::object(vec![("role", M::string("missing"))]);
    let mut bodies = Vec::new();
    // The next range to read comes last.
    let mut ranges = vec![(0, count)];
    while let Some((from, to)) = ranges.pop() {
        match storage.read_messages(from, to).await {
            Ok(mut found) => bodies.append(&mut found),
            Err(error) if !is_damage(&error) => return Err(error),
            Err(error) if to - from == 1 => {
                stored.damage.push(Damage::new(keys::MESSAGES, Some(from), error));
                bodies.push(missing());
            }
            Err(_) => {
                let middle = from + (to - from) / 2;
                ranges.push((middle, to));
                ranges.push((from, middle));
            }
        }
    }
    if stored.record.message_count == outlined {
        let known = stored.damage.len();
        for damage in mistaken(dialect_of(stored), &stored.outlines, 0, &bodies) {
            // What is not there has no role.
            let is_missing = |known: &Damage| known.store == damage.store && known.key == damage.key;
            if !stored.damage.iter().take(known).any(is_missing) {
                stored.damage.push(damage);
            }
        }
    } else {
        let text = format!(
            "there are {} messages and {outlined} outlines",
            stored.record.message_count
        );
        stored.damage.push(Damage::new(keys::OUTLINES, None, text));
        stored.outlines.clear();
        let dialect = dialect_of(stored);
        for body in &mut bodies {
            let is_user = body.field_text("role").as_deref() == Some("user");
            if dialect.outline(body, is_user).is_err() {
                *body = missing();
            }
            stored.outlines.push(dialect.outline(body, is_user)?);
        }
        stored.record.message_count = count;
    }
    Ok(bodies)
}

fn dialect_of(stored: &StoredSession) -> Dialect {
    Header::readable(&stored.record.settings).0.dialect
}

/// Messages from a position on that are from somebody else than their outlines say.
fn mistaken<M: MessageData>(
    dialect: Dialect,
    outlines: &[MessageOutline],
    from: u32,
    bodies: &[M],
) -> Vec<Damage> {
    let outlines = outlines.iter().skip(from as usize);
    let mut mistaken = Vec::new();
    for ((at, body), outline) in (from..).zip(bodies).zip(outlines) {
        let role = body.field_text("role").unwrap_or_default();
        if !dialect.fits(&role, outline.role) {
            let text = format!("its role is `{role}`, and its outline says something else");
            mistaken.push(Damage::new(keys::MESSAGES, Some(at), text));
        }
    }
    mistaken
}

fn not_found(id: &str) -> Error {
    Error::new(
        ErrorCode::NotFound,
        format!("there is no session `{id}`; list them with `listSessions`"),
    )
    .with("id", id)
}

/// Who is told of events, in the order of subscription.
struct Listeners<E> {
    next: Cell<u32>,
    all: RefCell<Vec<(u32, Listener<E>)>>,
    errors: ListenerErrors,
}

impl<E> Default for Listeners<E> {
    fn default() -> Self {
        Self {
            next: Cell::new(0),
            all: RefCell::default(),
            errors: ListenerErrors::default(),
        }
    }
}

/// More errors of listeners than this are not kept.
const LISTENER_ERRORS: usize = 100;

/// Texts of errors of listeners, also of those that come later. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ListenerErrors(Rc<RefCell<Vec<String>>>);

impl ListenerErrors {
    /// Keeps one.
    pub fn add(&self, text: String) {
        let mut errors = self.0.borrow_mut();
        if errors.len() < LISTENER_ERRORS {
            errors.push(text);
        }
    }

    /// All of them, oldest first.
    pub fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }
}

impl<E> Listeners<E> {
    fn add(&self, listener: Listener<E>) -> u32 {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        self.all.borrow_mut().push((number, listener));
        number
    }

    fn remove(&self, number: u32) {
        self.all.borrow_mut().retain(|(other, _)| *other != number);
    }

    fn emit(&self, event: &E) {
        // Copied first: a listener may subscribe, unsubscribe and call anything.
        let all = self.all.borrow().clone();
        for (number, listener) in all {
            // One that was ended meanwhile, by another listener, hears nothing more.
            if !self.all.borrow().iter().any(|(other, _)| *other == number) {
                continue;
            }
            if let Err(text) = listener(event) {
                self.errors.add(text);
            }
        }
    }
}
