/**
 * Measures how many events per second a client reads from `GET /v1/events`: in pages of 100, and from a stream that it
 * keeps open. SQL writes the events. The client must read each event once.
 */
import { newId } from '../src/database/ids.ts';
import { machineMs } from './parts/machine-clock.ts';
import { startOwnUse } from './parts/processes.ts';
import { Rig } from './parts/rig.ts';
import { perSecond, type Rate, startCpu } from './rates.ts';
import { EVENT_DATA } from './webhooks.ts';

const FILL = `
insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
select project_id, environment, id, 1, id, 'email.delivered', app_now(), $2::json
  from (select project_id, environment from domains where environment = 'live' limit 1) scope
 cross join unnest($1::uuid[]) id`;

export type EventRates = { pages: Rate[]; stream: Rate[] };

/** @param options.count events in each round */
export async function measureEvents(
  options: { workers: number; rounds: number; count: number },
  say: (line: string) => void,
): Promise<EventRates> {
  await using rig = await Rig.start({ workers: options.workers, mxPort: 9, only: 'api' });
  const key = await rig.service.liveKey();
  const client: Client = { rig, key };
  const rates: EventRates = { pages: [], stream: [] };
  for (let round = 0; round <= options.rounds; round += 1) {
    const pages = await readRound(client, { count: options.count, read: readPages });
    const stream = await readRound(client, { count: options.count, read: readStream });
    say(
      `  ${round === 0 ? 'warming up' : 'read'}: pages ${Math.round(pages.perSecond)}/s, ` +
        `stream ${Math.round(stream.perSecond)}/s`,
    );
    // Round 0 warms up and is not counted.
    if (round === 0) continue;
    rates.pages.push(pages);
    rates.stream.push(stream);
  }
  return rates;
}

type Client = { rig: Rig; key: string };
/**
 * Reads events after a cursor until it has `count` of them.
 * @returns the ids of the events
 */
type Read = (client: Client, from: { after: string; count: number }) => Promise<string[]>;

async function readRound(
  client: Client,
  { count, read: readAll }: { count: number; read: Read },
): Promise<Rate> {
  const { rig } = client;
  const after = (await getPage(client, 'latest')).cursor;
  const ids = Array.from({ length: count }, () => newId());
  await rig.service.sql(FILL, [ids, JSON.stringify(EVENT_DATA)]);
  const cpu = startCpu({ supervisor: rig.pid });
  const own = startOwnUse();
  const startedMs = machineMs();
  const found = await readAll(client, { after, count });
  const durationMs = machineMs() - startedMs;
  const spent = cpu(own(), count);
  const read = new Set(found);
  const missing = ids.filter((id) => !read.has(id)).length;
  if (missing > 0 || found.length !== count) {
    throw new Error(`${found.length} events were read, and ${missing} of ${count} are missing`);
  }
  return { perSecond: perSecond(count, durationMs), cpu: spent, messageBytes: null };
}

type Page = { data: { id: string }[]; has_more: boolean; cursor: string };

async function getPage({ rig, key }: Client, after: string): Promise<Page> {
  const response = await fetch(`${rig.service.url}/v1/events?after=${after}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  if (!response.ok) throw new Error(`no events: ${await response.text()}`);
  return response.json() as Promise<Page>;
}

const readPages: Read = async (client, { after, count }) => {
  const ids: string[] = [];
  for (let cursor = after; ids.length < count;) {
    const page = await getPage(client, cursor);
    for (const { id } of page.data) ids.push(id);
    cursor = page.cursor;
  }
  return ids;
};

const readStream: Read = async ({ rig, key }, { after, count }) => {
  const response = await fetch(`${rig.service.url}/v1/events?after=${after}`, {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
  });
  if (response.body === null) throw new Error('no stream');
  const ids: string[] = [];
  let rest = '';
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('data: ')) ids.push((JSON.parse(line.slice(6)) as { id: string }).id);
    }
    // Leaving the loop closes the stream.
    if (ids.length >= count) break;
  }
  return ids;
};
