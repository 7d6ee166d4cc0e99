// Callers cannot reach inside: changing what was handed in, or what was handed out, changes nothing in the session.

import { ok, same } from './check.mjs';
import { assistant, calling, rc, scripted, skillFile, tool, toText } from './kit.mjs';
import { world } from './world.mjs';

/** Changes everything in a value that can be changed, and says how many changes there were. */
function wreck(value, seen = new Set()) {
    if (typeof value !== 'object' || value === null || seen.has(value)) return 0;
    seen.add(value);
    let changes = 0;
    if (value instanceof Uint8Array) {
        value.fill(66);
        return value.length;
    }
    for (const key of Reflect.ownKeys(value)) changes += wreck(value[key], seen);
    const tries = [
        () => Array.isArray(value) && value.push('more'),
        () => Array.isArray(value) && (value.length = 0),
        () => (value.more = 'more'),
        () => Object.keys(value).forEach((key) => (value[key] = 'other')),
        () => Object.keys(value).forEach((key) => delete value[key]),
        () => Object.setPrototypeOf(value, { evil: true }),
    ];
    for (const attempt of tries) {
        try {
            attempt();
            changes++;
        } catch (error) {
            if (!(error instanceof TypeError)) throw error;
        }
    }
    return changes;
}

/** Every getter of an object, and every method that needs no argument and answers at once. */
function readAll(object, methods = []) {
    const found = {};
    const descriptors = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object));
    for (const [name, { get }] of Object.entries(descriptors)) {
        if (get && !name.startsWith('__')) found[name] = object[name];
    }
    for (const name of methods) found[`${name}()`] = object[name]();
    return found;
}

const READS = ['getRuntimeContexts', 'getSystemPromptCheckpoints', 'getCompactions', 'titleInputs'];

function frozen(value, path = 'it') {
    if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return;
    ok(Object.isFrozen(value), `${path} is not frozen`);
    for (const key of Object.keys(value)) frozen(value[key], `${path}.${key}`);
}

/** Values made by the objects of another frame, or in Node of another context. */
async function anotherRealm() {
    const made = `({
        bytes: new Uint8Array([1, 2]),
        message: { role: 'user', content: [{ type: 'image', data: new Uint8Array([1, 2]) }], timestamp: 5 },
        options: { skills: [], mentions: false },
        skill: Uint8Array.from('---\\nname: other\\ndescription: x\\n---\\nDo.', (letter) => letter.charCodeAt(0)),
        map: new Map(),
        date: new Date(0),
    })`;
    if (typeof document === 'undefined') return (await import('node:vm')).runInNewContext(made);
    const frame = document.body.appendChild(document.createElement('iframe'));
    const { Uint8Array, Object, Array, Map, Date } = frame.contentWindow;
    // The policy forbids to evaluate a text; the same by hand.
    const plain = (entries) => Object.assign(new Object(), entries);
    const bytes = () => new Uint8Array([1, 2]);
    const text = '---\nname: other\ndescription: x\n---\nDo.';
    return {
        bytes: bytes(),
        message: plain({ role: 'user', content: Array.of(plain({ type: 'image', data: bytes() })), timestamp: 5 }),
        options: plain({ skills: new Array(), mentions: false }),
        skill: Uint8Array.from(text, (letter) => letter.charCodeAt(0)),
        map: new Map(),
        date: new Date(0),
    };
}

export const cases = {
    async 'what was handed in can be changed afterwards, and nothing in the session changes'() {
        const answer = assistant('I see.', { usage: { input: 1, list: [1, { deep: true }] }, bytes: new Uint8Array([7, 8]) });
        const call = calling(['c1', 'look', { deep: { list: [1, 2] }, bytes: new Uint8Array([5, 6]) }]);
        const returned = { content: [{ type: 'text', text: 'seen' }], details: { deep: [1] } };
        const model = scripted(() => call, () => answer);
        const parameters = { type: 'object', properties: { deep: { type: 'object' } } };
        const look = tool('look', () => returned, { parameters });
        const tools = [look];
        const at = await world({ model, tools, session: false });
        wreck(parameters);
        tools.length = 0;
        const options = {
            id: 's', cwd: '/w', systemPrompt: 'You are.', sections: [{ name: 'house', content: 'Rules.' }],
            projectInstructions: [{ path: 'A.md', content: 'Read.' }], model: { provider: 'p', id: 'm', contextWindow: 10_000 },
        };
        const session = await at.runtime.createSession(options);
        session.bypass('all');
        const bytes = new Uint8Array([1, 2, 3]);
        const blocks = [{ type: 'text', text: 'Look' }, { type: 'image', data: bytes, mimeType: 'image/png', more: { deep: ['x'] } }];
        const promptOptions = { skills: [at.skill.id] };
        const running = session.prompt(blocks, promptOptions);
        // The arguments were copied when the call returned.
        wreck(blocks);
        wreck(promptOptions);
        await running;
        const change = { sections: [{ name: 'house', content: 'Other rules.' }], model: { provider: 'p', id: 'n' } };
        const configured = session.configure(change);
        wreck(change);
        await configured;
        const before = toText([readAll(session, READS), await at.stored()]);
        for (const given of [options, answer, call, returned, bytes, blocks, change, promptOptions]) wreck(given);
        same(toText([readAll(session, READS), await at.stored()]), before);
        same(session.messages.map((message) => message.role), ['user', 'assistant', 'toolResult', 'assistant']);
        same([...session.messages[0].content[1].data], [1, 2, 3]);
        same([...session.messages[1].content[0].arguments.bytes], [5, 6]);
        same(session.messages[1].content[0].arguments.deep, Object.freeze({ list: Object.freeze([1, 2]) }));
        same([...session.messages[3].bytes], [7, 8]);
        same(session.header.sections, [{ name: 'house', content: 'Other rules.' }]);
        same(JSON.parse(model.requests[0]).tools[0], { name: 'look', parameters: { type: 'object', properties: { deep: { type: 'object' } } } });
        await at.close();
    },

    async 'what was handed out can be changed, and nothing in the session changes'() {
        const model = scripted(
            (request, { report, onUpdate }) => {
                onUpdate(assistant('I'));
                handedOut.push(request, report);
                return calling(['c1', 'look', { deep: [1], bytes: new Uint8Array([5]) }]);
            },
            (request, { report }) => {
                handedOut.push(request, report);
                return assistant('Done.', { bytes: new Uint8Array([7]) });
            },
        );
        const handedOut = [];
        const tools = [tool('look', (args, context) => {
            handedOut.push(args);
            return 'seen';
        })];
        const at = await world({ model, tools });
        const { session, runtime, skill } = at;
        session.subscribe((event) => handedOut.push(event));
        runtime.subscribe((event) => handedOut.push(event));
        handedOut.push(skill);
        const bytes = new Uint8Array([1, 2, 3]);
        handedOut.push(await session.prompt([{ type: 'text', text: '$demo' }, { type: 'image', data: bytes }]));
        const before = toText([readAll(session, READS), runtime.skills.list(), await at.stored()]);
        ok(handedOut.length > 10, 'too little was handed out');
        const wrecked = handedOut.map((value) => wreck(value));
        ok(wrecked.some((changes) => changes > 0), 'nothing could be changed');
        same(toText([readAll(session, READS), runtime.skills.list(), await at.stored()]), before);
        for (let round = 0; round < 2; round++) {
            wreck(readAll(session, READS));
            wreck(runtime.skills.list());
            wreck(runtime.storageInfo);
            wreck(await runtime.listSessions());
            wreck(await session.readMessages({ limit: 10 }));
        }
        same(toText([readAll(session, READS), runtime.skills.list(), await at.stored()]), before);
        await at.close();
    },

    async 'messages are frozen to the last member, also in pages, events, requests and tool arguments'() {
        const seen = [];
        const model = scripted(
            (request) => {
                seen.push(request);
                return calling(['c1', 'look', { deep: [{ x: 1 }] }]);
            },
            assistant('Done.'),
        );
        const at = await world({ model, tools: [tool('look', (args) => seen.push(args) && 'seen')] });
        at.session.subscribe((event) => event.message && seen.push(event.message));
        await at.session.prompt({ role: 'user', content: [{ type: 'text', text: 'Look $demo' }], meta: { deep: { list: [] } } });
        seen.push(at.session.messages, at.session.state.messages, await at.session.readMessages({ limit: 9 }));
        ok(seen.length >= 8, `only ${seen.length}`);
        seen.forEach((value, at) => frozen(value, `value ${at}`));
        await at.close();
    },

    async 'messages are one list, the same until there are more, and the same in the state'() {
        const at = await world();
        const { session } = at;
        const empty = session.messages;
        ok(empty === session.messages && empty === session.state.messages, 'empty');
        await session.prompt('One');
        const two = session.messages;
        ok(two !== empty && empty.length === 0, 'the old list grew');
        ok(two === session.messages && two === session.state.messages, 'two');
        await session.setTitle('Other');
        ok(two === session.messages, 'a setting changed the list');
        await session.prompt([{ type: 'image', data: new Uint8Array([1]) }]);
        const four = session.messages;
        same([two.length, four.length], [2, 4]);
        ok(two.every((message, at) => message === four[at]), 'messages are not shared');
        ok(four === session.messages && four === session.state.messages, 'four, with bytes');
        four[2].content[0].data[0] = 9;
        ok(four !== session.messages && session.messages === session.state.messages, 'a list whose bytes somebody changed');
        same([...session.messages[2].content[0].data], [1]);
        await at.close();
    },

    async 'a request shows again what it showed, by reference in a list of its own, and its report tells of it alone'() {
        const at = await world();
        const turn = await at.session.begin('Look $demo');
        const one = await turn.request();
        await turn.dispatched();
        await turn.append(assistant('I see.', { thumbnail: new Uint8Array([7]) }));
        const two = await turn.request();
        two.request.messages[1].thumbnail[0] = 9;
        await turn.append(assistant('More.'));
        const three = await turn.request();
        await turn.finish();
        const never = await at.session.begin('Never sent');
        const four = await never.request();
        await never.cancel();
        const five = await (await at.session.begin('Sent')).request();
        const all = [one, two, three, four, five];
        const shown = all.map(({ request }) => request.messages);
        same(shown.map((messages) => messages.length), [1, 2, 3, 4, 4]);
        ok(new Set(shown).size === 5, 'requests share a list');
        // It was made for the first request, with skills in front of what is stored.
        ok(shown[0][0] !== at.session.messages[0] && shown.slice(0, 4).every(([first]) => first === shown[0][0]), 'a message was made anew');
        same(shown.slice(1).map((messages) => [...messages[1].thumbnail]), [[9], [7], [7], [7]]);
        same([shown[3][3].content, shown[4][3].content], ['Never sent', 'Sent']);
        same(all.map(({ report }) => [report.projection.historyMessageCount, report.projection.sources.length, report.tokens.length]), [
            [1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, 4], [4, 4, 4],
        ]);
        ok(all.every(({ report }) => report.projection === report.projection), 'a map is made twice');
        same(Object.keys(structuredClone(one.report)).sort(), ['budget', 'divergence', 'notices', 'projection', 'tokens']);
        all.forEach(({ request, report }) => [request.messages, report].forEach((value) => frozen(value)));
        await at.session.abort();
        await at.close();
    },

    async 'bytes come back equal, and are a copy for each who asks'() {
        const given = new Uint8Array([0, 1, 254, 255]);
        const requests = [];
        const events = [];
        const model = scripted(
            (request) => {
                requests.push(request);
                return calling(['c1', 'look']);
            },
            (request) => {
                requests.push(request);
                return assistant('Done.', { thumbnail: given });
            },
        );
        const at = await world({ model, tools: [tool('look', () => ({ content: [{ type: 'image', data: given }] }))] });
        const { session } = at;
        session.subscribe((event) => event.message && events.push(event.message));
        await session.prompt([{ type: 'image', data: given }]);
        const places = (messages) => [
            messages[0].content[0].data, messages[2].content[0].data, messages[3].thumbnail,
        ];
        const found = [
            ...places(session.messages),
            ...places(await session.readMessages({ limit: 4 })), ...places(events),
            requests[0].messages[0].content[0].data, requests[1].messages[0].content[0].data, requests[1].messages[2].content[0].data,
        ];
        for (const [at, bytes] of found.entries()) {
            ok(Object.getPrototypeOf(bytes) === Uint8Array.prototype, `copy ${at} is no Uint8Array`);
            same([...bytes], [0, 1, 254, 255], `copy ${at}`);
        }
        same(new Set([...found, given].map((bytes) => bytes.buffer)).size, found.length + 1);
        found.forEach((bytes) => bytes.fill(9));
        same(places(session.messages).map((bytes) => [...bytes]), Array(3).fill([0, 1, 254, 255]));
        await at.close();
    },

    async 'a view of a part of a buffer, of a shared one, and a subclass are stored as what they show'() {
        const at = await world();
        const buffer = new Uint8Array([9, 1, 2, 9]).buffer;
        class Special extends Uint8Array {}
        const kinds = [new Uint8Array(buffer, 1, 2), Special.of(1, 2)];
        if (typeof Buffer !== 'undefined') kinds.push(Buffer.from([1, 2]));
        if (typeof SharedArrayBuffer !== 'undefined') {
            const shared = new Uint8Array(new SharedArrayBuffer(4), 1, 2);
            shared.set([1, 2]);
            kinds.push(shared);
        }
        await at.session.prompt(kinds.map((data) => ({ type: 'image', data })));
        for (const block of at.session.messages[0].content) {
            ok(Object.getPrototypeOf(block.data) === Uint8Array.prototype && block.data.buffer instanceof ArrayBuffer, 'kind');
            same([block.data.buffer.byteLength, ...block.data], [2, 1, 2]);
        }
        await at.close();
    },

    async 'values of another frame or realm are as good as those of this one'() {
        const other = await anotherRealm();
        ok(!(other.bytes instanceof Uint8Array) && !(other.message instanceof Object), 'it is this realm');
        const at = await world();
        same((await at.session.prompt(other.message)).outcome, 'success');
        const [stored] = at.session.messages;
        same(toText(stored), '{"role":"user","content":[{"type":"image","data":{"$":"bytes","bytes":[1,2]}}],"timestamp":5}');
        ok(stored.content instanceof Array && Object.getPrototypeOf(stored) === Object.prototype, 'it is of the other realm');
        ok(Object.getPrototypeOf(stored.content[0].data) === Uint8Array.prototype, 'bytes are of the other realm');
        await at.session.prompt('Hi', other.options);
        const added = await at.runtime.skills.add({ content: other.skill, location: '/other' });
        same(added.name, 'other');
        for (const [value, kind] of [[other.map, 'Map'], [other.date, 'Date']]) {
            const error = await at.session.prompt([{ value }]).catch((error) => error);
            same([error.code, error.message.includes(kind)], ['message_not_storable', true]);
        }
        await at.close();
    },

    async 'what is plain goes through unchanged, to the last code unit and bit'() {
        const at = await world();
        const odd = {
            role: 'user',
            content: '\ud83d alone, \udc00 alone, \u0000 nul, \u{1f980} whole, \uffff',
            '\ud83d': { '': [null, true, false, 0, -0, 0.1, 5e-324, 1e308, 2 ** 53 + 2] },
            empty: [{}, [], ''],
            timestamp: 5,
            constructor: 'own', toString: 'own', hasOwnProperty: 'own',
            ...JSON.parse('{"__proto__": {"polluted": true}, "length": 3}'),
        };
        Object.defineProperty(odd, '__proto__', { value: { polluted: true }, enumerable: true, configurable: true, writable: true });
        await at.session.prompt(odd);
        const expected = (value) => {
            if (Array.isArray(value)) return Object.freeze(value.map(expected));
            if (typeof value !== 'object' || value === null) return value;
            const copy = {};
            for (const key of Object.keys(value)) Object.defineProperty(copy, key, { value: expected(value[key]), enumerable: true });
            return Object.freeze(copy);
        };
        same(at.session.messages[0], expected(odd));
        same(at.session.messages[0].polluted, undefined);
        const pages = await at.session.readMessages({ limit: 2 });
        same(pages[0], expected(odd));
        await at.close();
    },

    async 'a URL becomes its text, and members that are undefined are dropped'() {
        const at = await world();
        await at.session.prompt({ role: 'user', content: [{ type: 'link', href: new URL('https://example.com/a b'), none: undefined }], gone: undefined });
        same(toText(at.session.messages[0]), '{"role":"user","content":[{"type":"link","href":"https://example.com/a%20b"}],"timestamp":1000}');
        await at.close();
    },

    async 'a skill in front of a text leaves every code unit of it as it was typed'() {
        const typed = '\udc00 half, \ud83d\u0000 \u{1f980} $demo \ud83d';
        const model = scripted(assistant('Done.'));
        const at = await world({ model });
        await at.session.prompt(typed);
        await at.session.prompt([{ type: 'text', text: typed }]);
        const block = '<skill name="demo" location="/d/SKILL.md">\nDo.\n</skill>';
        const { messages } = JSON.parse(model.requests[1]);
        same(messages[0].content, `${block}\n\n${typed}`);
        same(messages[2].content, [{ type: 'text', text: block }, { type: 'text', text: typed }]);
        same(at.session.titleInputs().map(String), [typed, typed]);
        await at.close();
    },

    async 'a later edit of a skill changes nothing that was said, and no entry that was handed out'() {
        const at = await world();
        await at.session.prompt('Do it $demo');
        const before = toText([at.session.getRuntimeContexts(), at.session.state.skillLoads]);
        const listed = toText(at.skill);
        const skill = { content: skillFile('demo', 'Do other things.'), location: '/d/SKILL.md' };
        const adding = at.runtime.skills.add(skill);
        skill.content = 'nonsense';
        const edited = await adding;
        ok(edited.revision !== at.skill.revision, 'the revision is the same');
        same(toText([at.session.getRuntimeContexts(), at.session.state.skillLoads]), before);
        same(toText(at.skill), listed);
        await at.close();
    },

    async 'the pure functions change nothing of what they are given, and share nothing'() {
        const messages = [{ role: 'user', content: [{ type: 'image', data: new Uint8Array([1]) }] }, assistant('Hi')];
        const snapshots = [{ userTurn: 0, content: 'x', timestamp: 1, placement: 'user' }];
        const checkpoints = [{ messageCount: 1, timestamp: 1, sections: { a: 'b' } }];
        const before = toText([messages, snapshots, checkpoints]);
        const projected = rc.projectModelInput(messages, snapshots);
        const diffed = rc.diffSystemPrompt(checkpoints, [{ name: 'a', content: 'c' }], 2, 2);
        const replayed = rc.replaySystemPrompt(checkpoints, 1);
        wreck([projected, diffed, replayed]);
        same(toText([messages, snapshots, checkpoints]), before);
        ok(!Object.isFrozen(messages) && !Object.isFrozen(messages[0]), 'the arguments were frozen');
    },
};

