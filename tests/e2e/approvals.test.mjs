// The demo's gate: what asks, what is refused, who is asked, and what becomes of a question when the page is loaded again.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { Chats } from '../support/chat.mjs';
import { launch } from '../support/chromium.mjs';
import { demo } from '../support/demo.mjs';

let site, browser, chats;
before(async () => {
    [site, browser] = await Promise.all([demo(), launch()]);
    chats = new Chats(browser, site.url);
});
afterEach(() => chats.check());
after(async () => {
    await browser?.close();
    await site?.close();
});

const PRESETS = ['read-only', 'workspace-write', 'danger-full-access', ''];
const answered = async (chat, end) => assert.ok((await chat.lastAnswer()).endsWith(end), await chat.lastAnswer());

test('under read-only a write asks, with its arguments and where its path leads; approved, it is written', async () => {
    const chat = await chats.shared();
    assert.equal(await chat.preset.inputValue(), 'read-only');
    const card = await chat.ask('/write docs/../new.md five <b>words</b>');
    await card.getByRole('heading', { name: 'The script wants to call write_file' }).waitFor();
    assert.deepEqual(await card.getByRole('row').nth(1).getByRole('cell').allTextContents(), ['write', 'docs/../new.md', '/demo/new.md']);
    assert.deepEqual(JSON.parse(await card.locator('pre').textContent()), { path: 'docs/../new.md', content: 'five <b>words</b>' });
    assert.match(await card.textContent(), /needs a person's approval/);
    await chat.chats.getByRole('link', { name: /waits for you$/ }).waitFor();
    assert.equal(await chat.articles.filter({ hasText: 'wrote' }).count(), 0, 'nothing ran yet');
    await card.getByRole('button', { name: 'Approve write_file docs/../new.md' }).click();
    await chat.idle();
    await answered(chat, 'write_file answered: wrote 17 characters.');
    assert.equal(await chat.waiting.textContent(), '');
    assert.equal(await chat.chats.getByRole('link', { name: /waits for you$/ }).count(), 0);
    await chat.say('/read new.md');
    await answered(chat, 'read_file answered: five <b>words</b>.');
});

test('a rejected call does not run, and the model is told why', async () => {
    const chat = await chats.shared();
    const card = await chat.ask('/write unwanted.md a');
    await card.getByRole('textbox', { name: 'Note for rejecting write_file unwanted.md' }).fill('not <today>');
    await card.getByRole('button', { name: 'Reject write_file unwanted.md' }).click();
    await chat.idle();
    await answered(chat, 'write_file failed: User rejected this tool call. Reason: not <today>.');
    await chat.say('/read unwanted.md');
    await answered(chat, 'read_file failed: `unwanted.md` does not exist.');
    const again = await chat.ask('/write unwanted.md a');
    await again.getByRole('textbox').press('Enter');
    await chat.idle();
    await answered(chat, 'write_file failed: User rejected this tool call..');
});

test('under workspace-write a write in the working directory does not ask, and one that a link leads outside does', async () => {
    const chat = await chats.shared();
    await chat.preset.selectOption('workspace-write');
    await chat.say('/write here.md a');
    await answered(chat, 'write_file answered: wrote 1 characters.');
    const card = await chat.ask('/write outbox/there.md a');
    assert.deepEqual(await card.getByRole('row').nth(1).getByRole('cell').allTextContents(), ['write', 'outbox/there.md', '/outside/there.md']);
    await card.getByRole('button', { name: /^Reject/ }).click();
    await chat.idle();
    await chat.preset.selectOption('danger-full-access');
    await chat.say('/write outbox/there.md ab');
    await answered(chat, 'write_file answered: wrote 2 characters.');
});

test('secrets are refused under every preset, by their own name and by another one, and nobody is asked', async () => {
    const chat = await chats.shared();
    for (const preset of PRESETS) {
        await chat.preset.selectOption(preset);
        for (const text of ['/read secrets/key.txt', '/read shortcut/key.txt', '/list secrets', '/write SECRETS/new.txt x', '/read docs/../shortcut/key.txt']) {
            await chat.say(text);
            assert.match(await chat.lastAnswer(), /_(file|files) failed: .* is denied: a locked rule says so/, `${text} under ${preset}`);
        }
    }
    assert.ok(!(await chat.texts()).some((text) => text.includes('the-key-that-nobody-reads')));
});

test('reads in the working directory, the memory and tools that touch nothing run under read-only without a question', async () => {
    const chat = await chats.shared();
    for (const [text, end] of [
        ['/read notes.md', 'read_file answered: Buy milk.\n.'],
        ['/list docs', 'list_files answered: guide.md.'],
        ['/write memory/today.md ab', 'write_file answered: wrote 2 characters.'],
        ['/tool a b c', 'word_count answered: {"words":3,"characters":5}.'],
    ]) {
        await chat.say(text);
        await answered(chat, end);
    }
});

test('whoever does not want to be asked for 10 minutes is asked again after them', async () => {
    const chat = await chats.fresh();
    await chat.page.clock.install();
    const card = await chat.ask('/write one.md a');
    await card.getByRole('combobox', { name: 'After approving write_file one.md' }).selectOption('don’t ask again for 10 minutes');
    await card.getByRole('button', { name: /^Approve/ }).click();
    await chat.idle();
    await chat.state.getByText('the tools “files” run without a question until').waitFor();
    await chat.say('/write two.md ab');
    await answered(chat, 'write_file answered: wrote 2 characters.');
    await chat.say('/read secrets/key.txt');
    assert.match(await chat.lastAnswer(), /is denied: a locked rule says so/);
    await chat.page.clock.fastForward('09:50');
    await chat.say('/write three.md abc');
    await answered(chat, 'write_file answered: wrote 3 characters.');
    await chat.page.clock.fastForward('00:20');
    await chat.state.getByText('You are not asked.').waitFor({ state: 'detached' });
    await (await chat.ask('/write four.md abcd')).getByRole('button', { name: /^Reject/ }).click();
    await chat.idle();
});

test('until restart means until the page is loaded again, or until one wants to be asked', async () => {
    const chat = await chats.shared();
    const never = async (path) => {
        const card = await chat.ask(`/write ${path} a`);
        await card.getByRole('combobox').selectOption('don’t ask again until restart');
        await card.getByRole('button', { name: /^Approve/ }).click();
        await chat.idle();
        await chat.say(`/write ${path} ab`);
        await answered(chat, 'write_file answered: wrote 2 characters.');
    };
    await never('one.md');
    await chat.state.getByRole('button', { name: 'Ask me again' }).click();
    await never('two.md');
    await chat.reload();
    assert.equal(await chat.state.textContent(), '');
    await (await chat.ask('/write three.md a')).getByRole('button', { name: /^Reject/ }).click();
    await chat.idle();
});

for (const first of ['answered, then resumed', 'resumed, then answered']) {
    test(`a call that waits is listed again after a reload: ${first}, it runs once and the script goes on`, async () => {
        const chat = await chats.shared();
        await chat.ask('/write late.md abc');
        await chat.saved(2);
        await chat.reload();
        await chat.state.getByText('This turn was cut off.').waitFor();
        assert.equal(await chat.send.isDisabled(), true);
        const card = chat.waiting.getByRole('form', { name: 'The script asks for write_file late.md' });
        assert.deepEqual(await card.getByRole('row').nth(1).getByRole('cell').allTextContents(), ['write', 'late.md', '/demo/late.md']);
        const steps = [
            () => card.getByRole('button', { name: /^Approve/ }).click(),
            () => chat.state.getByRole('button', { name: 'Resume the turn' }).click(),
        ];
        if (first.startsWith('resumed')) steps.reverse();
        for (const step of steps) await step();
        await chat.articles.getByText('write_file answered: wrote 3 characters.').waitFor();
        await chat.idle();
        assert.deepEqual((await chat.json('stored')).map(({ role }) => role), ['user', 'assistant', 'toolResult', 'assistant']);
        await chat.say('/read late.md');
        await answered(chat, 'read_file answered: abc.');
    });
}

test('a turn that is abandoned takes its question with it, and the call is answered as interrupted', async () => {
    const chat = await chats.shared();
    await chat.ask('/write never.md a');
    await chat.saved(2);
    await chat.reload();
    await chat.waiting.getByRole('form').waitFor();
    await chat.state.getByRole('button', { name: 'Abandon the turn' }).click();
    await chat.articles.getByText('The tool call was interrupted').waitFor();
    await chat.waiting.getByRole('form').waitFor({ state: 'detached' });
    await chat.reload();
    assert.equal(await chat.waiting.textContent(), '');
    await chat.say('/read never.md');
    await answered(chat, 'read_file failed: `never.md` does not exist.');
});

test('an answer that a reload cut off is written when the turn is resumed', async () => {
    const chat = await chats.fresh({ pause: 40 });
    await chat.type('Hello');
    await chat.box.press('Enter');
    await chat.page.locator('.streaming .text').waitFor();
    await chat.reload();
    await chat.state.getByRole('button', { name: 'Resume the turn' }).click();
    await chat.page.locator('.streaming .text').waitFor();
    await chat.idle();
    assert.equal(await chat.state.textContent(), '');
    assert.ok((await chat.lastAnswer()).endsWith('Type /help for more.'));
    assert.deepEqual((await chat.json('stored')).map(({ role, stopReason }) => [role, stopReason]), [['user', undefined], ['assistant', 'stop']]);
});

test('two calls wait side by side, a note stays while the other one is answered, and a double click answers one', async () => {
    const chat = await chats.shared();
    await chat.ask('/twice pair.md ab');
    const cards = chat.waiting.getByRole('form');
    await cards.nth(1).waitFor();
    await cards.nth(1).getByRole('textbox').fill('one is enough');
    await cards.nth(0).getByRole('button', { name: 'Approve write_file pair.md' }).dblclick();
    await cards.nth(1).waitFor({ state: 'detached' });
    assert.equal(await cards.getByRole('textbox').inputValue(), 'one is enough');
    await cards.getByRole('button', { name: 'Reject write_file pair.md.copy' }).click();
    await chat.idle();
    await answered(chat, 'write_file answered: wrote 2 characters; write_file failed: User rejected this tool call. Reason: one is enough.');
});

/** Lets the link `outbox` lead elsewhere, as a program beside the script might. */
const lead = (chat, target) => chat.page.evaluate(async (target) => (await import('/files.js')).files.link('outbox', target), target);

test('a link that leads elsewhere by the time of the answer is asked about again', async () => {
    const chat = await chats.fresh();
    const card = await chat.ask('/write outbox/a.md abc');
    await lead(chat, '/elsewhere');
    await card.getByRole('button', { name: /^Approve/ }).click();
    await chat.reports.getByText('superseded').waitFor();
    const cells = chat.waiting.getByRole('row').nth(1).getByRole('cell');
    await chat.waiting.getByText('/elsewhere/a.md').waitFor();
    assert.deepEqual(await cells.allTextContents(), ['write', 'outbox/a.md', '/elsewhere/a.md']);
    assert.equal(await chat.articles.filter({ hasText: 'wrote' }).count(), 0, 'nothing ran yet');
    await chat.waiting.getByRole('button', { name: /^Approve/ }).click();
    await chat.idle();
    await answered(chat, 'write_file answered: wrote 3 characters.');
});

test('a link that leads to what is closed by the time of the answer is refused, whatever the answer', async () => {
    const chat = await chats.fresh();
    const card = await chat.ask('/write outbox/a.md abc');
    await lead(chat, '/demo/secrets');
    await card.getByRole('button', { name: /^Approve/ }).click();
    await chat.idle();
    assert.match(await chat.lastAnswer(), /write_file failed: `write_file` on `outbox\/a.md` is denied: a locked rule says so/);
    await chat.reports.getByText('is denied: a locked rule says so').waitFor();
});

test('Stop takes the question away, and the call does not run', async () => {
    const chat = await chats.shared();
    await chat.ask('/write stopped.md a');
    await chat.stop.click();
    await chat.idle();
    assert.equal(await chat.waiting.textContent(), '');
    await chat.say('/read stopped.md');
    await answered(chat, 'read_file failed: `stopped.md` does not exist.');
});

test('a call that waits in another chat is said in the list, and is answered where it was asked', async () => {
    const chat = await chats.fresh();
    await chat.say('Elsewhere');
    await chat.newChat();
    await chat.ask('/write mine.md a');
    await chat.chats.getByRole('link', { name: 'Elsewhere' }).click();
    await chat.page.getByRole('heading', { name: 'Elsewhere' }).waitFor();
    assert.equal(await chat.waiting.textContent(), '');
    await chat.chats.getByRole('link', { name: /mine\.md.*waits for you$/ }).click();
    await chat.waiting.getByRole('button', { name: /^Approve/ }).click();
    await chat.idle();
    await answered(chat, 'write_file answered: wrote 1 characters.');
});

test('a question is announced, leaves the focus where it is, and is answered with the keyboard alone', async () => {
    const { page, ...chat } = await chats.fresh();
    const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.id);
    await page.keyboard.type('/twice keys.md a');
    await page.keyboard.press('Enter');
    await chat.waiting.getByRole('form').nth(1).waitFor();
    await page.getByRole('status').getByText('The script waits for you: a call needs your approval.').waitFor();
    assert.equal(await focused(), 'text');
    for (let pressed = 0; pressed < 20 && (await focused()) !== 'Approve write_file keys.md'; pressed++) await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await chat.waiting.getByRole('form').nth(1).waitFor({ state: 'detached' });
    assert.equal(await focused(), 'The script asks for write_file keys.md.copy');
    for (let pressed = 0; pressed < 20 && (await focused()) !== 'Note for rejecting write_file keys.md.copy'; pressed++) await page.keyboard.press('Tab');
    await page.keyboard.type('no');
    await page.keyboard.press('Enter');
    await chat.stop.waitFor({ state: 'hidden' });
    assert.equal(await focused(), 'text');
    const last = (await chat.articles.locator('.text').allTextContents()).at(-1);
    assert.ok(last.endsWith('write_file answered: wrote 1 characters; write_file failed: User rejected this tool call. Reason: no.'), last);
});
