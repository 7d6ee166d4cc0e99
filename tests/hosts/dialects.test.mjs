// The dialects in the package as it ships: what the library writes has the types of those whose dialect it is, and what it only
// passes on is passed on as it is.

import assert from 'node:assert/strict';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { installed, testPackages } from '../support/project.mjs';

const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==';

/** An answer that calls tools, each by its own name, and one in words. */
const SPOKEN = {
    'openai-chat': {
        calls: (names) => ({
            role: 'assistant',
            content: null,
            tool_calls: names.map((name, at) => ({ id: `c${at}`, type: 'function', function: { name, arguments: '{"n":1}' } })),
        }),
        says: (text) => ({ role: 'assistant', content: text }),
    },
    anthropic: {
        calls: (names) => ({ role: 'assistant', content: names.map((name, at) => ({ type: 'tool_use', id: `c${at}`, name, input: { n: 1 } })) }),
        says: (text) => ({ role: 'assistant', content: [{ type: 'text', text }] }),
    },
    'ai-sdk': {
        calls: (names) => ({
            role: 'assistant',
            content: names.map((name, at) => ({ type: 'tool-call', toolCallId: `c${at}`, toolName: name, input: { n: 1 } })),
        }),
        says: (text) => ({ role: 'assistant', content: [{ type: 'text', text }] }),
    },
};

/** What a tool gives, by the tool's name. */
const GIVEN = {
    text: 'done',
    nothing: undefined,
    number: 3,
    object: { list: [1, null], deep: { a: 'b' } },
    blocks: { content: [{ type: 'text', text: 'see' }, { type: 'image', data: PICTURE, mimeType: 'image/png' }], details: 1 },
    wrong: { content: [{ type: 'text', text: 'no' }], isError: true },
    failing: new Error('broken'),
};

let project, rc;
before(async () => {
    project = await installed();
    rc = await project.import('runcontext');
    await rc.init(readFile(path.join(project.folder, 'node_modules/runcontext/runcontext.wasm')));
});
after(() => project?.remove());

/** All that the model is shown in a session of the dialect with tools, skills, and a call that was cut off. */
async function shown(dialect) {
    const { calls, says } = SPOKEN[dialect];
    const requests = [];
    const answers = [calls(Object.keys(GIVEN)), says('so'), calls(['never']), says('hm')];
    const runtime = await rc.Runtime.open({
        storage: 'memory',
        model: {
            async complete(request) {
                requests.push(request.messages);
                return answers[requests.length - 1];
            },
        },
        tools: Object.keys({ ...GIVEN, never: 0 }).map((name) => ({
            name,
            access: 'none',
            async execute() {
                if (name === 'never') return session.abort().then(() => new Promise(() => {}));
                if (GIVEN[name] instanceof Error) throw GIVEN[name];
                return GIVEN[name];
            },
        })),
    });
    const session = await runtime.createSession({ dialect, permissionPreset: 'danger-full-access' });
    await runtime.skills.add({ content: '---\nname: haiku\ndescription: Writes.\n---\nWrite.\n', location: 'haiku/SKILL.md' });
    const results = [
        await session.prompt('with $haiku'),
        await session.prompt([{ type: 'text', text: 'stop' }]),
        await session.prompt([{ type: 'text', text: 'on with $haiku' }]),
    ];
    assert.deepEqual(results.map(({ outcome, error }) => [outcome, error]), [['success', undefined], ['cancelled', undefined], ['success', undefined]]);
    const stored = session.messages;
    const last = requests.at(-1);
    assert.equal(session.header.dialect, dialect);
    // Messages are the very same, but those that a skill is shown in front of.
    const changed = last.map((message, at) => (message === stored[at] ? -1 : at)).filter((at) => at >= 0);
    assert.deepEqual(changed, [0, last.length - 1]);
    await session.dispose();
    await runtime.close();
    // A summary, a snapshot of an earlier version, and a call without a result.
    const compaction = { id: 'k', firstKeptMessageIndex: 1, historyMessageCount: 2, summary: 'so far', timestamp: 1, provider: 'p', model: 'm' };
    const snapshots = [{ userTurn: 1, content: 'OLD', timestamp: 1 }];
    const asked = [says('a'), { role: 'user', content: 'b' }, calls(['text'])];
    const made = rc.projectModelInput([{ role: 'user', content: 'x' }, ...asked], snapshots, { dialect, compaction });
    assert.deepEqual(made.projection.sources.map(({ type }) => type), [
        'compaction', 'history', 'history', 'runtime-context', 'history', 'interrupted-tool-result',
    ]);
    return [last, made.messages];
}

test('what the model is shown has the types of the official packages', async () => {
    const types = {
        'openai-chat': 'OpenAI.Chat.ChatCompletionMessageParam',
        anthropic: 'Anthropic.MessageParam',
        'ai-sdk': 'ModelMessage',
    };
    const lines = [
        "import type Anthropic from '@anthropic-ai/sdk';",
        "import type { ModelMessage } from 'ai';",
        "import type OpenAI from 'openai';",
    ];
    for (const [dialect, type] of Object.entries(types)) {
        for (const messages of await shown(dialect)) {
            assert.ok(messages.length >= 6);
            lines.push(`(${JSON.stringify(messages)}) satisfies ${type}[];`);
        }
        // The types do bite: what another dialect would write is an error.
        for (const other of Object.keys(types).filter((name) => name !== dialect)) {
            const [, made] = await shown(other);
            lines.push('// @ts-expect-error another dialect', `(${JSON.stringify(made.slice(-2))}) satisfies ${type}[];`);
        }
    }
    await writeFile(path.join(project.folder, 'shown.ts'), `${lines.join('\n')}\n`);
    await mkdir(path.join(project.folder, 'node_modules/@anthropic-ai'));
    for (const name of ['openai', 'ai', '@anthropic-ai/sdk']) {
        await symlink(path.join(testPackages, name), path.join(project.folder, 'node_modules', name));
    }
    const compilerOptions = {
        strict: true, noEmit: true, skipLibCheck: true, target: 'ES2022', module: 'NodeNext', lib: ['ES2022', 'DOM', 'DOM.Iterable'], types: [],
    };
    await writeFile(path.join(project.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['shown.ts'] }));
    await project.tsc('-p', '.');
});

test('without skills and failures the model is shown the stored messages themselves, in every dialect', async () => {
    const loop = {
        calls: (names) => ({ role: 'assistant', content: names.map((name, at) => ({ type: 'toolCall', id: `c${at}`, name, arguments: { n: 1 } })) }),
        says: (text) => ({ role: 'assistant', content: [{ type: 'text', text }] }),
        result: { role: 'toolResult', toolCallId: 'c0', toolName: 'text', content: [{ type: 'text', text: 'done' }], isError: false },
    };
    const results = {
        'openai-chat': { role: 'tool', tool_call_id: 'c0', content: 'done' },
        anthropic: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c0', content: 'done' }] },
        'ai-sdk': { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'c0', toolName: 'text', output: { type: 'text', value: 'done' } }] },
    };
    const runtime = await rc.Runtime.open({ storage: 'memory', strict: false });
    for (const [dialect, { calls, says, result = results[dialect] }] of Object.entries({ loop, ...SPOKEN })) {
        const session = await runtime.createSession({ dialect });
        const seen = [];
        for (const content of ['one', [{ type: 'text', text: 'two' }]]) {
            const turn = await session.begin(content);
            await turn.request();
            await turn.dispatched();
            await turn.append(calls(['text']));
            await turn.append(result);
            const { request } = await turn.request();
            seen.push(request.messages.length);
            assert.equal(session.messages.length, request.messages.length, dialect);
            request.messages.forEach((message, at) => assert.ok(message === session.messages[at], `${dialect}, message ${at}`));
            await turn.dispatched();
            await turn.append(says('so'));
            await turn.finish();
        }
        assert.deepEqual(seen, [3, 7]);
        // What is no session's is copied once, as it comes in; then it is passed on too.
        const { messages } = rc.projectModelInput(session.messages, [], { dialect });
        assert.deepEqual(messages, session.messages);
        await session.dispose();
    }
    await runtime.close();
});

test('messages of another dialect are refused, lone surrogates and bytes are passed on', async () => {
    for (const dialect of Object.keys(SPOKEN)) {
        for (const other of Object.keys(SPOKEN).filter((name) => name !== dialect)) {
            const foreign = SPOKEN[other].calls(['text']);
            assert.throws(() => rc.projectModelInput([foreign], [], { dialect }), (error) => {
                assert.ok(error instanceof rc.RunContextError);
                assert.equal(error.code, 'dialect_mismatch');
                assert.match(error.message, new RegExp(`^\`messages\\[0\\]\`: .*\`${other}\`.*\`${dialect}\``));
                assert.equal(error.data.field, 'messages[0]');
                return true;
            });
        }
        const odd = { role: 'user', content: [{ type: 'unknown', data: new Uint8Array([1, 2]), text: 'half \ud83d' }, { type: 'text', text: '\udd80' }] };
        const { messages } = rc.projectModelInput([odd], [{ userTurn: 0, content: 'F', timestamp: 1, placement: 'user' }], { dialect });
        assert.deepEqual(messages, [{ role: 'user', content: [{ type: 'text', text: 'F' }, ...odd.content] }]);
    }
    assert.throws(() => rc.projectModelInput([], [], { dialect: 'openai' }), { code: 'invalid_argument' });
});

test('the arguments of a function are what its JSON says, as plain data', async () => {
    const given = [];
    const texts = ['{"__proto__":{"a":1},"n":1e400}', '{"__proto__":{"a":1}}', '{"half":"\\ud83d"}', `${'['.repeat(500)}${']'.repeat(500)}`, ''];
    const runtime = await rc.Runtime.open({
        storage: 'memory',
        model: {
            async complete({ messages }) {
                if (messages.length > 1) return { role: 'assistant', content: 'so' };
                const tool_calls = texts.map((text, at) => ({ id: `c${at}`, type: 'function', function: { name: 'take', arguments: text } }));
                return { role: 'assistant', content: null, tool_calls };
            },
        },
        tools: [{ name: 'take', access: 'none', async execute(args) { given.push(args); } }],
    });
    const session = await runtime.createSession({ dialect: 'openai-chat', permissionPreset: 'danger-full-access' });
    const { outcome } = await session.prompt('go');
    assert.equal(outcome, 'success');
    // A number that JSON cannot hold, and lists that are too deep, stay text; half of a surrogate pair is never run.
    assert.deepEqual(given.map((args) => (typeof args === 'string' ? args.length : JSON.stringify(args))), [texts[0].length, '{"__proto__":{"a":1}}', 1000, '{}']);
    assert.ok(given.filter((args) => typeof args === 'object').every(Object.isFrozen));
    assert.equal({}.a, undefined);
    await session.dispose();
    await runtime.close();
});
