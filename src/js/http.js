// What is read of a request, and made of an answer. Nothing is decided here.

/**
 * @param {Request} request
 * @returns {[string, string, string | null]} its method, its URL, and the type of its body
 */
export const parts = ({ method, url, headers }) => [method, url, headers.get('content-type')];

/** An answer with JSON text, or without a body. */
export function response(status, allow, text) {
    const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
    if (allow !== undefined) headers.allow = allow;
    return new Response(text ?? null, { status, headers });
}
