// @ts-check
// Why a path was not resolved: short texts, the same in every host.

export const NOT_TEXT = 'is no text';
export const ILL_FORMED = 'holds half of a surrogate pair';
export const NOT_UNICODE = 'leads to a name that is not Unicode';
export const NUL = 'holds a NUL';
export const TOO_LONG = 'is too long';
export const NO_BASE = 'is relative, and its base is not an absolute path';
export const NO_ROOT = 'has a root that does not exist';
export const NOT_A_DIRECTORY = 'uses a file as a directory';
export const TOO_MANY_LINKS = 'has too many links, or a loop of them';
export const NO_PERMISSION = 'leads through a directory that may not be searched';
export const DEVICE = 'is a device path';
export const DRIVE_RELATIVE = 'is relative to the working directory of a drive';
export const NO_SHARE = 'names no share of a server';
export const WINDOWS_NAME = 'has a name that Windows refuses or changes';
export const OUTSIDE = 'is below a directory that is not in the Origin Private File System, and may hold links';
export const NOT_LOOKED_AT = 'is below a directory that nobody has looked at yet';
export const REFUSED_NAME = 'has a name that this file system refuses';
