/**
 * Why a node accepts or sends no mail at present: a closed list, which `GET /readyz` shows whole. A refused email names the first
 * reason. Codes are part of the API (docs/monitoring.md lists them); retired ones are never reused.
 */

const REMEDIES = {
  database_unavailable: 'check that it runs and that this machine reaches it',
  database_read_only:
    'let DATABASE_URL lead to the server that accepts writes, or promote this one',
  database_full: 'raise LETTERHAUS_DATABASE_MAX_MB, or keep mail for a shorter time',
  disk_full: 'make room on it',
  clock: 'have it and that of the database set by NTP',
  schema: 'start the newer version',
  secret_key: 'start with the secret key of this installation',
  overloaded: 'try again in a moment',
  shutting_down: 'use another node, or wait for the next start',
} as const;

export type UnreadyCode = keyof typeof REMEDIES;

export const UNREADY_CODES = Object.keys(REMEDIES) as [UnreadyCode, ...UnreadyCode[]];

/**
 * `reason` completes "Nothing was accepted: …".
 * @property isAccepting mail is accepted and waits, because nothing can be sent
 */
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
