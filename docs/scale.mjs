// A deployment of a million sessions on paper: rows, bytes and commits a second in PostgreSQL, computed from what is assumed and
// from what `cargo xtask bench postgres` measured. It prints tables of docs/scale.md; a test holds the two together.

const ASSUMED = {
    sessions: 1_000_000,
    activeShareOfSessionsPerDay: 0.2,
    turnsPerActiveSessionPerDay: 10,
    busiestHourToMeanHour: 3,
    gatedCallsPerTurn: 1,
    // Over a network, with a copy that has to answer.
    millisecondsPerCommit: 20,
    bytesPerPartition: 8e9,
};

/** Of a session of 50 turns without tools and 100 messages of 1,000 bytes, with indexes. From `cargo xtask bench postgres`. */
const MEASURED = {
    turns: 50,
    rows: { sessions: 1, messages: 100, records: 20, operations: 151, entries: 1, entry_values: 1 },
    // The entries as they are when packed, and as much again for what vacuum has yet to take.
    bytes: { sessions: 1393, messages: 129_761, records: 14_909, operations: 41_124, entries: 2 * 901, entry_values: 1311 },
    commitsPerTurn: 3,
    // The first one of a day finds its pages unchanged since a checkpoint, and the log takes them whole.
    logOfFirstTurn: 29_789,
    logOfNextTurn: 10_649,
};

const whole = (number) => Math.round(number).toLocaleString('en');
const table = (head, rows) => [head, head.map((_, at) => (at === 0 ? '---' : '---:')), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');

const a = ASSUMED;
const m = MEASURED;
console.log(table(['assumed', ''], [
    ['sessions, each of 100 messages of 1,000 bytes', whole(a.sessions)],
    ['sessions in use on one day', `${a.activeShareOfSessionsPerDay * 100} %`],
    ['turns in one of them on that day, one after another', whole(a.turnsPerActiveSessionPerDay)],
    ['the busiest hour to the mean one', `${a.busiestHourToMeanHour} : 1`],
    ['calls of tools that are gated, per turn', whole(a.gatedCallsPerTurn)],
    ['a commit, over a network and with a copy that answers', `${a.millisecondsPerCommit} ms`],
    ['a partition that is still moved and repaired in minutes', `${a.bytesPerPartition / 1e9} GB`],
]));

const tables = Object.keys(m.rows);
const rows = (name) => m.rows[name] * a.sessions;
const bytes = (name) => m.bytes[name] * a.sessions;
const sum = (of) => tables.reduce((total, name) => total + of(name), 0);
const gigabytes = (number) => `${(number / 1e9).toFixed(1)} GB`;
console.log(`\n${table(['table', 'rows', 'with indexes'], [
    ...tables.map((name) => [`\`${name}\``, whole(rows(name)), gigabytes(bytes(name))]),
    ['all', whole(sum(rows)), gigabytes(sum(bytes))],
])}`);

const active = a.sessions * a.activeShareOfSessionsPerDay;
const turnsPerDay = active * a.turnsPerActiveSessionPerDay;
const logPerDay = active * (m.logOfFirstTurn + (a.turnsPerActiveSessionPerDay - 1) * m.logOfNextTurn);
/** Of something a day, how much in a second of the busiest hour. */
const busiest = (perDay) => (perDay / 86_400) * a.busiestHourToMeanHour;
const commits = busiest(turnsPerDay * m.commitsPerTurn);
const partitions = 2 ** Math.ceil(Math.log2(bytes('messages') / a.bytesPerPartition));
console.log(`\n${table(['computed', ''], [
    ['commits on one day', whole(turnsPerDay * m.commitsPerTurn)],
    ['commits in a second of the busiest hour', whole(commits)],
    ['entries of the directory that are put in that second', whole(commits)],
    ['questions of the gate in that second: policy version, counters', whole(busiest(turnsPerDay * a.gatedCallsPerTurn) * 2)],
    ['connections that are in a commit at one time then', whole(Math.ceil((commits * a.millisecondsPerCommit) / 1000))],
    ['log of one day', gigabytes(logPerDay)],
    ['log in a second of the busiest hour', `${(busiest(logPerDay) / 1e6).toFixed(1)} MB`],
    ['growth on one day, with no session deleted', gigabytes((turnsPerDay / m.turns) * (sum(bytes) / a.sessions))],
    ['partitions, a power of two', whole(partitions)],
    ['sessions in one of them', whole(a.sessions / partitions)],
])}`);
