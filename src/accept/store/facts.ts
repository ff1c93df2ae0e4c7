/**
 * Reads the facts that decide about emails (decision.ts), in one statement and without a lock.
 *
 * Look-ups are lateral with a limit: one index probe each. With a join, a plan made while a table was empty could
 * read the whole table later. Emails with the same project, environment, key and domain (a group) share their
 * look-ups.
 *
 * The fast path (fast-path-sql.ts) uses the same conditions.
 */
import { type AllowLists, type Scope, scopeKey } from '../../core/scope.ts';
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
      select api_key.id, api_key.allowed_networks, api_key.allowed_senders, api_key.allowed_recipients
        from api_keys api_key
       where api_key.project_id = request.project_id and api_key.id = request.key_id
         and api_key.environment = request.environment
         and api_key.revoked_at is null and (api_key.expires_at is null or api_key.expires_at > clock.now)
         and (api_key.domain is null or api_key.domain = request.domain) limit 1`;

/** A degraded domain is stored as `verified` (domains/domain-store.ts), because it still sends. */
export const VERIFIED_DOMAIN = `
      select domain.id, domain.ed25519_verified, nullif(domain.tls, 'opportunistic') as tls,
             domain.track_opens, domain.track_clicks, domain.paused_at is not null as is_paused
        from domains domain
       where domain.project_id = request.project_id and domain.environment = request.environment
         and domain.name = request.domain
         and domain.deleted_at is null and domain.status = 'verified' limit 1`;

const SUPPRESSED_RECIPIENTS = `
  select json_agg(json_build_array(recipient.ord, suppression.reason,
                                   wire_time(suppression.expires_at)) order by recipient.ord)
    from unnest(${P.recipientGroups}::int[], ${P.addressKeys}::text[]) with ordinality
           as recipient(group_number, address_key, ord)
   cross join lateral (
      select suppression.reason, suppression.expires_at from suppressions suppression
       where suppression.project_id = (${P.projectIds}::uuid[])[recipient.group_number]
         and suppression.environment = (${P.environments}::text[])[recipient.group_number]
         and suppression.address_key = recipient.address_key
         and ${holdsBack('clock.now')} limit 1) suppression`;

const EARLIER = `
  select json_agg(json_build_array(keyed.ord, encode(earlier.fingerprint, 'hex'), earlier.response))
    from unnest(${P.keyedGroups}::int[], ${P.keys}::text[]) with ordinality as keyed(group_number, key, ord)
   cross join lateral (
      select earlier.fingerprint, earlier.response from idempotency earlier
       where earlier.project_id = (${P.projectIds}::uuid[])[keyed.group_number]
         and earlier.environment = (${P.environments}::text[])[keyed.group_number]
         and earlier.key = keyed.key and earlier.expires_at > clock.now limit 1) earlier`;

const limitCountJson = (prefix: '' | 'recipients_', length: string): string => `
       json_build_object(
         'max', limit_window.${prefix}max, 'leftInRow', limit_window.${prefix}max - counts.${prefix}used,
         'left', limit_window.${prefix}max - counts.${prefix}used + blocks.${prefix}permits,
         -- Another worker may have started the window after this statement's time.
         'resetS', least(ceil(extract(epoch from counts.${prefix}started_at + ${length} - clock.now)),
                         extract(epoch from ${length}))::int,
         'windowS', extract(epoch from ${length})::int)`;

/**
 * One row for each group. The first row also returns the suppressed recipients and the known keys, by their number
 * from 1.
 */
const FACTS = {
  name: 'accept_facts',
  text: `
select clock.now, clock.now::text as "exactNow", wire_time(clock.now) as time,
       request.group_number::int as "groupNumber", api_key.id is not null as "isApiKeyValid",
       api_key.allowed_networks as "allowedNetworks", api_key.allowed_senders as "allowedSenders",
       api_key.allowed_recipients as "allowedRecipients",
       case when domain.id is not null then json_build_object(
         'id', domain.id, 'dualSigned', domain.ed25519_verified, 'tls', domain.tls,
         'tracksOpens', domain.track_opens, 'tracksClicks', domain.track_clicks,
         'isPaused', domain.is_paused) end as domain,
       ${limitCountJson('', 'limit_window.length')} as emails,
       ${limitCountJson('recipients_', 'limit_window.recipients_length')} as recipients,
       limit_window.has_blocks as "hasBlocks", blocks.is_to_fill as "isToFill",
       case when request.group_number = 1 then (${SUPPRESSED_RECIPIENTS}) end as suppressed,
       case when request.group_number = 1 then (${EARLIER}) end as earlier
  from (select now() + skew as now from clock) clock
 cross join unnest(${P.projectIds}::uuid[], ${P.environments}::text[], ${P.keyIds}::uuid[],
                   ${P.domains}::text[]) with ordinality
         as request(project_id, environment, key_id, domain, group_number)
 cross join lateral (${limitWindow('true', '')}) limit_window
 cross join lateral (${openWindows('limit_window')}) open_windows
 cross join lateral (select ${CURRENT_COUNTS}) counts
 cross join lateral (${BLOCKS_IN_FACTS}) blocks
  left join lateral (${VALID_API_KEY}) api_key on true
  left join lateral (${VERIFIED_DOMAIN}) domain on true`,
};

type GroupRow = Pick<Facts, 'now' | 'exactNow' | 'time'> &
  Pick<EmailFacts, 'isApiKeyValid' | 'domain'> &
  AllowLists &
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
    const row = rows[groupNumber - 1]!;
    const { isApiKeyValid, domain } = row;
    return {
      isApiKeyValid,
      allowLists: row,
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
