// Skills in the demo: added from files, chosen, switched off and on, used after a reload, loaded by the script.

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

const skillFile = (name, body, more = '') => `---\nname: ${name}\ndescription: About ${name}.\n${more}---\n\n${body}\n`;
const file = (name, content) => ({ name, mimeType: 'text/markdown', buffer: Buffer.from(content) });

const openSkills = (chat) => chat.page.getByRole('button', { name: /^Skills/ }).click();
const input = (chat) => chat.page.getByLabel('Add a skill from a file');
const box = (chat, name) => chat.page.getByRole('checkbox', { name });
const announced = (chat, text) => chat.page.getByRole('status').filter({ hasText: text }).waitFor({ state: 'attached' });

/** Adds skills from files, and waits until they are listed. */
async function add(chat, ...files) {
    await openSkills(chat);
    await input(chat).setInputFiles(files);
    await announced(chat, 'Added the skill');
    await openSkills(chat);
}

/** What the model saw of the last user message. */
async function shown(chat) {
    const { messages } = await chat.json('request');
    return messages.findLast(({ role }) => role === 'user').content;
}

test('a skill from a file is chosen, outlives a reload together with the choice, and is used', async () => {
    const chat = await chats.fresh();
    await add(chat, file('SKILL.md', skillFile('haiku', 'Write a haiku.')));
    await chat.choose('haiku');
    await chat.type('The sea');
    await chat.reload();
    await chat.page.getByText('skill haiku', { exact: true }).waitFor();
    assert.equal(await chat.box.inputValue(), 'The sea');
    await chat.box.press('Enter');
    await chat.idle();
    assert.ok((await chat.lastAnswer()).includes('the skill “haiku”'));
    const block = '<skill name="haiku" location="/my-skills/haiku/SKILL.md">\nWrite a haiku.\n</skill>';
    assert.equal(await shown(chat), `${block}\n\nThe sea`);
    assert.deepEqual((await chat.texts())[0], 'The sea');

    // Another file of that name takes its place; what was said stays, also after a reload.
    await add(chat, file('other.md', skillFile('haiku', 'Write two haiku.')));
    await chat.say('Again, $haiku');
    assert.ok((await shown(chat)).includes('\nWrite two haiku.\n'));
    await chat.reload();
    const snapshots = await chat.json('snapshots');
    assert.deepEqual(snapshots.map(({ skills }) => skills[0].content.includes('two')), [false, true]);
    assert.notEqual(snapshots[0].skills[0].revision, snapshots[1].skills[0].revision);

    // Removed, it is gone from the list, and from nothing that was said.
    await openSkills(chat);
    await chat.page.getByRole('button', { name: 'Remove skill haiku' }).click();
    await announced(chat, 'Removed.');
    assert.equal(await box(chat, 'haiku').count(), 0);
    await chat.reload();
    assert.equal((await chat.json('snapshots')).length, 2);
    await chat.say('Once more, $haiku');
    await chat.page.getByText('no skill is called').waitFor();
});

/** Gives the page a file that would take long on its way through the browser's remote control. */
function hugeFile() {
    const given = new DataTransfer();
    given.items.add(new File([new Uint8Array(33 * 1024 * 1024)], 'huge.md'));
    const input = document.getElementById('skill-files');
    input.files = given.files;
    input.dispatchEvent(new Event('change'));
}

test('files that are no skills say why, whatever their encoding or size, and keep no other out', async () => {
    const chat = await chats.fresh();
    await openSkills(chat);
    const utf16 = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(skillFile('wide', 'x'), 'utf16le')]);
    for (const [given, code, why] of [
        [file('plain.md', '# Only text\n'), 'skill_invalid', 'does not begin with frontmatter'],
        [{ ...file('wide.md', ''), buffer: utf16 }, 'skill_invalid', 'UTF-8'],
        [{ ...file('latin.md', ''), buffer: Buffer.from(skillFile('latin', 'Café'), 'latin1') }, 'skill_invalid', 'UTF-8'],
        [file('empty.md', ''), 'skill_invalid', 'frontmatter'],
        [{ name: 'huge.md' }, 'invalid_argument', 'larger than 32 MiB'],
    ]) {
        if (given.buffer) await input(chat).setInputFiles([given]);
        else await chat.page.evaluate(hugeFile);
        const report = chat.reports.getByRole('alert').filter({ hasText: `Adding ${given.name}` });
        await report.filter({ hasText: why }).waitFor();
        assert.ok((await report.textContent()).includes(code));
        await report.getByRole('button', { name: `Dismiss ${code}` }).click();
    }
    await input(chat).setInputFiles([file('bad.md', 'x'), file('good.md', skillFile('good', 'x', 'nam: x\n'))]);
    await chat.reports.getByRole('alert').filter({ hasText: 'Adding bad.md' }).waitFor();
    await box(chat, 'good').waitFor();
    assert.equal(await chat.page.getByRole('checkbox').count(), 6);
});

test('a skill is switched off and on by the keyboard, the focus stays, and it is said aloud', async () => {
    const chat = await chats.fresh();
    const { page } = chat;
    const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.id);
    const reach = async (name) => {
        for (let pressed = 0; pressed < 40 && (await focused()) !== name; pressed++) await page.keyboard.press('Shift+Tab');
        assert.equal(await focused(), name);
    };
    await openSkills(chat);
    await reach('skill-files');
    await reach('Switch off skill code-review');
    await page.keyboard.press('Enter');
    await announced(chat, 'Switched off.');
    assert.equal(await box(chat, 'code-review').isDisabled(), true);
    // The same button says the opposite now, and still has the focus.
    assert.equal(await focused(), 'Switch on skill code-review');
    await chat.reload();
    await chat.say('$code-review please');
    assert.ok((await chat.lastAnswer()).includes('No skill stood in front of it.'));
    const { systemPrompt } = await chat.json('request');
    assert.ok(systemPrompt.includes('\n- commit-message: ') && !systemPrompt.includes('\n- code-review: '));
    await openSkills(chat);
    await page.getByRole('button', { name: 'Switch on skill code-review' }).press('Enter');
    await announced(chat, 'Switched on.');
    await chat.say('$code-review please');
    assert.ok((await chat.lastAnswer()).includes('the skill “code-review”'));
});

test('the script loads a skill that it may load, and is told why it may not load another', async () => {
    const chat = await chats.fresh();
    await add(chat, file('mine.md', skillFile('mine', 'Do it.', 'disable-model-invocation: true\n')));
    await chat.say('/load plain-language');
    assert.ok((await chat.lastAnswer()).includes('load_skill answered: <skill name="plain-language" location="/skills/plain-language/SKILL.md">'));
    await chat.say('/load mine');
    assert.ok((await chat.lastAnswer()).includes('load_skill failed: skill `mine` can only be chosen by the user'));
    await chat.say('$mine');
    assert.ok((await chat.lastAnswer()).includes('the skill “mine”'));
});

test('two tabs see each other’s skills when they are looked at', async () => {
    const one = await chats.inProfile();
    const two = await chats.inProfile();
    await one.page.bringToFront();
    await add(one, file('shared.md', skillFile('shared', 'Do it.')));
    await two.page.bringToFront();
    await two.page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await openSkills(two);
    await box(two, 'shared').waitFor();
    await one.choose('shared');
    await two.page.getByRole('button', { name: 'Remove skill shared' }).click();
    await announced(two, 'Removed.');
    // Removed in one tab, it cannot be chosen in the other any more: nothing is sent, and the draft is still there.
    await one.type('Hello');
    await one.box.press('Enter');
    await one.reports.getByRole('alert').filter({ hasText: 'skill_unavailable' }).waitFor();
    assert.equal(await one.box.inputValue(), 'Hello');
    await one.page.getByText('Nothing said yet').waitFor();
});
