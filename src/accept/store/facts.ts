/**
 * Reads the facts that decide about emails (decision.ts), in one statement and without a lock.
 *
 * Look-ups are lateral with a limit: one index probe each. With a join, a plan made while a table was empty could
 * read the whole table later. Emails with the same project, environment, key and domain (a group) share their
 * look-ups.
 *
 * The fast path (fast-path-sql.ts) uses the same conditions. In the texts, `i` is the requested email and `t` the time.
 */
import { type Scope, scopeKey } from '../../core/scope.ts';
import { domainOf } from '../../mail/address.ts';
import type { EmailFacts, Facts, LimitWindow, RecipientSuppression } from './decision.ts';
import type { NewEmail } from './new-email.ts';
import { holdsBack } from '../../suppressions/held-back-store.ts';
import { BLOCKS_IN_FACTS } from './limits/limit-blocks.ts';
import {
  CURRENT_COUNTS,
  configuredLimitValues,
  LIMIT_PARAMETERS,
  type ConfiguredLimits,
  limitWindow,
  openWindows,
} from './limits/limit-windows.ts';
import { binaryArray, literalArray } from '../../database/parameters/binary-array.ts';
import type { Queryable } from '../../database/database.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';
import type { SuppressionReason } from '../../suppressions/suppression-store.ts';

/** The groups; the recipients and the idempotency keys, each with the number of its group. */
const PARAMETERS = namedParameters(
  [
    'projectIds',
    'environments',
    'keyIds',
    'domains',
    'recipientGroups',
    'addressKeys',
    'keyedGroups',
    'keys',
  ],
  LIMIT_PARAMETERS,
);
const P = PARAMETERS.sql;

export const VALID_API_KEY = `
      select k.id from api_keys k
       where k.project_id = i.project_id and k.id = i.key_id and k.environment = i.environment
         and k.revoked_at is null and (k.expires_at is null or k.expires_at > t.now)
         and (k.domain is null or k.domain = i.domain) limit 1`;

/** A degraded domain is stored as `verified` (domains/domain-store.ts), because it still sends. */
export const VERIFIED_DOMAIN = `
      select d.id, d.ed25519_verified, nullif(d.tls, 'opportunistic') as tls,
             d.track_opens, d.track_clicks, d.paused_at is not null as is_paused from domains d
       where d.project_id = i.project_id and d.environment = i.environment and d.name = i.domain
         and d.deleted_at is null and d.status = 'verified' limit 1`;

const SUPPRESSED_RECIPIENTS = `
  select json_agg(json_build_array(r.ord, s.reason, wire_time(s.expires_at)) order by r.ord)
    from unnest(${P.recipientGroups}::int[], ${P.addressKeys}::text[]) with ordinality as r(group_number, address_key, ord)
   cross join lateral (
      select s.reason, s.expires_at from suppressions s
       where s.project_id = (${P.projectIds}::uuid[])[r.group_number] and s.environment = (${P.environments}::text[])[r.group_number]
         and s.address_key = r.address_key and ${holdsBack('t.now')} limit 1) s`;

const EARLIER = `
  select json_agg(json_build_array(r.ord, encode(m.fingerprint, 'hex'), m.response))
    from unnest(${P.keyedGroups}::int[], ${P.keys}::text[]) with ordinality as r(group_number, key, ord)
   cross join lateral (
      select m.fingerprint, m.response from idempotency m
       where m.project_id = (${P.projectIds}::uuid[])[r.group_number] and m.environment = (${P.environments}::text[])[r.group_number]
         and m.key = r.key and m.expires_at > t.now limit 1) m`;

const limitCountJson = (prefix: '' | 'recipients_', length: string): string => `
       json_build_object(
         'max', w.${prefix}max, 'leftInRow', w.${prefix}max - c.${prefix}used,
         'left', w.${prefix}max - c.${prefix}used + b.${prefix}permits,
         -- Another worker may have started the window after this statement's time.
         'resetS', least(ceil(extract(epoch from c.${prefix}started_at + ${length} - t.now)),
                         extract(epoch from ${length}))::int,
         'windowS', extract(epoch from ${length})::int)`;

/**
 * One row for each group. The first row also returns the suppressed recipients and the known keys, by their number
 * from 1.
 */
const FACTS = {
  name: 'accept_facts',
  text: `
select t.now, t.now::text as "exactNow", wire_time(t.now) as time,
       i.group_number::int as "groupNumber", k.id is not null as "isApiKeyValid",
       case when d.id is not null then json_build_object(
         'id', d.id, 'dualSigned', d.ed25519_verified, 'tls', d.tls, 'tracksOpens', d.track_opens,
         'tracksClicks', d.track_clicks, 'isPaused', d.is_paused) end as domain,
       ${limitCountJson('', 'w.length')} as emails, ${limitCountJson('recipients_', 'w.recipients_length')} as recipients,
       w.has_blocks as "hasBlocks", b.is_to_fill as "isToFill",
       case when i.group_number = 1 then (${SUPPRESSED_RECIPIENTS}) end as suppressed,
       case when i.group_number = 1 then (${EARLIER}) end as earlier
  from (select now() + skew as now from clock) t
 cross join unnest(${P.projectIds}::uuid[], ${P.environments}::text[], ${P.keyIds}::uuid[], ${P.domains}::text[]) with ordinality
         as i(project_id, environment, key_id, domain, group_number)
 cross join lateral (${limitWindow('true', '')}) w
 cross join lateral (${openWindows('w')}) o
 cross join lateral (select ${CURRENT_COUNTS}) c
 cross join lateral (${BLOCKS_IN_FACTS}) b
  left join lateral (${VALID_API_KEY}) k on true
  left join lateral (${VERIFIED_DOMAIN}) d on true`,
};

type GroupRow = Pick<Facts, 'now' | 'exactNow' | 'time'> &
  Pick<EmailFacts, 'isApiKeyValid' | 'domain'> &
  LimitWindow & {
    groupNumber: number;
    suppressed: [ord: number, SuppressionReason, expiresAt: string | null][] | null;
    earlier: [ord: number, fingerprint: string, response: string][] | null;
  };

type FactsQuery = ConfiguredLimits & {
  emails: readonly NewEmail[];
  /** The idempotency key of each email. A batch has one key, at the first email. */
  keys: readonly (string | null)[];
  /** False runs the statement unprepared. */
  isPrepared?: boolean;
};

/** @throws Error when a project was removed meanwhile */
export async function readFacts(db: Queryable, query: FactsQuery): Promise<Facts> {
  const { emails, keys, isPrepared = true } = query;
  const { groups, groupNumbers } = groupEmails(emails);
  const recipients = emails.flatMap((email, index) =>
    email.recipients.map(({ addressKey, position }) => ({ addressKey, position, index })),
  );
  const keyed = emails.flatMap((_, index) => {
    const key = keys[index] ?? null;
    return key === null ? [] : [{ key, index }];
  });
  const text = (items: readonly string[]) => binaryArray('text', items);
  const rows = await db.query<GroupRow>(isPrepared ? FACTS : FACTS.text, [
    ...configuredLimitValues(query),
    ...PARAMETERS.valuesOf({
      projectIds: literalArray(groups.map(({ projectId }) => projectId)),
      environments: literalArray(groups.map(({ environment }) => environment)),
      keyIds: literalArray(groups.map(({ keyId }) => keyId)),
      domains: text(groups.map(({ from }) => domainOf(from.address))),
      recipientGroups: literalArray(recipients.map(({ index }) => groupNumbers[index]!)),
      addressKeys: text(recipients.map(({ addressKey }) => addressKey)),
      keyedGroups: literalArray(keyed.map(({ index }) => groupNumbers[index]!)),
      keys: text(keyed.map(({ key }) => key)),
    }),
  ]);
  if (rows.length !== groups.length) throw new Error('the limits of a project are missing');
  rows.sort((one, other) => one.groupNumber - other.groupNumber);
  const { now, time, exactNow, suppressed, earlier } = rows[0]!;
  const windows = windowsOf(rows, groups);
  const suppressedOf = new Map(emails.map((_, index) => [index, [] as RecipientSuppression[]]));
  for (const [ord, reason, expires_at] of suppressed ?? []) {
    const { index, position } = recipients[ord - 1]!;
    suppressedOf.get(index)!.push({ position, reason, expires_at });
  }
  const earlierByEmail = new Map(
    (earlier ?? []).map(([ord, fingerprint, response]) => [
      keyed[ord - 1]!.index,
      { fingerprint, response },
    ]),
  );
  const byEmail = groupNumbers.map((groupNumber, index): EmailFacts => {
    const { isApiKeyValid, domain } = rows[groupNumber - 1]!;
    return {
      isApiKeyValid,
      domain,
      window: windows[groupNumber - 1]!,
      suppressed: suppressedOf.get(index)!,
      earlierRequest: earlierByEmail.get(index) ?? null,
    };
  });
  return { now, time, exactNow, byEmail };
}

/** Groups emails that share look-ups. Returns one email of each group, and the number of each email's group from 1. */
function groupEmails(emails: readonly NewEmail[]): { groups: NewEmail[]; groupNumbers: number[] } {
  const numbers = new Map<string, number>();
  const groups: NewEmail[] = [];
  const groupNumbers = emails.map((email) => {
    const text = `${scopeKey(email)} ${email.keyId} ${domainOf(email.from.address)}`;
    const number = numbers.get(text) ?? groups.push(email);
    numbers.set(text, number);
    return number;
  });
  return { groups, groupNumbers };
}

/** Returns one shared object for each project and environment, so that decisions can group by it. */
function windowsOf(rows: readonly GroupRow[], groups: readonly NewEmail[]): LimitWindow[] {
  const windows = new Map<string, LimitWindow>();
  return rows.map(({ emails, recipients, hasBlocks, isToFill }, index) => {
    const scope = scopeKey(groups[index]!);
    const window = windows.get(scope) ?? { emails, recipients, hasBlocks, isToFill };
    windows.set(scope, window);
    return window;
  });
}

const FIND_KEY = `
select response, encode(fingerprint, 'hex') as fingerprint from idempotency
 where project_id = $1 and environment = $2 and key = $3 and expires_at > app_now()`;

/** Returns the earlier request with this Idempotency-Key, or null when there was none within 24 hours. */
export async function findEarlierRequest(
  db: Queryable,
  { projectId, environment }: Scope,
  key: string,
): Promise<EmailFacts['earlierRequest']> {
  const values = [projectId, environment, key];
  const [found] = await db.query<NonNullable<EmailFacts['earlierRequest']>>(FIND_KEY, values);
  return found ?? null;
}
