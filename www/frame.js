// The frame of the page: list, conversation and panel side by side, in a small window one at a time, in a narrow one over
// each other.

const SMALL = matchMedia('(max-width: 1100px)');
const NARROW = matchMedia('(max-width: 760px)');
const PARTS = ['chats', 'panel'];

const byId = (id) => document.getElementById(id);

/** @param {(id: string) => void} shown is told when a part comes into view */
export function setUpFrame(shown) {
    for (const id of PARTS) {
        byId(`toggle-${id}`).addEventListener('click', () => {
            toggle(id, byId(id).hidden);
            if (!byId(id).hidden) shown(id);
        });
    }
    for (const size of [SMALL, NARROW]) size.addEventListener('change', fit);
    fit();
}

/** Gives the conversation back where something covers it. */
export function uncover() {
    if (NARROW.matches) for (const id of PARTS) toggle(id, false);
}

function fit() {
    toggle('chats', !SMALL.matches || (!NARROW.matches && byId('panel').hidden));
}

function toggle(id, open) {
    const part = byId(id);
    const button = byId(`toggle-${id}`);
    if (!open && part.contains(document.activeElement)) button.focus();
    part.hidden = !open;
    button.setAttribute('aria-expanded', String(open));
    if (open && SMALL.matches) toggle(PARTS.find((other) => other !== id), false);
    // What is covered must not get the focus.
    document.querySelector('main').inert = NARROW.matches && PARTS.some((other) => !byId(other).hidden);
}
