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
        this.atEnd = true;
        root.addEventListener('scroll', () => {
            this.atEnd = root.scrollHeight - root.scrollTop - root.clientHeight < 80;
        });
        // What is below it, or beside it, may take room away.
        new ResizeObserver(() => this.#toEnd()).observe(root);
    }

    /** Shows a session from the beginning. `remarks` gives what is said beside the message at an index. */
    show(messages, remarks, ending) {
        this.partial = undefined;
        this.announcement.textContent = '';
        this.root.replaceChildren(...messages.map((message, index) => article(message, index, remarks(index))));
        if (messages.length === 0) this.root.append(welcome());
        this.end(ending);
        this.atEnd = true;
        this.#toEnd();
    }

    /** A message was stored. */
    add(message, index, remarks) {
        this.root.querySelector('.welcome')?.remove();
        this.root.querySelector('.ending')?.remove();
        const added = article(message, index, remarks);
        if (this.partial && message.role === 'assistant') {
            this.partial.replaceWith(added);
            this.partial = undefined;
        } else {
            this.root.append(added);
        }
        this.#toEnd();
        if (message.role === 'user') this.announcement.textContent = 'The script is answering.';
    }

    /** The answer so far. */
    update(message) {
        const updated = article(message, undefined, []);
        updated.classList.add('streaming');
        updated.setAttribute('aria-busy', 'true');
        if (this.partial) this.partial.replaceWith(updated);
        else this.root.append(updated);
        this.partial = updated;
        this.#toEnd();
    }

    /** Says how the last turn ended, where it did not end well. */
    end(text) {
        this.partial?.remove();
        this.partial = undefined;
        this.root.querySelector('.ending')?.remove();
        if (text) this.root.append(el('p', { class: 'ending' }, exact(text)));
        this.#toEnd();
    }

    announce(text) {
        this.announcement.textContent = text;
    }

    #toEnd() {
        if (this.atEnd) this.root.scrollTop = this.root.scrollHeight;
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
