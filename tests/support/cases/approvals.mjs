// Calls that a person is asked about: what is listed and told, how answers reach prompts and turns, and what is refused.

import { fails, ok, same, soon } from './check.mjs';
import { assistant, calling, deferred, resultOf, scripted, tool } from './kit.mjs';
import { world } from './world.mjs';

const persistent = typeof indexedDB !== 'undefined';

/** A host whose links a case can change. */
function host() {
    const links = {};
    return {
        cwd: '/w',
        links,
        resolvePaths: (base, paths) => paths.map((path) => {
            const whole = path.startsWith('/') ? path : `${base}/${path}`;
            return { canonical: links[whole] ?? whole };
        }),
    };
}

const writes = (execute = () => 'written') => tool('write_file', execute, {
    access: undefined, paths: [{ argument: '/path', access: 'write' }], category: 'files', advisory: ['/why'],
});
const fetches = () => tool('fetch', () => 'fetched', { access: 'network', mcpServer: 'web' });

/** A session whose model asks for these calls, then says `Done.`; what is told of approvals, in order. */
async function asking(calls, { tools = [writes(), fetches()], ...more } = {}) {
    const model = scripted(calling(...calls), assistant('Done.'));
    const at = await world({ model, tools, host: host(), asks: true, ...more });
    const told = [];
    const waiting = [];
    at.session.subscribe((event) => {
        if (event.type === 'approval-requested') {
            told.push('asked');
            waiting.splice(0).forEach((hear) => hear(event.requestId));
        }
        if (event.type === 'approval-resolved') told.push({ ...event.result });
    });
    const asked = () => soon(new Promise((hear) => waiting.push(hear)), 'the question');
    return { ...at, model, tools, told, asked };
}

/** A turn of a host with its own loop, in which the model has asked for these calls. */
async function turnWith(session, calls) {
    const turn = await session.begin('Hello');
    await turn.request();
    await turn.dispatched();
    await turn.append(calling(...calls));
    return turn;
}

const A = ['c1', 'write_file', { path: 'a.txt' }];
const call = ([toolCallId, toolName, args]) => ({ toolCallId, toolName, arguments: args });
const requested = { argument: '/path', access: 'write', requested: 'a.txt', lexical: '/w/a.txt', canonical: '/w/a.txt' };
/** Nobody changes what is decided on, all the way down. */
function frozen(value, what) {
    if (typeof value !== 'object' || value === null) return;
    ok(Object.isFrozen(value), `${what} is not frozen`);
    for (const [name, member] of Object.entries(value)) frozen(member, `${what}.${name}`);
}
const plain = (value) => JSON.parse(JSON.stringify(value));

export const cases = {
    async 'a prompt waits for resolve(), and the question is listed, told and shown'() {
        const at = await asking([A], { session: { agentId: 'main', source: 'chat' } });
        await at.session.setTitle('Notes');
        at.now.now = Date.UTC(2030, 0, 2, 3, 4, 5, 6);
        const asked = at.asked();
        const prompt = at.session.prompt('Hello');
        const requestId = await asked;
        const expected = {
            requestId, sessionId: 's', toolCallId: 'c1', toolName: 'write_file', arguments: { path: 'a.txt' },
            agentId: 'main', source: 'chat', createdAt: '2030-01-02T03:04:05.006Z', paths: [requested], workingDirectory: '/w', reason: 'rule',
            message: "`write_file` on `a.txt` needs a person's approval: a rule says so", status: 'pending',
            contextLabel: 'Notes', toolCategory: 'files',
        };
        const [listed, ...more] = await at.runtime.approvals.list();
        same([plain(listed), more.length], [expected, 0]);
        same(plain(at.session.state.pendingApprovals), [expected]);
        ok(at.session.state.isRunning, 'it waits');
        same(at.tools[0].runs, 0);
        frozen(listed.arguments, 'what is listed');
        frozen(at.session.state.pendingApprovals[0].arguments, 'what is shown');

        const result = await at.runtime.approvals.resolve(requestId, { action: 'approve' });
        same(plain(result), { requestId, outcome: 'approved' });
        same(plain(await prompt), { outcome: 'success', saved: true });
        same(at.tools[0].runs, 1);
        same(plain(at.session.messages[1].content[0].arguments), { path: 'a.txt' });
        same(at.told, ['asked', { requestId, outcome: 'approved' }]);
        same([await at.runtime.approvals.list(), at.session.state.pendingApprovals], [[], []]);
        await at.close();
    },

    async 'the tool runs with the decision that names the approval, on the arguments that were approved'() {
        const seen = [];
        const at = await asking([A], {
            tools: [writes((args, context) => {
                seen.push(plain(args), context.decision.requestId, context.decision.outcome);
                return 'written';
            })],
        });
        const asked = at.asked();
        const prompt = at.session.prompt('Hello');
        const requestId = await asked;
        await at.runtime.approvals.resolve(requestId, { action: 'approve' });
        await prompt;
        same(seen, [{ path: 'a.txt' }, requestId, 'require']);
        await at.close();
    },

    async 'the model is told of a rejection, with its note and without'() {
        for (const [note, text] of [
            ['not \u{1f980} now', 'User rejected this tool call. Reason: not \u{1f980} now'], [undefined, 'User rejected this tool call.'], ['', 'User rejected this tool call.'],
        ]) {
            const at = await asking([A]);
            const asked = at.asked();
            const prompt = at.session.prompt('Hello');
            const requestId = await asked;
            const result = await at.runtime.approvals.resolve(requestId, { action: 'reject', note });
            same([result.requestId, result.outcome], [requestId, 'rejected']);
            same((await prompt).outcome, 'success');
            same(at.tools[0].runs, 0);
            const told = at.session.messages[2];
            same([told.isError, told.toolCallId, plain(told.content)], [true, 'c1', [{ type: 'text', text }]]);
            same(result.message, text);
            same(at.model.calls, 2);
            await at.close();
        }
    },

    async 'stopping the prompt ends the question'() {
        for (const stop of ['abort', 'signal']) {
            const at = await asking([A]);
            const asked = at.asked();
            const controller = new AbortController();
            const prompt = at.session.prompt('Hello', { signal: controller.signal });
            const requestId = await asked;
            if (stop === 'abort') await at.session.abort();
            else controller.abort();
            same((await prompt).outcome, 'cancelled');
            same([await at.runtime.approvals.list(), at.session.state.pendingApprovals], [[], []]);
            await fails(() => at.runtime.approvals.resolve(requestId, { action: 'approve' }), 'approval_not_found');
            same([at.tools[0].runs, at.session.messages[2].isError], [0, true]);
            await at.close();
        }
    },

    async 'a host gates, waits for approval(), runs and appends'() {
        const at = await asking([]);
        const turn = await turnWith(at.session, [A]);
        const decision = await turn.gate(call(A));
        same([decision.outcome, typeof decision.requestId], ['require', 'string']);
        same((await turn.gate(call(A))).requestId, decision.requestId);
        const written = resultOf('c1', 'write_file', 'written');
        await fails(() => turn.append(written), 'tool_not_gated');
        const controller = new AbortController();
        const stopped = turn.approval(decision.requestId, { signal: controller.signal });
        controller.abort();
        same(plain(await stopped), { requestId: decision.requestId, outcome: 'cancelled' });
        const waiting = turn.approval(decision.requestId);
        await at.runtime.approvals.resolve(decision.requestId, { action: 'approve' });
        same(plain(await waiting), { requestId: decision.requestId, outcome: 'approved' });
        await fails(() => turn.approval(decision.requestId), 'approval_not_found');
        await turn.append(written);
        same((await turn.finish()).outcome, 'success');
        same(at.told, ['asked', { requestId: decision.requestId, outcome: 'approved' }]);
        await at.close();
    },

    async 'a rejection reaches approval() with its note, and the result of the call is refused'() {
        const at = await asking([]);
        const turn = await turnWith(at.session, [A]);
        const { requestId } = await turn.gate(call(A));
        await at.runtime.approvals.resolve(requestId, { action: 'reject', note: 'no' });
        const expected = { requestId, outcome: 'rejected', note: 'no', message: 'User rejected this tool call. Reason: no' };
        same(plain(await turn.approval(requestId)), expected);
        same(at.told, ['asked', expected]);
        await fails(() => turn.append(resultOf('c1', 'write_file', 'written')), 'tool_not_gated');
        await turn.append(resultOf('c1', 'write_file', expected.message, { isError: true }));
        await turn.finish();
        await at.close();
    },

    async 'what changed is asked again, and the earlier question is superseded'() {
        const at = await asking([]);
        const turn = await turnWith(at.session, [A]);
        const first = (await turn.gate(call(A))).requestId;
        const explained = await turn.gate({ ...call(A), arguments: { path: 'a.txt', why: 'it is wanted' } });
        same(explained.requestId, first, 'an advisory field');
        const second = (await turn.gate({ ...call(A), arguments: { path: 'b.txt' } })).requestId;
        ok(second !== first, 'another question');
        await fails(() => at.runtime.approvals.resolve(first, { action: 'approve' }), 'approval_not_found');
        same((await at.runtime.approvals.list()).map(({ requestId }) => requestId), [second]);
        same(at.told.map((told) => told.outcome ?? told), ['asked', 'superseded', 'asked']);
        await turn.cancel();
        await at.close();
    },

    async 'a command that waits runs where it was asked about, whatever directory another page sets meanwhile'() {
        const ran = [];
        const run = () => tool('run', (_, { workingDirectory }) => (ran.push(workingDirectory), 'ran'), { access: 'execute' });
        const R = ['c1', 'run', { command: 'ls' }];
        const at = await asking([R], { tools: [run()] });
        if (!persistent) return await at.close();
        const asked = at.asked();
        const turn = at.session.prompt('Hello');
        const first = await asked;
        const other = await at.another({ tools: [run()], host: host(), model: scripted(assistant('Done.')) });
        const [before] = await other.approvals.list();
        const session = await other.openSession('s');
        await session.setRunContext({ working_directory: '/elsewhere' });
        const [waiting] = await other.approvals.list();
        same([waiting.requestId, waiting.workingDirectory], [first, before.workingDirectory]);
        same((await other.approvals.resolve(first, { action: 'approve' })).outcome, 'approved');
        same((await soon(turn, 'the end of the prompt')).outcome, 'success');
        same(ran, [before.workingDirectory]);
        await other.close();
        await at.close();
    },

    async 'a call whose arguments are no I-JSON is refused before anybody is asked'() {
        for (const [what, args] of Object.entries({
            'bytes': new Uint8Array([1]), 'bytes in a member': { path: 'a', data: new Uint8Array([1]) }, 'no bytes': { path: 'a', data: new Uint8Array() },
            'bytes deep in a list': { path: 'a', deep: [{ x: [new Uint8Array([1])] }] }, 'half a pair': { path: '\ud83d' }, 'the other half': { path: 'a', deep: [['\ude00b']] },
            'halves in the wrong order': { path: '\ude00\ud83d' }, 'half a pair in a name': { path: 'a', deep: { ['\ud83d']: 1 } },
        })) {
            const looked = [];
            const files = host();
            const write = { ...writes(), extractPaths: () => (looked.push('the tool'), []) };
            const at = await asking([['c1', 'write_file', args]], {
                tools: [write], host: { ...files, resolvePaths: (base, paths) => (looked.push('the host'), files.resolvePaths(base, paths)) },
                session: { permissionPreset: 'danger-full-access' },
            });
            at.session.bypass('all');
            same((await at.session.prompt('Hello')).outcome, 'success', what);
            const told = at.session.messages[2];
            same([told.isError, told.toolCallId], [true, 'c1'], what);
            ok(/^the arguments of the call `c1` hold bytes or text that is not well-formed/.test(told.content[0].text), told.content[0].text);
            same([write.runs, looked, at.told, await at.runtime.approvals.list()], [0, [], [], []], what);
            const error = await fails(() => at.session.explain({ toolCallId: 'c1', toolName: 'write_file', arguments: args }), 'invalid_argument');
            ok(!error.message.endsWith('.'), error.message);
            await at.close();
        }
    },

    async 'numbers of every kind, whole pairs and odd names are I-JSON'() {
        const args = { path: 'a', n: [0, -0, 0.1, 5e-324, 1.7976931348623157e308, 2 ** 53, -1], text: '\u{1f980}\u0000\uffff', ['__proto__x']: { '': [null, true] } };
        const at = await asking([['c1', 'write_file', args]], { session: { permissionPreset: 'danger-full-access' } });
        same((await at.session.prompt('Hello')).outcome, 'success');
        same([at.tools[0].runs, at.session.messages[2].isError], [1, false]);
        await at.close();
    },

    async 'of two calls with one id each is asked about, answered and told for itself'() {
        for (const approved of [0, 1]) {
            const ran = [];
            const at = await asking([A, ['c1', 'write_file', { path: 'b.txt' }]], { tools: [writes(({ path }) => (ran.push(path), `wrote ${path}`))] });
            const prompt = at.session.prompt('Hello');
            const waiting = async () => [...(await at.runtime.approvals.list())].sort((a, b) => (a.arguments.path < b.arguments.path ? -1 : 1));
            while ((await waiting()).length < 2) await new Promise((later) => setTimeout(later, 5));
            const both = await waiting();
            await at.runtime.approvals.resolve(both[1 - approved].requestId, { action: 'reject', note: 'not that' });
            await at.runtime.approvals.resolve(both[approved].requestId, { action: 'approve' });
            same((await soon(prompt, 'the end')).outcome, 'success');
            const paths = ['a.txt', 'b.txt'];
            same(ran, [paths[approved]]);
            const texts = at.session.messages.slice(2, 4).map(({ content }) => content[0].text);
            same([texts[approved], texts[1 - approved]], [`wrote ${paths[approved]}`, 'User rejected this tool call. Reason: not that']);
            await at.close();
        }
    },

    async 'a link that leads elsewhere by the time of the answer is asked again'() {
        const files = host();
        const at = await asking([A], { host: files });
        const asked = at.asked();
        const prompt = at.session.prompt('Hello');
        const first = await asked;
        files.links['/w/a.txt'] = '/etc/passwd';
        const again = at.asked();
        const result = await at.runtime.approvals.resolve(first, { action: 'approve' });
        same([result.outcome, at.tools[0].runs], ['superseded', 0]);
        const second = await again;
        ok(result.message.includes(second), result.message);
        same((await at.runtime.approvals.list())[0].paths[0].canonical, '/etc/passwd');
        same((await at.runtime.approvals.resolve(second, { action: 'approve' })).outcome, 'approved');
        await prompt;
        same(at.tools[0].runs, 1);
        await at.close();
    },

    async 'approving may say what is not asked about from now on'() {
        const B = ['c2', 'fetch', {}];
        for (const [about, more, files, web] of [
            [A, { bypassScope: 'all' }, 'allow', 'allow'], [A, { bypassScope: 'category' }, 'allow', 'require'],
            [B, { bypassScope: 'mcp_server' }, 'require', 'allow'], [A, {}, 'allow', 'require'], [B, {}, 'require', 'allow'],
            [A, { bypassScope: 'mcp_server' }, 'require', 'require'], [A, { bypassSeconds: undefined }, 'require', 'require'],
        ]) {
            const at = await asking([]);
            const turn = await turnWith(at.session, [about]);
            const { requestId } = await turn.gate(call(about));
            await at.runtime.approvals.resolve(requestId, { action: 'approve', bypassSeconds: 'until-restart', ...more });
            same([(await at.session.explain(call(A))).outcome, (await at.session.explain(call(B))).outcome], [files, web], JSON.stringify(more));
            at.session.clearBypass();
            same((await at.session.explain(call(A))).outcome, 'require');
            await turn.cancel();
            await at.close();
        }
        const at = await asking([]);
        const turn = await turnWith(at.session, [A]);
        const { requestId } = await turn.gate(call(A));
        await at.runtime.approvals.resolve(requestId, { action: 'approve', bypassSeconds: 0.05 });
        same((await at.session.explain(call(A))).outcome, 'allow');
        at.now.now += 50;
        same((await at.session.explain(call(A))).outcome, 'require');
        await turn.cancel();
        await at.close();
    },

    async 'what makes no sense is refused with its field, and answers nothing'() {
        const at = await asking([]);
        const turn = await turnWith(at.session, [A]);
        const { requestId } = await turn.gate(call(A));
        const approve = { action: 'approve' };
        for (const [decision, field] of [
            [{}, 'action'], [{ action: 'allow' }, 'action'], [{ action: 'reject', note: 7 }, 'note'], [{ action: 'reject', note: 'half \ud83d' }, 'note'],
            [{ ...approve, bypassSeconds: 0 }, 'bypassSeconds'], [{ ...approve, bypassSeconds: -1 }, 'bypassSeconds'],
            [{ ...approve, bypassSeconds: NaN }, 'bypassSeconds'], [{ ...approve, bypassSeconds: Infinity }, 'bypassSeconds'],
            [{ ...approve, bypassSeconds: '60' }, 'bypassSeconds'], [{ ...approve, bypassSeconds: 60, bypassScope: 'none' }, 'bypassScope'],
        ]) {
            const error = await fails(() => at.runtime.approvals.resolve(requestId, decision), 'invalid_argument');
            ok(error.message.includes(field), error.message);
        }
        for (const decision of [undefined, null, 7, 'approve', [approve]]) {
            await fails(() => at.runtime.approvals.resolve(requestId, decision), 'invalid_argument');
        }
        for (const id of [undefined, null, 7, {}]) {
            await fails(() => at.runtime.approvals.resolve(id, approve), 'invalid_argument');
            await fails(() => turn.approval(id), 'invalid_argument');
        }
        const unknown = await fails(() => at.runtime.approvals.resolve('unknown', approve), 'approval_not_found');
        same(unknown.data.requestId, 'unknown');
        await fails(() => turn.approval('unknown'), 'approval_not_found');
        same((await at.runtime.approvals.list())[0].status, 'pending');
        await at.runtime.approvals.resolve(requestId, approve);
        await fails(() => at.runtime.approvals.resolve(requestId, approve), 'approval_not_found');
        await turn.cancel();
        await fails(() => turn.approval(requestId), 'invalid_argument');
        await at.close();
        await fails(() => at.runtime.approvals.list(), 'disposed');
        await fails(() => at.runtime.approvals.resolve(requestId, approve), 'disposed');
    },

    async 'of a hundred answers at once exactly one counts'() {
        const at = await asking([A]);
        const asked = at.asked();
        const prompt = at.session.prompt('Hello');
        const requestId = await asked;
        const answer = (_, number) => at.runtime.approvals
            .resolve(requestId, { action: number % 2 ? 'approve' : 'reject' })
            .then(({ outcome }) => outcome, ({ code }) => code);
        const outcomes = await Promise.all(Array.from({ length: 100 }, answer));
        const counted = outcomes.filter((outcome) => outcome !== 'approval_not_found');
        same(counted.length, 1);
        await prompt;
        same(at.tools[0].runs, counted[0] === 'approved' ? 1 : 0);
        await at.close();
    },

    async 'two sessions ask at once, and one inbox answers both'() {
        const answer = ({ messages }) => (messages.at(-1).role === 'user' ? calling(A) : assistant('Done.'));
        const at = await asking([A], { model: scripted(answer) });
        const other = await at.runtime.createSession({ id: 't', cwd: '/w' });
        const heard = new Set();
        const both = deferred();
        for (const session of [at.session, other]) {
            session.subscribe((event) => {
                if (event.type === 'approval-requested') heard.add(event.requestId);
                if (heard.size === 2) both.resolve();
            });
        }
        const prompts = [at.session.prompt('Hello'), other.prompt('Hello')];
        await soon(both.promise, 'both questions');
        const listed = await at.runtime.approvals.list();
        same(listed.map(({ sessionId }) => sessionId).sort(), ['s', 't']);
        for (const { requestId, sessionId } of listed) {
            await at.runtime.approvals.resolve(requestId, { action: sessionId === 's' ? 'approve' : 'reject' });
        }
        same((await Promise.all(prompts)).map(({ outcome }) => outcome), ['success', 'success']);
        same(at.tools[0].runs, 1);
        same([at.session.messages[2].isError, other.messages[2].isError], [false, true]);
        await at.close();
    },

    async 'nothing is resumed where nothing was cut off'() {
        const at = await asking([]);
        same(at.session.interrupted, undefined);
        for (const work of [() => at.session.resume(), () => at.session.resumePrompt(), () => at.session.abandon()]) {
            await fails(work, 'invalid_argument');
        }
        await fails(() => at.session.resumePrompt({ signal: 7 }), 'invalid_argument');
        await fails(() => at.session.resumePrompt({ signal: AbortSignal.abort() }), 'aborted');
        await at.close();
    },

    async 'a question outlives its runtime, and resumePrompt() goes on with it'() {
        const at = await asking([A]);
        if (!persistent) return await at.close();
        const asked = at.asked();
        const dead = at.session.prompt('Hello');
        const requestId = await asked;
        const tools = [writes(), fetches()];
        const model = scripted(assistant('Done.'));
        const other = await at.another({ tools, host: host(), model });
        same((await other.approvals.list()).map((it) => it.requestId), [requestId]);
        const session = await other.openSession('s');
        same(plain(session.interrupted), { unanswered: [call(A)], pendingApprovals: [requestId] });
        same(session.state.pendingApprovals.length, 1);
        frozen(session.state.pendingApprovals[0].arguments, 'what waits');
        frozen(session.messages, 'the conversation');
        for (const work of [() => session.prompt('x'), () => session.begin('x'), () => session.setPermissionPreset(null), () => session.configure({})]) {
            await fails(work, 'session_interrupted');
        }
        const resumed = session.resumePrompt();
        await other.approvals.resolve(requestId, { action: 'approve' });
        same(plain(await resumed), { outcome: 'success', saved: true });
        same([tools[0].runs, at.tools[0].runs, model.calls], [1, 0, 1]);
        same([session.interrupted, session.state.outcome, await other.approvals.list()], [undefined, 'success', []]);
        // The one that was left behind ends, and runs nothing.
        const behind = await soon(dead, 'the end of the other prompt');
        same([behind.outcome, behind.saveError.code, at.tools[0].runs], ['error', 'conflict', 0]);
        await other.close();
    },

    async 'a host goes on by resume() with what waits, and finds the rest answered'() {
        const at = await asking([]);
        if (!persistent) return await at.close();
        const B = ['c2', 'fetch', {}];
        const turn = await turnWith(at.session, [A, B]);
        const first = (await turn.gate(call(A))).requestId;
        const second = (await turn.gate(call(B))).requestId;
        await at.runtime.approvals.resolve(first, { action: 'approve' });
        same((await turn.approval(first)).outcome, 'approved');
        const other = await at.another({ tools: [writes(), fetches()], host: host() });
        const session = await other.openSession('s');
        same(plain(session.interrupted), { unanswered: [call(A), call(B)], pendingApprovals: [second] });
        await fails(() => session.resumePrompt(), 'invalid_argument');
        const resumed = await session.resume();
        same(plain(resumed.openCalls), [call(B)]);
        same([session.messages[2].toolCallId, session.messages[2].isError], ['c1', true]);
        await other.approvals.resolve(second, { action: 'approve' });
        same((await resumed.approval(second)).outcome, 'approved');
        await resumed.append(resultOf('c2', 'fetch', 'fetched'));
        same((await resumed.finish()).outcome, 'success');
        same(await other.approvals.list(), []);
        await other.close();
    },

    async 'abandon() ends every question'() {
        const at = await asking([]);
        if (!persistent) return await at.close();
        const turn = await turnWith(at.session, [A]);
        const { requestId } = await turn.gate(call(A));
        const other = await at.another({ tools: [writes()], host: host() });
        const session = await other.openSession('s');
        same((await session.abandon()).outcome, 'cancelled');
        same([await other.approvals.list(), session.state.pendingApprovals], [[], []]);
        await fails(() => other.approvals.resolve(requestId, { action: 'approve' }), 'approval_not_found');
        await other.close();
    },

    async 'an answer that another runtime gives is heard of within seconds'() {
        const at = await asking([A]);
        if (!persistent) return await at.close();
        const asked = at.asked();
        const prompt = at.session.prompt('Hello');
        const requestId = await asked;
        const other = await at.another({ tools: [writes(), fetches()], host: host() });
        await other.approvals.resolve(requestId, { action: 'reject', note: 'from there' });
        same((await soon(prompt, 'the end of the prompt', 5_000)).outcome, 'success');
        same(at.session.messages[2].content[0].text, 'User rejected this tool call. Reason: from there');
        same(at.told.map((told) => told.outcome ?? told), ['asked', 'rejected']);
        await other.close();
        await at.close();
    },
};
