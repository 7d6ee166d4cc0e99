// The list of chats, and the two dialogs that change one.

import { el, shortTime } from './dom.js';

/** What a chat is called where nobody gave it a title. */
export const titleOf = ({ title }) => title || 'Untitled chat';

export class ChatList {
    /**
     * @param {HTMLElement} root a list
     * @param {{ open(id: string): void, rename(info: any): void, remove(info: any): void }} actions
     */
    constructor(root, actions) {
        this.root = root;
        this.actions = actions;
    }

    /** @param {Set<string>} waiting ids of chats in which a call waits for an answer */
    show(infos, currentId, runningId, waiting) {
        const focused = this.root.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
        this.root.replaceChildren(...infos.map((info) => this.#item(info, info.id === currentId, info.id === runningId, waiting.has(info.id))));
        if (focused) this.root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    }

    #item(info, current, running, waits) {
        const title = titleOf(info);
        const state = waits ? 'waits for you' : running ? 'answering…' : info.unread > 0 && !current ? `${info.unread} new` : undefined;
        const open = (event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            this.actions.open(info.id);
        };
        return el(
            'li',
            { class: current ? 'current' : undefined, 'data-id': info.id },
            el(
                'a',
                {
                    href: `#chat=${info.id}`,
                    'data-key': `open ${info.id}`,
                    'aria-current': current && 'page',
                    on: { click: open },
                },
                el('span', { class: 'name' }, title),
                el('span', { class: 'small' }, shortTime(info.updatedAt), state && ` · ${state}`),
            ),
            el(
                'button',
                {
                    type: 'button',
                    class: 'quiet icon',
                    'aria-label': `Rename “${title}”`,
                    title: 'Rename',
                    'data-key': `rename ${info.id}`,
                    on: { click: () => this.actions.rename(info) },
                },
                '✎',
            ),
            el(
                'button',
                {
                    type: 'button',
                    class: 'quiet icon',
                    'aria-label': `Delete “${title}”`,
                    title: 'Delete',
                    'data-key': `delete ${info.id}`,
                    on: { click: () => this.actions.remove(info) },
                },
                '✕',
            ),
        );
    }
}

/** Asks for a title. Gives undefined when the person changed their mind. */
export async function askTitle(dialog, info) {
    const field = dialog.querySelector('input');
    field.value = info.title ?? '';
    const answer = await shown(dialog, () => field.select());
    return answer === 'ok' ? field.value.trim() || undefined : undefined;
}

/** Asks whether a chat may go. */
export async function askDelete(dialog, info) {
    const { messageCount } = info;
    dialog.querySelector('#delete-what').textContent =
        `“${titleOf(info)}” has ${messageCount} message${messageCount === 1 ? '' : 's'}. ` +
        'It is deleted from this browser for good.';
    return (await shown(dialog)) === 'ok';
}

function shown(dialog, then) {
    return new Promise((resolve) => {
        dialog.returnValue = '';
        dialog.addEventListener('close', () => resolve(dialog.returnValue), { once: true });
        dialog.showModal();
        then?.();
    });
}
