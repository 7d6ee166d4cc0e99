// A process of its own with the package and a pool: it runs what its parent sends, functions as text, in a scope that stays.

import pg from 'pg';

import * as kit from './cases/kit.mjs';

const [parts, connection] = process.argv.slice(2);
const { rc, postgresStorage } = await import(parts);
kit.use(rc);
const pool = new pg.Pool(JSON.parse(connection));
pool.on('error', () => {});
const scope = { rc, kit, storage: postgresStorage({ pool }) };

process.on('message', async ({ source, argument }) => {
    try {
        const work = new Function('scope', 'argument', `return (${source})(scope, argument);`);
        process.send({ gave: kit.toText(await work(scope, argument)) });
    } catch (error) {
        process.send({ threw: `${error.code}: ${error.stack}` });
    }
});
process.send({ ready: true });
