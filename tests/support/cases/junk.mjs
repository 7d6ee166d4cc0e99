// Values that nobody should hand in, by name.

const deep = (levels, end = {}) => {
    let value = end;
    for (let level = 0; level < levels; level++) value = [value];
    return value;
};

/** Objects that throw when they are looked at. Made anew each time, for what they remember. */
export const hostile = {
    'a getter that throws': () => ({
        get role() {
            throw new Error('no role for you');
        },
        get name() {
            throw new Error('no name for you');
        },
        get content() {
            throw new Error('no content for you');
        },
        get limit() {
            throw new Error('no limit for you');
        },
        get skills() {
            throw new Error('no skills for you');
        },
        get outcome() {
            throw new Error('no outcome for you');
        },
        get storage() {
            throw new Error('no storage for you');
        },
    }),
    'a proxy that throws': () => {
        const no = () => {
            throw new Error('no');
        };
        const traps = ['get', 'has', 'ownKeys', 'getOwnPropertyDescriptor', 'getPrototypeOf', 'isExtensible', 'set', 'defineProperty'];
        return new Proxy({}, Object.fromEntries(traps.map((trap) => [trap, no])));
    },
    'a proxy that throws nothing': () =>
        new Proxy({}, {
            get() {
                throw undefined;
            },
            ownKeys() {
                throw null;
            },
            getPrototypeOf() {
                throw Symbol('no');
            },
        }),
    'a revoked proxy': () => {
        const { proxy, revoke } = Proxy.revocable({}, {});
        revoke();
        return proxy;
    },
    'a revoked list': () => {
        const { proxy, revoke } = Proxy.revocable([], {});
        revoke();
        return proxy;
    },
    'a list that throws': () =>
        new Proxy([1], {
            get() {
                throw new RangeError('no length for you');
            },
        }),
    'a getter that throws a RangeError': () => ({
        role: 'user',
        get content() {
            throw new RangeError('Maximum call stack size exceeded');
        },
        get limit() {
            throw new RangeError('Maximum call stack size exceeded');
        },
        get location() {
            throw new RangeError('Maximum call stack size exceeded');
        },
    }),
};

export const values = {
    undefined: () => undefined,
    null: () => null,
    true: () => true,
    false: () => false,
    0: () => 0,
    '-1': () => -1,
    1.5: () => 1.5,
    '2 ** 32': () => 2 ** 32,
    NaN: () => NaN,
    Infinity: () => Infinity,
    bigint: () => 10n,
    symbol: () => Symbol('s'),
    function: () => () => {},
    class: () => class {},
    'empty text': () => '',
    text: () => 'text',
    'half a pair': () => '\ud83d',
    'text object': () => new String('text'),
    'number object': () => new Number(1),
    'empty object': () => ({}),
    'empty list': () => [],
    'list of null': () => [null],
    'list of a list': () => [[]],
    'list of texts': () => ['text'],
    map: () => new Map([['role', 'user']]),
    set: () => new Set(),
    date: () => new Date(0),
    expression: () => /x/,
    error: () => new Error('x'),
    promise: () => Promise.resolve({}),
    instance: () => new (class Instance {
        role = 'user';
        content = 'x';
    })(),
    bytes: () => new Uint8Array([0xff, 0xfe]),
    'other bytes': () => new Uint16Array(2),
    buffer: () => new ArrayBuffer(2),
    'without prototype': () => Object.create(null),
    cyclic: () => {
        const value = { role: 'user' };
        value.content = [value];
        return value;
    },
    'cyclic list': () => {
        const value = [];
        value.push(value);
        return value;
    },
    '129 levels': () => deep(129),
    '100,000 levels': () => deep(100_000),
    'with holes': () => [1, , 3],
    'of 2 ** 32 - 1 holes': () => Object.assign([], { length: 2 ** 32 - 1 }),
    'more than 32 MiB': () => ({ role: 'user', content: 'x'.repeat(32 * 1024 * 1024) }),
    'more than 32 MiB of bytes': () => [{ type: 'image', data: new Uint8Array(32 * 1024 * 1024) }],
    'member that is a function': () => ({ role: 'user', content: 'x', then() {} }),
    'member that is a bigint': () => ({ role: 'user', content: 'x', big: 1n }),
    'member that is not a number': () => ({ role: 'user', content: 'x', limit: NaN, timestamp: NaN }),
    'member that is a map': () => ({ role: 'user', content: [{ type: 'text', text: new Map() }] }),
    'own __proto__': () => JSON.parse('{"__proto__": {"role": "user"}}'),
    ...hostile,
};
