// `runcontext/integrations/anthropic-cache`: markers where Anthropic's cache takes them, held against a cache that follows its
// published rules, and against the types of its official package.

import assert from 'node:assert/strict';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { documented } from '../support/documented.mjs';
import { installed, testPackages } from '../support/project.mjs';

let project, rc, withCacheControl;
before(async () => {
    project = await installed();
    rc = await project.import('runcontext');
    await rc.init(readFile(path.join(project.folder, 'node_modules/runcontext/runcontext.wasm')));
    ({ withCacheControl } = await project.import('runcontext/integrations/anthropic-cache'));
});
after(() => project?.remove());

const MARK = { type: 'ephemeral' };
const text = (text) => ({ type: 'text', text });
const user = (content) => ({ role: 'user', content });
const answer = (content) => ({ role: 'assistant', content });
const request = (messages, systemPrompt = 'Be brief.') => ({ systemPrompt, messages, tools: [] });

/** Every block of what is sent, in order, a text as one. */
function sent({ system = [], messages }) {
    const blocks = messages.flatMap(({ content }) => (typeof content === 'string' ? [text(content)] : content));
    return [...system, ...blocks];
}

const marked = (body) => sent(body).flatMap((block, at) => (block?.cache_control === undefined ? [] : [at]));

function frozen(value) {
    if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value)) Object.values(Object.freeze(value)).forEach(frozen);
    return value;
}

/** A provider's cache: what is kept are prefixes that were marked, and from each marker 20 blocks are looked at. */
class Cache {
    #kept = new Set();

    /** Sends a request, and says how many blocks of it were there. */
    send(body) {
        const blocks = sent(body).map(({ cache_control, ...block }) => JSON.stringify(block));
        const prefix = (length) => JSON.stringify(blocks.slice(0, length));
        const ends = marked(body).map((at) => at + 1);
        assert.ok(ends.length <= 4, `${ends.length} markers`);
        const hits = ends.flatMap((end) => Array.from({ length: 20 }, (_, back) => end - back)).filter((length) => length > 0 && this.#kept.has(prefix(length)));
        ends.forEach((end) => this.#kept.add(prefix(end)));
        return Math.max(0, ...hits);
    }
}

/** The same numbers every time. */
function random(seed) {
    let state = seed;
    return (limit) => {
        state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
        return (state >> 8) % limit;
    };
}

/** A turn of about so many blocks: a question, calls with thinking before them, results. */
function turn(blocks, number) {
    const messages = [number % 2 ? user(`question ${number}`) : user([text(`question ${number}`)])];
    for (let at = 1; at < blocks - 1; at += 3) {
        const id = `${number}-${at}`;
        messages.push(
            answer([{ type: 'thinking', thinking: id, signature: 's' }, { type: 'tool_use', id, name: 'look', input: {} }]),
            user([{ type: 'tool_result', tool_use_id: id, content: [text(id)] }]),
        );
    }
    return [...messages, answer([text(`answer ${number}`)])];
}

test('the system prompt and the end of the messages are marked, and what is stored stays as it is', () => {
    const messages = frozen([user('one'), answer([{ type: 'thinking', thinking: 'hm', signature: 's' }, text('so')]), user('two')]);
    const given = frozen(request(messages));
    const body = withCacheControl(given);
    assert.deepEqual(body, {
        system: [{ ...text('Be brief.'), cache_control: MARK }],
        messages: [messages[0], messages[1], user([{ ...text('two'), cache_control: MARK }])],
    });
    assert.ok(body.messages[0] === messages[0] && body.messages[1] === messages[1], 'what has no marker is the very same');
    assert.deepEqual(given, request([user('one'), messages[1], user('two')]));
    const [block] = withCacheControl(request([user('x')]), { ttl: '1h' }).messages[0].content;
    assert.deepEqual(block.cache_control, { type: 'ephemeral', ttl: '1h' });
});

test('without a system prompt all markers are for the messages', () => {
    const long = Array.from({ length: 100 }, (_, at) => (at % 2 ? answer([text(`a${at}`)]) : user(`u${at}`)));
    const body = withCacheControl(request(long, ''));
    assert.ok(!('system' in body));
    assert.deepEqual(marked(body), [39, 59, 79, 99]);
    assert.deepEqual(marked(withCacheControl(request(long))), [0, 60, 80, 100]);
    assert.deepEqual(withCacheControl(request([], '')), { messages: [] });
});

test('thinking, texts without words and blocks of unknown kinds are never marked', () => {
    const never = [
        { type: 'thinking', thinking: 'x', signature: 's' }, { type: 'redacted_thinking', data: 'x' }, text(''), text(' \n'), { type: 'text' },
        { type: 'unheard_of', text: 'x' }, null, 'x',
    ];
    for (const block of never) {
        assert.deepEqual(marked(withCacheControl(request([user('one'), answer([block])], ''))), [0], JSON.stringify(block));
        assert.deepEqual(withCacheControl(request([answer([block])], '')).messages, [answer([block])]);
    }
    for (const content of ['', ' ', null, undefined, 7]) assert.deepEqual(withCacheControl(request([user(content)], '')).messages, [user(content)]);
});

test('markers that came with the messages are left out, also those inside of results', () => {
    const inner = { type: 'tool_result', tool_use_id: 'a', content: [{ ...text('in'), cache_control: MARK }, text('out')] };
    const messages = frozen([
        user([{ ...text('one'), cache_control: MARK }]), answer([{ type: 'tool_use', id: 'a', name: 'n', input: { cache_control: 1 }, cache_control: MARK }]), user([inner]),
        answer([text('so')]), user('two'),
    ]);
    const { messages: shown } = withCacheControl(request(messages));
    assert.deepEqual(shown, [
        user([text('one')]), answer([{ type: 'tool_use', id: 'a', name: 'n', input: { cache_control: 1 } }]),
        user([{ ...inner, content: [text('in'), text('out')] }]), messages[3], user([{ ...text('two'), cache_control: MARK }]),
    ]);
    assert.deepEqual(messages[2].content[0], inner);
});

test('no two markers are more than 20 blocks apart, and they stay where they are as the conversation grows', () => {
    const next = random(7);
    for (let round = 0; round < 200; round++) {
        const messages = [];
        const seen = [];
        for (let number = 0; number < 12; number++) {
            messages.push(...turn(1 + next(25), number));
            const places = marked(withCacheControl(request(messages)));
            assert.ok(places.length <= 4);
            // The first is the system prompt's, from which nothing is looked for behind it.
            const [, ...rest] = places;
            for (let at = 1; at < rest.length; at++) assert.ok(rest[at] - rest[at - 1] <= 20, String(places));
            assert.equal(rest.at(-1), sent({ system: [0], messages }).length - 1);
            // All but the last stay, until later ones take their place.
            const stay = rest.slice(0, -1);
            assert.ok(seen.every((place) => place < stay[0] || stay.includes(place)), `${seen} ${places}`);
            seen.splice(0, seen.length, ...stay);
        }
    }
});

test('what an earlier request marked is found again, also after long turns', () => {
    const next = random(11);
    let long = 0;
    for (let round = 0; round < 100; round++) {
        const cache = new Cache();
        const messages = [];
        let before = 0;
        for (let number = 0; number < 10; number++) {
            const added = turn(1 + next(40), number);
            messages.push(...added);
            const body = withCacheControl(request(messages));
            const hit = cache.send(body);
            const grown = sent({ messages: added }).length;
            long += grown > 20;
            // As far as the markers look back, the whole of the request before is there.
            if (grown <= 40) assert.ok(hit >= before, `${hit} of ${before} after ${grown}`);
            else assert.ok(hit >= 1 || number === 0, 'the system prompt');
            before = sent(body).length;
            // The very same request again is there whole.
            assert.equal(cache.send(body), before);
        }
    }
    assert.ok(long > 200, String(long));
});

test('what is no request is refused', () => {
    for (const given of [undefined, null, 'x', [], {}, { messages: 'x' }, { messages: {} }, { systemPrompt: 'x' }, { messages: [null] }, { messages: [,] }, { messages: [], systemPrompt: [] }]) {
        assert.throws(() => withCacheControl(given), (error) => error instanceof rc.RunContextError && error.code === 'invalid_argument');
    }
    for (const ttl of ['1d', 5, true]) assert.throws(() => withCacheControl(request([]), { ttl }), { code: 'invalid_argument' });
    for (const options of [undefined, null, {}, { ttl: undefined }, { ttl: null }]) withCacheControl(request([user('x')]), options);
});

test('a session of the dialect gives requests that are marked, with the types of the official package', async () => {
    const bodies = [];
    const runtime = await rc.Runtime.open({
        storage: 'memory',
        model: {
            async complete(request) {
                bodies.push(withCacheControl(request));
                return bodies.length === 1 ? answer([{ type: 'tool_use', id: 'c', name: 'look', input: {} }]) : answer([text('so')]);
            },
        },
        tools: [{ name: 'look', access: 'none', async execute() { return 'seen'; } }],
    });
    const session = await runtime.createSession({ dialect: 'anthropic', systemPrompt: 'Be brief.', permissionPreset: 'danger-full-access' });
    await runtime.skills.add({ content: '---\nname: haiku\ndescription: Writes.\n---\nWrite.\n', location: 'haiku/SKILL.md' });
    for (const content of ['with $haiku', [text('two')]]) assert.equal((await session.prompt(content)).outcome, 'success');
    assert.ok(!JSON.stringify(session.messages).includes('cache_control'));
    const last = bodies.at(-1);
    assert.deepEqual([bodies.length, marked(last).length], [3, 2]);
    // What was kept of a request is found by the next.
    const cache = new Cache();
    assert.deepEqual(bodies.map((body) => cache.send(body)), [0, 2, 4]);
    await session.dispose();
    await runtime.close();

    const example = await documented(path.join(project.folder, 'node_modules/runcontext/integrations/anthropic_cache.d.ts'));
    await writeFile(path.join(project.folder, 'example.ts'), example);
    await writeFile(path.join(project.folder, 'use.ts'), `
        import Anthropic from '@anthropic-ai/sdk';
        import { withCacheControl, type CacheControl, type CacheControlOptions, type CacheMarked } from 'runcontext/integrations/anthropic-cache';
        const options: CacheControlOptions = { ttl: '1h' };
        const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'x' }];
        const marked: CacheMarked<Anthropic.MessageParam> = withCacheControl({ systemPrompt: 'x', messages }, options);
        const body: Anthropic.MessageCreateParams = { model: 'm', max_tokens: 1, ...marked };
        const control: CacheControl | undefined = marked.system?.[0]?.cache_control;
        (${JSON.stringify(last)}) satisfies Partial<Anthropic.MessageCreateParams>;
        // @ts-expect-error no such time
        withCacheControl({ systemPrompt: 'x', messages }, { ttl: '1d' });
        // @ts-expect-error a request has messages
        withCacheControl({ systemPrompt: 'x' });
        void [body, control];
    `);
    await mkdir(path.join(project.folder, 'node_modules/@anthropic-ai'), { recursive: true });
    await symlink(path.join(testPackages, '@anthropic-ai/sdk'), path.join(project.folder, 'node_modules/@anthropic-ai/sdk'));
    const compilerOptions = {
        strict: true, noEmit: true, skipLibCheck: true, target: 'ES2022', module: 'NodeNext', lib: ['ES2022', 'DOM', 'DOM.Iterable'], types: [],
    };
    await writeFile(path.join(project.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['use.ts', 'example.ts'] }));
    await project.tsc('-p', '.');
});
