// The region for errors and notices: an error of the library is shown in full, and stays until somebody dismisses it.

import { el } from './dom.js';
import { toJson } from './json.js';

const MOST = 6;

export class Reports {
    /** @param {HTMLElement} root */
    constructor(root) {
        this.root = root;
    }

    /** @param {any} error what was thrown */
    error(error, doing) {
        const code = typeof error?.code === 'string' ? error.code : (error?.name ?? 'error');
        const data = error?.data && Object.keys(error.data).length > 0 ? error.data : undefined;
        this.#show('error', 'alert', doing, code, String(error?.message ?? error), data);
        if (code === 'module_failed') {
            this.root.lastElementChild.append(
                el('button', { type: 'button', on: { click: () => location.reload() } }, 'Reload the page'),
            );
        }
    }

    notice(code, message) {
        this.#show('notice', 'status', undefined, code, message);
    }

    clear() {
        this.root.replaceChildren();
    }

    #show(kind, role, doing, code, message, data) {
        const dismiss = () => {
            card.remove();
            document.getElementById('text').focus();
        };
        const card = el(
            'div',
            { class: `report ${kind}`, role },
            el(
                'p',
                {},
                doing && `${doing}: `,
                el('code', { class: 'code' }, code),
                ' ',
                el('span', { class: 'why' }, message),
            ),
            data && el('details', {}, el('summary', {}, 'Details'), el('pre', {}, toJson(data))),
            el('button', { type: 'button', class: 'quiet', 'aria-label': `Dismiss ${code}`, on: { click: dismiss } }, 'Dismiss'),
        );
        // The same again moves to the end.
        [...this.root.children].find((other) => other.textContent === card.textContent)?.remove();
        this.root.append(card);
        while (this.root.children.length > MOST) this.root.firstElementChild.remove();
        card.scrollIntoView({ block: 'nearest' });
    }
}
