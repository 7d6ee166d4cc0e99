// The page: one runtime, the chat that is shown, and what happens when somebody does something.

import { init, projectModelInput, Runtime } from '/pkg/browser.js';

import { Approvals } from './approvals.js';
import { askDelete, askTitle, ChatList, titleOf } from './chats.js';
import { Composer } from './composer.js';
import { Conversation } from './conversation.js';
import { el, shortTime } from './dom.js';
import { files } from './files.js';
import { setUpFrame, uncover } from './frame.js';
import { COMMANDS, scriptedModel } from './model.js';
import { Panel } from './panel.js';
import { Reports } from './reports.js';
import { addFromFile, bundled } from './skills.js';
import { bringRules, tools } from './tools.js';

const byId = (id) => document.getElementById(id);

/** What every chat of the demo begins with. */
const NEW_CHAT = {
    systemPrompt: 'You are the assistant of a demo page. Answer briefly, and say what you were shown.',
    projectInstructions: [
        { path: 'AGENTS.md', content: 'This is a demo: its few files are in memory, and nothing leaves the page.' },
    ],
    model: { provider: 'demo', id: 'scripted', contextWindow: 32_000, maxTokens: 2_000 },
};
const PAGE_OF_CHATS = 30;
/** Why something that looks like a skill chosen in the text is none. */
const STAYS_TEXT = { mention_unknown: 'no skill is called', mention_ambiguous: 'several skills are called' };

let runtime;
/** The chat that is shown. */
let session;
/** Where a turn runs, if one does. One at a time: a model client is not told for which session it is asked. */
let running;
/** Per session, the last request of this page as the model got it. */
const requests = new Map();
/**
 * Sessions that this page holds open: the session, what ends its subscription, why it could not be saved last, and what a
 * person does not want to be asked about in it.
 */
const open = new Map();
let chatsShown = PAGE_OF_CHATS;

const reports = new Reports(byId('reports'));
const conversation = new Conversation(byId('conversation'), byId('announcement'));
const panel = new Panel(byId('panel'));
const chats = new ChatList(byId('chat-list'), { open: choose, rename, remove });
const approvals = new Approvals(byId('approvals'), { answer });
const composer = new Composer({
    send,
    stop,
    preset: setPreset,
    failed: (error) => reports.error(error),
    announce: (text) => conversation.announce(text),
    gone: (id) => reports.notice('skill_unavailable', `the skill \`${id}\` was chosen for your next message and cannot be any more`),
    addSkills,
    enableSkill,
    removeSkill,
});

// ---- starting -----------------------------------------------------------------------------------------------------

async function start() {
    try {
        await init();
        runtime = await Runtime.open({ host: files, tools, model: watched(scriptedModel({ pause: pause() })) });
        await runtime.skills.addSource(bundled);
        await bringRules(runtime.permissions);
    } catch (error) {
        reports.error(error, 'Starting');
        byId('reports').append(el('button', { type: 'button', on: { click: () => location.reload() } }, 'Try again'));
        return;
    }
    const { persistent, kind, reason } = runtime.storageInfo;
    byId('storage').textContent = persistent
        ? `Kept in this browser (${kind}).`
        : `Kept in memory only, gone with this page: ${reason ?? kind}`;
    composer.setSkills(runtime.skills.list());
    runtime.subscribe((event) => {
        if (event.type === 'skills-changed') composer.setSkills(runtime.skills.list());
        else refreshChats();
    });
    await openFirst();
}

/** Milliseconds between the script's words: `?pause=0` makes it hurry. */
function pause() {
    const given = Number(new URLSearchParams(location.search).get('pause') ?? 30);
    return Number.isFinite(given) && given >= 0 ? given : 30;
}

/** The model client, with the requests it gets kept for the panel. */
function watched(model) {
    return {
        complete(request, options) {
            requests.set(running, { request, report: options.report });
            if (session?.id === running) panel.show(session, requests.get(running), true);
            for (const { code, detail } of options.report.notices) {
                if (code in STAYS_TEXT) reports.notice(code, `${STAYS_TEXT[code]} \`${detail}\`, so \`$${detail}\` stays text`);
            }
            return model.complete(request, options);
        },
    };
}

// ---- the chats ----------------------------------------------------------------------------------------------------

const named = () => new URLSearchParams(location.hash.slice(1)).get('chat') ?? undefined;

async function openFirst() {
    const id = named();
    if (id !== undefined && (await go(id))) return;
    const [last] = await trying('Listing', () => runtime.listSessions({ limit: 1 })) ?? [];
    if (last) await go(last.id);
    else await newChat();
}

async function newChat() {
    reports.clear();
    // An empty chat is as good as a new one.
    if (session && session.state.messageCount === 0 && session.header.title === null) {
        uncover();
        composer.focus();
        return;
    }
    byId('new-chat').disabled = true;
    const created = await trying('New chat', () => runtime.createSession(NEW_CHAT));
    if (created) await go(created.id);
    byId('new-chat').disabled = false;
}

/** Somebody may ask for another chat before this one is there: the last one asked for counts. */
let lastAsked = 0;


function choose(id) {
    reports.clear();
    go(id);
}

/** Shows a chat. Says whether it could be opened. */
async function go(id) {
    const mine = ++lastAsked;
    const opened = await trying('Opening', () => runtime.openSession(id));
    if (!opened || mine !== lastAsked) return false;
    const before = session;
    session = opened;
    if (before && before.id !== id) leave(before);
    if (!open.has(id)) open.set(id, { session, end: opened.subscribe((event) => happened(opened, event)) });
    if (named() === undefined) history.replaceState(undefined, '', `#chat=${id}`);
    else if (named() !== id) history.pushState(undefined, '', `#chat=${id}`);
    composer.open(id);
    showSession();
    uncover();
    composer.focus();
    await markRead();
    await refreshChats();
    return true;
}

/**
 * A chat that is not shown any more is closed when it is idle, so that opening it again reads what is stored. One that
 * cannot be closed, because something is still to be saved, stays open.
 */
async function leave(left) {
    await oneAtATime(left, async () => {
        // Somebody may be back already.
        if (session?.id === left.id) return;
        await left.dispose();
        forget(left.id);
    }).catch(() => {});
}

function forget(id) {
    open.get(id)?.end();
    open.delete(id);
}

async function rename(info) {
    const title = await askTitle(byId('rename-dialog'), info);
    if (title === undefined) return;
    await trying('Renaming', async () => {
        const renamed = session?.id === info.id ? session : await runtime.openSession(info.id);
        await renamed.setTitle(title);
    });
    await refreshChats();
}

async function remove(info) {
    if (!(await askDelete(byId('delete-dialog'), info))) return;
    const done = await trying('Deleting', async () => {
        await runtime.deleteSession(info.id);
        return true;
    });
    if (!done) return;
    forget(info.id);
    requests.delete(info.id);
    sessionStorage.removeItem(`draft ${info.id}`);
    if (session?.id === info.id) {
        session = undefined;
        showState();
        history.replaceState(undefined, '', location.pathname + location.search);
        await openFirst();
    } else {
        await refreshChats();
        composer.focus();
    }
}

async function refreshChats() {
    const infos = await trying('Listing', () => runtime.listSessions({ limit: chatsShown + 1 }));
    if (!infos) return;
    byId('more-chats').hidden = infos.length <= chatsShown;
    const waiting = (await trying('Listing', () => runtime.approvals.list())) ?? [];
    chats.show(infos.slice(0, chatsShown), session?.id, running, new Set(waiting.map(({ sessionId }) => sessionId)));
    byId('title').textContent = session ? titleOf(session.header) : 'runcontext demo';
    document.title = session ? `${titleOf(session.header)} · runcontext demo` : 'runcontext demo';
}

/** Somebody sees the whole conversation. */
async function markRead() {
    const { unread, messageCount, hasPendingSave } = session.state;
    if (unread > 0 && !hasPendingSave && document.visibilityState === 'visible') {
        await session.markRead(messageCount).catch((error) => reports.error(error, 'Marking as read'));
    }
}

/** Another tab may have written to the chat that is shown here, in a browser where tabs cannot tell each other. */
async function refreshWhenSeen() {
    if (document.visibilityState !== 'visible' || !session) return;
    // Another tab may have added a skill, too.
    await trying('Reading skills', () => runtime.skills.refresh());
    const { id, header, state } = session;
    const idle = !state.isRunning && !state.hasPendingSave && running === undefined;
    const infos = (await trying('Listing', () => runtime.listSessions({ limit: chatsShown + 1 }))) ?? [];
    const now = infos.find((info) => info.id === id);
    if (idle && session.id === id && now && new Date(now.updatedAt).toISOString() !== header.updatedAt) await lookAgain();
    await refreshChats();
}

async function lookAgain() {
    const looked = session;
    await trying('Reading', () => oneAtATime(looked, () => looked.reload()));
}

// ---- the chat that is shown ---------------------------------------------------------------------------------------

function showSession() {
    const beside = remarks();
    conversation.show(session.messages, (index) => beside.get(index) ?? [], ending());
    panel.show(session, requests.get(session.id));
    showState();
}

/** What is said beside a message: the skills that stand before it, and what changed in the system prompt with it. */
function remarks() {
    const beside = new Map();
    const say = (index, remark) => beside.set(index, [...(beside.get(index) ?? []), remark]);
    const snapshots = session.getRuntimeContexts();
    const { skillExpansions = [] } = projectModelInput(session.messages, snapshots).projection;
    for (const { messageIndex, snapshotIndex } of skillExpansions) {
        for (const { name, id, revision } of snapshots[snapshotIndex].skills ?? []) {
            say(messageIndex, { text: `skill ${name}`, title: `${id}, revision ${revision}` });
        }
    }
    for (const { messageCount, sections } of session.getSystemPromptCheckpoints().slice(1)) {
        const names = Object.keys(sections).join(', ');
        say(messageCount - 1, { text: `system prompt: ${names} changed`, title: 'from this message on' });
    }
    return beside;
}

function ending() {
    const { isRunning, outcome, error } = session.state;
    if (isRunning || session.interrupted) return undefined;
    if (outcome === 'error') return `The last turn failed: ${error ?? 'no reason given'}`;
    return outcome === 'cancelled' ? 'The last turn was stopped.' : undefined;
}

function showState() {
    if (!session) {
        composer.state({ blocked: 'No chat is open.', presetLocked: true });
        byId('banners').replaceChildren();
        approvals.show([]);
        return;
    }
    const { isRunning, runsElsewhere, hasPendingSave, pendingApprovals, permissionPreset } = session.state;
    const { interrupted } = session;
    const here = isRunning || running === session.id;
    let blocked;
    if (runsElsewhere) blocked = 'Another tab is answering in this chat.';
    else if (interrupted) blocked = 'This chat waits for you to say what becomes of the turn that was cut off.';
    else if (hasPendingSave && !here) blocked = 'This chat waits until what is pending is saved.';
    else if (running !== undefined && !here) blocked = 'The script is answering in another chat. It answers one at a time.';
    composer.state({
        running: here,
        blocked,
        preset: permissionPreset,
        presetLocked: runsElsewhere || interrupted !== undefined || hasPendingSave,
    });
    // One that is approved is listed until its call runs.
    approvals.show(pendingApprovals.filter(({ status }) => status === 'pending'));
    const unasked = open.get(session.id)?.unasked;
    byId('banners').replaceChildren(
        ...[unasked && notAsked(unasked), interrupted && cutOff(interrupted), runsElsewhere && elsewhere(), hasPendingSave && !here && pendingSave(open.get(session.id)?.saveError)].filter(Boolean),
    );
}

const cutOff = ({ unanswered }) =>
    banner(
        'This turn was cut off. ',
        'The page was closed or loaded again while the answer was being written (or another tab still writes it). Your message is saved' +
            (unanswered.length === 0 ? '' : `; ${unanswered.length} tool call${unanswered.length === 1 ? ' has' : 's have'} no result`) +
            '. Resume the turn to let the script go on: a call that had begun is not run again, one that waits for you still does.',
        { 'Resume the turn': resume, 'Abandon the turn': abandon },
    );

const elsewhere = () =>
    banner(
        'Another tab is answering in this chat. ',
        'What it says is shown here as it is saved. You can write here when it has finished.',
        { 'Look again': lookAgain },
    );

const notAsked = (what) =>
    banner('You are not asked. ', `Calls of ${what}. What is closed stays closed.`, { 'Ask me again': askAgain });

const pendingSave = (error) =>
    error?.code === 'conflict'
        ? banner(
              'Not saved: another tab wrote to this chat. ',
              'What was said here since then is in this page alone. Keep it as a chat of its own, or drop it and show what the other tab saved.',
              { 'Keep mine as a copy': keepAsCopy, 'Show what is stored': dropMine },
          )
        : banner(
              'Not saved yet. ',
              'Writing failed, and everything is kept in this page until it works. Saving again asks neither the model nor a tool.',
              { 'Save again': saveAgain },
          );

/** @param {Record<string, () => void>} actions by what their buttons say; the first is what one would choose */
const banner = (title, text, actions) =>
    el(
        'div',
        { class: 'banner', role: 'status' },
        el('p', {}, el('strong', {}, title), text),
        ...Object.entries(actions).map(([action, work], at) =>
            el('button', { type: 'button', class: at === 0 && 'primary', on: { click: work } }, action),
        ),
    );

function happened(from, event) {
    const shown = session?.id === from.id;
    switch (event.type) {
        case 'turn-start':
            nameAfterFirstMessage(from);
            if (shown) composer.sent();
            break;
        case 'message':
            if (!shown) break;
            conversation.add(event.message, event.messageIndex, remarks().get(event.messageIndex) ?? []);
            panel.show(session, requests.get(session.id));
            break;
        case 'update':
            if (shown) conversation.update(event.message);
            break;
        case 'approval-requested':
            refreshChats();
            if (!shown) break;
            showState();
            conversation.announce('The script waits for you: a call needs your approval. It is above the message box.');
            break;
        case 'approval-resolved':
            refreshChats();
            if (shown) showState();
            break;
        case 'reloaded':
            if (!shown) break;
            showSession();
            markRead();
            break;
        case 'settings':
            if (shown) showState();
            break;
        case 'save-failed':
            open.get(from.id).saveError = event.error;
            reports.error(event.error, 'Saving');
            if (shown) showState();
            break;
        case 'saved':
            if (shown) showState();
            break;
    }
}

function nameAfterFirstMessage(from) {
    const { title } = from.state;
    const typed = from.titleInputs()[0];
    if (title !== undefined || typed === undefined) return;
    const line = typed.trim().split('\n')[0].toWellFormed();
    const short = [...line].length > 48 ? `${[...line].slice(0, 47).join('')}…` : line;
    // Where it cannot be saved now it is pending with the turn, which says so.
    from.setTitle(short || 'Image').then(refreshChats, () => {});
}

// ---- what a person does -------------------------------------------------------------------------------------------

/** Carries something out, and shows the error when it cannot be. */
async function trying(doing, work) {
    try {
        return await work();
    } catch (error) {
        reports.error(error, doing);
        return undefined;
    }
}

/** Per session, what its next exclusive operation waits for. */
const queues = new Map();

/** What a session does one at a time waits here, so that a quick person meets no `session_busy`. */
function oneAtATime(of, work) {
    const done = (queues.get(of.id) ?? Promise.resolve()).then(work);
    queues.set(of.id, done.catch(() => {}));
    return done;
}

function send(draft) {
    return drive('Sending', (asked) => asked.prompt(draft.content, { skills: draft.skills }), draft);
}

function resume() {
    return drive('Resuming', (cut) => cut.resumePrompt());
}

/** Runs a turn of the chat that is shown to its end. */
async function drive(doing, work, draft) {
    const asked = session;
    running = asked.id;
    reports.clear();
    showState();
    if (!draft) composer.focus();
    refreshChats();
    const result = await oneAtATime(asked, () => work(asked)).catch((error) => {
        // Somebody stopped it before it was on its way: the draft comes back, and that says it.
        if (error.code !== 'aborted') reports.error(error, doing);
    });
    running = undefined;
    if (session?.id === asked.id) {
        if (!result && draft) composer.restore(draft);
        conversation.end(ending());
        conversation.announce(spoken(asked.messages.at(-1), result));
        panel.show(session, requests.get(session.id));
        await markRead();
    }
    for (const { messageIndex, path } of result?.degraded ?? []) {
        reports.notice('degraded', `a value of message ${messageIndex} could not be stored and became null: ${path}`);
    }
    if (session) showState();
    await refreshChats();
}

/** The answer for screen readers: whole, once. */
function spoken(message, result) {
    if (!result) return '';
    const text =
        message?.role === 'assistant' && Array.isArray(message.content)
            ? message.content.filter(({ type }) => type === 'text').map((block) => block.text).join('\n')
            : '';
    if (result.outcome === 'error') return `The turn failed: ${result.error ?? ''}`;
    return result.outcome === 'cancelled' ? 'Stopped.' : text;
}

async function stop() {
    await trying('Stopping', () => session.abort());
    composer.focus();
}

async function setPreset(preset) {
    const chosenFor = session;
    await trying('Permissions', () => oneAtATime(chosenFor, () => chosenFor.setPermissionPreset(preset)));
    showState();
    conversation.announce('The model is told with your next message.');
}

/** Adds skills from files, each by itself: one that is none does not keep the others out. */
async function addSkills(files) {
    for (const file of files) {
        const added = await trying(`Adding ${file.name}`, () => addFromFile(runtime.skills, file));
        if (added) conversation.announce(`Added the skill ${added.name}.`);
    }
}

function enableSkill(id, on) {
    return trying(on ? 'Switching on' : 'Switching off', async () => {
        await runtime.skills.setEnabled(id, on);
        conversation.announce(on ? 'Switched on.' : 'Switched off.');
    });
}

function removeSkill(id) {
    return trying('Removing', async () => {
        await runtime.skills.remove(id);
        conversation.announce('Removed. What was said with the skill stays.');
    });
}

/** Gives a person's answer to a call that waits. */
async function answer(approval, decision) {
    const asked = session;
    const result = await trying('Answering', () => runtime.approvals.resolve(approval.requestId, decision));
    const held = open.get(asked.id);
    if (held && result?.outcome === 'approved' && decision.bypassSeconds !== undefined) notAskedFor(held, approval, decision);
    if (session?.id !== asked.id) return;
    showState();
    // An approval that became none: a rule forbids the call by now, or what it touches has changed.
    if (result && decision.action === 'approve' && result.outcome !== 'approved') reports.notice(result.outcome, result.message ?? 'the call is over');
    if (!approvals.focus()) composer.focus();
}

/** Remembers what was said, for the banner: the library alone knows what is asked. */
function notAskedFor(held, { toolCategory, mcpServer }, { bypassSeconds, bypassScope }) {
    const which = { category: `the tools “${toolCategory}”`, mcp_server: `the server “${mcpServer}”` }[bypassScope] ?? 'every tool';
    clearTimeout(held.timer);
    if (bypassSeconds === 'until-restart') {
        held.unasked = `${which} run without a question until this page is loaded again`;
        return;
    }
    const milliseconds = bypassSeconds * 1000;
    held.unasked = `${which} run without a question until ${shortTime(Date.now() + milliseconds)}`;
    held.timer = setTimeout(() => askedAgain(held), milliseconds);
}

/** A person wants to be asked about every call again. */
function askAgain() {
    session.clearBypass();
    askedAgain(open.get(session.id));
    composer.focus();
    conversation.announce('You are asked again.');
}

function askedAgain(held) {
    clearTimeout(held.timer);
    held.unasked = undefined;
    if (session?.id === held.session.id) showState();
}

async function abandon() {
    const cut = session;
    await trying('Abandoning', () => oneAtATime(cut, () => cut.abandon()));
    showSession();
    composer.focus();
    await refreshChats();
}

async function saveAgain() {
    const pending = session;
    reports.clear();
    await trying('Saving', () => oneAtATime(pending, () => pending.flush()));
    showSession();
    composer.focus();
    await refreshChats();
}

/** What another tab kept from being saved becomes a chat of its own, and is shown. */
async function keepAsCopy() {
    const { title } = session.state;
    const { forked } = (await settleConflict('fork')) ?? {};
    if (forked === undefined || !(await go(forked))) return;
    if (title !== undefined) await trying('Renaming', () => session.setTitle(`${title} (copy)`));
    await refreshChats();
    conversation.announce('This is your copy. The other chat shows what was saved there.');
}

async function dropMine() {
    if (await settleConflict('discard')) conversation.announce('This is what is stored.');
    composer.focus();
    await refreshChats();
}

function settleConflict(pending) {
    const settled = session;
    reports.clear();
    return trying('Reading', () => oneAtATime(settled, () => settled.reload({ pending })));
}

// ---- wiring -------------------------------------------------------------------------------------------------------

setUpFrame((id) => {
    if (id === 'panel' && session) panel.show(session, requests.get(session.id));
});
byId('new-chat').addEventListener('click', newChat);
byId('more-chats').addEventListener('click', () => {
    chatsShown += PAGE_OF_CHATS;
    refreshChats();
});
byId('help-commands').append(
    ...COMMANDS.flatMap(([name, what]) => [el('dt', {}, el('code', {}, name)), el('dd', {}, what)]),
);
// A button that submits would be the one that Enter presses.
byId('keep-title').addEventListener('click', () => byId('rename-dialog').close());
byId('open-help').addEventListener('click', () => byId('help-dialog').showModal());
document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;
    if (session?.state.isRunning) stop();
    else uncover();
});
document.addEventListener('visibilitychange', refreshWhenSeen);
window.addEventListener('popstate', () => {
    const id = named();
    if (runtime && id !== undefined && id !== session?.id) go(id);
});
window.addEventListener('beforeunload', (event) => {
    // Only what is not saved would be lost.
    const pending = [...open.values()].some((held) => held.session.state.hasPendingSave);
    if (pending) event.preventDefault();
});

start();
