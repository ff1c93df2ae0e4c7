/**
 * The accept statement for the emails of one request (`POST /v1/emails/batch`): one statement and one
 * commit for up to 100 emails, so that no failure stores a part of the batch.
 *
 * The steps are those of statement.ts with two exceptions. A strict batch is stored if all its
 * emails are valid and fit into the limits; of a permissive batch those emails are stored that do. The
 * batch has one idempotency key, which is stored if at least one email is. The statement composes the
 * text of the response, because it stores it with the key.
 *
 * It returns one row per email, in order; the first one has the response of the batch.
 */
import { candidates } from './candidates.ts';
import {
  type AcceptRow,
  type BatchOptions,
  KEEP_EARLIER,
  LIMIT_STATE,
  type NewEmail,
  runKinds,
  storing,
} from './statement.ts';
import type { Queryable } from '../../database/database.ts';

/** The emails of one request, with one API key and at most one idempotency key. */
export type EmailBatch = Pick<
  NewEmail,
  'projectId' | 'environment' | 'keyId' | 'idempotency' | 'sizeBytes'
> & {
  /** At least one; their own `idempotency` is null, and their own `response` is not used. */
  emails: readonly NewEmail[];
  rest: StrictBatch | PermissiveBatch;
};

type StrictBatch = {
  kind: 'strict';
  response: string;
};

type PermissiveBatch = {
  kind: 'permissive';
  /** The place of each email in the request, from 0. */
  items: readonly number[];
  /** Items that were refused before the statement: their index and the members of their error. */
  refused: readonly { item: number; text: string }[];
  /** The members of an error by outcome, as JSON without braces; `@domain` stands for the sending domain. */
  errors: Readonly<Record<RefusingOutcome, string>>;
};

/** The verdicts on a single email. */
export type RefusingOutcome =
  | 'key_refused'
  | 'schedule_refused'
  | 'domain_refused'
  | 'suppressed'
  | 'limited';

const DECIDING = `
batch as materialized (
  select b.* from json_to_record($11::json) as b(
      project_id uuid, environment text, is_strict boolean, size int, key text, fingerprint text,
      response text, items json, refused json, errors json)
),
earlier as materialized (
  select m.fingerprint, m.response from t, batch b
   cross join lateral (
      select m.fingerprint, m.response from idempotency m
       where m.project_id = b.project_id and m.environment = b.environment and m.key = b.key
         and m.expires_at > t.now limit 1) m
),
fitting as materialized (
  select n.* from numbered n, batch b
   where n.fits_emails and n.fits_recipients and not exists (select from earlier)
     and (not b.is_strict or b.size = (select count(*) from numbered f
                                        where f.fits_emails and f.fits_recipients))
),
answer as materialized (
  select case when b.is_strict then b.response else
           '{"data":['
           || coalesce((select string_agg('{"id":"' || f.id || '"}', ',' order by f.ord)
                          from fitting f), '')
           || '],"errors":['
           || coalesce((
                select string_agg('{"index":' || e.item || ',' || e.text || '}', ',' order by e.item)
                  from (select r.item, r.text
                          from json_to_recordset(b.refused) as r(item int, text text)
                         union all
                        select (b.items ->> (c.ord - 1))::int,
                               replace(b.errors ->> case when c.verdict = 'candidate' then 'limited'
                                                         else c.verdict end, '@domain', c.domain)
                          from checked c left join fitting f on f.ord = c.ord
                         where f.ord is null) e), '')
           || ']}' end as response
    from batch b
),
remembered as (
  insert into idempotency as m (project_id, environment, key, fingerprint, email_id, response,
                                expires_at)
  select b.project_id, b.environment, b.key, decode(b.fingerprint, 'hex'), f.id, a.response,
         t.now + interval '24 hours'
    from t, batch b, answer a, (select id from fitting order by ord limit 1) f
   where b.key is not null
  ${KEEP_EARLIER}
  returning m.fingerprint, m.email_id, m.response
),
accepted as materialized (
  select f.* from fitting f, batch b
   where b.key is null
      or exists (select from remembered m join fitting own on own.id = m.email_id)
),`;

const RESULT = `
select c.ord, ${LIMIT_STATE},
       case when c.verdict = 'key_refused' then c.verdict
            when x.is_accepted then 'accepted'
            when p.response is not null then 'replayed'
            when c.verdict <> 'candidate' then c.verdict
            when n.fits_emails and n.fits_recipients then 'withheld'
            else 'limited' end as outcome,
       case when c.ord = 1 then coalesce(p.response, b.response) end as response,
       encode(p.fingerprint, 'hex') as fingerprint,
       case when x.is_accepted then c.domain_id end as domain_id,
       c.dual_signed, c.effective_tls as tls, c.tracking, c.is_paused, t.now as created_at,
       (select count(*) from notification_queue)::int as notified,
       case when x.is_accepted and c.suppressed > 0 then
         (select array_agg(r.position) from recipient r where r.ord = c.ord and r.suppressed)
       end as suppressed_positions
  from t, answer b, checked c
  join current_windows w on w.project_id = c.project_id and w.environment = c.environment
  left join numbered n on n.ord = c.ord
  left join spent s on s.project_id = c.project_id and s.environment = c.environment
  left join (select e.fingerprint, e.response from earlier e
              union all
             select m.fingerprint, m.response from remembered m
              where not exists (select from accepted)) p on true
 cross join lateral (
    select exists (select from accepted a where a.ord = c.ord) as is_accepted,
           coalesce(n.fits_emails and not n.fits_recipients, false) as of_recipients) x
 order by c.ord`;

const acceptTogether = (hasBlocks: boolean): string =>
  `${candidates(hasBlocks)},${DECIDING}${storing(hasBlocks)}${RESULT}`;

const TOGETHER = { name: 'accept_together', text: acceptTogether(false) };
const TOGETHER_WITH_BLOCKS = { name: 'accept_together_with_blocks', text: acceptTogether(true) };

/** Stores the batch in one commit. @returns one row per email, in order */
export function runEmailBatch(
  db: Queryable,
  batch: EmailBatch,
  options: BatchOptions,
): Promise<AcceptRow[]> {
  const { emails, rest, projectId, environment, idempotency } = batch;
  const last = JSON.stringify({
    project_id: projectId,
    environment,
    size: emails.length,
    key: idempotency?.key,
    fingerprint: idempotency?.fingerprint,
    is_strict: rest.kind === 'strict',
    ...(rest.kind === 'strict'
      ? { response: rest.response }
      : { items: rest.items, refused: rest.refused, errors: rest.errors }),
  });
  return runKinds(
    db,
    { plain: TOGETHER, withBlocks: TOGETHER_WITH_BLOCKS },
    { ...options, emails, last },
  );
}
