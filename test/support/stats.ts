/** Counts mail from the stored emails and events one by one, for comparison. */
import {
  COUNTERS,
  type Counter,
  LATENCY_BOUNDS_S,
  NO_COUNTS,
  type StatsDimension,
  type StatsGranularity,
} from '../../src/stats/counts.ts';
import type { Database } from '../../src/database/database.ts';
import type { StatsRow } from '../../src/stats/stats-store.ts';
import type { Sender } from './mail-store.ts';

/** Returns the counters of a row that are not zero. */
export function counted(row: StatsRow): Partial<Record<Counter, number>> {
  return Object.fromEntries(
    COUNTERS.flatMap((name) => (row[name] === 0 ? [] : [[name, row[name]]])),
  );
}

/** Returns one line for comparison. */
export function simplified(row: StatsRow): string {
  const { period, value, latencies } = row;
  return JSON.stringify([period.toISOString(), value, counted(row), latencies]);
}

type StoredEvent = {
  id: string;
  emailId: string;
  type: string;
  position: number | null;
  at: Date;
  data: {
    recipients?: string[];
    reason?: { category: string } | null;
    open?: { is_bot: boolean };
    click?: { is_bot: boolean };
  };
};
type StoredEmail = {
  id: string;
  keyId: string;
  templateId: string | null;
  at: Date;
  from: string;
  tags: { name: string; value: string }[];
  startsAt: Date;
  recipients: number;
};

/** Returns the same counts from emails and events, one by one. */
export async function countAgain(
  db: Database,
  { projectId }: Sender,
  {
    by,
    granularity,
    providers,
  }: {
    by: StatsDimension | null;
    granularity: StatsGranularity;
    providers: ReadonlyMap<string, string>;
  },
): Promise<string[]> {
  const stored = await db.query<StoredEmail>(
    `select id, key_id as "keyId", template_id as "templateId", created_at as at, from_address as from, tags,
            greatest(created_at, scheduled_at) as "startsAt",
            (select count(*)::int from recipients where recipients.email_id = emails.id) as recipients
       from emails where project_id = $1`,
    [projectId],
  );
  const events = await db.query<StoredEvent>(
    `select id, subject_id as "emailId", type, position, created_at as at, data from events
      where project_id = $1 and type like 'email.%' order by subject_id, seq`,
    [projectId],
  );
  const rows = new Map<string, StatsRow>();
  const add = (
    email: StoredEmail,
    { at, provider, reason = null }: { at: Date; provider: string | null; reason?: string | null },
    change: (row: StatsRow) => void,
  ): void => {
    const period = new Date(at);
    period.setUTCMinutes(0, 0, 0);
    if (granularity === 'day') period.setUTCHours(0);
    for (const value of valuesOf(email, by, { provider, reason })) {
      const key = `${period.toISOString()} ${value}`;
      const row = rows.get(key) ?? { ...structuredClone(NO_COUNTS), period, value };
      rows.set(key, row);
      change(row);
    }
  };
  const byId = new Map(stored.map((email) => [email.id, email]));
  for (const email of stored) {
    add(email, { at: email.at, provider: null }, (row) => {
      row.emails += 1;
      row.recipients += email.recipients;
    });
  }
  const seen = new Set<string>();
  for (const { id, emailId, type, position, at, data } of events) {
    const email = byId.get(emailId)!;
    const place = `${emailId} ${position}`;
    if (type === 'email.canceled') {
      add(email, { at, provider: null }, (row) => (row.canceled += data.recipients!.length));
    }
    const counter = COUNTER_OF_EVENT[type];
    if (position === null || counter === undefined) continue;
    const visited = data.open ?? data.click;
    if (visited && (visited.is_bot || seen.has(`${place} ${type}`))) continue;
    seen.add(`${place} ${type}`);
    const provider = providers.get(id) ?? providers.get(place) ?? null;
    const reason = data.reason?.category ?? null;
    add(email, { at, provider, reason }, (row) => {
      row[counter] += 1;
      const isTimed = (counter === 'delivered' || counter === 'sent') && !seen.has(place);
      if (isTimed) (row.latencies as number[])[classOf(at, email.startsAt)]! += 1;
    });
    if (counter === 'delivered' || counter === 'sent') seen.add(place);
  }
  return [...rows.values()].map(simplified).toSorted();
}

const COUNTER_OF_EVENT: Readonly<Record<string, Exclude<Counter, 'emails' | 'recipients'>>> = {
  'email.sent': 'sent',
  'email.delivered': 'delivered',
  'email.delivery_delayed': 'deferred',
  'email.bounced': 'bounced',
  'email.failed': 'failed',
  'email.suppressed': 'suppressed',
  'email.complained': 'complained',
  'email.opened': 'opened',
  'email.clicked': 'clicked',
};

function valuesOf(
  email: StoredEmail,
  by: StatsDimension | null,
  { provider, reason }: { provider: string | null; reason: string | null },
): readonly string[] {
  switch (by) {
    case null:
      return [''];
    case 'domain':
      return [email.from.split('@')[1]!];
    case 'key':
      return [email.keyId];
    case 'provider':
      return provider === null ? [] : [provider];
    case 'template':
      return email.templateId === null ? [] : [email.templateId];
    case 'reason':
      return reason === null ? [] : [reason];
    case 'tag':
      return [...new Set(email.tags.map(({ name, value }) => `${name}:${value}`))];
  }
}

function classOf(at: Date, startsAt: Date): number {
  const seconds = (at.getTime() - startsAt.getTime()) / 1_000;
  return LATENCY_BOUNDS_S.filter((bound) => bound <= seconds).length;
}
