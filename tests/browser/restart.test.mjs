// The main job, end to end in a real browser that is killed half way: what was typed is stored, what was chosen is
// shown to the model, and both outlive the process.

import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { launch, newProfile } from '../support/chromium.mjs';
import { openPage, servePackage, units } from '../support/page.mjs';
import { offered } from '../support/stored.mjs';

/** Half of a pair, a whole pair, NUL, the other half at the end. */
const TYPED = 'Read this \ud83d, this \u{1f980} and this \u0000 closely\udc00';
const BLOCK_TEXT = 'And this picture \ud83d\u0000';
const PIXELS = [137, 80, 78, 71, 0, 255, 1];

const SKILL = '---\nname: review\ndescription: How we review.\n---\n\n# Review\n\nRead twice </skill> then speak.\n';
const EDITED = '---\nname: review\ndescription: How we review now.\n---\n\nDo something else.\n';
/** The block of `SKILL`: its own closing tag cannot close it. */
const BLOCK =
    '<skill name="review" location="/skills/review/SKILL.md">\n# Review\n\nRead twice &lt;/skill> then speak.\n</skill>';
const SKILL_ID = 'project:/skills/review/SKILL.md';
const STABLE =
    'You are a colleague.\n\n<house_rules>\nBe kind & brief.\n</house_rules>\n\n' +
    `<skills>\n${offered('review', 'How we review.')}\n</skills>\n\n` +
    '<cwd>\nCurrent working directory: /home/ada/project\n</cwd>\n\n<permissions>\n';

let profile, server, browser, page;
/** What the page reported before it was killed, and after it came back. */
let first, second, skill;

/** The first life: two sessions, alike but for the message that the skill was chosen for. */
async function live({ typed, blockText, pixels, skillText, edited }) {
    const now = kit.handClock(1000);
    const model = kit.scripted(
        kit.assistant('One.', { timestamp: 1 }),
        kit.assistant('Two.', { timestamp: 2 }),
    );
    const runtime = await rc.Runtime.open({ host: { cwd: '/home/ada/project' }, now, model });
    const skill = await runtime.skills.add({ content: skillText, location: '/skills/review/SKILL.md', scope: 'project' });
    const lived = {};
    for (const [id, turn] of [['with-text', 0], ['with-blocks', 1]]) {
        model.calls = 0;
        model.requests.length = 0;
        const skillsOf = (at) => (at === turn ? { skills: [skill.id] } : {});
        const session = await runtime.createSession({
            id,
            systemPrompt: 'You are a colleague.',
            sections: [{ name: 'house_rules', content: 'Be kind & brief.' }],
        });
        now.now = 2000;
        const bytes = Uint8Array.from(pixels);
        const results = [await session.prompt(typed, skillsOf(0))];
        await session.setPermissionPreset('danger-full-access');
        await session.setPermissionPreset('workspace-write');
        now.now = 3000;
        const blocks = [{ type: 'text', text: blockText }, { type: 'image', data: bytes, mimeType: 'image/png' }];
        results.push(await session.prompt(blocks, skillsOf(1)));
        // What was handed over is the caller's again.
        bytes.fill(0);
        blocks.length = 0;
        lived[id] = { results, requests: model.requests.slice(), state: session.state, header: session.header };
    }
    await runtime.skills.add({ content: edited, location: '/skills/review/SKILL.md', scope: 'project' });
    return { storage: runtime.storageInfo, lived, skill };
}

/** The second life: everything is read again, and each session goes on. */
async function relive() {
    const now = kit.handClock(9000);
    const model = kit.scripted(kit.assistant('Three.', { timestamp: 3 }));
    const runtime = await rc.Runtime.open({ host: { cwd: '/elsewhere' }, now, model });
    const dumped = await kit.dump('runcontext');
    const lived = {};
    for (const id of ['with-text', 'with-blocks']) {
        const session = await runtime.openSession(id);
        const found = {
            messages: session.messages,
            state: session.state,
            header: session.header,
            snapshots: session.getRuntimeContexts(),
            checkpoints: session.getSystemPromptCheckpoints(),
            prompts: [0, 1, 2, 3].map((index) => session.systemPromptAt(index)),
            interrupted: session.interrupted,
            titleInputs: session.titleInputs(),
        };
        const result = await session.prompt('Go on');
        lived[id] = { ...found, result, next: model.requests.at(-1), later: session.getSystemPromptCheckpoints().length };
    }
    return { lived, dumped, skills: runtime.skills.list(), sessions: await runtime.listSessions() };
}

before(async () => {
    profile = await newProfile();
    server = await servePackage();
    browser = await launch({ profile });
    page = await openPage(browser, server);
    first = await page.run(live, {
        typed: TYPED, blockText: BLOCK_TEXT, pixels: PIXELS, skillText: SKILL, edited: EDITED,
    });
    skill = first.skill;
    assert.deepEqual(await page.unhandled(), []);
    await browser.kill();
    browser = await launch({ profile });
    page = await openPage(browser, server);
    second = await page.run(relive);
    assert.deepEqual(await page.unhandled(), []);
});
after(async () => {
    await browser?.close();
    await server?.close();
    if (profile) await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
});

const STRING = { role: 'user', content: TYPED, timestamp: 2000 };
const BLOCKS = {
    role: 'user',
    content: [
        { type: 'text', text: BLOCK_TEXT },
        { type: 'image', data: Uint8Array.from(PIXELS), mimeType: 'image/png' },
    ],
    timestamp: 3000,
};
const answer = (text, timestamp) => ({
    role: 'assistant', content: [{ type: 'text', text }], stopReason: 'stop', timestamp,
});
const CONVERSATION = [STRING, answer('One.', 1), BLOCKS, answer('Two.', 2)];

/** The conversation as the model saw it. */
const SHOWN = {
    'with-text': [{ ...STRING, content: `${BLOCK}\n\n${TYPED}` }, ...CONVERSATION.slice(1)],
    'with-blocks': [
        ...CONVERSATION.slice(0, 2),
        { ...BLOCKS, content: [{ type: 'text', text: BLOCK }, ...BLOCKS.content] },
        CONVERSATION[3],
    ],
};
const TURN = { 'with-text': 0, 'with-blocks': 1 };

test('it is kept in IndexedDB without being asked for, and each prompt was saved', () => {
    assert.deepEqual(first.storage, { kind: 'indexeddb', persistent: true });
    for (const { results } of Object.values(first.lived)) {
        assert.deepEqual(results, [{ outcome: 'success', saved: true }, { outcome: 'success', saved: true }]);
    }
});

for (const id of ['with-text', 'with-blocks']) {
    test(`${id}: after a restart the messages are what was typed, code unit for code unit`, () => {
        const { messages, state } = second.lived[id];
        assert.deepEqual(messages, CONVERSATION);
        assert.deepEqual(state.messages, CONVERSATION);
        assert.deepEqual(units(messages[0].content), units(TYPED));
        assert.deepEqual(units(messages[0].content).slice(10, 12), [0xd83d, 0x2c]);
        assert.equal(messages[0].content.charCodeAt(TYPED.length - 1), 0xdc00);
        assert.ok(units(messages[0].content).includes(0));
        assert.deepEqual(units(messages[2].content[0].text), units(BLOCK_TEXT));
        assert.deepEqual(messages[2].content[1].data, Uint8Array.from(PIXELS));
        assert.deepEqual(first.lived[id].state.messages, CONVERSATION);
        assert.deepEqual(second.lived[id].titleInputs.map(units), [TYPED, BLOCK_TEXT].map(units));
    });

    test(`${id}: the records of the messages hold what was typed, and nothing else`, () => {
        const own = second.dumped.messages.filter(([key]) => key[0] === id);
        assert.deepEqual(own, CONVERSATION.map((body, index) => [[id, index], { sessionId: id, index, body }]));
    });

    test(`${id}: the model saw the skill in front of the right user message, and nowhere else`, () => {
        const requests = first.lived[id].requests.map((text) => JSON.parse(text));
        assert.deepEqual(requests.map((request) => Object.keys(request)), Array(2).fill(['systemPrompt', 'messages', 'tools']));
        assert.deepEqual(requests.map(({ tools }) => tools.map(({ name }) => name)), [['load_skill'], ['load_skill']]);
        const shown = JSON.parse(JSON.stringify(SHOWN[id], (_, value) =>
            value instanceof Uint8Array ? { $: 'bytes', bytes: [...value] } : value));
        assert.deepEqual(requests[0].messages, shown.slice(0, 1));
        assert.deepEqual(requests[1].messages, shown.slice(0, 3));
        assert.deepEqual(units(requests[1].messages[0].content), units(SHOWN[id][0].content));
        // After the restart, and after the edit of the skill, it still sees the same, and then what is new.
        const next = JSON.parse(second.lived[id].next);
        assert.deepEqual(next.messages.slice(0, 4), shown);
        assert.deepEqual(next.messages.slice(4), [{ role: 'user', content: 'Go on', timestamp: 9000 }]);
    });

    test(`${id}: of two switches only the last preset is shown`, () => {
        const [one, two] = first.lived[id].requests.map((text) => JSON.parse(text).systemPrompt);
        assert.ok(one.startsWith(`${STABLE}Permission preset: read-only.\nWorking directory: /home/ada/project\n`), one);
        assert.ok(two.startsWith(`${STABLE}Permission preset: workspace-write.\nWorking directory: /home/ada/project\n`), two);
        assert.ok(one.endsWith('\n</permissions>') && two.endsWith('\n</permissions>'));
        assert.ok(!two.includes('read-only') && !two.includes('danger-full-access'));
        assert.equal(second.lived[id].state.permissionPreset, 'workspace-write');
        assert.equal(second.lived[id].header.permissionPreset, 'workspace-write');
        // What the skill is for was edited, too.
        assert.equal(JSON.parse(second.lived[id].next).systemPrompt, two.replace('How we review.', 'How we review now.'));
    });

    test(`${id}: there are two checkpoints, the second with only the permissions, and they replay`, () => {
        const { checkpoints, prompts, header, later } = second.lived[id];
        const [one, two] = first.lived[id].requests.map((text) => JSON.parse(text).systemPrompt);
        const permissions = (prompt) => prompt.slice(STABLE.length, -'\n</permissions>'.length);
        assert.deepEqual(checkpoints, [
            {
                messageCount: 1,
                timestamp: 2000,
                sections: {
                    cwd: 'Current working directory: /home/ada/project',
                    house_rules: 'Be kind & brief.',
                    permissions: permissions(one),
                    preamble: 'You are a colleague.',
                    skills: offered('review', 'How we review.'),
                },
            },
            { messageCount: 3, timestamp: 3000, sections: { permissions: permissions(two) } },
        ]);
        assert.deepEqual(header.systemPromptCheckpoints, checkpoints);
        assert.deepEqual(first.lived[id].header.systemPromptCheckpoints, checkpoints);
        assert.deepEqual(prompts, [one, one, two, two]);
        // The prompt after the restart tells the model what the edited skill is for.
        assert.equal(later, 3);
    });

    test(`${id}: the snapshot outlives the restart and the edit of its source`, () => {
        const { snapshots, header, state } = second.lived[id];
        const loaded = {
            id: SKILL_ID,
            name: 'review',
            path: '/skills/review/SKILL.md',
            content: SKILL,
            revision: skill.revision,
            description: 'How we review.',
        };
        const snapshot = {
            userTurn: TURN[id],
            content: BLOCK,
            timestamp: TURN[id] === 0 ? 2000 : 3000,
            skills: [loaded],
            placement: 'user',
        };
        assert.deepEqual(snapshots, [snapshot]);
        assert.deepEqual(header.runtimeContexts, [snapshot]);
        assert.deepEqual(first.lived[id].header.runtimeContexts, [snapshot]);
        assert.deepEqual(state.skillLoads, [
            { userTurn: TURN[id], id: SKILL_ID, name: 'review', revision: skill.revision },
        ]);
    });

    test(`${id}: the session is at rest, and goes on`, () => {
        const { state, result, interrupted } = second.lived[id];
        assert.deepEqual(interrupted, { $: 'undefined' });
        assert.deepEqual(
            [state.isRunning, state.hasPendingSave, state.outcome, state.messageCount, state.loadedFrom],
            [false, false, 'success', 4, 0],
        );
        assert.deepEqual(result, { outcome: 'success', saved: true });
    });
}

test('the revision is the SHA-256 of the file, and the edited skill has its own', async () => {
    const sha = async (text) =>
        Buffer.from(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))).toString('hex');
    assert.equal(skill.revision, await sha(SKILL));
    assert.equal(skill.id, SKILL_ID);
    const [listed] = second.skills;
    assert.equal(second.skills.length, 1);
    assert.deepEqual(
        [listed.id, listed.revision, listed.description],
        [SKILL_ID, await sha(EDITED), 'How we review now.'],
    );
});

test('both sessions are listed; used at the same time, they stand by id, the last first', () => {
    assert.deepEqual(second.sessions.map(({ id, updatedAt }) => [id, updatedAt]), [['with-text', 9000], ['with-blocks', 9000]]);
});
