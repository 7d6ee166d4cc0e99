// Session files: every kind of source, what survives the way in and out, and what is left where the way ends early.

import { fails, ok, same, soon } from './check.mjs';
import { assistant, clock, rc, scripted } from './kit.mjs';
import { world } from './world.mjs';

const HEADER = { format: 'loop-session', version: 2, id: 'in', cwd: '/w', createdAt: '2026-01-31T12:00:00.000Z', updatedAt: '2026-01-31T12:00:01.000Z' };
const user = (content, more) => ({ role: 'user', content, ...more });
const many = (count) => Array.from({ length: count }, (_, at) => user(`message ${at}`));
const fileOf = (header, messages) => [header, ...messages].map((line) => `${JSON.stringify(line)}\n`).join('');
const bytes = (text) => new TextEncoder().encode(text);

/** What a stream says. Its own error comes through, which a `Response` would hide. */
async function read(stream) {
    const [reader, decoder] = [stream.getReader(), new TextDecoder()];
    let text = '';
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += decoder.decode(part.value, { stream: true });
    return text;
}

const linesOf = async (stream) => (await read(stream)).trimEnd().split('\n').map((line) => JSON.parse(line));
const listed = async (runtime) => (await runtime.listSessions()).map(({ id }) => id);
const open = (storage, more) => rc.Runtime.open({ storage, model: scripted(assistant('Done.')), now: clock(), ...more });

/** A stream of these parts, which then waits, ends or fails. It says whether it was let go of. */
function streamOf(parts, end = (controller) => controller.close()) {
    const rest = [...parts];
    const stream = new ReadableStream({
        pull: (controller) => (rest.length > 0 ? controller.enqueue(rest.shift()) : end(controller)),
        cancel: () => void (stream.cancelled = true),
    }, { highWaterMark: 0 });
    return stream;
}

const never = () => new Promise(() => {});

/** A file and its bytes in two parts, the first of which is enough for a commit. */
function cut(count = 600) {
    const file = bytes(fileOf(HEADER, many(count)));
    return [file.subarray(0, file.length - 100), file.subarray(file.length - 100)];
}

export const cases = {
    async 'a text, bytes, a Blob and a stream come in alike'() {
        const text = fileOf(HEADER, [user('ä\u{1f600}'), user('b')]);
        const cutUp = Array.from(bytes(text), (byte) => Uint8Array.of(byte));
        for (const source of [text, bytes(text), new Blob([text]), streamOf(cutUp), new Response(text).body, streamOf([new Uint8Array(), bytes(text)])]) {
            const at = await world();
            const info = await at.runtime.importSession(source);
            same([info.id, info.messageCount, info.cwd, info.unread, info.createdAt], ['in', 2, '/w', 0, Date.parse(HEADER.createdAt)]);
            same(await listed(at.runtime), ['in', 's']);
            same((await at.runtime.openSession('in')).messages.map(({ content }) => content), ['ä\u{1f600}', 'b']);
            same(await linesOf(at.runtime.exportSession('in')), [HEADER, user('ä\u{1f600}'), user('b')]);
            await at.close();
        }
    },

    async 'halves of pairs, odd names and long digits survive'() {
        const odd = [
            '{"role":"user","content":"\\ud800 and \\udc00\\ud800"}',
            '{"role":"x","__proto__":{"a":1},"constructor":null,"":0,"\\udfff":[0.1,1e300,5e-324,9007199254740991,0.018607500000000003]}',
            '{"role":"x","\\ud800":1,"\\ud801":2,"$":{"bytes":"AAAA"},"one":{"$":5}}',
        ];
        const header = JSON.stringify({ ...HEADER, extra: { __proto__: null, deep: [1] } }).replace('"extra"', '"title":"\\ud83d","__proto__":{"\\udbff":"\\udc00"},"extra"');
        const at = await world();
        await at.runtime.importSession([header, ...odd].join('\n'));
        const out = (await read(at.runtime.exportSession('in'))).trimEnd().split('\n');
        same(out.map((line) => JSON.parse(line)), [header, ...odd].map((line) => JSON.parse(line)));
        ok(out[0].includes('"__proto__":{"\\udbff":"\\udc00"}'), out[0]);
        await at.close();
    },

    async 'bytes in messages go out and come back as bytes'() {
        const at = await world({ session: { dialect: 'ai-sdk' } });
        const content = [{ type: 'file', data: Uint8Array.of(0, 255, 7), mediaType: 'x/y', providerOptions: { $: 'own' } }];
        await at.session.prompt(content);
        const file = await read(at.runtime.exportSession('s'));
        const { id } = await at.runtime.importSession(file, { id: 'new' });
        const again = await at.runtime.openSession(id);
        same(JSON.stringify(again.messages), JSON.stringify(at.session.messages));
        same([...again.messages[0].content[0].data], [0, 255, 7]);
        same(again.header.dialect, 'ai-sdk');
        same((await linesOf(at.runtime.exportSession(id))).slice(1), file.trimEnd().split('\n').slice(1).map((line) => JSON.parse(line)));
        await at.close();
    },

    async 'what is no source is refused'() {
        const at = await world();
        const locked = new Blob(['x']).stream();
        locked.getReader();
        for (const source of [undefined, null, 5, {}, [], () => {}, new ArrayBuffer(1), locked]) {
            same((await fails(() => at.runtime.importSession(source), 'invalid_argument')).data.field, 'source');
        }
        same((await fails(() => at.runtime.importSession(streamOf(['text'])), 'invalid_argument')).data.field, 'source');
        for (const options of [5, { id: 'other' }, { signal: {} }, { onProgress: 5 }]) {
            await fails(() => at.runtime.importSession('', options), 'invalid_argument');
        }
        await fails(() => at.runtime.exportSession(5), 'invalid_argument', 'threw');
        const broken = streamOf([bytes(fileOf(HEADER, many(2)))], (controller) => controller.error(new Error('no more')));
        ok((await fails(() => at.runtime.importSession(broken), 'host_failed')).message.includes('no more'));
        same(await listed(at.runtime), ['s']);
        await at.close();
    },

    async 'a line that cannot be kept is refused, and nothing is stored'() {
        const at = await world();
        const before = await at.stored();
        for (const [line, what] of [
            ['{"role":"user","content":"\ud800"}', 'is no JSON'],
            ['{"role":"user","content":1e400}', '`1e400`'],
            ['{"role":"user","n":9007199254740993}', '`9007199254740993`'],
            ['{"role":"user","\\ud800":1,"\\uD800":2}', 'two members of one name'],
            ['{"role":"user","__proto__":1,"__proto__":2}', 'two members of one name'],
            [`{"role":"user","n":${'['.repeat(130)}${']'.repeat(130)}}`, 'deeper than 128'],
            [`{"role":"user","n":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 'deeper than 128'],
            ['{"role":"user"', 'is no JSON'],
            ['"bare"', 'must be an object'],
        ]) {
            const error = await fails(() => at.runtime.importSession(`${fileOf(HEADER, many(900))}${line}\n`), 'import_invalid');
            same(error.data.line, 902);
            ok(error.message.startsWith('line 902 ') && error.message.includes(what), error.message);
        }
        const wrong = await fails(() => at.runtime.importSession(fileOf({ ...HEADER, version: 3 }, [])), 'import_invalid');
        same([wrong.data.line, wrong.data.field], [1, 'header.version']);
        same(await at.stored(), before);
        await at.close();
    },

    async 'an import that is aborted leaves nothing and lets go of its source'() {
        const at = await world();
        const before = await at.stored();
        const [first] = cut();
        const source = streamOf([first], never);
        const abort = new AbortController();
        const onProgress = ({ messages }) => messages > 500 && abort.abort();
        await fails(() => at.runtime.importSession(source, { signal: abort.signal, onProgress }), 'aborted');
        same(source.cancelled, true);
        same(await at.stored(), before);
        await fails(() => at.runtime.importSession('', { signal: AbortSignal.abort() }), 'aborted');
        await at.close();
    },

    async 'what is on its way in is nowhere to be seen, and is there at once'() {
        const at = await world();
        const parts = cut();
        let go;
        const held = new Promise((resolve) => (go = resolve));
        let there;
        const begun = new Promise((resolve) => (there = resolve));
        const source = streamOf([parts[0]], async (controller) => {
            await held;
            controller.enqueue(parts[1]);
            controller.close();
        });
        const created = [];
        at.runtime.subscribe((event) => created.push(event));
        const importing = at.runtime.importSession(source, { onProgress: there });
        await soon(begun, 'the first commit');
        same(await listed(at.runtime), ['s']);
        same(await at.runtime.listSessions({ cwd: '/w', limit: 1 }).then((found) => found.some(({ id }) => id === 'in')), false);
        await fails(() => at.runtime.openSession('in'), 'not_found');
        await fails(() => read(at.runtime.exportSession('in')), 'not_found');
        await fails(() => at.runtime.createSession({ id: 'in' }), 'conflict');
        await fails(() => at.runtime.importSession(fileOf(HEADER, [])), 'conflict');
        same(created, []);
        go();
        same((await importing).messageCount, 600);
        same(created, [{ type: 'session-created', sessionId: 'in' }]);
        same((await listed(at.runtime)).sort(), ['in', 's']);
        same((await at.runtime.openSession('in')).state.messageCount, 600);
        await at.close();
    },

    async 'a listener of progress that throws stops nothing'() {
        const at = await world();
        const told = [];
        const text = fileOf(HEADER, many(2));
        await at.runtime.importSession(text, { onProgress: (progress) => {
            told.push(progress);
            throw new Error('no');
        } });
        same(told, [{ bytes: text.length, messages: 2 }]);
        await at.close();
    },

    async 'an export is read a part at a time, and can be cancelled'() {
        const inner = rc.memoryStorage();
        const pages = [];
        const storage = { ...inner, session: (id) => {
            const session = inner.session(id);
            return { ...session, readMessages: (page) => {
                pages.push(page);
                return session.readMessages(page);
            } };
        } };
        const runtime = await open(storage);
        await runtime.importSession(fileOf(HEADER, many(600)));
        const stream = runtime.exportSession('in');
        await new Promise((resolve) => setTimeout(resolve, 20));
        same(pages, [], 'nothing is read before somebody reads');
        const reader = stream.getReader();
        same(JSON.parse(new TextDecoder().decode((await reader.read()).value)).id, 'in');
        await reader.read();
        await new Promise((resolve) => setTimeout(resolve, 20));
        same(pages.length, 1);
        await reader.cancel();
        same(pages.length, 1);
        same((await linesOf(runtime.exportSession('in'))).length, 601);
        await fails(() => read(runtime.exportSession('none')), 'not_found');
        await runtime.close();
    },

    async 'storage of the host lists an import when all of it is there, and nothing of one that ended early'() {
        const storage = rc.memoryStorage();
        const entries = async () => (await storage.directory.list({ kind: 'session', limit: 10 })).map(({ id, value }) => [id.split('//')[0], new TextDecoder().decode(value) === 'false']);
        let now = 1000;
        const runtime = await open(storage, { now: () => now });
        await runtime.importSession(fileOf(HEADER, many(600)));
        same(await entries(), [['in', false]]);
        same(await listed(runtime), ['in']);
        await runtime.deleteSession('in');
        same(await entries(), []);

        const abort = new AbortController();
        await fails(() => runtime.importSession(streamOf(cut(), never), { signal: abort.signal, onProgress: () => abort.abort() }), 'aborted');
        same([await entries(), await storage.session('in').load()], [[], undefined]);

        // One whose program died: the list leads to it, and takes it away when it is old.
        let there;
        const begun = new Promise((resolve) => (there = resolve));
        runtime.importSession(streamOf([cut()[0]], never), { onProgress: there });
        await soon(begun, 'the first commit');
        const next = await open(storage, { now: () => now });
        same([await listed(next), await entries()], [[], [['in', true]]]);
        await fails(() => next.importSession(fileOf(HEADER, [])), 'conflict');
        ok(await storage.session('in').load());
        now += 3_600_001;
        same([await listed(next), await entries()], [[], []]);
        same(await storage.session('in').load(), undefined);
        await next.importSession(fileOf(HEADER, many(3)));
        same(await listed(next), ['in']);
        await next.close();
    },

    async 'a runtime that is closed ends its imports, and nothing of them is left'() {
        const storage = rc.memoryStorage();
        const runtime = await open(storage);
        const source = streamOf([cut()[0]], never);
        let there;
        const begun = new Promise((resolve) => (there = resolve));
        const importing = runtime.importSession(source, { onProgress: there });
        const failing = fails(() => importing, 'disposed');
        await soon(begun, 'the first commit');
        ok(await storage.session('in').load());
        await soon(runtime.close(), 'closing');
        await soon(failing, 'the end of the import');
        ok(source.cancelled);
        same([await storage.session('in').load(), await storage.directory.list({ kind: 'session', limit: 10 })], [undefined, []]);
    },

    async 'a column of a dump is a run context, or nothing'() {
        const context = { security_group: null, allow_fs_writes: ['notes'], seen: true };
        same(rc.parseRunContext(JSON.stringify(context)), context);
        same(rc.parseRunContext(context), context);
        same([rc.parseRunContext(null), rc.parseRunContext('null')], [null, null]);
        for (const wrong of ['', '{', '[]', '{"allow_fs_writes":"x"}', 5]) {
            await fails(() => rc.parseRunContext(wrong), 'invalid_argument', 'threw');
        }
        const at = await world();
        await at.runtime.permissions.import({ rules: [{ id: 70, tool_pattern: 'look', action: 'deny', locked: 1, agent_id: null }] });
        same((await at.runtime.permissions.listRules()).find(({ id }) => id === 70).locked, true);
        await fails(() => at.runtime.permissions.import({ rules: [{}] }), 'invalid_argument');
        await at.close();
    },
};
