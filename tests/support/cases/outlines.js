// Packs of outlines as IndexedDB holds them, read past the package. Before version 3 of the schema they were JSON text.

const ROLES = ['user', 'assistant', 'toolResult', 'other'];

/** The outlines of a stored pack; what is none as it is. */
export function outlinesOf(pack) {
    if (pack instanceof Uint8Array) return ofBytes([...pack]);
    try {
        return JSON.parse(pack);
    } catch {
        return pack;
    }
}

function ofBytes(bytes) {
    const number = (shift = 0) => {
        const byte = bytes.shift();
        return ((byte & 127) << shift) + (byte > 127 ? number(shift + 7) : 0);
    };
    const text = () => new TextDecoder().decode(Uint8Array.from(bytes.splice(0, number())));
    const outlines = [];
    while (bytes.length > 0) {
        const [kind, textLen, tokens, calls, answers] = Array.from({ length: 5 }, () => number());
        const outline = { role: ROLES[kind & 3] };
        if (kind & 64) outline.usage = { total: number(), overhead: number(), model: text() };
        if (kind & 4) outline.userTurn = true;
        if (calls > 0) outline.calls = Array.from({ length: calls }, () => ({ id: text(), name: text() }));
        if (answers > 0) outline.answers = Array.from({ length: answers }, () => ({ id: text(), name: text(), ...(number() && { isError: true }) }));
        if (kind & 48) outline.stop = kind & 16 ? 'error' : 'aborted';
        outlines.push({ ...outline, textLen, tokens, ...(kind & 8 && { bytes: true }) });
    }
    return outlines;
}
