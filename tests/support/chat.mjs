// The demo's chat page in a real browser, as a person uses it: by names of controls, never by how they are made.

import assert from 'node:assert/strict';

/** A picture: four pixels, red and blue. */
export const PNG = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEUlEQVR4nGP4zwAEIOI/kAAAG/ID/VxhF44AAAAASUVORK5CYII=',
    'base64',
);

/** Pages of the demo in one browser. What their consoles and the policy had to say fails the test. */
export class Chats {
    #browser;
    #url;
    #pages = [];
    #shared;
    /**
     * @param {{ context: import('playwright-core').BrowserContext }} browser
     * @param {string} url of the site
     */
    constructor(browser, url) {
        this.#browser = browser;
        this.#url = url;
    }

    /** A new chat in a page that tests share: a page of its own costs more than most tests. */
    async shared() {
        if (this.#shared) {
            // Not one that a failed test left in the middle of something.
            const ready = await this.#shared.newChat().then(() => this.#shared.isFree(), () => false);
            if (ready) return this.#shared;
        }
        this.#shared = await this.fresh();
        return this.#shared;
    }

    /** A page of its own, with storage of its own. */
    async fresh({ pause = 0, ...options } = {}) {
        const context = await this.#browser.context.browser().newContext(options);
        return this.#open(await context.newPage(), pause);
    }

    /** A page in the browser's own profile. */
    async inProfile({ pause = 0 } = {}) {
        return this.#open(await this.#browser.context.newPage(), pause);
    }

    async #open(page, pause) {
        page.setDefaultTimeout(15_000);
        page.problems = [];
        page.on('console', (message) => {
            if (['error', 'warning'].includes(message.type())) page.problems.push(`console: ${message.text()}`);
        });
        page.on('pageerror', (error) => page.problems.push(`uncaught: ${error}`));
        page.on('requestfailed', (request) => {
            // A reload stops the browser's own request for the icon, now and then: nothing of the page failed.
            const stopped = request.failure()?.errorText === 'net::ERR_ABORTED' && request.url().endsWith('/icon.svg');
            if (!stopped) page.problems.push(`request failed: ${request.url()}`);
        });
        page.on('response', (response) => {
            if (response.status() >= 400) page.problems.push(`${response.status()} ${response.url()}`);
        });
        page.on('request', (request) => {
            const { origin, protocol } = new URL(request.url());
            if (protocol.startsWith('http') && origin !== this.#url) page.problems.push(`it talked to ${request.url()}`);
        });
        await page.addInitScript(() => {
            addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
            addEventListener('unhandledrejection', (event) => console.error(`unhandled: ${event.reason}`));
        });
        await page.goto(`${this.#url}/?pause=${pause}`);
        const chat = new Chat(page);
        await chat.ready();
        this.#pages.push(page);
        return chat;
    }

    /** After each test: closes what was opened for it. */
    async check() {
        const problems = this.#pages.flatMap((page) => page.problems.splice(0));
        const done = this.#pages.filter((page) => page !== this.#shared?.page);
        this.#pages = this.#pages.filter((page) => page === this.#shared?.page);
        for (const page of done) {
            if (page.context() === this.#browser.context) await page.close();
            else await page.context().close();
        }
        assert.deepEqual(problems, []);
    }
}

export class Chat {
    /** @param {import('playwright-core').Page} page */
    constructor(page) {
        this.page = page;
        this.box = page.getByRole('textbox', { name: 'Message' });
        this.stop = page.getByRole('button', { name: 'Stop', exact: true });
        this.send = page.getByRole('button', { name: 'Send' });
        this.preset = page.getByRole('combobox', { name: 'Permissions' });
        this.chats = page.getByRole('navigation', { name: 'Chats' });
        this.state = page.getByRole('region', { name: 'State of this chat' });
        this.waiting = page.getByRole('region', { name: 'Calls that wait for you' });
        this.reports = page.getByRole('region', { name: 'Errors and notices' });
        this.panel = page.getByRole('complementary', { name: 'What the model saw' });
        this.articles = page.getByRole('log', { name: 'Conversation' }).getByRole('article');
    }

    /** A chat is open. */
    async ready() {
        await this.page.locator('#chats [aria-current="page"]').waitFor({ state: 'attached' });
    }

    async reload() {
        await this.page.reload();
        await this.ready();
    }

    /** An empty chat. */
    async newChat() {
        await this.page.getByRole('button', { name: 'New chat' }).click({ timeout: 3_000 });
        await this.page.getByText('Nothing said yet').waitFor({ timeout: 3_000 });
        await this.page.getByRole('heading', { name: 'Untitled chat' }).waitFor({ timeout: 3_000 });
    }

    /** Nothing is being answered anywhere. */
    async isFree() {
        return !(await this.send.isDisabled());
    }

    /** Nothing is being answered here. */
    async idle() {
        await this.stop.waitFor({ state: 'hidden' });
    }

    /** So many messages of this chat are in storage, as another page would find them. A message is shown before it is saved. */
    async saved(count) {
        await this.page.evaluate(async (count) => {
            const { Runtime } = await import('/pkg/browser.js');
            const id = new URLSearchParams(location.hash.slice(1)).get('chat');
            for (let found = -1; found < count; ) {
                const runtime = await Runtime.open();
                found = (await runtime.openSession(id)).state.messageCount;
                await runtime.close();
            }
        }, count);
    }

    /** Types a text, sends it and waits for the whole turn. Any text, also what no keyboard has. */
    async say(text) {
        await this.type(text);
        await this.box.press('Enter');
        await this.idle();
    }

    /** Sends a text whose turn comes to a call that asks. Gives the card of the first one. */
    async ask(text) {
        await this.type(text);
        await this.box.press('Enter');
        const card = this.waiting.getByRole('form').first();
        await card.waitFor();
        return card;
    }

    async type(text) {
        await this.page.evaluate((json) => {
            const box = document.getElementById('text');
            box.value = JSON.parse(json);
            box.dispatchEvent(new Event('input', { bubbles: true }));
        }, JSON.stringify(text));
    }

    /** The texts of the conversation. */
    async texts() {
        return this.articles.locator('.text').allTextContents();
    }

    async lastAnswer() {
        return (await this.texts()).at(-1);
    }

    /** Chooses a skill for the next message by its box. */
    async choose(...names) {
        await this.page.getByRole('button', { name: /^Skills/ }).click();
        for (const name of names) await this.page.getByRole('checkbox', { name }).check();
        await this.page.getByRole('button', { name: /^Skills/ }).click();
    }

    async attach(...files) {
        await this.page.getByLabel('Attach image').setInputFiles(files);
        await this.page.getByRole('button', { name: `Leave out ${files.at(-1).name}` }).waitFor();
    }

    /** Opens a part of the panel. */
    async look(tab) {
        if (!(await this.panel.isVisible())) await this.page.getByRole('button', { name: /^(What the model saw|Model view)$/ }).click();
        await this.panel.getByRole('tab', { name: tab }).click();
        return this.panel.getByRole('tabpanel');
    }

    /** What the panel shows as JSON: request, projection, stored, snapshots, checkpoints. */
    async json(part) {
        const tab = await this.look('JSON');
        return JSON.parse(await tab.locator(`#json-${part}`).textContent());
    }
}

/** The code units of what an element shows. */
export const unitsIn = (locator) =>
    locator.evaluate((element) => Array.from({ length: element.textContent.length }, (_, at) => element.textContent.charCodeAt(at)));
