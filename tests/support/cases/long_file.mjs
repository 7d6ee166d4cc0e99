// A session file of any length, made as it is read, in Node and in a page.

const HEADER = { format: 'loop-session', version: 2, id: 'long', createdAt: '2026-01-31T12:00:00.000Z' };

/** So many messages of ten thousand characters, in parts that cut lines anywhere. `pause` is waited for after each megabyte. */
export function longFile(count, pause) {
    const encoder = new TextEncoder();
    let at = -1;
    let rest = new Uint8Array();
    let given = 0;
    return new ReadableStream({
        async pull(controller) {
            if (++given % 16 === 0) await pause();
            const parts = [rest];
            let length = rest.length;
            while (length < 65_536 && at < count) {
                const content = `${at} ${'abcdefghi '.repeat(1000)}`;
                const line = encoder.encode(`${JSON.stringify(at < 0 ? HEADER : { role: 'user', content, timestamp: at })}\n`);
                parts.push(line);
                length += line.length;
                at++;
            }
            const all = new Uint8Array(length);
            let end = 0;
            for (const part of parts) {
                all.set(part, end);
                end += part.length;
            }
            controller.enqueue(all.slice(0, 65_536));
            rest = all.slice(65_536);
            if (rest.length === 0 && at >= count) controller.close();
        },
    }, { highWaterMark: 0 });
}
