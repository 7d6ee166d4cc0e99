// Building elements: data goes in as text, never as markup, and every code unit of it can be seen.

/**
 * @param {string} tag
 * @param {Record<string, any>} [given] attributes; `on` holds listeners, a false or undefined attribute is left out
 * @param {...(Node | string | undefined | false)} children
 */
export function el(tag, given = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
        if (name === 'on') {
            for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
        } else if (value !== undefined && value !== false) {
            element.setAttribute(name, value === true ? '' : value);
        }
    }
    element.append(...children.filter((child) => child !== undefined && child !== false));
    return element;
}

// What no font shows, or what changes the order of what is shown: controls but for tab and line feed, halves of
// surrogate pairs, direction marks, the byte order mark.
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|\p{Surrogate}/gu;

const nameOf = (text) => `U+${text.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

/** The text with a visible name beside each character that cannot be seen. `textContent` stays the text itself. */
export function exact(text) {
    const fragment = document.createDocumentFragment();
    let behind = 0;
    for (const { 0: unseen, index } of text.matchAll(UNSEEN)) {
        if (index > behind) fragment.append(text.slice(behind, index));
        fragment.append(el('span', { class: 'unseen', 'data-name': nameOf(unseen) }, unseen));
        behind = index + unseen.length;
    }
    if (behind < text.length) fragment.append(text.slice(behind));
    return fragment;
}

/** As `exact`, with stretches marked: `{ start, end, title }` in UTF-16 units, in order. */
export function exactWithMarks(text, marks) {
    const fragment = document.createDocumentFragment();
    let behind = 0;
    for (const { start, end, title } of marks) {
        fragment.append(exact(text.slice(behind, start)));
        fragment.append(el('mark', { title }, exact(text.slice(start, end))));
        behind = end;
    }
    fragment.append(exact(text.slice(behind)));
    return fragment;
}

/** A picture out of bytes. Drawn on a canvas: an image element would need an address, and the page's policy has none for it. */
export function picture(data, mimeType, label) {
    const canvas = el('canvas', { class: 'picture', role: 'img', 'aria-label': label, width: '0', height: '0' });
    createImageBitmap(new Blob([data], { type: mimeType })).then(
        (bitmap) => {
            const scale = Math.min(1, 480 / Math.max(bitmap.width, bitmap.height));
            canvas.width = Math.max(1, Math.round(bitmap.width * scale));
            canvas.height = Math.max(1, Math.round(bitmap.height * scale));
            canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
            bitmap.close();
        },
        () => canvas.replaceWith(el('span', { class: 'tag' }, label)),
    );
    return canvas;
}

/** For sorting out a time without a word too many. */
export function shortTime(milliseconds) {
    const time = new Date(milliseconds);
    return time.toDateString() === new Date().toDateString()
        ? time.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
        : time.toLocaleDateString([], { month: 'short', day: 'numeric', year: 'numeric' });
}
