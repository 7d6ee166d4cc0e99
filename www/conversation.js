// The conversation as it is stored, and the answer that is being written.

import { el, exact, picture, shortTime } from './dom.js';
import { toJson } from './json.js';

const WHO = { user: 'You', assistant: 'Script', toolResult: 'Tool' };

export class Conversation {
    /**
     * @param {HTMLElement} root
     * @param {HTMLElement} announcement what screen readers are told, once an answer is complete
     */
    constructor(root, announcement) {
        this.root = root;
        this.announcement = announcement;
        this.partial = undefined;
    }

    /** Shows a session from the beginning. `remarks` gives what is said beside the message at an index. */
    show(messages, remarks, ending) {
        this.partial = undefined;
        this.announcement.textContent = '';
        this.root.replaceChildren(...messages.map((message, index) => article(message, index, remarks(index))));
        if (messages.length === 0) this.root.append(welcome());
        this.end(ending);
        this.root.scrollTop = this.root.scrollHeight;
    }

    /** A message was stored. */
    add(message, index, remarks) {
        this.#follow(() => {
            this.root.querySelector('.welcome')?.remove();
            this.root.querySelector('.ending')?.remove();
            const added = article(message, index, remarks);
            if (this.partial && message.role === 'assistant') {
                this.partial.replaceWith(added);
                this.partial = undefined;
            } else {
                this.root.append(added);
            }
        });
        if (message.role === 'user') this.announcement.textContent = 'The script is answering.';
    }

    /** The answer so far. */
    update(message) {
        this.#follow(() => {
            const updated = article(message, undefined, []);
            updated.classList.add('streaming');
            updated.setAttribute('aria-busy', 'true');
            if (this.partial) this.partial.replaceWith(updated);
            else this.root.append(updated);
            this.partial = updated;
        });
    }

    /** Says how the last turn ended, where it did not end well. */
    end(text) {
        this.partial?.remove();
        this.partial = undefined;
        this.root.querySelector('.ending')?.remove();
        if (text) this.#follow(() => this.root.append(el('p', { class: 'ending' }, exact(text))));
    }

    announce(text) {
        this.announcement.textContent = text;
    }

    /** Changes something, and stays at the end where it was there before. */
    #follow(change) {
        const { root } = this;
        const atEnd = root.scrollHeight - root.scrollTop - root.clientHeight < 80;
        change();
        if (atEnd) root.scrollTop = root.scrollHeight;
    }
}

function article(message, index, remarks) {
    const { role, content, stopReason, errorMessage, timestamp, isError } = message;
    const who = role === 'toolResult' ? `Tool ${message.toolName ?? ''}`.trim() : (WHO[role] ?? String(role));
    const tags = remarks.map(({ text, title }) => el('span', { class: 'tag', title }, text));
    if (stopReason === 'aborted') tags.push(el('span', { class: 'tag warn' }, 'stopped: not shown to the model again'));
    if (stopReason === 'error') {
        tags.push(el('span', { class: 'tag warn' }, `failed: ${errorMessage ?? 'no reason given'}`));
    }
    if (isError === true) tags.push(el('span', { class: 'tag warn' }, 'failed'));
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
    return el(
        'article',
        { class: `message ${role}`, 'data-message-index': index, 'aria-label': who },
        el(
            'header',
            {},
            el('strong', {}, who),
            typeof timestamp === 'number' && el('time', {}, shortTime(timestamp)),
            ...tags,
        ),
        ...blocks.map(block),
    );
}

function block(given) {
    switch (given?.type) {
        case 'text':
            return el('div', { class: 'text' }, exact(String(given.text)));
        case 'image':
            if (given.data instanceof Uint8Array) {
                return picture(given.data, given.mimeType, `Image, ${given.mimeType}, ${given.data.length} bytes`);
            }
            break;
        case 'toolCall':
            return el(
                'div',
                { class: 'call' },
                'calls ',
                el('code', {}, String(given.name)),
                el('pre', {}, toJson(given.arguments)),
            );
    }
    return el('pre', { class: 'unknown' }, toJson(given));
}

function welcome() {
    return el(
        'div',
        { class: 'welcome' },
        el('h2', {}, 'Nothing said yet'),
        el(
            'p',
            {},
            'Write something, choose a skill for it, switch the permissions, and open ',
            el('em', {}, 'What the model saw'),
            ' to compare the request with what is stored.',
        ),
        el('p', {}, 'Try ', el('code', {}, '$code-review'), ' in a message, ', el('code', {}, '/tool some words'), ' or ',
            el('code', {}, '/slow'), '. ', el('code', {}, '/help'), ' lists the rest.'),
    );
}
