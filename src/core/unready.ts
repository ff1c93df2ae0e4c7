/**
 * Reasons why a node accepts or sends no mail. `GET /readyz` shows all that apply; a refused email names the first.
 * The codes are part of the API (docs/monitoring.md). A retired code is never reused.
 */

const REMEDIES = {
  database_unavailable: 'check that it runs and that this machine reaches it',
  database_read_only: 'point DATABASE_URL at the server that accepts writes, or promote this one',
  database_full: 'raise LETTERHAUS_DATABASE_MAX_MB, or keep mail for a shorter time',
  disk_full: 'free some disk space',
  clock: 'set the clocks of this machine and of the database by NTP',
  schema: 'start the newer version',
  secret_key: 'start with the secret key of this installation',
  overloaded: 'try again in a moment',
  shutting_down: 'use another node, or wait for the next start',
} as const;

export type UnreadyCode = keyof typeof REMEDIES;

export const UNREADY_CODES = Object.keys(REMEDIES) as [UnreadyCode, ...UnreadyCode[]];

/** `reason` completes "Nothing was accepted: …". `isAccepting`: mail is still accepted, but waits. */
export type Unready = { code: UnreadyCode; reason: string; isAccepting?: true };

export function unreadySentence({ code, reason }: Unready): string {
  return `${capitalized(reason)}; ${REMEDIES[code]}.`;
}

export function remedyFor(code: UnreadyCode): string {
  return `${capitalized(REMEDIES[code])}.`;
}

function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
