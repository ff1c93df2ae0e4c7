/** Sends many emails and compares promises with arrivals: every email with a 202 must be at the server. */
import assert from 'node:assert/strict';
import type { FakeMx } from './fake-mx.ts';
import type { ApiResponse, Service } from './service.ts';

export type Load = {
  /** Ids of emails with a 202. */
  accepted: string[];
  /** Answers other than 202. */
  refused: ApiResponse[];
  broken: number;
};

export type LoadOptions = {
  key: string;
  count: number;
  connections?: number;
  from: string;
  /** Returns the recipient of the nth email. */
  to: (index: number) => string;
  headers?: (index: number) => Record<string, string>;
  /** Called after each response with the number of accepted emails. */
  onAccepted?: (count: number) => void;
};

/** Sends `count` emails. Never throws; the result has the fate of each. */
export async function runLoad(service: Service, options: LoadOptions): Promise<Load> {
  const load: Load = { accepted: [], refused: [], broken: 0 };
  let next = 0;
  const connection = async (): Promise<void> => {
    while (next < options.count) {
      const index = next;
      next += 1;
      await sendOne(service, options, { index, load });
    }
  };
  await Promise.all(Array.from({ length: options.connections ?? 16 }, connection));
  return load;
}

async function sendOne(
  service: Service,
  { key, from, to, headers, onAccepted }: LoadOptions,
  { index, load }: { index: number; load: Load },
): Promise<void> {
  const body = { from, to: to(index), subject: `Email ${index}`, html: `<p>Email ${index}</p>` };
  try {
    const extra = headers === undefined ? {} : { headers: headers(index) };
    const response = await service.request('POST', '/v1/emails', { key, body, ...extra });
    if (response.status === 202) load.accepted.push(response.body.id as string);
    else load.refused.push(response);
    onAccepted?.(load.accepted.length);
  } catch {
    load.broken += 1;
  }
}

/** Returns how often each email arrived, by the id in its Message-ID. */
export function arrivals(...servers: readonly FakeMx[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { raw } of servers.flatMap(({ messages }) => messages)) {
    // Reads only the header, because conditions call this repeatedly and some messages are large.
    const header = raw.toString('latin1', 0, raw.indexOf('\r\n\r\n'));
    const id = /^Message-ID: <([^@]+)@/m.exec(header)?.[1] ?? 'none';
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return counts;
}

export function duplicates(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count - 1, 0);
}

/** Asserts that every recipient has ended once, and that its email has the same status. */
export async function assertSettled(service: Service, ids: readonly string[]): Promise<void> {
  const odd = await service.sql(
    `select emails.id, emails.open_count, emails.event_count, recipients.status,
            (select count(*)::int from events
              where events.project_id = emails.project_id and events.subject_id = emails.id) as events
       from emails
       join recipients on recipients.project_id = emails.project_id and recipients.email_id = emails.id
      where emails.id = any($1)
        and (emails.open_count <> 0 or recipients.status <> 'delivered' or recipients.completed_at is null
             or emails.event_count <> (select count(*) from events
                                        where events.project_id = emails.project_id
                                          and events.subject_id = emails.id))`,
    [ids],
  );
  assert.deepEqual(odd, []);
  assert.deepEqual(await service.sql('select * from queue where email_id = any($1)', [ids]), []);
}
