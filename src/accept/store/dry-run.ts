/**
 * The decision that the accept statement would make about an email now, without storing or counting it. The
 * candidates are selected by the same text as in statement.ts, but the limit's row is not locked, so
 * that a dry run delays no email; an email that is accepted concurrently may not be counted yet.
 */
import { CANDIDATES_UNLOCKED } from './candidates.ts';
import {
  type AcceptRow,
  type BatchOptions,
  fromRow,
  LIMIT_STATE,
  type NewEmail,
  type Row,
  toInput,
} from './statement.ts';
import type { Queryable } from '../../database/database.ts';
import type { SuppressionReason } from '../../suppressions/suppression-store.ts';

export type Rehearsal = AcceptRow & {
  /** The domain is paused: the email would be held. */
  isPaused: boolean;
  /** Its scheduled time is in the future. */
  isScheduled: boolean;
  /** The later of now and its scheduled time. */
  startsAt: Date;
  suppressions: readonly {
    position: number;
    reason: SuppressionReason;
    expires_at: string | null;
  }[];
};

const REHEARSE = `
${CANDIDATES_UNLOCKED},
-- The parameters of stored values are null here but need a type.
stored as (select $2::text, $3::text, $4::text, $7::text, $8::text)
select c.ord, ${LIMIT_STATE},
       case when c.verdict <> 'candidate' then c.verdict
            when n.fits_emails and n.fits_recipients then 'accepted'
            else 'limited' end as outcome,
       c.replay_response as response, encode(c.replay_fingerprint, 'hex') as fingerprint,
       c.domain_id, c.dual_signed, c.effective_tls as tls, c.tracking, c.is_paused, t.now as created_at,
       c.is_scheduled, c.starts_at,
       (select array_agg(r.position) from recipient r where r.ord = c.ord and r.suppressed)
         as suppressed_positions,
       (select json_agg(json_build_object('position', r.position, 'reason', s.reason,
                                          'expires_at', wire_time(s.expires_at)) order by r.position)
          from recipient r
         cross join lateral (
            select s.reason, s.expires_at from suppressions s
             where s.project_id = c.project_id and s.environment = c.environment
               and s.address_key = r.address_key limit 1) s
         where r.ord = c.ord and r.suppressed) as suppressions
  from t, checked c
  join current_windows w on w.project_id = c.project_id and w.environment = c.environment
  left join numbered n on n.ord = c.ord
 cross join (select 0 as count, 0 as recipients) s
 cross join lateral (
    select coalesce(n.fits_emails and not n.fits_recipients, false) as of_recipients) x`;

type RehearsalRow = Omit<Row, 'notified' | 'is_left'> & {
  is_scheduled: boolean;
  starts_at: Date;
  suppressions: Rehearsal['suppressions'] | null;
};

/** @param options as for accepting */
export async function rehearse(
  db: Queryable,
  email: NewEmail,
  options: Pick<BatchOptions, 'limit' | 'recipientLimit'>,
): Promise<Rehearsal> {
  const { limit, recipientLimit } = options;
  const input = JSON.stringify([toInput(email, 0, false)]);
  const [max, windowS] = [recipientLimit?.max ?? null, recipientLimit?.windowS ?? null];
  const values = [input, null, null, null, limit.max, limit.windowS, null, null, max, windowS];
  const [row] = await db.query<RehearsalRow>(REHEARSE, values);
  if (!row) throw new Error('the limits of the project are missing');
  return {
    ...fromRow(row),
    holder: null,
    isPaused: row.is_paused ?? false,
    isScheduled: row.is_scheduled,
    startsAt: row.starts_at,
    suppressions: row.suppressions ?? [],
  };
}
