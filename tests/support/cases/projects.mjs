// Projects, tickets and jobs, and what sessions for them run as.

import { fails, ok, same } from './check.mjs';
import { rc } from './kit.mjs';
import { world } from './world.mjs';

const PROJECT = { id: 'p', name: 'Shop', description: 'Sells apples.', path: '/srv/shop' };
const TICKET = { id: 't', project_id: 'p', title: 'Prices', run_context: { allow_fs_writes: ['logs/*'] } };
const JOB = { id: 'j', name: 'Nightly', schedule: '0 3 * * *', run_context: { security_group: 'cron' } };

/** All members of a run context, with these. */
const whole = (members) => ({
    security_group: null, system_prompt: [], allow_fs_writes: [], allow_fs_reads: [], working_directory: null, ...members,
});

/** Without the members that say nothing. */
const said = (context) =>
    context && Object.fromEntries(Object.entries(context).filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0)));

export const cases = {
    async 'run contexts are resolved as the vectors say'() {
        const address = new URL('../vectors/run_context.json', import.meta.url);
        const { readFile } = address.protocol === 'file:' ? await import('node:fs/promises') : {};
        const vectors = readFile ? JSON.parse(await readFile(address, 'utf8')) : await (await fetch(address)).json();
        same(vectors.length, 47);
        for (const { name, input, expected, wrong } of vectors) {
            if (wrong) same((await fails(() => rc.resolveRunContext(input), 'invalid_argument', 'threw')).data, wrong, name);
            else same(said(rc.resolveRunContext(input)), expected, name);
        }
    },

    async 'what is in a configuration beside run contexts is kept and reported'() {
        const text = 'log: {level: 3, ratio: 0.5}\ntic:\n  run_context: {colour: [red, ~]}\n';
        const { defaults, unknownFields } = rc.parseRunContextDefaults(text);
        same(defaults, { log: { level: 3, ratio: 0.5 }, tic: { run_context: { colour: ['red', null] } } });
        same(unknownFields.sort(), ['defaults.log', 'defaults.tic.run_context.colour']);
        same(rc.parseRunContextDefaults(defaults).defaults, defaults);
        const error = await fails(() => rc.parseRunContextDefaults('a: [1\nb: 2'), 'invalid_argument', 'threw');
        same([error.data.field, error.data.line], ['defaults', 2]);
        const at = await world({ session: { source: 'tic' }, defaults: text });
        same([...at.runtime.unknownFields].sort(), ['options.defaults.log', 'options.defaults.tic.run_context.colour']);
        same(at.session.runContext, whole({ colour: ['red', null] }));
        same(at.session.state.unknownFields, ['runContext.colour']);
        await at.session.setRunContext({ ...at.session.runContext, colour: 'blue', security_group: 'g' });
        same([at.session.runContext.colour, at.session.header.runContext.colour, at.session.state.runContext.colour], ['blue', 'blue', 'blue']);
        await at.session.setRunContext({ security_group: 'g' });
        same([at.session.state.unknownFields, 'colour' in at.session.runContext], [[], false]);
        same(at.runtime.unknownFields.length, 2);
        await at.close();
    },

    async 'defaults that cannot be read keep a runtime from opening'() {
        for (const [defaults, data] of [
            ['tic: *x', { field: 'options.defaults', line: 1, column: 6 }],
            [{ tic: { run_context: { system_prompt: 'x' } } }, { field: 'options.defaults.tic.run_context.system_prompt' }],
            [{ agents: { a: { run_context: { allow_fs_reads: ['/'] } } } }, { field: 'options.defaults.agents.a.run_context.allow_fs_reads[0]' }],
        ]) {
            same((await fails(() => rc.Runtime.open({ storage: 'memory', defaults }), 'invalid_argument')).data, data);
        }
    },

    async 'projects, tickets and jobs are created, read, changed and deleted'() {
        const at = await world();
        const { projects, jobs } = at.runtime;
        const given = structuredClone(PROJECT);
        same(await projects.createProject(given), { id: 'p', unknownFields: [] });
        given.name = 'Other';
        same(await projects.createTicket({ ...TICKET, run_context: { colour: 1 } }), { id: 't', unknownFields: ['run_context.colour'] });
        same(await jobs.createJob(JOB), { id: 'j', unknownFields: [] });
        const { id } = await projects.createProject({ name: 'Farm', path: '/srv/farm' });
        ok(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id), id);
        same((await projects.listProjects()).map((project) => project.name).sort(), ['Farm', 'Shop']);
        same(await projects.getProject('p'), PROJECT);
        same(await projects.listTickets('p'), [await projects.getTicket('t')]);
        same([await projects.listTickets(id), (await projects.listTickets()).length], [[], 1]);
        same(await jobs.listJobs(), [{ ...JOB, run_context: whole(JOB.run_context) }]);

        same(await projects.updateProject('p', { description: null, owner: { of: ['it'] } }), { id: 'p', unknownFields: [] });
        same(await projects.getProject('p'), { ...PROJECT, description: null, owner: { of: ['it'] } });
        await projects.updateTicket('t', { title: 'New prices' });
        same((await projects.getTicket('t')).title, 'New prices');
        await jobs.updateJob('j', { schedule: null });
        same((await jobs.getJob('j')).schedule, null);
        await fails(() => projects.createProject(PROJECT), 'conflict');
        same((await fails(() => projects.updateProject('p', { path: 'shop' }), 'invalid_argument')).data.field, 'project.path');
        await fails(() => projects.createTicket({ title: 'x', project_id: 'nowhere' }), 'not_found');

        same(await jobs.deleteJob('j'), undefined);
        await fails(() => jobs.getJob('j'), 'not_found');
        await projects.deleteProject('p');
        await fails(() => projects.getTicket('t'), 'not_found');
        same((await projects.listProjects()).map((project) => project.id), [id]);
        await projects.createTicket({ id: 'u', project_id: id, title: 'Apples' });
        await projects.deleteTicket('u');
        same(await projects.listTickets(), []);
        await at.close();
    },

    async 'a run context of a row is set, replaced, cleared and read'() {
        const at = await world();
        const { projects, jobs, permissions } = at.runtime;
        await projects.createProject(PROJECT);
        await projects.createTicket({ ...TICKET, run_context: null });
        await jobs.createJob({ ...JOB, run_context: undefined });
        await permissions.createGroup({ id: 'g', name: 'G' });
        for (const [get, set] of [
            [() => projects.getProjectRunContext('p'), (context) => projects.setProjectRunContext('p', context)],
            [() => projects.getTicketRunContext('p', 't'), (context) => projects.setTicketRunContext('p', 't', context)],
            [() => jobs.getJobRunContext('j'), (context) => jobs.setJobRunContext('j', context)],
        ]) {
            same(await get(), null);
            same((await set({ security_group: 'g', colour: 1 })).unknownFields, ['run_context.colour']);
            same(await get(), whole({ security_group: 'g', colour: 1 }));
            await fails(() => permissions.deleteGroup('g'), 'group_in_use');
            await fails(() => set({ allow_fs_writes: 5 }), 'invalid_argument');
            await fails(() => set(undefined), 'invalid_argument');
            same((await get()).security_group, 'g');
            await set({ allow_fs_reads: ['/in'] });
            same(await get(), whole({ allow_fs_reads: ['/in'] }));
            await set(null);
            same(await get(), null);
        }
        await fails(() => projects.getTicketRunContext('nowhere', 't'), 'not_found');
        await fails(() => projects.setTicketRunContext('nowhere', 't', {}), 'not_found');
        await permissions.deleteGroup('g');
        await at.close();
    },

    async 'a session for a ticket begins in its project, and stays as it began'() {
        const resolvePaths = (base, paths) => paths.map((path) => ({ canonical: path.startsWith('/') ? path : `${base}/${path}` }));
        const host = { cwd: '/w', dataDir: '/data/ann', resolvePaths };
        const tools = [{ name: 'write_file', paths: [{ argument: '/path', access: 'write' }] }];
        const at = await world({ session: false, host, tools });
        const { projects, jobs } = at.runtime;
        await projects.createProject(PROJECT);
        await projects.createTicket(TICKET);
        await jobs.createJob(JOB);
        const session = await at.runtime.createSession({ ticketId: 't' });
        same(session.runContext, whole({
            system_prompt: ['Project: Shop\nSells apples.\nTicket: Prices\nData directory: /data/ann (writable; for what belongs to the user and not to the project)'],
            allow_fs_writes: ['/srv/shop', '/data/ann', 'logs/*'], working_directory: '/srv/shop',
        }));
        const writes = async (path) => (await session.explain({ toolCallId: 'c', toolName: 'write_file', arguments: { path } })).outcome;
        same([await writes('/srv/shop/a'), await writes('/data/ann/a'), await writes('/w/a')], ['allow', 'allow', 'require']);
        await projects.setTicketRunContext('p', 't', { security_group: 'later' });
        same(session.runContext.security_group, null);
        const { id } = session;
        const began = session.runContext;
        await session.dispose();
        same((await at.runtime.openSession(id)).runContext, began);
        const run = async (options) => (await at.runtime.createSession(options)).runContext?.security_group ?? null;
        same([await run({ ticketId: 't' }), await run({ jobId: 'j' }), await run({ jobId: 'j', runContext: null }), await run({})], ['later', 'cron', null, null]);
        await fails(() => run({ projectId: 'nowhere' }), 'not_found');
        await at.close();
    },

    async 'ten thousand grants are kept and decide'() {
        const grants = Array.from({ length: 10_000 }, (_, at) => `/srv/${at}/*`);
        const asked = [];
        const resolvePaths = (base, paths) => (asked.push(paths.length), paths.map((canonical) => ({ canonical })));
        const tools = [{ name: 'write_file', paths: [{ argument: '/path', access: 'write' }] }];
        const at = await world({ session: false, host: { cwd: '/w', resolvePaths }, tools });
        await at.runtime.jobs.createJob({ ...JOB, run_context: { allow_fs_writes: grants } });
        const session = await at.runtime.createSession({ jobId: 'j' });
        const writes = async (path) => (await session.explain({ toolCallId: 'c', toolName: 'write_file', arguments: { path } })).outcome;
        same([await writes('/srv/9999/a'), await writes('/srv/10000/a')], ['allow', 'require']);
        same([asked.length, asked[0] < 10_010], [2, true]);
        await at.close();
    },
};
