/**
 * Entity tags (RFC 9110 §8.8.3) of objects that several people change. Every change of an object replaces its tag, so
 * a change with the tag that its caller has read overwrites nothing that its caller has not seen.
 */
import { createHash } from 'node:crypto';

/** Enough that two states of one object never have the same tag. */
const TAG_CHARACTERS = 22;

/** Returns the tag, with its quotes. @param state what requests can change, always with its fields in the same order */
export function entityTagOf(state: object): string {
  const hash = createHash('sha256').update(JSON.stringify(state)).digest('base64url');
  return `"${hash.slice(0, TAG_CHARACTERS)}"`;
}

/** Returns whether a change may replace the state with this tag. It is asked while the state is locked. */
export type IsExpected = (tag: string) => boolean;

/** For a change that names no state: it replaces any. */
export const ANY_STATE: IsExpected = () => true;
