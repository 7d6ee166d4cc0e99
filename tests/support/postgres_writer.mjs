// A process that commits to one session without end, and says of each commit that it is acknowledged before it begins the
// next: `node postgres_writer.mjs MODULE CONNECTION SESSION`. It is there to be killed.

import { writeSync } from 'node:fs';

import pg from 'pg';

const [module, connection, id] = process.argv.slice(2);
const { postgresStorage } = await import(module);
const pool = new pg.Pool({ ...JSON.parse(connection), max: 1, application_name: id });
pool.on('error', () => {});
const session = postgresStorage({ pool }).session(id);
const bytes = (value) => new TextEncoder().encode(JSON.stringify(value));

const said = [];
for (let number = 0; ; number++) {
    said.push(`message ${number}`);
    const result = await session.commit({
        sessionId: id,
        operationId: `${id} ${number}`,
        timestamp: number,
        origin: `${id} 0`,
        create: number === 0 ? { header: bytes({ id }), settings: {} } : undefined,
        expected: number,
        messageCount: number + 1,
        records: [
            { store: 'messages', position: number, value: bytes(`message ${number}`) },
            // Replaced by each, whole; of different sizes, also of several rows.
            { store: 'message_outlines', position: 0, value: bytes({ said, filler: 'x'.repeat(number % 20 === 0 ? 1_200_000 : number) }) },
            { store: 'runtime_contexts', position: number, value: bytes(number) },
        ],
        approvals: [{ id: 'approval', expected: number, value: bytes(number) }],
        settings: { last: bytes(number) },
    });
    if (result.status !== 'applied') throw new Error(`commit ${number}: ${result.status}`);
    // At once, and not through a stream that a kill could empty.
    writeSync(1, `${number + 1}\n`);
}
