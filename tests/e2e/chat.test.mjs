// The demo as a person uses it: sending, stopping, failing, chats that are kept, and turns that were cut off.

import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, afterEach, before, test } from 'node:test';

import { Chat, Chats, PNG } from '../support/chat.mjs';
import { launch, newProfile } from '../support/chromium.mjs';
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

const SELF = 'I am the offline script of this page, not a language model.';

test('the page and every answer say that the model is a script', async () => {
    const chat = await chats.shared();
    await chat.page.getByText('not from a language model').waitFor();
    for (const text of ['Hello', '/help', '/tool a b', '/seen']) {
        await chat.say(text);
        assert.ok((await chat.lastAnswer()).startsWith(SELF), text);
    }
});

test('an answer appears word by word, and the box stays free for the next message', async () => {
    const chat = await chats.fresh({ pause: 20 });
    await chat.type('Hello');
    await chat.box.press('Enter');
    const streaming = chat.page.locator('.streaming .text');
    await streaming.waitFor();
    const early = await streaming.textContent();
    assert.ok(SELF.startsWith(early) || early.startsWith(SELF), early);
    assert.equal(await chat.box.inputValue(), '');
    assert.equal(await chat.box.evaluate((box) => box === document.activeElement), true);
    await chat.box.fill('My next one');
    assert.equal(await chat.preset.isDisabled(), true);
    assert.equal(await chat.send.isDisabled(), true);
    await chat.idle();
    const whole = await chat.lastAnswer();
    assert.ok(whole.startsWith(early) && whole.length > early.length);
    assert.equal(await chat.box.inputValue(), 'My next one');
    assert.equal(await chat.preset.isDisabled(), false);
    assert.equal(await chat.page.getByRole('status').first().textContent(), whole);
});

for (const how of ['button', 'Escape']) {
    test(`an answer can be stopped by ${how}; what arrived stays, marked, and the next request leaves it out`, async () => {
        const chat = await chats.shared();
        await chat.type('/slow');
        await chat.box.press('Enter');
        await chat.page.locator('.streaming .text').waitFor();
        if (how === 'button') await chat.stop.click();
        else await chat.page.keyboard.press('Escape');
        await chat.idle();
        await chat.page.getByText('stopped: not shown to the model again').waitFor();
        await chat.page.getByText('The last turn was stopped.').waitFor();
        assert.equal(await chat.box.evaluate((box) => box === document.activeElement), true);
        await chat.say('Go on');
        const { messages } = await chat.json('request');
        assert.deepEqual(messages.map(({ role }) => role), ['user', 'user']);
        const stored = await chat.json('stored');
        assert.deepEqual(stored.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant']);
        assert.equal(stored[1].stopReason, 'aborted');
        const panel = await chat.look('Messages');
        assert.equal(await panel.getByText('left out of this request').count(), 1);
        assert.equal(await panel.getByText('came after this request').count(), 1);
    });
}

test('a tool call is shown with its result, and a failing tool does not end the turn', async () => {
    const chat = await chats.shared();
    await chat.say('/tool one two three');
    await chat.page.getByRole('article', { name: 'Tool word_count' }).waitFor();
    assert.match(await chat.lastAnswer(), /clock answered: \d\d:\d\d:\d\d .*word_count answered: \{"words":3,"characters":13\}\.$/);
    await chat.say('/tool-error');
    assert.match(await chat.lastAnswer(), /word_count failed: word_count needs a `text`\.$/);
    assert.equal(await chat.page.getByText('The last turn').count(), 0);
});

test('a model that fails is said so, what arrived stays, and a reload says it again', async () => {
    const chat = await chats.shared();
    await chat.say('/fail');
    const said = 'The last turn failed: the script was asked to fail';
    await chat.page.getByText(said, { exact: true }).waitFor();
    assert.ok((await chat.lastAnswer()).endsWith('This answer breaks off'));
    await chat.reload();
    await chat.page.getByText(said, { exact: true }).waitFor();
    await chat.say('/fail at once');
    await chat.page.getByText('The last turn failed: the script was asked to fail at once').waitFor();
    assert.equal((await chat.json('stored')).length, 3);
    await chat.say('And now?');
    assert.equal(await chat.page.getByText('The last turn').count(), 0);
});

test('an image is attached, removed, attached again, sent, and seen by the model byte for byte', async () => {
    const chat = await chats.shared();
    const file = { name: 'four pixels.png', mimeType: 'image/png', buffer: PNG };
    await chat.attach(file);
    await chat.page.getByRole('button', { name: 'Leave out four pixels.png' }).click();
    assert.equal(await chat.page.getByText('four pixels.png').count(), 0);
    await chat.attach(file);
    await chat.page.getByRole('img', { name: 'Attached image four pixels.png' }).waitFor();
    await chat.say('What is this?');
    assert.ok((await chat.lastAnswer()).includes(`I saw an image (image/png, ${PNG.length} bytes).`));
    const inChat = chat.articles.getByRole('img', { name: `Image, image/png, ${PNG.length} bytes` });
    assert.deepEqual(await inChat.evaluate((canvas) => [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data]), [255, 0, 0, 255]);
    await chat.reload();
    const [stored] = await chat.json('stored');
    assert.deepEqual(stored.content, [
        { type: 'text', text: 'What is this?' },
        { type: 'image', data: { $bytes: PNG.toString('base64') }, mimeType: 'image/png' },
    ]);
    await inChat.waitFor();
});

test('what is no image is refused with a word', async () => {
    const chat = await chats.shared();
    await chat.page.getByLabel('Attach image').setInputFiles({ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('a') });
    await chat.reports.getByText('`a.txt` is not an image').waitFor();
    await chat.reports.getByRole('button', { name: /^Dismiss/ }).click();
    assert.equal(await chat.reports.textContent(), '');
});

test('chats are listed newest first, renamed, deleted after a question, and the one that was open comes back', async () => {
    const chat = await chats.fresh();
    const names = () => chat.chats.getByRole('link').locator('.name').allTextContents();
    await chat.say('First chat');
    await chat.newChat();
    await chat.say('Second chat');
    assert.deepEqual(await names(), ['Second chat', 'First chat']);

    await chat.chats.getByRole('link', { name: 'First chat' }).click();
    await chat.page.getByRole('heading', { name: 'First chat' }).waitFor();
    await chat.reload();
    await chat.page.getByRole('heading', { name: 'First chat' }).waitFor();
    assert.equal((await chat.texts())[0], 'First chat');

    await chat.page.getByRole('button', { name: 'Rename “Second chat”' }).click();
    const title = chat.page.getByRole('textbox', { name: 'Title' });
    assert.equal(await title.inputValue(), 'Second chat');
    await title.fill('Ünïcode <b>&amp;');
    await title.press('Enter');
    await chat.chats.getByRole('link', { name: 'Ünïcode <b>&amp;' }).waitFor();

    const remove = chat.page.getByRole('button', { name: 'Delete “First chat”' });
    await remove.click();
    const question = chat.page.getByRole('dialog', { name: 'Delete this chat?' });
    await question.getByRole('button', { name: 'Keep it' }).click();
    assert.equal(await remove.evaluate((button) => button === document.activeElement), true);
    await remove.click();
    await question.getByRole('button', { name: 'Delete', exact: true }).click();
    await chat.page.getByRole('heading', { name: 'Ünïcode <b>&amp;' }).waitFor();
    assert.deepEqual(await names(), ['Ünïcode <b>&amp;']);
    await chat.reload();
    assert.deepEqual(await names(), ['Ünïcode <b>&amp;']);
});

test('a chat that is being answered is not deleted, and the error of the library says why', async () => {
    const chat = await chats.shared();
    await chat.type('/slow to delete');
    await chat.box.press('Enter');
    await chat.page.locator('.streaming .text').waitFor();
    await chat.page.getByRole('button', { name: 'Delete “/slow to delete”' }).click();
    await chat.page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    const error = chat.reports.getByRole('alert');
    await error.getByText('session_busy').waitFor();
    assert.match(await error.locator('.why').textContent(), /call `abort\(\)`/);
    await chat.stop.click();
    await chat.idle();
    assert.equal((await chat.texts())[0], '/slow to delete');
});

test('a chat can be looked at while another one is answered', async () => {
    const chat = await chats.fresh({ pause: 30 });
    await chat.say('One');
    await chat.newChat();
    await chat.type('Two');
    await chat.box.press('Enter');
    await chat.page.locator('.streaming .text').waitFor();
    await chat.chats.getByRole('link', { name: 'One' }).click();
    await chat.page.getByRole('heading', { name: 'One' }).waitFor();
    assert.equal((await chat.texts())[0], 'One');
    await chat.page.getByText('The script is answering in another chat.').waitFor();
    assert.equal(await chat.send.isDisabled(), true);
    await chat.chats.getByRole('link', { name: /^Two.*new$/ }).waitFor();
    assert.equal((await chat.texts())[0], 'One');
    assert.equal(await chat.send.isDisabled(), false);
    await chat.chats.getByRole('link', { name: 'Two' }).click();
    await chat.page.getByRole('heading', { name: 'Two' }).waitFor();
    assert.equal((await chat.texts()).length, 2);
});

test('a reload in the middle of a turn keeps the message, says so, and the turn can be abandoned', async () => {
    const chat = await chats.shared();
    await chat.type('/slow please $plain-language');
    await chat.box.press('Enter');
    await chat.page.locator('.streaming .text').waitFor();
    await chat.reload();
    await chat.state.getByText('This turn was cut off.').waitFor();
    assert.deepEqual(await chat.texts(), ['/slow please $plain-language']);
    assert.equal(await chat.send.isDisabled(), true);
    assert.equal(await chat.preset.isDisabled(), true);
    await chat.reload();
    await chat.state.getByRole('button', { name: 'Abandon the turn' }).click();
    await chat.state.getByText('This turn was cut off.').waitFor({ state: 'detached' });
    assert.equal(await chat.send.isDisabled(), false);
    assert.equal(await chat.box.evaluate((box) => box === document.activeElement), true);
    await chat.say('Go on');
    assert.deepEqual((await chat.json('stored')).map(({ role }) => role), ['user', 'user', 'assistant']);
    assert.equal((await chat.json('snapshots')).length, 1);
});

test('a tool call that a reload cut off is answered as interrupted, in the request at once and in storage when the turn is abandoned', async () => {
    const chat = await chats.shared();
    await chat.type('/tool-slow');
    await chat.box.press('Enter');
    await chat.page.locator('.call').getByText('wait').waitFor();
    await chat.saved(2);
    await chat.reload();
    await chat.state.getByText('1 tool call has no result').waitFor();
    const panel = await chat.look('Messages');
    assert.deepEqual(await panel.locator('.source').allTextContents(), ['history', 'history', 'interrupted-tool-result']);
    assert.equal(await panel.getByText('not stored as a message').count(), 1);
    const { messages } = await chat.json('request');
    await chat.state.getByRole('button', { name: 'Abandon the turn' }).click();
    await chat.articles.getByText('The tool call was interrupted').waitFor();
    assert.deepEqual(await chat.json('stored'), messages);
    await chat.say('Go on');
    assert.deepEqual((await chat.json('request')).messages.slice(0, 3), messages);
});

test('a tool can be stopped', async () => {
    const chat = await chats.shared();
    await chat.type('/tool-slow');
    await chat.box.press('Enter');
    await chat.page.locator('.call').getByText('wait').waitFor();
    await chat.stop.click();
    await chat.idle();
    await chat.page.getByText('The last turn was stopped.').waitFor();
    assert.deepEqual((await chat.json('stored')).map(({ role, isError }) => [role, isError]), [
        ['user', undefined], ['assistant', undefined], ['toolResult', true],
    ]);
});

/** The same chat in another tab, where each may be without the channel on which tabs tell each other. */
async function inAnotherTab(chat, silent = false) {
    const other = new Chat(await chat.page.context().newPage());
    if (silent) await other.page.addInitScript(() => delete globalThis.BroadcastChannel);
    await other.page.goto(chat.page.url());
    await other.ready();
    return other;
}

test('what another tab writes is shown here at once, and nobody writes while it does', async () => {
    const chat = await chats.fresh();
    await chat.say('Here');
    const other = await inAnotherTab(chat);
    await other.say('There');
    await chat.articles.getByText('There', { exact: true }).waitFor();
    await chat.say('Here again');
    await other.articles.getByText('Here again', { exact: true }).waitFor();
    assert.deepEqual(await chat.texts(), await other.texts());
    assert.equal((await chat.texts()).length, 6);
    await other.type('/tool-slow');
    await other.box.press('Enter');
    await chat.state.getByText('Another tab is answering in this chat.').waitFor();
    assert.equal(await chat.send.isDisabled(), true);
    await other.stop.click();
    await other.idle();
    await chat.state.getByText('Another tab is answering in this chat.').waitFor({ state: 'detached' });
    await chat.say('Together');
    assert.equal(await chat.state.textContent(), '');
});

test('what another tab wrote unheard is shown when this one is looked at again', async () => {
    const chat = await chats.fresh();
    await chat.say('Here');
    const other = await inAnotherTab(chat, true);
    await other.say('There');
    await chat.page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await chat.articles.getByText('There', { exact: true }).waitFor();
    await chat.say('Together');
    assert.equal((await chat.texts()).length, 6);
});

test('at a conflict one can keep what was said here as a copy, or show what is stored', async () => {
    const chat = await chats.fresh();
    await chat.say('Here');
    const other = await inAnotherTab(chat, true);
    const conflict = async (there, here) => {
        await other.say(there);
        await chat.say(here);
        await chat.state.getByText('another tab wrote to this chat').waitFor();
        await chat.reports.getByText('conflict', { exact: true }).waitFor();
        assert.equal(await chat.send.isDisabled(), true);
    };
    await conflict('There', 'Here again');
    const address = chat.page.url();
    const mine = await chat.texts();
    await chat.state.getByRole('button', { name: 'Keep mine as a copy' }).click();
    await chat.page.getByRole('heading', { name: 'Here (copy)' }).waitFor();
    assert.deepEqual(await chat.texts(), mine);
    assert.notEqual(chat.page.url(), address);
    await chat.say('In my copy');
    // Both are there after a reload.
    await chat.reload();
    assert.deepEqual((await chat.texts()).slice(0, 4), mine);
    assert.equal((await chat.texts()).length, 6);
    await chat.page.goto(address);
    await chat.ready();
    await chat.articles.getByText('There', { exact: true }).waitFor();
    assert.deepEqual(await chat.texts(), await other.texts());

    await conflict('There again', 'Never mind');
    await chat.state.getByRole('button', { name: 'Show what is stored' }).click();
    await chat.articles.getByText('There again', { exact: true }).waitFor();
    assert.deepEqual(await chat.texts(), await other.texts());
    assert.equal(await chat.state.textContent(), '');
    await chat.say('Together');
    assert.equal((await chat.texts()).length, 8);
});

test('a draft is still there after a reload, and goes when it is sent', async () => {
    const chat = await chats.shared();
    await chat.box.fill('Half a thought');
    await chat.reload();
    assert.equal(await chat.box.inputValue(), 'Half a thought');
    await chat.box.press('Enter');
    await chat.idle();
    await chat.reload();
    assert.equal(await chat.box.inputValue(), '');
    assert.equal((await chat.texts())[0], 'Half a thought');
});

test('a failed save is said, kept, and saved again without asking the model', async () => {
    const chat = await chats.fresh();
    await chat.say('This is saved');
    await chat.page.evaluate(() => {
        window.put = IDBObjectStore.prototype.put;
        IDBObjectStore.prototype.put = () => {
            throw new DOMException('no room', 'QuotaExceededError');
        };
    });
    await chat.say('This is pending');
    await chat.state.getByText('Not saved yet.').waitFor();
    await chat.reports.getByText('storage_quota').waitFor();
    assert.equal(await chat.send.isDisabled(), true);
    const save = chat.state.getByRole('button', { name: 'Save again' });
    await save.click();
    await chat.reports.getByText('storage_quota').waitFor();
    await chat.state.getByText('Not saved yet.').waitFor();
    await chat.page.evaluate(() => {
        IDBObjectStore.prototype.put = window.put;
    });
    const before = await chat.texts();
    await save.click();
    await chat.state.getByText('Not saved yet.').waitFor({ state: 'detached' });
    assert.deepEqual(await chat.texts(), before);
    await chat.reload();
    assert.deepEqual(await chat.texts(), before);
    assert.equal(before.length, 4);
});

test('a refused prompt comes back into the box, and the error is shown in full until it is dismissed', async () => {
    const chat = await chats.fresh();
    await chat.page.evaluate(() => {
        Blob.prototype.arrayBuffer = async () => new ArrayBuffer(33 * 2 ** 20);
    });
    await chat.choose('release-notes');
    await chat.attach({ name: 'huge.png', mimeType: 'image/png', buffer: PNG });
    await chat.say('Look at this');
    const error = chat.reports.getByRole('alert');
    await error.getByText('message_not_storable').waitFor();
    assert.match(await error.locator('.why').textContent(), /larger than 32 MiB/);
    assert.equal(await chat.box.inputValue(), 'Look at this');
    await chat.page.getByRole('button', { name: 'Leave out huge.png' }).waitFor();
    await chat.page.getByRole('button', { name: 'Leave out skill release-notes' }).waitFor();
    assert.equal((await chat.json('stored')).length, 0);
    await error.getByRole('button', { name: 'Dismiss message_not_storable' }).click();
    assert.equal(await error.count(), 0);
    await chat.page.getByRole('button', { name: 'Leave out huge.png' }).click();
    await chat.send.click();
    await chat.idle();
    assert.ok((await chat.lastAnswer()).includes('the skill “release-notes”'));
});

test('all of it outlives the browser', async () => {
    const profile = await newProfile();
    let other = await launch({ profile });
    try {
        let chat = await new Chats(other, site.url).inProfile();
        await chat.preset.selectOption('danger-full-access');
        await chat.say('Remember me $bug-report');
        const kept = ['stored', 'snapshots', 'checkpoints'];
        const before = await Promise.all(kept.map((part) => chat.json(part)));
        await other.kill();
        other = await launch({ profile });
        chat = await new Chats(other, site.url).inProfile();
        await chat.page.getByRole('heading', { name: 'Remember me' }).waitFor();
        assert.deepEqual(await Promise.all(kept.map((part) => chat.json(part))), before);
        assert.equal(await chat.preset.inputValue(), 'danger-full-access');
    } finally {
        await other.close();
        await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    }
});
