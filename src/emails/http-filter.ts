/** The filter of the list of emails, from the query parameters of a request. */
import type { z } from 'zod';
import { type FieldProblem, isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import { parseDomain } from '../mail/address.ts';
import { type EmailFilter, NO_FILTER } from './list/email-list-store.ts';
import type { emailCountQuery } from './schemas.ts';
import { parseAddressKey, parseTag, readSearch, mergeSearch } from './search.ts';

/** @param own restricts the list to emails sent by this key, from this domain, or null for any */
export function filterFrom(
  query: z.output<typeof emailCountQuery>,
  own: Pick<EmailFilter, 'keyId' | 'domain'>,
): EmailFilter | Refusal {
  const problems: FieldProblem[] = [];
  const read = <Value>(
    name: 'to' | 'from' | 'tag' | 'domain',
    parse: (text: string) => Value | null,
    what: string,
  ): Value | null => {
    const text = query[name];
    if (text === undefined) return null;
    const value = parse(text);
    if (value === null) problems.push({ field: name, message: `is not ${what}` });
    return value;
  };
  const filter = {
    ...NO_FILTER,
    to: read('to', parseAddressKey, 'an email address'),
    from: read('from', parseAddressKey, 'an email address'),
    tag: read('tag', parseTag, 'a tag, like kind or kind:receipt'),
    domain: read('domain', parseDomain, 'a domain name, like acme.com'),
    status: query.status ?? null,
    subject: query.subject === undefined ? null : [query.subject],
    createdAfter: timeOf(query.created_after),
    createdBefore: timeOf(query.created_before),
    keyId: own.keyId,
  };
  if (problems.length > 0) return refuseFields(problems);
  const searched = query.q === undefined ? filter : searchedBy(query.q, filter);
  if (isRefusal(searched) || own.domain === null) return searched;
  if (searched.domain === null || searched.domain === own.domain) {
    return { ...searched, domain: own.domain };
  }
  const message = `This key is limited to ${own.domain}; list the emails of that domain.`;
  return { refused: 'authorization_error', message };
}

function searchedBy(text: string, filter: EmailFilter): EmailFilter | Refusal {
  const search = readSearch(text);
  if ('problems' in search) {
    return refuseFields(search.problems.map((message) => ({ field: 'q', message })));
  }
  const searched = mergeSearch(filter, search);
  if (!('duplicate' in searched)) return searched;
  const message = `has ${searched.duplicate}, which another parameter gives as well; leave one of them out`;
  return refuseFields([{ field: 'q', message }]);
}

function timeOf(text: string | undefined): Date | null {
  return text === undefined ? null : new Date(text);
}
