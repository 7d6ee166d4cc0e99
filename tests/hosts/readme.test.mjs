// The example of the README, as it stands there, in an empty project with the packed package.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { installed } from '../support/project.mjs';

const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
const [example, ownLoop, skills, compaction, ownStorage, files] = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code);

test('the first example of the README and the one of skills run as they are written', async () => {
    // What the example leaves to its reader. The model is a mock: it calls tools, answers, and keeps what it was asked. The
    // person says yes.
    const around = `
        const asked = [], prompts = [];
        const call = (id, name, args) => ({ type: 'toolCall', id, name, arguments: args });
        const model = { async complete(request) {
            asked.push(request.messages);
            prompts.push(request.systemPrompt);
            if (asked.length === 3) {
                return { role: 'assistant', stopReason: 'toolUse', content: [call('c4', 'load_skill', { name: 'release' })] };
            }
            if (asked.length > 1) return { role: 'assistant', content: [{ type: 'text', text: 'Looks good.' }], stopReason: 'stop' };
            return { role: 'assistant', stopReason: 'toolUse', content: [
                call('c1', 'clock', {}),
                call('c2', 'write_file', { path: 'a/../notes.md', content: 'Done.' }),
                call('c3', 'write_file', { path: 'private/key', content: 'x' }),
            ] };
        } };
        const questions = [];
        const ask = async ({ toolName, paths }) => {
            questions.push([toolName, paths[0].requested, paths[0].canonical]);
            return true;
        };
        const fetchText = async (place) => '---\\nname: ' + place.match(/(\\w+)\\.md/)[1] + '\\ndescription: Helps.\\n---\\nDo it.\\n';
        const file = new File(['---\\nname: own\\ndescription: Mine.\\n---\\nMy way.\\n'], 'own.md');
        const lines = [];
        console.log = (...line) => lines.push(line);
        const skillMd = '---\\nname: review\\ndescription: Reviews.\\n---\\nRead twice.\\n';
    `;
    const told = `
        const [notes, names] = [files.read('notes.md'), files.list('.')];
        process.stdout.write('\\n' + JSON.stringify({ result, asked, prompts, lines, stored: session.messages, questions, notes, names }));
    `;
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${example}${skills}${told}`);
        const { result, asked, prompts, lines, stored, questions, notes, names } = JSON.parse(output.split('\n').at(-1));
        assert.deepEqual(result, { outcome: 'success', saved: true });
        assert.equal(stored[0].content, 'Look at this. $review');
        assert.equal(
            asked[0][0].content,
            '<skill name="review" location="/skills/review/SKILL.md">\nRead twice.\n</skill>\n\nLook at this. $review',
        );
        // What a person chose stands in front of the message, and the model loads what is listed for it.
        assert.equal(
            asked[2].at(-1).content.replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/, 'ID'),
            '<skill name="own" location="ID-own.md">\nMy way.\n</skill>\n\n' +
                '<skill name="release" location="/skills/release/SKILL.md">\nDo it.\n</skill>\n\nDraft the notes. $release',
        );
        assert.match(prompts[2], /\n- own: Mine\.\n- review: Reviews\.\n- release: Helps\.\n<\/skills>/);
        const loaded = stored.find(({ toolCallId }) => toolCallId === 'c4');
        assert.deepEqual(
            [loaded.isError, loaded.content[0].text],
            [false, '<skill name="release" location="/skills/release/SKILL.md">\nDo it.\n</skill>'],
        );
        assert.deepEqual(lines, [['own', 'active', []], ['review', 'active', []], ['plain', 'disabled', []], ['release', 'active', []]]);
        // A rule allows the clock and forbids what is private; the other write was asked about, and ran.
        assert.deepEqual(questions, [['write_file', 'a/../notes.md', '/work/notes.md']]);
        assert.deepEqual([notes, names], ['Done.', ['notes.md']]);
        const results = Object.fromEntries(stored.filter(({ role }) => role === 'toolResult').map((it) => [it.toolCallId, it]));
        assert.deepEqual(['c1', 'c2', 'c3'].map((id) => results[id].isError), [false, false, true]);
        assert.equal(results.c3.content[0].text, '`write_file` on `private/key` is denied: a rule says so');
    } finally {
        await project.remove();
    }
});

test('the loop of the README asks the gate, waits for a person, and keeps what tools and people said', async () => {
    // A mock of a model, that calls three tools at once and then is done; a person who says no.
    const around = `
        import { Runtime } from 'runcontext';
        import { virtualHost } from 'runcontext/hosts/virtual';
        const files = virtualHost({ tree: { work: { sub: {} } }, cwd: '/work' });
        const runtime = await Runtime.open({ host: files, tools: [
            { name: 'clock', access: 'none' }, { name: 'write_file', paths: [{ argument: '/path', access: 'write' }] }, { name: 'run', access: 'execute' },
        ] });
        await runtime.permissions.addRule({ tool_pattern: 'clock', action: 'allow' });
        await runtime.permissions.addRule({ tool_pattern: 'write_file', path_pattern: '/work/sub/*', action: 'allow' });
        const session = await runtime.createSession({ runContext: { working_directory: '/work/sub' } });
        session.subscribe(({ type, requestId }) => {
            if (type === 'approval-requested') void runtime.approvals.resolve(requestId, { action: 'reject', note: 'Not today.' });
        });
        let requests = 0;
        const call = (id, name, args) => ({ type: 'toolCall', id, name, arguments: args });
        const callModel = async () => requests++ > 0
            ? { role: 'assistant', content: [{ type: 'text', text: 'Done.' }], stopReason: 'stop' }
            : { role: 'assistant', content: [call('c1', 'clock', {}), call('c2', 'write_file', { path: 'a.md' }), call('c3', 'run', { command: 'rm' })], stopReason: 'toolUse' };
        const ran = [];
        const runTool = async ({ toolName }, { workingDirectory, paths }) => (ran.push([toolName, workingDirectory, paths[0]?.canonical ?? null]), 'It ran.');
    `;
    const told = "\nprocess.stdout.write('\\n' + JSON.stringify({ ran, stored: session.messages }));";
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${ownLoop}${told}`);
        const { ran, stored } = JSON.parse(output.split('\n').at(-1));
        assert.deepEqual(ran, [['clock', '/work/sub', null], ['write_file', '/work/sub', '/work/sub/a.md']]);
        assert.deepEqual(stored.map(({ role, isError }) => [role, isError]), [
            ['user', undefined], ['assistant', undefined], ['toolResult', false], ['toolResult', false], ['toolResult', true], ['assistant', undefined],
        ]);
        assert.equal(stored[4].content[0].text, 'User rejected this tool call. Reason: Not today.');
    } finally {
        await project.remove();
    }
});

test('the sessions of the README for a ticket, a job and a source run as it says', async () => {
    const [, config] = /```yaml\n([\s\S]*?)```/.exec(readme);
    const code = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code).find((code) => code.includes('createTicket'));
    const around = `const readConfig = async () => ${JSON.stringify(config)};`;
    const told = `
        const said = (context) => context && Object.fromEntries(Object.entries(context).filter(([, value]) => value?.length));
        const others = [];
        for (const options of [{ source: 'web' }, { source: 'tic', agentId: 'reviewer' }]) others.push((await runtime.createSession(options)).runContext);
        process.stdout.write('\\n' + JSON.stringify([session, night, talk].map((it) => said(it.runContext)).concat(others.map(said), [runtime.unknownFields])));
    `;
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${code}${told}`);
        assert.deepEqual(JSON.parse(output.split('\n').at(-1)), [
            {
                system_prompt: [
                    'Project: Shop\nSells apples.\nTicket: Round the prices\nData directory: /data/ann (writable; for what belongs to the user and not to the project)',
                ],
                allow_fs_writes: ['/srv/shop', '/data/ann'], allow_fs_reads: ['/srv/prices'], working_directory: '/srv/shop',
            },
            { security_group: 'cron_restrictive' },
            { security_group: 'talk', system_prompt: ['Answer in one sentence.'] },
            { allow_fs_reads: ['/srv/help'] },
            null,
            [],
        ]);
    } finally {
        await project.remove();
    }
});

test('the storage of the README counts what it stores', async () => {
    const around = "const counts = []; const metrics = { count: (records) => counts.push(records) };";
    const told = `
        const session = await runtime.createSession({ id: 's' });
        const turn = await session.begin('Hello');
        await turn.request();
        await turn.dispatched();
        await turn.finish();
        const [{ messageCount }] = await runtime.listSessions();
        process.stdout.write('\\n' + JSON.stringify({ counts, info: runtime.storageInfo, messageCount }));
    `;
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${ownStorage}${told}`);
        // Nothing; the message, its outline and the system prompt; how the turn ended.
        assert.deepEqual(JSON.parse(output.split('\n').at(-1)), { counts: [0, 3, 0], info: { kind: 'counted', persistent: false }, messageCount: 1 });
    } finally {
        await project.remove();
    }
});

test('the conversation of the README is compacted by its button and by itself', async () => {
    // The model and the summariser are scripted: both say the same whatever they are given.
    const around = `
        const asked = [], shown = [], show = (text) => shown.push(text), compactButton = {};
        const model = { async complete({ messages }) {
            asked.push(messages.length);
            return { role: 'assistant', content: [{ type: 'text', text: 'words '.repeat(30000) }], stopReason: 'stop' };
        } };
        const summarizeWithModel = async (messages, signal) => 'Scripted: ' + messages.length + ' ' + signal.aborted;
    `;
    const told = `
        for (const text of ['one', 'two']) await session.prompt(text);
        await compactButton.onclick();
        for (const text of ['three', 'four', 'five', 'six', 'seven', 'eight']) await session.prompt(text);
        const kept = session.getCompactions().map(({ firstKeptMessageIndex, model }) => [firstKeptMessageIndex, model]);
        process.stdout.write('\\n' + JSON.stringify({ asked, shown, kept, stored: session.messages.length }));
    `;
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${compaction}${told}`);
        const { asked, shown, kept, stored } = JSON.parse(output.split('\n').at(-1));
        assert.equal(stored, 16);
        assert.deepEqual(shown.slice(0, 2), ['Summarizing', 'Scripted: 2 false']);
        assert.deepEqual(kept[0], [2, 'claude']);
        // At some time the window is nearly full.
        assert.ok(kept.length >= 2, String(kept));
        assert.equal(shown.length, 2 * kept.length);
        assert.ok(Math.max(...asked) < 15, String(asked));
    } finally {
        await project.remove();
    }
});

test('the example of session files runs as it is written', async () => {
    const around = `
        import { Runtime } from 'runcontext';
        const runtime = await Runtime.open({ storage: 'memory' });
        const lines = [];
        console.log = (...line) => lines.push(line);
        const text = '{"format":"loop-session","version":2,"id":"a","createdAt":"2026-01-31T12:00:00Z"}\\n{"role":"user","content":"Hi"}\\n';
        const file = new Blob([text]);
    `;
    const told = `
        process.stdout.write('\\n' + JSON.stringify({ lines, copied: (await copy.text()).replace(session.id, 'ID'), count: session.messageCount }));
    `;
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${files}${told}`);
        const { copied, ...rest } = JSON.parse(output.split('\n').at(-1));
        assert.deepEqual(rest, { lines: [[1]], count: 1 });
        assert.deepEqual(copied.trimEnd().split('\n').map((line) => JSON.parse(line)), [
            { format: 'loop-session', version: 2, id: 'ID', createdAt: '2026-01-31T12:00:00Z' },
            { role: 'user', content: 'Hi' },
        ]);
    } finally {
        await project.remove();
    }
});
