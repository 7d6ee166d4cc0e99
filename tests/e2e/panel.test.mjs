// What the model saw, beside what is stored: exactly, and in front of the right message only.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, afterEach, before, test } from 'node:test';

import { Chats, PNG, unitsIn } from '../support/chat.mjs';
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

/** The block that a bundled skill becomes, made from its file. */
async function block(name) {
    const file = await readFile(new URL(`../../www/skills/${name}/SKILL.md`, import.meta.url), 'utf8');
    const body = file.split('\n---\n')[1].trim();
    return `<skill name="${name}" location="/skills/${name}/SKILL.md">\n${body}\n</skill>`;
}
const units = (text) => Array.from({ length: text.length }, (_, at) => text.charCodeAt(at));

test('skills chosen by box and by $name stand before their message only; a string stays a string, blocks get one text block first', async () => {
    const chat = await chats.shared();
    await chat.say('Before');
    await chat.choose('commit-message');
    await chat.say('By box');
    assert.ok((await chat.lastAnswer()).includes('In front of it stood the skill “commit-message”.'));
    await chat.attach({ name: 'a.png', mimeType: 'image/png', buffer: PNG });
    await chat.say('By name: $code-review and $bug-report');
    await chat.say('After');
    assert.ok((await chat.lastAnswer()).includes('No skill stood in front of it.'));

    const stored = await chat.json('stored');
    const image = { type: 'image', data: { $bytes: PNG.toString('base64') }, mimeType: 'image/png' };
    const typed = ['Before', 'By box', [{ type: 'text', text: 'By name: $code-review and $bug-report' }, image], 'After'];
    assert.deepEqual(stored.filter(({ role }) => role === 'user').map(({ content }) => content), typed);

    const { messages } = await chat.json('request');
    const both = `${await block('bug-report')}\n\n${await block('code-review')}`;
    assert.deepEqual(messages.filter(({ role }) => role === 'user').map(({ content }) => content), [
        'Before',
        `${await block('commit-message')}\n\nBy box`,
        [{ type: 'text', text: both }, ...typed[2]],
        'After',
    ]);
    assert.deepEqual(messages.filter(({ role }) => role !== 'user'), stored.slice(0, -1).filter(({ role }) => role !== 'user'));

    // Side by side, with each block marked, and nothing else.
    const panel = await chat.look('Messages');
    const rows = panel.locator('.row:not(.heads)');
    assert.equal(await rows.count(), 8);
    const marks = await panel.locator('[data-model-index]').evaluateAll((cells) =>
        cells.map((cell) => [...cell.querySelectorAll('mark')].map((mark) => mark.textContent)),
    );
    assert.deepEqual(marks, [
        [], [], [await block('commit-message')], [], [await block('bug-report'), await block('code-review')], [], [],
    ]);
    assert.deepEqual(
        await panel.locator('[data-model-index] .source').allTextContents(),
        Array(7).fill('history'),
    );

    // Beside the conversation: tags on the messages, snapshots with revisions.
    assert.deepEqual(await chat.page.locator('.message.user header .tag').allTextContents(), [
        'skill commit-message', 'skill bug-report', 'skill code-review',
    ]);
    const snapshots = await chat.json('snapshots');
    assert.deepEqual(snapshots.map(({ userTurn, placement, skills }) => [userTurn, placement, skills.map(({ id }) => id)]), [
        [1, 'user', ['bundled:/skills/commit-message/SKILL.md']],
        [2, 'user', ['bundled:/skills/bug-report/SKILL.md', 'bundled:/skills/code-review/SKILL.md']],
    ]);
    const tab = await chat.look('Snapshots');
    assert.equal(await tab.locator('[data-snapshot="1"] pre').textContent(), both);
});

test('half a pair and a NUL are stored and shown unit for unit, and can be seen', async () => {
    const typed = 'a \ud83d b \u0000 c \u{1f980} \udc00\u202e';
    const chat = await chats.shared();
    await chat.choose('plain-language');
    await chat.say(typed);
    assert.deepEqual(await unitsIn(chat.articles.first().locator('.text')), units(typed));
    const shown = units(`${await block('plain-language')}\n\n${typed}`);
    const check = async () => {
        const panel = await chat.look('Messages');
        assert.deepEqual(await unitsIn(panel.locator('[data-stored-index="0"] pre')), units(typed));
        assert.deepEqual(await unitsIn(panel.locator('[data-model-index="0"] pre')), shown);
        assert.deepEqual(
            await panel.locator('[data-stored-index="0"] .unseen').evaluateAll((seen) => seen.map((it) => it.dataset.name)),
            ['U+D83D', 'U+0000', 'U+DC00', 'U+202E'],
        );
        assert.deepEqual((await chat.json('stored'))[0].content, typed);
        assert.deepEqual(units((await chat.json('request')).messages[0].content), shown);
    };
    await check();
    await chat.reload();
    await check();
    assert.deepEqual(await unitsIn(chat.articles.first().locator('.text')), units(typed));
});

test('only the last of several presets reaches the model, with the next message: two checkpoints, the second with permissions alone', async () => {
    const chat = await chats.shared();
    assert.equal(await chat.preset.inputValue(), 'read-only');
    await chat.say('One');
    assert.ok((await chat.lastAnswer()).includes('The permission preset was read-only.'));
    const prompt = async () => (await chat.look('System prompt')).locator('#system-prompt').textContent();
    const first = await prompt();
    await chat.preset.selectOption('danger-full-access');
    await chat.preset.selectOption('workspace-write');
    assert.equal(await prompt(), first, 'nothing was sent yet');
    await chat.say('Two');
    assert.ok((await chat.lastAnswer()).includes('The permission preset was workspace-write.'));
    const second = await prompt();
    assert.notEqual(second, first);
    assert.ok(!second.includes('danger-full-access'));
    const checkpoints = await chat.json('checkpoints');
    assert.deepEqual(checkpoints.map(({ messageCount, sections }) => [messageCount, Object.keys(sections)]), [
        [1, Object.keys(checkpoints[0].sections)],
        [3, ['permissions']],
    ]);
    assert.equal(second, first.replace(checkpoints[0].sections.permissions, checkpoints[1].sections.permissions));
    assert.equal((await chat.json('request')).systemPrompt, second);
    assert.deepEqual(await chat.page.locator('.message.user header .tag').allTextContents(), ['system prompt: permissions changed']);
    const tab = await chat.look('Checkpoints');
    assert.equal(await tab.locator('[data-checkpoint="1"] pre').textContent(), checkpoints[1].sections.permissions);

    await chat.preset.selectOption('none (as configured)');
    await chat.page.getByText('The model is told with your next message.').waitFor();
    await chat.reload();
    assert.equal(await chat.preset.inputValue(), '');
    assert.equal(await prompt(), second, 'the chat as it stands, made from checkpoints');
    await chat.say('Three');
    assert.ok((await chat.lastAnswer()).includes('The system prompt named no permission preset.'));
});

test('after a reload the request is made again from what is stored, and is the one that was sent', async () => {
    const chat = await chats.shared();
    await chat.say('/tool a b');
    await chat.choose('release-notes');
    await chat.say('Thanks');
    const before = await chat.json('request');
    const stored = await chat.json('stored');
    await chat.panel.getByText('The last request, as it was handed to the model.').waitFor();
    await chat.reload();
    const after = await chat.json('request');
    await chat.panel.getByText('The page was loaded again').waitFor();
    assert.equal(after.systemPrompt, before.systemPrompt);
    assert.deepEqual(after.messages, [...before.messages, stored.at(-1)]);
    assert.deepEqual(await chat.json('stored'), stored);
});

test('a mention that names no skill stays text, and is reported', async () => {
    const chat = await chats.shared();
    await chat.say('Pay $5 for $no-such-skill');
    await chat.reports.getByText('mention_unknown').waitFor();
    await chat.reports.getByText('no skill is called `no-such-skill`, so `$no-such-skill` stays text').waitFor();
    assert.equal((await chat.json('snapshots')).length, 0);
    const panel = await chat.look('Messages');
    assert.deepEqual(await panel.getByRole('list', { name: 'Notices of this request' }).getByRole('listitem').allTextContents(), [
        'mention_unknown no-such-skill',
    ]);
});

test('a part can be copied as JSON', async () => {
    const chat = await chats.shared();
    await chat.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await chat.say('Copy \ud83d me');
    const tab = await chat.look('JSON');
    await tab.getByRole('button', { name: 'Copy as JSON: The request' }).click();
    await tab.getByText('Copied').waitFor();
    const copied = JSON.parse(await chat.page.evaluate(() => navigator.clipboard.readText()));
    assert.equal(copied.messages[0].content, 'Copy \ud83d me');
});
