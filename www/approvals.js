// The calls of the chat that wait for a person: what each one would do, and the answer.

import { el, exact } from './dom.js';
import { toJson } from './json.js';

const AGAIN = [
    ['', 'ask again next time'],
    ['600', 'don’t ask again for 10 minutes'],
    ['until-restart', 'don’t ask again until restart'],
];

export class Approvals {
    /**
     * @param {HTMLElement} root
     * @param {{ answer(approval: any, decision: object): Promise<void> }} actions
     */
    constructor(root, actions) {
        this.root = root;
        this.actions = actions;
        /** What is shown, by the id of its request: what somebody has begun to type stays when others come and go. */
        this.cards = new Map();
    }

    /** Shows what waits, oldest first. */
    show(pending) {
        const ids = new Set(pending.map(({ requestId }) => requestId));
        for (const [id, card] of this.cards) {
            if (ids.has(id)) continue;
            card.remove();
            this.cards.delete(id);
        }
        for (const approval of pending) {
            if (this.cards.has(approval.requestId)) continue;
            const card = this.#card(approval);
            this.cards.set(approval.requestId, card);
            this.root.append(card);
        }
    }

    /** The oldest that waits gets the focus. Says whether there is one. */
    focus() {
        const first = this.root.firstElementChild;
        first?.focus();
        return first !== null;
    }

    #card(approval) {
        const { toolName, message, reason, paths, arguments: given } = approval;
        const what = [toolName, paths[0]?.requested].filter(Boolean).join(' ');
        const note = el('input', { name: 'note', maxlength: '500', placeholder: 'Why not?', 'aria-label': `Note for rejecting ${what}` });
        const again = el('select', { 'aria-label': `After approving ${what}` }, ...AGAIN.map(([value, text]) => el('option', { value }, text)));
        const answer = (event, decision) => {
            event.preventDefault();
            // The second half of a double click was not meant for the card that moved up.
            if (event.detail > 1 || card.inert) return;
            card.inert = true;
            this.actions.answer(approval, decision).finally(() => (card.inert = false));
        };
        const approve = (event) => answer(event, { action: 'approve', ...bypass(again.value, approval) });
        const reject = (event) => answer(event, { action: 'reject', ...(note.value.trim() && { note: note.value.toWellFormed() }) });
        const card = el(
            'form',
            // Enter in the note must not approve.
            { class: 'approval', 'aria-label': `The script asks for ${what}`, tabindex: '-1', autocomplete: 'off', on: { submit: reject } },
            el('h2', {}, 'The script wants to call ', el('code', {}, exact(toolName))),
            el('p', {}, exact(message), ' ', el('span', { class: 'tag' }, reason)),
            paths.length > 0 && pathTable(paths),
            el('details', { open: true }, el('summary', {}, 'Arguments'), el('pre', {}, exact(toJson(given)))),
            el(
                'div',
                { class: 'controls' },
                el('button', { type: 'button', class: 'primary', 'aria-label': `Approve ${what}`, on: { click: approve } }, 'Approve'),
                again,
                el('span', { class: 'fill' }),
                note,
                el('button', { type: 'button', class: 'danger', 'aria-label': `Reject ${what}`, on: { click: reject } }, 'Reject'),
            ),
        );
        return card;
    }
}

/** What is not asked about any more: calls of the tool's own kind, where it has one. */
function bypass(again, { toolCategory, mcpServer }) {
    if (again === '') return {};
    const scope = toolCategory !== undefined ? 'category' : mcpServer !== undefined ? 'mcp_server' : 'all';
    return { bypassSeconds: again === 'until-restart' ? again : Number(again), bypassScope: scope };
}

const pathTable = (paths) =>
    el(
        'table',
        { class: 'paths' },
        el('thead', {}, el('tr', {}, ...['Access', 'As requested', 'Where it leads'].map((name) => el('th', { scope: 'col' }, name)))),
        el(
            'tbody',
            {},
            ...paths.map(({ access, requested, canonical, unresolved }) =>
                el(
                    'tr',
                    {},
                    el('td', {}, access),
                    el('td', {}, el('code', {}, exact(requested))),
                    el('td', {}, canonical === undefined ? `not known: ${unresolved}` : el('code', {}, exact(canonical))),
                ),
            ),
        ),
    );
