/**
 * The text of the search field, in the grammar of `GET /v1/emails?q=`. An id alone opens its email, and an address
 * alone is searched as a recipient.
 */
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const ADDRESS_ALONE = /(^|\s)([^\s:"@]+@[^\s:"]+)(?=\s|$)/g;
const STATUS = /(^|\s)status:(\S+)/;

type Wanted = { kind: 'id'; id: string } | { kind: 'search'; q: string };

export function readSearchText(text: string): Wanted {
  const trimmed = text.trim();
  if (ID.test(trimmed)) return { kind: 'id', id: trimmed.toLowerCase() };
  return { kind: 'search', q: trimmed.replaceAll(ADDRESS_ALONE, '$1to:$2') };
}

export function statusOf(q: string): string | null {
  return STATUS.exec(q)?.[2] ?? null;
}

/** @param status '' for any */
export function withStatus(text: string, status: string): string {
  const rest = text.replace(STATUS, '').trim();
  return status === '' ? rest : `${rest} status:${status}`.trim();
}
