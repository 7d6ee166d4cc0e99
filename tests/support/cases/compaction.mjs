// Compaction as a host sees it. The summarisers are scripted: none of them reads anything.

import { fails, ok, same, soon } from './check.mjs';
import { assistant, calling, deferred, outcome, rc, resultOf, scripted } from './kit.mjs';
import { values } from './junk.mjs';
import { world } from './world.mjs';

const LONG = 'words '.repeat(200);
const typed = (content) => ({ role: 'user', content });

/** A conversation of three turns, the second with a call. */
const messages = () => [
    typed('one'), assistant(LONG), typed('two'), calling(['a', 'look', {}]), resultOf('a', 'look', LONG), assistant('two'), typed('three'), assistant('three'),
];

/** A world whose session has three turns. */
async function talked({ window, ...options } = {}) {
    const at = await world({ model: scripted(assistant(LONG)), session: { model: { provider: 'p', id: 'm', contextWindow: window } }, ...options });
    for (const text of ['one', 'two', 'three']) same((await at.session.prompt(text)).outcome, 'success');
    return at;
}

const compactions = (session) => {
    const events = [];
    session.subscribe((event) => event.type.startsWith('compaction') && events.push(event));
    return events;
};

export const cases = {
    async 'a plan hands the very messages back that are shown as they are'() {
        const given = messages();
        const { firstKeptMessageIndex, messages: goes } = rc.planCompaction(given, [], { keepRecentTokens: 0 });
        same(firstKeptMessageIndex, 6);
        same(goes.length, 6);
        goes.forEach((message, at) => ok(message === given[at], `message ${at} is a copy`));
        same(Object.keys(rc.planCompaction(given, [], { keepRecentTokens: 0 })).sort(), ['firstKeptMessageIndex', 'messages']);
        same(rc.planCompaction(given, [], { keepRecentTokens: 100 }).firstKeptMessageIndex, 6);
        await fails(() => rc.planCompaction(given, [], { keepRecentTokens: 100_000 }), 'nothing_to_compact', 'threw');
    },

    async 'what a plan has to show in another way is made anew: skills, the summary before, and calls without a result'() {
        const given = messages();
        given.splice(4, 1);
        const previous = { id: 'k', firstKeptMessageIndex: 2, historyMessageCount: 6, summary: 'so <skill> far', timestamp: 5, provider: 'p', model: 'm' };
        const snapshots = [{ userTurn: 1, content: '<skill name="x">Do.</skill>', timestamp: 1, placement: 'user' }, { userTurn: 0, content: 'gone', timestamp: 1 }];
        const { firstKeptMessageIndex, messages: goes } = rc.planCompaction(given, snapshots, { keepRecentTokens: 0, previous });
        same(firstKeptMessageIndex, 5);
        same(goes.slice(0, 2), [
            Object.freeze({ role: 'user', content: 'so &lt;skill> far', timestamp: 5 }),
            Object.freeze({ role: 'user', content: '<skill name="x">Do.</skill>\n\ntwo' }),
        ]);
        ok(goes[2] === given[3] && goes[4] === given[4], 'those that are as they were are copies');
        same([goes[3].role, goes[3].toolCallId, goes[3].isError, goes.length], ['toolResult', 'a', true, 5]);
    },

    async 'the compaction of another conversation, or of no conversation, is refused by a plan and by a projection'() {
        const checkpoint = { id: 'k', firstKeptMessageIndex: 2, historyMessageCount: 8, summary: 's', timestamp: 5, provider: 'p', model: 'm' };
        const planned = (more) => rc.planCompaction(messages(), [], { keepRecentTokens: 0, previous: { ...checkpoint, ...more } });
        const projected = (more) => rc.projectModelInput(messages(), [], { compaction: { ...checkpoint, ...more } });
        same(planned({}).firstKeptMessageIndex, 6);
        same(projected({}).projection.sources[0], { type: 'compaction', checkpointId: 'k', messageIndex: 2, summarizedBefore: 2 });
        for (const [of, by] of [[planned, 'previous'], [projected, 'compaction']]) {
            for (const more of [{ historyMessageCount: 9 }, { firstKeptMessageIndex: 9 }, { firstKeptMessageIndex: 9, historyMessageCount: 9 }]) {
                const { message } = await fails(() => of(more), 'invalid_argument', 'threw');
                ok(/pass the last compaction of this conversation/.test(message), message);
            }
            for (const more of [{ firstKeptMessageIndex: -1 }, { historyMessageCount: 1.5 }, { summary: 5 }, { summary: ' \n' }, { id: undefined }]) {
                same((await fails(() => of(more), 'invalid_argument', 'threw')).data.field, `options.${by}.${Object.keys(more)[0]}`);
            }
        }
        for (const keepRecentTokens of [undefined, -1, 1.5, NaN, '0']) {
            const { data } = await fails(() => rc.planCompaction(messages(), [], { keepRecentTokens }), 'invalid_argument', 'threw');
            ok(data.field.startsWith('options.keepRecentTokens'), data.field);
        }
        await fails(() => rc.planCompaction([], [], { keepRecentTokens: 0 }), 'nothing_to_compact', 'threw');
        await fails(() => rc.planCompaction(messages(), [], { keepRecentTokens: 0, dialect: 'openai-chat' }), 'dialect_mismatch', 'threw');
    },

    async 'a session calls `summarize` of its caller, or of the runtime, with what the model sees'() {
        const seen = [];
        const compaction = {
            name: 'scripted',
            async summarize(messages, { signal, ...rest }) {
                seen.push([this.name, messages.length, signal instanceof AbortSignal, signal.aborted, Object.isFrozen(messages), Object.keys(rest)]);
                return 'scripted summary';
            },
        };
        const at = await talked({ compaction });
        const events = compactions(at.session);
        const made = await at.session.compact({ keepRecentTokens: 0 });
        same(made, {
            id: made.id, firstKeptMessageIndex: 4, historyMessageCount: 6, summary: 'scripted summary', timestamp: 1000, provider: 'p', model: 'm',
        });
        same(events, [
            Object.freeze({ type: 'compaction-start', firstKeptMessageIndex: 4 }), Object.freeze({ type: 'compaction-end', compaction: made }),
        ]);
        same(at.session.getCompactions(), [made]);
        same(at.session.header.compactions, [made]);
        same(seen, [['scripted', 4, true, false, true, []]]);
        await at.session.prompt('four');
        const own = { word: 'own', summarize() {
            return { summary: this.word, provider: 'q', model: 'n', usage: { input: 3 } };
        } };
        const { id, ...second } = await at.session.compact({ ...own, keepRecentTokens: 0 });
        same(second, {
            firstKeptMessageIndex: 6, historyMessageCount: 8, summary: 'own', timestamp: 1000, provider: 'q', model: 'n', usage: { input: 3 },
        });
        same(seen.length, 1);
        await at.close();
    },

    async 'whatever `summarize` gives or throws that is no summary is host_failed, and nothing changes'() {
        const at = await talked();
        const before = await at.stored();
        // The last of these is a promise that never comes to anything.
        const meant = ['text', 'member that is a function'];
        const given = Object.entries(values).filter(([label]) => !meant.includes(label));
        given.push(
            ['a blank text', () => ' '], ['half a pair', () => 'half \ud83d'], ['a long text', () => LONG.repeat(4)], ['no text', () => ({ provider: 'p' })],
            ['a provider that is no text', () => ({ summary: 's', provider: 5 })], ['a failure', () => Promise.reject(new Error('overloaded'))],
            ['a throw', () => {
                throw 'overloaded';
            }],
            ['a promise with a getter that throws', () => ({ get then() {
                throw new Error('no');
            } })],
        );
        for (const [label, make] of given) {
            const found = await outcome(() => at.session.compact({ keepRecentTokens: 0, summarize: () => make() }));
            same(found.rejected?.code, 'host_failed', `${label}: ${JSON.stringify(found)}`);
        }
        ok(given.length > 30, String(given.length));
        const { message } = await fails(() => at.session.compact({ keepRecentTokens: 0, summarize: () => Promise.reject(new Error('overloaded')) }), 'host_failed');
        same(message, '`summarize` failed: overloaded');
        same(await at.stored(), before);
        same(at.session.getCompactions(), []);
        same((await at.session.prompt('on')).outcome, 'success');
        await at.close();
    },

    async 'a session that is being compacted is busy, also for whoever summarises, and abort() reaches them'() {
        const at = await talked();
        const codes = [];
        const aborted = deferred();
        const compacting = at.session.compact({
            keepRecentTokens: 0,
            async summarize(messages, { signal }) {
                for (const work of [() => at.session.prompt('x'), () => at.session.compact(), () => at.session.dispose(), () => at.session.reload()]) {
                    codes.push((await outcome(work)).rejected?.code);
                }
                signal.addEventListener('abort', aborted.resolve);
                setTimeout(() => at.session.abort());
                return new Promise(() => {});
            },
        });
        await fails(() => compacting, 'aborted');
        await soon(aborted.promise, 'the abort');
        same(codes, ['session_busy', 'session_busy', 'session_busy', 'session_busy']);
        same(at.session.state.messageCount, 6);
        same((await at.session.compact({ keepRecentTokens: 0, summarize: () => 's' })).summary, 's');
        await at.close();
    },

    async 'a prompt is compacted by itself under pressure, and goes on where that fails'() {
        const answers = [() => Promise.reject(new Error('overloaded')), () => 'scripted summary'];
        const model = scripted(assistant(LONG));
        const at = await talked({ model, compaction: { pressure: 0.5, summarize: () => answers.shift()() } });
        const { estimatedInputTokens } = at.session.state.contextBudget;
        await at.session.configure({ model: { provider: 'p', id: 'm', contextWindow: estimatedInputTokens * 2 } });
        const events = compactions(at.session);
        same((await at.session.prompt('four')).outcome, 'success');
        same((await at.session.prompt('five')).outcome, 'success');
        same(events.map(({ type, error }) => [type, error?.code]), [
            ['compaction-start', undefined], ['compaction-failed', 'host_failed'], ['compaction-start', undefined], ['compaction-end', undefined],
        ]);
        const [fourth, fifth] = model.requests.slice(3).map((request) => JSON.parse(request).messages);
        same([fourth.length, fifth[0].content], [7, 'scripted summary']);
        same(model.reports[4].divergence.events, ['compaction']);
        same(answers, []);
        await at.close();
    },

    async 'a compaction is there after the session is opened again'() {
        const at = await talked();
        const made = await at.session.compact({ keepRecentTokens: 0, summarize: () => 'scripted summary' });
        if (at.another) {
            const runtime = await at.another({ model: scripted(assistant('so')) });
            const session = await runtime.openSession('s');
            same(session.getCompactions(), [made]);
            same([session.state.loadedFrom, session.messages.length], [0, 6]);
            await session.prompt('on');
            same(session.modelInputProjection.sources[0], { type: 'compaction', checkpointId: made.id, messageIndex: 4, summarizedBefore: 4 });
            await runtime.close();
        }
        await at.close();
    },
};
