// Values as JSON text that loses nothing: halves of surrogate pairs are escaped, bytes are base64 under `$bytes`.

export const toJson = (value) =>
    JSON.stringify(value, (_, inner) => (inner instanceof Uint8Array ? { $bytes: base64(inner) } : inner), 2) ?? 'undefined';

function base64(bytes) {
    let binary = '';
    for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return btoa(binary);
}
