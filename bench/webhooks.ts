/**
 * Measures webhooks per second to one receiver on this machine: alone, and beside a dead endpoint with the same number
 * of pending events. The dead endpoint accepts connections and never responds.
 *
 * SQL writes the pending events. The time runs from the first request at the receiver until the last outcome is in the
 * database. Each webhook must arrive once and end as delivered.
 */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '../src/database/ids.ts';
import { Sink } from './parts/children.ts';
import { machineMs } from './parts/machine-clock.ts';
import { Rig } from './parts/rig.ts';
import { perSecond, type Rate, startCpu } from './rates.ts';

/** Data of an event with the typical length of `email.delivered`. */
export const EVENT_DATA = {
  email_id: newId(),
  recipient: 'jo@customers1.test',
  from: 'Acme Shop <orders@acme.example>',
  to: ['Jo Doe <jo@customers1.test>'],
  subject: 'Your order 4711 is on its way',
  tags: [{ name: 'kind', value: 'order' }],
  metadata: { order: '4711' },
  message_id: '<0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa@acme.example>',
  status: 'delivered',
  smtp: { code: 250, enhanced_code: '2.0.0', message: 'Ok', mx: 'mx.customers1.test', tls: null },
};

const FILL = `
with endpoint as (
  select * from webhook_endpoints where id = $1
), event as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select endpoint.project_id, endpoint.environment, event_id, 1, event_id, 'email.delivered', app_now(),
         $3::json
    from endpoint cross join unnest($2::uuid[]) event_id
  returning *
), delivery as (
  insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                  type, created_at)
  select project_id, environment, $1, id, id, 1, type, created_at from event returning *
)
insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
select project_id, endpoint_id, event_id, created_at from delivery`;

const UNSENT = `select count(*)::int as unsent from webhook_queue where endpoint_id = $1`;
const DELIVERED = `
select count(*)::int as delivered from webhook_deliveries
 where endpoint_id = $1 and status = 'delivered' and event_id = any($2::uuid[])`;

/** Time without progress after which the measurement fails. */
const STUCK_MS = 60_000;
const CHECK_EVERY_MS = 10;

export type WebhookRates = { alone: Rate[]; besideDead: Rate[] };

/** @param options.count webhooks in each round */
export async function measureWebhooks(
  options: { workers: number; rounds: number; count: number },
  say: (line: string) => void,
): Promise<WebhookRates> {
  await using sink = await Sink.start({ webhooks: true });
  await using dead = await startDead();
  await using rig = await Rig.start({
    workers: options.workers,
    mxPort: sink.port,
    only: 'api,webhooks',
  });
  const endpointId = await rig.addWebhook(sink.webhookPort ?? 0);
  const deadEndpointId = await rig.addWebhook(dead.port);
  await round({ rig, sink }, { endpointId, count: Math.ceil(options.count / 4) });
  const rates: WebhookRates = { alone: [], besideDead: [] };
  for (let number = 1; number <= options.rounds; number += 1) {
    rates.alone.push(await round({ rig, sink }, { endpointId, count: options.count }));
    say(`  alone: ${Math.round(rates.alone.at(-1)!.perSecond)}/s`);
    await fill(rig, deadEndpointId, options.count);
    await dead.connected();
    rates.besideDead.push(await round({ rig, sink }, { endpointId, count: options.count }));
    say(`  beside a dead endpoint: ${Math.round(rates.besideDead.at(-1)!.perSecond)}/s`);
    await rig.service.sql('delete from webhook_queue where endpoint_id = $1', [deadEndpointId]);
    dead.closeAll();
  }
  return rates;
}

async function round(
  { rig, sink }: { rig: Rig; sink: Sink },
  { endpointId, count }: { endpointId: string; count: number },
): Promise<Rate> {
  const before = (await sink.totals()).webhooks;
  const ids = await fill(rig, endpointId, count);
  const cpu = startCpu({ supervisor: rig.pid, sink: sink.pid });
  await until(async () => (await sink.totals()).webhooks > before, 'the first webhook');
  const startedMs = machineMs();
  // The sink is asked first, because counting pending rows would cost the database more than sending them.
  const hasArrived = async () => (await sink.totals()).webhooks >= before + count;
  await until(hasArrived, 'every webhook');
  const isSent = async () => (await rig.service.sql(UNSENT, [endpointId]))[0].unsent === 0;
  await until(isSent, 'every outcome');
  const durationMs = machineMs() - startedMs;
  const spent = cpu(null, count);
  const [{ delivered }] = await rig.service.sql(DELIVERED, [endpointId, ids]);
  const arrived = (await sink.totals()).webhooks - before;
  if (delivered !== count || arrived !== count) {
    throw new Error(`of ${count} webhooks ${arrived} arrived and ${delivered} are delivered`);
  }
  return { perSecond: perSecond(count, durationMs), cpu: spent, messageBytes: null };
}

async function fill(rig: Rig, endpointId: string, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId());
  await rig.service.sql(FILL, [endpointId, ids, JSON.stringify(EVENT_DATA)]);
  return ids;
}

async function until(isDone: () => Promise<boolean>, what: string): Promise<void> {
  const endMs = machineMs() + STUCK_MS;
  while (!(await isDone())) {
    if (machineMs() > endMs) throw new Error(`${what} did not come within ${STUCK_MS / 1000} s`);
    await delay(CHECK_EVERY_MS);
  }
}

/** Starts a server that accepts connections and never responds. */
async function startDead() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
    socket.resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const closeAll = (): void => sockets.forEach((socket) => socket.destroy());
  return {
    port: (server.address() as AddressInfo).port,
    connected: () =>
      until(() => Promise.resolve(sockets.size > 0), 'a request to the dead endpoint'),
    closeAll,
    async [Symbol.asyncDispose]() {
      closeAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
