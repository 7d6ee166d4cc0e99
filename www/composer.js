// The message box: text, images, skills, and what may be done with them now.

import { findSkillMentions } from '/pkg/browser.js';

import { el, picture } from './dom.js';

const byId = (id) => document.getElementById(id);

export class Composer {
    /**
     * @param {{ send(draft: Draft): void, stop(): void, preset(value: string | null): void, failed(error: unknown): void,
     *     announce(text: string): void, addSkills(files: File[]): void, gone(id: string): void, enableSkill(id: string, on: boolean): void,
     *     removeSkill(id: string): void }} actions
     * @typedef {{ content: string | object[], skills: string[], text: string, images: object[] }} Draft
     */
    constructor(actions) {
        this.actions = actions;
        this.form = byId('composer');
        this.text = byId('text');
        this.preset = byId('preset');
        this.images = [];
        this.chosen = new Set();
        this.skills = [];
        this.draftKey = undefined;
        this.running = false;
        /** Why nothing can be sent now. */
        this.blocked = 'The page is starting.';
        this.#wire();
    }

    /** The skills to choose from, as the catalogue lists them. */
    setSkills(skills) {
        this.skills = skills;
        for (const id of this.chosen) {
            const skill = skills.find((skill) => skill.id === id);
            if (skill && choosable(skill)) continue;
            this.chosen.delete(id);
            this.actions.gone(id);
        }
        const list = byId('skills');
        // The list is made anew under whoever is in it: the focus goes where it was, or to what is beside the list.
        const had = list.contains(document.activeElement) && document.activeElement.dataset.key;
        list.replaceChildren(...skills.map((skill) => this.#row(skill)));
        if (had) ([...list.querySelectorAll('[data-key]')].find(({ dataset }) => dataset.key === had) ?? byId('skill-files')).focus();
        this.#refresh();
    }

    #row(skill) {
        const { id, status, scope, enabled } = skill;
        const name = skill.name || skill.location;
        const box = el('input', { type: 'checkbox', value: id, disabled: !choosable(skill), 'data-key': `choose ${id}` });
        box.addEventListener('change', () => this.#choose(id, box.checked));
        const button = (what, key, work) =>
            el('button', { type: 'button', class: 'quiet', 'aria-label': `${what} skill ${name}`, 'data-key': `${key} ${id}`, on: { click: work } }, what);
        const problems = skill.diagnostics.filter(({ severity }) => severity !== 'info');
        return el(
            'div',
            { class: 'skill' },
            el(
                'label',
                {},
                box,
                el(
                    'span',
                    {},
                    el('strong', {}, name),
                    status !== 'active' && el('span', { class: 'tag warn' }, status),
                    el('span', { class: 'small' }, skill.description),
                    ...problems.map(({ message }) => el('span', { class: 'small' }, `Note: ${message}.`)),
                ),
            ),
            button(enabled ? 'Switch off' : 'Switch on', 'switch', () => this.actions.enableSkill(id, !enabled)),
            scope === 'personal' && button('Remove', 'remove', () => this.actions.removeSkill(id)),
        );
    }

    /** Goes to another chat: what was begun there comes back, also after a reload. */
    open(id) {
        const draftKey = `draft ${id}`;
        if (draftKey === this.draftKey) return;
        this.draftKey = draftKey;
        const { text = '', skills = [] } = JSON.parse(sessionStorage.getItem(draftKey) ?? '{}');
        this.#put(text, [], skills.filter((id) => this.skills.some((skill) => skill.id === id && choosable(skill))));
    }

    /** A draft that was not sent comes back, unless there is a new one. */
    restore({ text, images, skills }) {
        if (this.text.value === '' && this.images.length === 0) this.#put(text, images, skills);
    }

    /** The draft was stored as a message. */
    sent() {
        if (this.text.value === '' && this.chosen.size === 0) this.#keep();
    }

    /** What is possible now. `blocked` says why nothing can be sent; `running` that an answer is being written here. */
    state({ running = false, blocked, preset, presetLocked }) {
        const stop = byId('stop');
        if (!running && document.activeElement === stop) this.focus();
        stop.hidden = !running;
        byId('send').disabled = running || blocked !== undefined;
        this.preset.disabled = running || presetLocked;
        this.preset.value = preset ?? '';
        this.running = running;
        this.blocked = blocked;
        byId('hint').textContent =
            blocked ??
            (running
                ? 'Escape stops the answer. Permissions can be changed when it is complete.'
                : 'Enter sends, Shift+Enter begins a line. A change of permissions is shown to the model with your next message.');
    }

    focus() {
        this.text.focus();
    }

    #put(text, images, skills) {
        this.text.value = text;
        this.images = [...images];
        this.chosen = new Set(skills);
        this.#complete(false);
        this.#refresh();
    }

    #wire() {
        const { text, form } = this;
        form.addEventListener('submit', (event) => {
            event.preventDefault();
            this.#send();
        });
        byId('stop').addEventListener('click', () => this.actions.stop());
        this.preset.addEventListener('change', () => this.actions.preset(this.preset.value || null));
        text.addEventListener('input', () => {
            this.#keep();
            this.#complete(true);
            this.#refresh();
        });
        text.addEventListener('keydown', (event) => this.#press(event));
        text.addEventListener('blur', () => this.#complete(false));
        const toggle = byId('toggle-skills');
        toggle.addEventListener('click', () => this.#openSkills(byId('skill-list').hidden));
        byId('skill-list').addEventListener('keydown', (event) => {
            if (event.key !== 'Escape') return;
            event.stopPropagation();
            this.#openSkills(false);
            toggle.focus();
        });
        const skillFiles = byId('skill-files');
        skillFiles.addEventListener('change', () => {
            this.actions.addSkills([...skillFiles.files]);
            skillFiles.value = '';
        });
        const files = byId('files');
        files.addEventListener('change', () => {
            this.#attach([...files.files]);
            files.value = '';
        });
        text.addEventListener('paste', (event) => {
            const pasted = [...event.clipboardData.files];
            if (pasted.length > 0) {
                event.preventDefault();
                this.#attach(pasted);
            }
        });
        form.addEventListener('dragover', (event) => event.preventDefault());
        form.addEventListener('drop', (event) => {
            event.preventDefault();
            this.#attach([...event.dataTransfer.files]);
        });
    }

    #press(event) {
        // Enter that ends a composition (Japanese, for example) belongs to the composition.
        if (event.isComposing) return;
        if (this.options.length > 0) {
            const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
            if (step !== undefined) {
                this.#activate((this.active + step + this.options.length) % this.options.length);
            } else if ((event.key === 'Enter' && !event.shiftKey) || (event.key === 'Tab' && !event.shiftKey)) {
                this.#take(this.options[this.active]);
            } else if (event.key === 'Escape') {
                this.#complete(false);
                event.stopPropagation();
            } else {
                return;
            }
            event.preventDefault();
        } else if (event.key === 'Enter' && !event.shiftKey) {
            event.preventDefault();
            this.#send();
        }
    }

    #send() {
        if (this.running || this.blocked !== undefined) return;
        const text = this.text.value;
        const { images } = this;
        const skills = [...this.chosen];
        if (text === '' && images.length === 0) return;
        const blocks = images.map(({ data, mimeType }) => ({ type: 'image', data, mimeType }));
        const content = images.length === 0 ? text : [...(text === '' ? [] : [{ type: 'text', text }]), ...blocks];
        this.#put('', [], []);
        this.#openSkills(false);
        this.focus();
        this.actions.send({ content, skills, text, images });
    }

    // ---- skills ---------------------------------------------------------------------------------------------------

    #openSkills(open) {
        byId('skill-list').hidden = !open;
        byId('toggle-skills').setAttribute('aria-expanded', String(open));
    }

    #choose(id, on) {
        if (on) this.chosen.add(id);
        else this.chosen.delete(id);
        this.#keep();
        this.#refresh();
    }

    /** What was begun outlives a reload, but for images. */
    #keep() {
        if (!this.draftKey) return;
        const draft = { text: this.text.value, skills: [...this.chosen] };
        if (draft.text === '' && draft.skills.length === 0) sessionStorage.removeItem(this.draftKey);
        else sessionStorage.setItem(this.draftKey, JSON.stringify(draft));
    }

    #mentioned() {
        try {
            const mentions = findSkillMentions(this.text.value, this.skills);
            return new Set(mentions.map(({ id }) => id));
        } catch (error) {
            this.actions.failed(error);
            return new Set();
        }
    }

    /** Everything that goes with the next message, as chips. */
    #refresh() {
        for (const box of byId('skills').querySelectorAll('input')) box.checked = this.chosen.has(box.value);
        byId('toggle-skills').textContent = this.chosen.size > 0 ? `Skills (${this.chosen.size})` : 'Skills';
        const mentioned = this.#mentioned();
        const nameOf = (id) => this.skills.find((skill) => skill.id === id)?.name ?? id;
        const chips = [
            ...[...this.chosen].map((id) =>
                chip(`skill ${nameOf(id)}`, () => this.#choose(id, false)),
            ),
            ...[...mentioned].filter((id) => !this.chosen.has(id)).map((id) => chip(`skill ${nameOf(id)}, by $ in the text`)),
            ...this.images.map((image) =>
                chip(image.name, () => {
                    this.images = this.images.filter((other) => other !== image);
                    this.#refresh();
                }, picture(image.data, image.mimeType, `Attached image ${image.name}`)),
            ),
        ];
        const chosen = byId('chosen');
        const hadFocus = chosen.contains(document.activeElement);
        chosen.replaceChildren(...chips);
        chosen.hidden = chips.length === 0;
        if (hadFocus) this.focus();
    }

    // ---- completion of `$name` ------------------------------------------------------------------------------------

    options = [];
    active = 0;

    /** The run of name characters before the caret, behind a `$`. */
    #begun() {
        const { selectionStart, selectionEnd, value } = this.text;
        if (selectionStart !== selectionEnd) return undefined;
        return /\$([\p{L}\p{N}_:-]*)$/u.exec(value.slice(0, selectionStart))?.[1];
    }

    #complete(open) {
        const begun = open ? this.#begun()?.toLowerCase() : undefined;
        this.options =
            begun === undefined
                ? []
                : this.skills.filter((skill) => choosable(skill) && skill.name.toLowerCase().startsWith(begun) && skill.name !== begun);
        const list = byId('completions');
        list.replaceChildren(
            ...this.options.map((skill, at) =>
                el(
                    'div',
                    {
                        role: 'option',
                        id: `completion-${at}`,
                        // Before the box loses the focus.
                        on: {
                            mousedown: (event) => {
                                event.preventDefault();
                                this.#take(skill);
                            },
                        },
                    },
                    el('strong', {}, `$${skill.name}`),
                    el('span', { class: 'small' }, skill.description),
                ),
            ),
        );
        list.hidden = this.options.length === 0;
        if (this.options.length > 0) {
            this.#activate(0);
            this.actions.announce(`${this.options.length} skills match. Arrow keys choose, Enter takes one.`);
        } else {
            this.text.removeAttribute('aria-activedescendant');
        }
    }

    #activate(at) {
        this.active = at;
        for (const [index, option] of [...byId('completions').children].entries()) {
            option.setAttribute('aria-selected', String(index === at));
            if (index === at) option.scrollIntoView({ block: 'nearest' });
        }
        this.text.setAttribute('aria-activedescendant', `completion-${at}`);
    }

    #take(skill) {
        const caret = this.text.selectionStart;
        const from = caret - this.#begun().length;
        this.text.setRangeText(`${skill.name} `, from, caret, 'end');
        this.text.dispatchEvent(new Event('input'));
        this.#complete(false);
    }

    // ---- images ---------------------------------------------------------------------------------------------------

    async #attach(files) {
        const draftKey = this.draftKey;
        for (const file of files) {
            if (!file.type.startsWith('image/')) {
                this.actions.failed(new Error(`\`${file.name}\` is not an image`));
                continue;
            }
            try {
                const image = { name: file.name, mimeType: file.type, data: new Uint8Array(await file.arrayBuffer()) };
                if (draftKey === this.draftKey) this.images.push(image);
            } catch (error) {
                this.actions.failed(error);
            }
        }
        this.#refresh();
        this.focus();
    }
}

const choosable = ({ enabled, userInvocable, status }) => enabled && userInvocable && status !== 'invalid';

function chip(text, remove, before) {
    return el(
        'li',
        { class: 'chip' },
        before,
        el('span', {}, text),
        remove &&
            el('button', { type: 'button', class: 'quiet icon', 'aria-label': `Leave out ${text}`, on: { click: remove } }, '✕'),
    );
}
