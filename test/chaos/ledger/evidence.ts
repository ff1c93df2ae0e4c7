/** Gathers the evidence of a run from the clients, the database, the receiving servers and the nodes. */
import { OPERATOR_PROJECT_ID } from '../../../src/core/operator-events.ts';
import type { Director } from '../director.ts';
import { ENDPOINTS } from '../receivers/webhook-endpoints.ts';
import type {
  Evidence,
  StoredEmail,
  StoredEvent,
  StoredRecipient,
  WebhookSet,
} from './ledger-types.ts';
import { mayEndAs, needsVerifiedTls, SUPPRESSED_BEFORE } from '../load/emails.ts';
import type { Stage } from '../stage.ts';

const EMAILS = `
select id, (metadata->>'index')::int as index, environment, subject, open_count as "openCount",
       event_count as "eventCount"
  from emails`;
const RECIPIENTS = `
select email_id as "emailId", position, address, status, attempts from recipients`;
const EVENTS = `
select subject_id as "emailId", seq, type, position, attempt is not null as "hasAttempt",
       coalesce((attempt->>'in_doubt')::boolean, false) as "isInDoubt",
       case when type = 'email.canceled' and position is null then data->'recipients' end as canceled
  from events where type like 'email.%'`;
/** All events except the operator's, which no endpoint subscribes to. */
const ALL_EVENTS = `
select id, environment, type, project_id = $1 as "isOfAttacker" from events where project_id <> $2`;
const OF_ATTACKER = `
select id from emails where project_id = $1 union all select id from events where project_id = $1`;
const COUNTS = `
select name, sum(count)::int as count from (
  select counted.name, counted.count from stats cross join lateral (values
           ('emails', emails), ('recipients', recipients), ('sent', sent), ('delivered', delivered),
           ('deferred', deferred), ('bounced', bounced), ('failed', failed),
           ('suppressed', suppressed), ('canceled', canceled)) counted(name, count)
   where granularity = 'day' and dimension = 'total'
  union all
  select case what when 'accepted' then 'recipients' else what end, recipients from stats_deltas
  union all
  select counted.name, counted.count from stats_deltas
   cross join lateral (values ('emails', emails), ('suppressed', suppressed)) counted(name, count)) counts
 group by name`;
const LEFT = `
select (select count(*) from queue)::int as queue,
       (select count(*) from webhook_queue)::int as "webhookQueue",
       (select count(*) from nodes)::int as nodes`;

export async function gather(stage: Stage, director: Director): Promise<Evidence> {
  const { load, attacker, context } = director;
  const { nodes, receivers } = stage;
  const { left, ...stored } = await readStored((text, values) => stage.sql(text, values));
  return {
    ...stored,
    requests: [...load.requests, ...attacker.requests],
    copies: receivers.copies(),
    webhooks: await webhookSets(stage),
    cancels: load.cancels,
    streams: director.streams,
    skews: stage.databaseClock.skews,
    disturbances: nodes.flatMap(({ disturbances }) => disturbances),
    freezes: context.freezes,
    suppressed: [
      ...SUPPRESSED_BEFORE.map((address) => ({ address, sinceMs: 0 })),
      ...context.suppressed,
    ],
    acceptedWithRevokedKey: load.acceptedWithRevokedKey,
    acceptedFromRemovedDomain: load.acceptedFromRemovedDomain,
    stopped: context.stopped,
    mayEndAs,
    needsVerifiedTls,
    attacks: attacker.answers,
    shown: { ids: [...attacker.shown], own: await idsOfAttacker(stage) },
    left: { ...left, workers: nodes.reduce((sum, { workers }) => sum + workers, 0) },
    testLookups: receivers.testLookups(),
  };
}

type Stored = Pick<Evidence, 'emails' | 'recipients' | 'events' | 'counts'> & {
  left: Omit<Evidence['left'], 'workers'>;
};

/** Reads what the database has. */
export async function readStored(sql: Stage['sql']): Promise<Stored> {
  const [left] = await sql(LEFT);
  return {
    emails: (await sql(EMAILS)) as StoredEmail[],
    recipients: (await sql(RECIPIENTS)) as StoredRecipient[],
    events: (await sql(EVENTS)) as StoredEvent[],
    counts: Object.fromEntries((await sql(COUNTS)).map(({ name, count }) => [name, count])),
    left,
  };
}

async function idsOfAttacker(stage: Stage): Promise<Set<string>> {
  const rows: { id: string }[] = await stage.sql(OF_ATTACKER, [stage.attacker.projectId]);
  return new Set(rows.map(({ id }) => id));
}

async function webhookSets(stage: Stage): Promise<WebhookSet[]> {
  const { hooks, earlierEvents, attacker } = stage;
  const events = (await stage.sql(ALL_EVENTS, [attacker.projectId, OPERATOR_PROJECT_ID])) as {
    id: string;
    environment: string;
    type: string;
    isOfAttacker: boolean;
  }[];
  return ENDPOINTS.map(({ path, owner, environment, types }) => ({
    endpoint: path,
    expected: events
      .filter((event) => event.environment === environment && !earlierEvents.has(event.id))
      .filter(({ isOfAttacker }) => isOfAttacker === (owner === 'attacker'))
      .filter(({ type }) => types === null || types.includes(type))
      .map(({ id }) => id),
    received: hooks.received(path),
  }));
}
