// The catalogue: sources and what they may give, what is switched off, and the tool that loads a skill.

import { fails, ok, same } from './check.mjs';
import { assistant, calling, calm, deferred, failWrites, outcome, rc, resultOf, scripted, skillFile } from './kit.mjs';
import { world } from './world.mjs';

/** A source of these files: text, bytes, an error that is thrown, or a function that gives one of them. */
function shelf(files, scope = 'project') {
    const source = {
        scope,
        files,
        lists: 0,
        reads: 0,
        async list() {
            source.lists++;
            return Object.keys(source.files).map((location) => ({
                location,
                async read() {
                    source.reads++;
                    const file = source.files[location];
                    const content = typeof file === 'function' ? await file() : file;
                    if (content instanceof Error) throw content;
                    return content;
                },
            }));
        },
    };
    return source;
}

const review = (body = 'Read twice.') => skillFile('review', body);
const REVIEW = 'project:/r/SKILL.md';
const block = (body) => `<skill name="review" location="/r/SKILL.md">\n${body}\n</skill>`;
const shown = (model, at = -1) => JSON.parse(model.requests.at(at)).messages.map(({ content }) => content);
const prompt = (model, at = -1) => JSON.parse(model.requests.at(at)).systemPrompt;
const toolNames = (model, at = -1) => JSON.parse(model.requests.at(at)).tools.map(({ name }) => name);
const listed = (runtime) => runtime.skills.list().map(({ id, status }) => [id, status]);
const diagnosed = (runtime, id) => runtime.skills.list().find((skill) => skill.id === id).diagnostics.map(({ code }) => code);
const events = (runtime) => {
    const heard = [];
    runtime.subscribe((event) => heard.push(event.type));
    return heard;
};

export const cases = {
    async 'a skill of a source is read when it is chosen, and nothing that was said changes later'() {
        const model = scripted(assistant('Done.'));
        const runtime = await rc.Runtime.open({ storage: 'memory', model });
        const source = shelf({ '/r/SKILL.md': review() });
        same(await runtime.skills.addSource(source), undefined);
        const [info] = runtime.skills.list();
        same(
            [info.id, info.name, info.description, info.scope, info.location, info.enabled, info.status, info.diagnostics.length, info.userInvocable, info.modelInvocable],
            [REVIEW, 'review', 'What review is for.', 'project', '/r/SKILL.md', true, 'active', 1, true, true],
        );
        const session = await runtime.createSession();
        await session.prompt('One. $review');
        source.files['/r/SKILL.md'] = new TextEncoder().encode(review('Read thrice.'));
        await session.prompt('Two.', { skills: [REVIEW] });
        same(shown(model), [`${block('Read twice.')}\n\nOne. $review`, shown(model)[1], `${block('Read thrice.')}\n\nTwo.`]);
        same(session.messages.filter(({ role }) => role === 'user').map(({ content }) => content), ['One. $review', 'Two.']);
        same(session.titleInputs(), ['One. $review', 'Two.']);
        const [first, second] = session.getRuntimeContexts().map(({ skills }) => skills[0]);
        same([first.revision, first.content], [info.revision, review()]);
        ok(second.revision !== first.revision);
        same(runtime.skills.list()[0].revision, first.revision);
        same(await runtime.skills.refresh(), undefined);
        same(runtime.skills.list()[0].revision, second.revision);
        await runtime.close();
    },

    async 'a file that cannot be read when it is chosen is skill_unavailable, and nothing happened'() {
        const model = scripted(assistant('Done.'));
        const at = await world({ model });
        const source = shelf({ '/r/SKILL.md': review() });
        await at.runtime.skills.addSource(source);
        const heard = [];
        at.session.subscribe(({ type }) => heard.push(type));
        const before = await at.stored();
        for (const [bad, reason] of [
            [new Error('Gone: 404'), 'unreadable'], [() => Promise.reject('a text'), 'unreadable'], [undefined, 'unreadable'], [7, 'unreadable'],
            ['half \ud800', 'unreadable'], [new Uint8Array([0xff, 0xfe, 0x2d, 0]), 'invalid'], ['No frontmatter.', 'invalid'], ['', 'invalid'],
        ]) {
            source.files['/r/SKILL.md'] = bad;
            for (const work of [
                () => at.session.prompt('Hi', { skills: [REVIEW] }), () => at.session.prompt('Hi $review'), () => at.session.begin('Hi $review'),
            ]) {
                const error = await fails(work, 'skill_unavailable');
                same([error.data.id, error.data.reason], [REVIEW, reason]);
                same(at.session.state.isRunning, false);
            }
        }
        source.files['/r/SKILL.md'] = new Error('Gone: 404');
        same(
            (await fails(() => at.session.prompt('Hi $review'), 'skill_unavailable')).message,
            `skill \`${REVIEW}\` cannot be read: Gone: 404`,
        );
        same([heard, model.calls, model.checks], [[], 0, 0]);
        same(await at.stored(), before);
        source.files['/r/SKILL.md'] = review();
        same((await at.session.prompt('Hi $review')).saved, true);
        await at.close();
    },

    async 'a source that is none, or that lists what are no files, is refused and changes nothing'() {
        const at = await world();
        const heard = events(at.runtime);
        const list = () => [];
        for (const bad of [undefined, null, 'text', {}, { scope: 'project' }, { list }, { scope: 7, list }, { scope: 'project', list: [] }, { scope: 'a:b', list }, { scope: ' ', list }]) {
            await fails(() => at.runtime.skills.addSource(bad), 'invalid_argument');
        }
        const read = () => review();
        for (const files of [
            undefined, null, 7, 'text', {}, new Map(), [null], ['/a'], [{}], [{ read }], [{ location: '/a' }], [{ location: 7, read }], [{ location: ' ', read }],
            [{ location: '/a', read }, { location: '/b', read: 'text' }], [{ location: 'half \ud800', read }],
        ]) {
            const error = await fails(() => at.runtime.skills.addSource({ scope: 'project', list: () => files }), 'host_failed');
            ok(error.message.startsWith('the source of the scope `project` cannot be listed: '), error.message);
            same(error.data.scopes, ['project']);
        }
        for (const list of [() => { throw new Error('no net'); }, () => Promise.reject(new Error('no net'))]) {
            const error = await fails(() => at.runtime.skills.addSource({ scope: 'project', list }), 'host_failed');
            same(error.message, 'the source of the scope `project` cannot be listed: no net');
        }
        same([listed(at.runtime), heard], [[[at.skill.id, 'active']], []]);
        // What was refused is not asked again.
        await at.runtime.skills.refresh();
        await at.close();
    },

    async 'one that fails later loses nothing, and files that cannot be read or stand there twice say so'() {
        const at = await world();
        const source = shelf({ '/r/SKILL.md': review() });
        await at.runtime.skills.addSource(source);
        const { list } = source;
        source.list = 'no function';
        source.files['/new/SKILL.md'] = skillFile('new', 'x');
        // The function that was given counts, whatever becomes of the object.
        await at.runtime.skills.refresh();
        same(listed(at.runtime).length, 3);
        let fail = true;
        const flaky = { scope: 'bundled', list: () => (fail ? Promise.reject(new Error('no net')) : list()) };
        await fails(() => at.runtime.skills.addSource(flaky), 'host_failed');
        fail = false;
        await at.runtime.skills.addSource(flaky);
        fail = true;
        delete source.files['/new/SKILL.md'];
        source.files['/r/SKILL.md'] = new Error('Gone');
        const error = await fails(() => at.runtime.skills.refresh(), 'host_failed');
        same(error.data.scopes, ['bundled']);
        same(listed(at.runtime), [
            [REVIEW, 'active'], [at.skill.id, 'active'], ['bundled:/new/SKILL.md', 'active'], ['bundled:/r/SKILL.md', 'shadowed'],
        ]);
        same(diagnosed(at.runtime, REVIEW), ['unreadable', 'name_mismatch']);
        const twice = { scope: 'own', list: () => [{ location: '/t', read: () => review() }, { location: '/t', read: () => 'x' }, { location: '/l', read: () => new Uint8Array([0x63, 0x61, 0x66, 0xe9]) }] };
        await at.runtime.skills.addSource(twice);
        same(listed(at.runtime).slice(-2), [['own:/l', 'invalid'], ['own:/t', 'shadowed']]);
        same([diagnosed(at.runtime, 'own:/t'), diagnosed(at.runtime, 'own:/l')], [['listed_twice'], ['invalid_utf8']]);
        await at.close();
    },

    async 'reading can be watched and stopped, and a watcher that throws stops nothing'() {
        const at = await world();
        const gate = deferred();
        const files = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`/${index}`, () => gate.promise.then(() => skillFile(`s${index}`, 'x'))]));
        const source = shelf(files);
        const told = [];
        const onProgress = (progress) => {
            told.push(progress);
            throw new Error('not me');
        };
        const adding = at.runtime.skills.addSource(source, { onProgress });
        const begun = async (reads) => {
            while (source.reads < reads) await new Promise((resolve) => setTimeout(resolve));
        };
        await begun(16);
        const controller = new AbortController();
        const stopped = at.runtime.skills.addSource(source, { signal: controller.signal });
        await begun(32);
        controller.abort();
        await fails(() => stopped, 'aborted');
        same(told, [{ read: 0, files: 40 }]);
        // Some of each, not all of them.
        same(source.reads, 32);
        gate.resolve();
        await adding;
        same(told.length, 41);
        same(told.at(-1), { read: 40, files: 40 });
        same(at.runtime.skills.list().length, 41);
        const heard = events(at.runtime);
        source.files = { '/only': skillFile('only', 'x') };
        await fails(() => at.runtime.skills.refresh({ signal: AbortSignal.abort() }), 'aborted');
        same([at.runtime.skills.list().length, heard], [41, []]);
        await at.runtime.skills.refresh({ signal: new AbortController().signal });
        await at.runtime.skills.refresh();
        same([listed(at.runtime).map(([id]) => id), heard], [['project:/only', at.skill.id], ['skills-changed']]);
        await at.close();
    },

    async 'a file that is read for ever keeps the session busy until it is stopped'() {
        const at = await world();
        await at.runtime.skills.addSource(shelf({ '/r/SKILL.md': review() }));
        const source = shelf({ '/s/SKILL.md': skillFile('slow', 'x') });
        await at.runtime.skills.addSource(source);
        source.files['/s/SKILL.md'] = () => new Promise(() => {});
        for (const begin of [(options) => at.session.prompt('$slow', options), (options) => at.session.begin('$slow', options)]) {
            const controller = new AbortController();
            const first = outcome(() => begin({ signal: controller.signal }));
            await fails(() => at.session.prompt('Hi'), 'session_busy');
            controller.abort();
            same((await first).rejected.code, 'aborted');
            const second = outcome(() => begin());
            await at.session.abort();
            same((await second).rejected.code, 'aborted');
        }
        same([at.session.state.isRunning, at.session.state.messageCount], [false, 0]);
        same((await at.session.prompt('Hi $review')).saved, true);
        await at.close();
    },

    async 'a skill is switched off and on, wherever it comes from, and says so'() {
        const at = await world();
        const heard = events(at.runtime);
        const { skills } = at.runtime;
        await skills.addSource(shelf({ '/r/SKILL.md': review() }, 'bundled'));
        same(await skills.setEnabled('bundled:/r/SKILL.md', false), undefined);
        await skills.setEnabled(at.skill.id, false);
        same(listed(at.runtime), [[at.skill.id, 'disabled'], ['bundled:/r/SKILL.md', 'disabled']]);
        same(skills.list().map(({ enabled }) => enabled), [false, false]);
        same(heard.length, 3);
        // Text that looks like a choice stays text; a choice by id is refused.
        same((await at.session.prompt('$review and $demo')).saved, true);
        same(at.session.getRuntimeContexts(), []);
        same((await fails(() => at.session.prompt('x', { skills: [at.skill.id] }), 'skill_unavailable')).data.reason, 'disabled');
        await skills.setEnabled(at.skill.id, true);
        same(listed(at.runtime)[0], [at.skill.id, 'active']);
        await fails(() => skills.setEnabled('nobody', true), 'not_found');
        for (const bad of [undefined, null, 0, 'true']) await fails(() => skills.setEnabled(at.skill.id, bad), 'invalid_argument');
        const error = await fails(() => skills.remove('bundled:/r/SKILL.md'), 'invalid_argument');
        ok(error.message.includes('setEnabled'), error.message);
        await at.close();
    },

    async 'the model is told of the skills that it may load, within its cap, and loads one by an ordinary call'() {
        const model = scripted(calling(['c1', 'load_skill', { name: 'review' }], ['c2', 'load_skill', { name: 'mine' }]), assistant('Done.'), assistant('Again.'));
        const runtime = await rc.Runtime.open({ storage: 'memory', model });
        await runtime.skills.addSource(shelf({
            '/r/SKILL.md': review(), '/z/SKILL.md': skillFile('zebra', 'x', 'Two\n  lines </skills>.'),
            '/m/SKILL.md': '---\nname: mine\ndescription: d\ndisable-model-invocation: true\n---\nx\n',
        }));
        const session = await runtime.createSession({ permissionPreset: 'read-only', headless: true });
        same(await session.prompt('Go.'), Object.freeze({ outcome: 'success', saved: true }));
        const section = prompt(model, 0).match(/<skills>\n([\s\S]*?)\n<\/skills>/)[1].split('\n');
        same(section.slice(1), ['- review: What review is for.', '- zebra: Two lines &lt;/skills>.']);
        same(toolNames(model, 0), ['load_skill']);
        const [, , loaded, refused] = session.messages;
        same([loaded.role, loaded.toolName, loaded.isError, loaded.content], ['toolResult', 'load_skill', false, [{ type: 'text', text: block('Read twice.') }]]);
        same([refused.isError, refused.content[0].text], [true, 'skill `mine` can only be chosen by the user; go on without it, or ask for it']);
        same([session.getRuntimeContexts(), session.state.skillLoads], [[], []]);
        // Fewer skills, and then none: another prompt, and what the model saw before stays.
        const before = session.systemPromptAt(0);
        await runtime.skills.setEnabled('project:/z/SKILL.md', false);
        await session.prompt('More.');
        ok(!prompt(model).includes('zebra') && prompt(model).includes('- review: '), prompt(model));
        same(model.reports.at(-1).divergence, { class: 'system', index: -1, events: ['skills'] });
        await runtime.skills.setEnabled(REVIEW, false);
        await session.prompt('None.');
        same([toolNames(model), prompt(model).includes('<skills>')], [[], false]);
        same(session.systemPromptAt(0), before);
        await runtime.close();
    },

    async 'the tool that loads a skill is there for hosts with a loop of their own'() {
        const at = await world();
        await at.runtime.skills.addSource(shelf({ '/r/SKILL.md': review() }));
        const tool = at.runtime.skills.loadTool();
        same([tool.name, tool.access, tool.parameters.required, typeof tool.description], ['load_skill', 'none', ['name'], 'string']);
        const turn = await at.session.begin('Go.');
        const { request } = await turn.request();
        same(request.tools.map(({ name }) => name), ['load_skill']);
        same(at.session.visibleTools().map(({ name }) => name), ['load_skill']);
        same(request.tools[0], { name: tool.name, description: tool.description, parameters: tool.parameters });
        await turn.dispatched();
        await turn.append(calling(['c1', 'load_skill', { name: 'review' }]));
        const [call] = turn.openCalls;
        same((await turn.gate(call)).outcome, 'allow');
        const text = await tool.execute(call.arguments, {});
        same(text, block('Read twice.'));
        await turn.append(resultOf('c1', 'load_skill', text));
        same((await turn.finish()).saved, true);
        for (const name of ['nobody', '', REVIEW]) {
            same((await fails(() => tool.execute({ name }), 'skill_unavailable')).data.reason, 'unknown');
        }
        for (const bad of [undefined, null, {}, { name: 7 }, 'review', [], { name: '\ud800' }]) {
            await fails(() => tool.execute(bad), 'invalid_argument');
        }
        await at.runtime.close();
        await fails(() => tool.execute({ name: 'review' }), 'disposed');
    },

    async 'a host may declare a tool of that name itself, even one that another runtime gave'() {
        const first = await rc.Runtime.open({ storage: 'memory' });
        await first.skills.add({ content: review(), location: '/r/SKILL.md', scope: 'project' });
        const model = scripted(calling(['c1', 'load_skill', { name: 'review' }]), assistant('Done.'));
        const second = await rc.Runtime.open({ storage: 'memory', model, tools: [first.skills.loadTool()] });
        const session = await second.createSession();
        await session.prompt('Go.');
        same(session.messages[2].content[0].text, block('Read twice.'));
        same([toolNames(model, 0), prompt(model, 0).includes('<skills>')], [['load_skill'], false]);
        await first.close();
        await second.close();
    },

    async 'the order of scopes and the cap are options, and bad ones are refused'() {
        for (const [skills, field] of [
            [7, undefined], [[], undefined], [{ tokenCap: -1 }, 'options.skills.tokenCap'], [{ tokenCap: 1.5 }, 'options.skills.tokenCap'], [{ tokenCap: 'many' }, 'options.skills.tokenCap'],
            [{ scopeOrder: 'project' }, 'options.skills.scopeOrder'], [{ scopeOrder: [7] }, 'options.skills.scopeOrder[0]'], [{ scopeOrder: ['a:b'] }, undefined], [{ scopeOrder: [''] }, undefined],
        ]) {
            const error = await fails(() => rc.Runtime.open({ storage: 'memory', skills }), 'invalid_argument');
            if (field !== undefined) same(error.data.field, field);
        }
        const model = scripted(assistant('Done.'));
        const runtime = await rc.Runtime.open({ storage: 'memory', model, skills: { tokenCap: 70, scopeOrder: ['own', 'bundled'] } });
        for (const scope of ['project', 'bundled', 'own', 'another']) {
            await runtime.skills.add({ content: scope === 'own' ? skillFile('own', 'x', 'd'.repeat(40)) : skillFile('same', 'x', 'many words '.repeat(9)), location: '/s', scope });
        }
        same(listed(runtime), [['own:/s', 'active'], ['bundled:/s', 'active'], ['another:/s', 'shadowed'], ['project:/s', 'shadowed']]);
        const session = await runtime.createSession();
        await session.prompt('Hi');
        const section = prompt(model).match(/<skills>\n[\s\S]*?\n<\/skills>/)[0];
        ok(rc.estimateTokens({ role: 'user', content: section }) <= 70, section);
        ok(section.includes('\n- own: ddd') && section.endsWith('\n1 more skill is not listed here, to save room.\n</skills>'), section);
        await runtime.close();
        const none = await rc.Runtime.open({ storage: 'memory', model, skills: { tokenCap: 0 } });
        await none.skills.add({ content: review(), location: '/s' });
        await (await none.createSession()).prompt('$review');
        same([toolNames(model), prompt(model).includes('<skills>'), shown(model)[0].startsWith('<skill ')], [[], false, true]);
        await none.close();
    },

    async 'mentions found in the list of the catalogue are those that a session finds'() {
        const at = await world();
        const { skills } = at.runtime;
        await skills.add({ content: review(), location: '/strong', scope: 'project' });
        await skills.add({ content: review('Weak.'), location: '/weak', scope: 'bundled' });
        await skills.add({ content: skillFile('off', 'x'), location: '/off' });
        await skills.setEnabled('personal:/off', false);
        await skills.add({ content: '---\nname: hidden\ndescription: d\nuser-invocable: false\n---\nx\n', location: '/hidden' });
        await skills.addSource(shelf({ '/broken': 'no skill' }));
        for (const [text, ids] of [
            ['$review', ['project:/strong']], ['[$review](/weak)', ['bundled:/weak']], ['$off', []], ['[$off](/off)', []], ['$hidden', []],
        ]) {
            same(rc.findSkillMentions(text, skills.list()).map(({ id }) => id), ids, text);
            const before = at.session.state.skillLoads.length;
            await at.session.prompt(text);
            same(at.session.state.skillLoads.slice(before).map(({ id }) => id), ids, text);
        }
        // Skills that are given without it stand for themselves.
        same(rc.findSkillMentions('$off', [{ id: 'a', name: 'off' }]).length, 1);
        for (const [bad, field] of [[{ status: 'gone' }, 'skills[0].status'], [{ status: 7 }, 'skills[0].status'], [{ userInvocable: 'no' }, 'skills[0].userInvocable']]) {
            const error = await fails(() => rc.findSkillMentions('$off', [{ id: 'a', name: 'off', ...bad }]), 'invalid_argument', 'threw');
            same(error.data.field, field);
        }
        await at.close();
    },

    async 'what a person adds is an entry at once, under whatever encoding, or a clear error'() {
        const at = await world();
        const { skills } = at.runtime;
        const utf16 = new Uint8Array([0xff, 0xfe, ...[...review()].flatMap((c) => [c.charCodeAt(0), 0])]);
        const latin1 = Uint8Array.from([...review('Café.')], (c) => c.charCodeAt(0));
        for (const content of [utf16, latin1]) {
            const error = await fails(() => skills.add({ content, location: '/x/SKILL.md' }), 'skill_invalid');
            same([error.data.id, error.data.diagnostics.map(({ code }) => code)], ['personal:/x/SKILL.md', ['invalid_utf8']]);
            ok(error.message.includes('UTF-8'), error.message);
        }
        const huge = new Uint8Array(32 * 1024 * 1024 + 1);
        same((await fails(() => skills.add({ content: huge, location: '/x' }), 'invalid_argument')).data.field, 'skill.content');
        for (const content of [new ArrayBuffer(3), new Blob(['x']), [1, 2], 7]) {
            await fails(() => skills.add({ content, location: '/x' }), 'invalid_argument');
        }
        const added = await skills.add({ content: new TextEncoder().encode(`\ufeff${review('Ünïcödé 😀').replaceAll('\n', '\r\n')}`), location: '/r/SKILL.md', scope: 'project' });
        same([added.id, added.status], [REVIEW, 'active']);
        // Shadowed from its first moment, it says so.
        same((await skills.add({ content: review(), location: '/weak', scope: 'bundled' })).status, 'shadowed');
        await at.session.prompt('$review');
        same(at.session.getRuntimeContexts()[0].content, block('Ünïcödé 😀'));
        await at.close();
    },
};

if (typeof indexedDB !== 'undefined') {
    cases['two pages see what the other did after a refresh, and what was switched off stays off after a reload'] = async () => {
        const at = await world();
        const other = await at.another();
        const bundled = shelf({ '/r/SKILL.md': review() }, 'bundled');
        await at.runtime.skills.addSource(bundled);
        await at.runtime.skills.add({ content: review('Read.'), location: '/r/SKILL.md', scope: 'project' });
        await at.runtime.skills.setEnabled('bundled:/r/SKILL.md', false);
        await at.runtime.skills.setEnabled(at.skill.id, false);
        same(listed(other), [[at.skill.id, 'active']]);
        const heard = events(other);
        await other.skills.refresh();
        await other.skills.refresh();
        same([listed(other), heard], [[[REVIEW, 'active'], [at.skill.id, 'disabled']], ['skills-changed']]);
        // Its source comes later, and it is still off.
        await other.skills.addSource(bundled);
        same(listed(other).at(-1), ['bundled:/r/SKILL.md', 'disabled']);
        // One that the other page removed is not there to be chosen, also before this page has looked.
        await other.skills.remove(REVIEW);
        same((await fails(() => at.session.prompt('x', { skills: [REVIEW] }), 'skill_unavailable')).data.reason, 'unreadable');
        await other.close();
        const again = await at.another();
        same(listed(again), [[at.skill.id, 'disabled']]);
        await again.close();
        await at.close();
    };

    cases['a write that fails leaves the catalogue as it was'] = async () => {
        const at = await world();
        const heard = events(at.runtime);
        const before = [listed(at.runtime), await at.stored()];
        for (const work of [
            () => at.runtime.skills.setEnabled(at.skill.id, false), () => at.runtime.skills.remove(at.skill.id),
            () => at.runtime.skills.add({ content: review(), location: '/r/SKILL.md' }),
        ]) {
            failWrites('quota');
            await fails(work, 'storage_quota');
            calm();
        }
        same([listed(at.runtime), await at.stored()], before);
        same(heard, []);
        await at.close();
    };
}
