// The side panel: the last request as the model got it, beside what is stored, and what is kept beside the conversation.

import { projectModelInput } from '/pkg/browser.js';

import { el, exact, exactWithMarks, picture } from './dom.js';
import { toJson } from './json.js';

const TABS = ['Messages', 'System prompt', 'Checkpoints', 'Snapshots', 'JSON'];

export class Panel {
    /** @param {HTMLElement} root */
    constructor(root) {
        this.root = root;
        this.tab = 'Messages';
        this.tabs = TABS.map((name) =>
            el(
                'button',
                {
                    type: 'button',
                    role: 'tab',
                    id: tabId(name),
                    'aria-controls': 'panel-body',
                    on: { click: () => this.#open(name), keydown: (event) => this.#move(event) },
                },
                name,
            ),
        );
        this.origin = el('p', { class: 'small', id: 'panel-origin' });
        this.body = el('div', { id: 'panel-body', role: 'tabpanel', tabindex: '0' });
        root.replaceChildren(
            el('h2', {}, 'What the model saw'),
            this.origin,
            el('div', { role: 'tablist', class: 'tabs', 'aria-label': 'Parts of the last request' }, ...this.tabs),
            this.body,
        );
    }

    /**
     * @param {any} session
     * @param {{ request: any, report: any } | undefined} last the request that this page sent last, as the model got it
     * @param {boolean} [isNew] whether it was sent just now
     */
    show(session, last, isNew = false) {
        this.session = session;
        this.last = last;
        if (this.root.hidden) return;
        this.#draw();
        const newest = [...this.body.querySelectorAll('[data-model-index]')].at(-1);
        if (isNew) newest?.scrollIntoView({ block: 'nearest' });
    }

    #open(name) {
        this.tab = name;
        this.#draw();
        this.body.scrollTop = 0;
    }

    #move(event) {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        const at = (TABS.indexOf(this.tab) + step + TABS.length) % TABS.length;
        this.#open(TABS[at]);
        this.tabs[at].focus();
    }

    #draw() {
        const seen = this.last ? sent(this.last) : replayed(this.session);
        const checkpoints = this.session.getSystemPromptCheckpoints();
        const snapshots = this.session.getRuntimeContexts();
        const count = { Checkpoints: checkpoints.length, Snapshots: snapshots.length };
        for (const tab of this.tabs) {
            const name = TABS[this.tabs.indexOf(tab)];
            tab.setAttribute('aria-selected', String(name === this.tab));
            tab.tabIndex = name === this.tab ? 0 : -1;
            tab.textContent = name in count ? `${name} (${count[name]})` : name;
        }
        this.body.setAttribute('aria-labelledby', tabId(this.tab));
        this.origin.textContent = seen?.origin ?? 'Nothing was sent to the model in this chat yet.';
        const parts = {
            Messages: () => messagesTab(seen, this.session),
            'System prompt': () => promptTab(seen),
            Checkpoints: () => checkpoints.map(checkpointCard),
            Snapshots: () => snapshots.map(snapshotCard),
            JSON: () => jsonTab(seen, this.session, checkpoints, snapshots),
        }[this.tab]();
        const empty = { Checkpoints: 'No system prompt was recorded yet.', Snapshots: 'No skill was chosen yet.' };
        this.body.replaceChildren(...(parts.length > 0 ? parts : [el('p', { class: 'small' }, empty[this.tab] ?? '')]));
    }
}

const tabId = (name) => `tab-${name.toLowerCase().replace(' ', '-')}`;

/** The request as the model client got it. */
const sent = ({ request, report }) => ({
    origin: 'The last request, as it was handed to the model.',
    systemPrompt: request.systemPrompt,
    messages: request.messages,
    tools: request.tools,
    projection: report.projection,
    report,
});

/** After a reload the request is gone: the library makes it again from what is stored. */
function replayed(session) {
    const { messages } = session;
    if (messages.length === 0) return undefined;
    const [compaction] = session.getCompactions().slice(-1);
    const made = projectModelInput(messages, session.getRuntimeContexts(), compaction && { compaction });
    return {
        origin: 'The page was loaded again, so the request itself is gone. This is made again from what is stored: what a model is shown of this chat as it stands.',
        systemPrompt: session.systemPromptAt(messages.length - 1),
        messages: made.messages,
        projection: made.projection,
    };
}

// ---- messages -----------------------------------------------------------------------------------------------------

function messagesTab(seen, session) {
    if (seen === undefined) return [];
    const stored = session.messages;
    const { sources, skillExpansions = [], historyMessageCount } = seen.projection;
    const rows = [];
    let next = 0;
    const leftOutBefore = (index) => {
        for (; next < index; next++) {
            const later = next >= historyMessageCount;
            rows.push(row(missing(later ? 'came after this request' : 'left out of this request'), storedCell(stored[next], next)));
        }
    };
    sources.forEach((source, at) => {
        const { messageIndex } = source;
        const isHistory = source.type === 'history';
        leftOutBefore(messageIndex);
        const expansions = isHistory ? skillExpansions.filter((expansion) => expansion.messageIndex === messageIndex) : [];
        rows.push(
            row(
                modelCell(seen.messages[at], at, source, expansions),
                isHistory ? storedCell(stored[messageIndex], messageIndex) : missing('not stored as a message'),
            ),
        );
        if (isHistory) next = messageIndex + 1;
    });
    leftOutBefore(stored.length);
    return [
        ...reportLines(seen),
        el('div', { class: 'row heads', 'aria-hidden': 'true' }, el('span', {}, 'Model'), el('span', {}, 'Stored')),
        ...rows,
    ];
}

function reportLines({ report, messages, tools }) {
    if (report === undefined) return [];
    const { budget, divergence, notices } = report;
    const { events } = divergence;
    const difference =
        divergence.class === 'none'
            ? 'continues the request before it'
            : `differs from the request before it in its ${divergence.class}` +
              (divergence.index >= 0 ? `, from message ${divergence.index} on` : '');
    return [
        el(
            'p',
            { class: 'small' },
            `${messages.length} messages, ${tools.length} tools, about ${budget.estimatedInputTokens} of ${budget.inputLimit} tokens; `,
            difference,
            events.length > 0 && ` (${events.join(', ')})`,
            '.',
        ),
        notices.length > 0 &&
            el(
                'ul',
                { class: 'small', 'aria-label': 'Notices of this request' },
                ...notices.map(({ code, detail }) => el('li', {}, el('code', {}, code), ' ', exact(detail ?? ''))),
            ),
    ].filter(Boolean);
}

const row = (left, right) => el('div', { class: 'row' }, left, right);
const missing = (why) => el('div', { class: 'cell missing' }, el('p', { class: 'small' }, why));

function modelCell(message, at, source, expansions) {
    const { type, messageIndex } = source;
    const detail = {
        history: () => `stored message ${messageIndex}`,
        'runtime-context': () => `snapshot ${source.snapshotIndex}, at message ${messageIndex}`,
        compaction: () => `checkpoint ${source.checkpointId}, for the ${source.summarizedBefore} messages before`,
        'interrupted-tool-result': () => `for the call ${source.toolCallId} of message ${messageIndex}`,
    }[type]?.();
    const marks = expansions.flatMap(({ skills }) =>
        skills.map(({ id, revision, start, end }) => ({ start, end, title: `skill ${id}, revision ${revision}` })),
    );
    return el(
        'div',
        { class: 'cell model', 'data-model-index': at, 'data-source': type },
        cellHead(`${at} ${message.role}`, message, type, detail),
        ...expansions.flatMap(({ skills, snapshotIndex }) =>
            skills.map(({ id, revision }) =>
                el('span', { class: 'tag skill-tag', title: `snapshot ${snapshotIndex}` }, `${id} @ ${revision.slice(0, 8)}`),
            ),
        ),
        ...contentOf(message, marks),
    );
}

const storedCell = (message, index) =>
    el(
        'div',
        { class: 'cell stored', 'data-stored-index': index },
        cellHead(`${index} ${message.role}`, message),
        ...contentOf(message, []),
    );

function cellHead(name, { content, stopReason }, type, detail) {
    const shape = typeof content === 'string' ? 'string' : Array.isArray(content) ? `${content.length} block${content.length === 1 ? '' : 's'}` : typeof content;
    return el(
        'header',
        {},
        el('strong', {}, name),
        type && el('span', { class: `tag source ${type}`, title: detail }, type),
        el('span', { class: 'tag' }, shape),
        (stopReason === 'aborted' || stopReason === 'error') && el('span', { class: 'tag warn' }, stopReason),
    );
}

/** The content, exactly. The marks are in the string, or in the first block. */
function contentOf({ content }, marks) {
    if (typeof content === 'string') return [el('pre', { class: 'text' }, exactWithMarks(content, marks))];
    return (content ?? []).map((block, at) => {
        if (block.type === 'text') return el('pre', { class: 'text' }, exactWithMarks(String(block.text), at === 0 ? marks : []));
        if (block.type === 'image' && block.data instanceof Uint8Array) {
            return picture(block.data, block.mimeType, `Image, ${block.mimeType}, ${block.data.length} bytes`);
        }
        return el('pre', { class: 'block' }, toJson(block));
    });
}

// ---- the other tabs -----------------------------------------------------------------------------------------------

function promptTab(seen) {
    if (seen === undefined) return [];
    const tools = seen.tools?.map(({ name }) => name).join(', ');
    return [
        el('pre', { id: 'system-prompt', class: 'text' }, exact(seen.systemPrompt)),
        tools && el('p', { class: 'small' }, `Tools: ${tools}.`),
    ].filter(Boolean);
}

const checkpointCard = ({ messageCount, sections }, at) =>
    el(
        'section',
        { class: 'cell checkpoint', 'data-checkpoint': at },
        el('header', {}, el('strong', {}, `Checkpoint ${at}`), el('span', { class: 'tag' }, `at message ${messageCount - 1}`)),
        ...Object.entries(sections).map(([name, text]) =>
            el(
                'details',
                { 'data-section': name, open: at > 0 },
                el('summary', {}, name),
                text === null ? el('p', { class: 'small' }, 'removed') : el('pre', { class: 'text' }, exact(text)),
            ),
        ),
    );

const snapshotCard = ({ userTurn, content, skills = [], placement }, at) =>
    el(
        'section',
        { class: 'cell snapshot', 'data-snapshot': at },
        el(
            'header',
            {},
            el('strong', {}, `Snapshot ${at}`),
            el('span', { class: 'tag' }, `user turn ${userTurn}`),
            el('span', { class: 'tag' }, placement ? `placement ${placement}` : 'no placement'),
        ),
        ...skills.map(({ id, revision }) => el('p', { class: 'small' }, `${id}, revision `, el('code', {}, revision))),
        el('pre', { class: 'text' }, exact(content)),
    );

function jsonTab(seen, session, checkpoints, snapshots) {
    const request = seen && { systemPrompt: seen.systemPrompt, messages: seen.messages, ...(seen.tools && { tools: seen.tools }) };
    const parts = [
        ['request', 'The request', request ?? null],
        ['projection', 'Its source map', seen?.projection ?? null],
        ['stored', 'Stored messages', session.messages],
        ['snapshots', 'Stored snapshots', snapshots],
        ['checkpoints', 'Stored checkpoints', checkpoints],
    ];
    return parts.map(([id, title, value]) => {
        const text = toJson(value);
        const button = el('button', { type: 'button', 'aria-label': `Copy as JSON: ${title}` }, 'Copy as JSON');
        button.addEventListener('click', async () => {
            const copied = await navigator.clipboard.writeText(text).then(() => true, () => false);
            button.textContent = copied ? 'Copied' : 'Copying is not allowed here';
        });
        return el(
            'section',
            { class: 'cell' },
            el('header', {}, el('strong', {}, title), button),
            el('pre', { id: `json-${id}` }, text),
        );
    });
}
