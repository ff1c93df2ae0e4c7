/** A day of webhook deliveries, so that the chart and the failures of a webhook have something to show. */
import { newId } from '../../src/database/ids.ts';
import type { Service } from './service.ts';

/** Half hours, of which the last one is under way. */
const HALF_HOURS = 48;

/** The receiver was down for these half hours, counted from now. */
const OUTAGE = { from: 19, to: 16 };

type Answer = { status: number | null; answer: string | null; error: string | null };

const ACCEPTED: Answer = { status: 200, answer: '{"received":true}', error: null };
const LOCKED: Answer = { status: 503, answer: '{"error":"database is locked"}', error: null };
const SILENT: Answer = { status: null, answer: null, error: 'The receiver closed the connection.' };

type PastDelivery = {
  id: string;
  minutes_ago: number;
  status: 'delivered' | 'failed';
  answers: readonly Answer[];
};

/** $1: the deliveries, oldest first. Each is one of an event that the webhook has received. */
const INSERT = `
insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq, type, status,
                                attempts, created_at, completed_at, log)
select event.project_id, event.environment, event.endpoint_id, (past.value->>'id')::uuid, event.subject_id, event.seq,
       event.type, past.value->>'status', jsonb_array_length(past.value->'answers'), made.at,
       made.at + interval '1 minute',
       (select jsonb_agg(answer.value || jsonb_build_object('latency_ms', 40,
                 'at', wire_time(made.at + answer.place * interval '1 second')) order by answer.place)
          from jsonb_array_elements(past.value->'answers') with ordinality answer(value, place))
  from jsonb_array_elements($1::jsonb) with ordinality past(value, place)
 cross join lateral (select app_now() - (past.value->>'minutes_ago')::int * interval '1 minute' as at) made
 cross join lateral (
   select * from webhook_deliveries
    where endpoint_id = $2 and type like 'email.%'
    order by event_id offset past.place % 4 limit 1) event`;

/**
 * Stores deliveries in every half hour but the last, each in its middle, so that a quarter of an hour later the chart
 * is the same.
 * @returns the id of one that was delivered at the third attempt
 */
export async function storePastDeliveries(service: Service, webhook: string): Promise<string> {
  const past: PastDelivery[] = [];
  for (let ago = HALF_HOURS - 1; ago >= 1; ago -= 1) {
    const isDown = ago <= OUTAGE.from && ago >= OUTAGE.to;
    for (let count = 6 + ((ago * 5) % 9); count > 0; count -= 1) {
      const isFailed = isDown && count > 3;
      past.push({
        id: newId(),
        minutes_ago: ago * 30 + 15,
        status: isFailed ? 'failed' : 'delivered',
        answers: isFailed ? [SILENT, LOCKED, LOCKED] : [ACCEPTED],
      });
    }
  }
  const retried = { ...past.at(-1)!, answers: [SILENT, LOCKED, ACCEPTED] };
  await service.sql(INSERT, [JSON.stringify([...past.slice(0, -1), retried]), webhook]);
  return retried.id;
}
